# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps Singularity-CRI's configuration: the file by the record, a start by digest, and a socket that answers.

Singularity-CRI ignores keys that it does not know, and ends with status 0 when it cannot start: so keys are judged
here, and only the socket tells whether it runs.

PRIVATE to the collection.
"""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import struct
import time
import typing as t

from ... import _command
from ..._record.model.items import ABSENT, Desired, DirectoryItem, EditItem, PathState, UnitItem, key
from ..._record.request.contents import Contents
from ..._record.request.desired import resolve
from ..._record.run.report import diff_of
from ..._record.run.session import Session
from ..errors import KubeError
from . import yaml_edit
from .leftovers import Sweep
from .membership import KUBELET_CONF

JSON = t.Dict[str, t.Any]
ROLE = "singularity_cri_config"
REQUIRED = ("listenSocket", "storageDir", "baseRunDir")
PATHS = (*REQUIRED, "cniBinDir", "cniConfDir", "trashDir")
KEYS = (*PATHS, "streamingURL", "debug")
CNI_STATE = "/var/lib/cni"
_LONGEST_SOCKET = 107
_NO_LISTENER = (errno.ENOENT, errno.ENOTDIR, errno.ECONNREFUSED)
_QUICK = 30.0
_STOP = 120.0


class Wanted(t.NamedTuple):
    """All that one call says."""

    path: str
    config: t.Mapping[str, t.Any]
    unit: str
    restart_on: t.Tuple[str, ...]


def judge(name: str, config: t.Mapping[str, t.Any]) -> None:
    """Refuse all that Singularity-CRI would take without a word, and that cannot work."""
    for field, value in config.items():
        if field not in KEYS:
            raise KubeError(f"{name}: {field}: Singularity-CRI ignores this key; it knows {', '.join(KEYS)}")
        if value is None and field not in REQUIRED:
            continue
        if field == "debug":
            if not isinstance(value, bool):
                raise KubeError(f"{name}: debug: expected true or false, found {value!r}")
        elif not isinstance(value, str) or not (_is_path(value) if field in PATHS else _is_address(value)):
            expected = "an absolute path" if field in PATHS else "HOST:PORT"
            raise KubeError(f"{name}: {field}: expected {expected}, found {value!r}")
    if len(os.fsencode(config.get("listenSocket", ""))) > _LONGEST_SOCKET:
        raise KubeError(
            f"{name}: listenSocket: is longer than the {_LONGEST_SOCKET} bytes that a socket's path may have"
        )


def edited(name: str, text: str, config: t.Mapping[str, t.Any]) -> str:
    """Return the file with every key as wanted; refuse a file with a key that is ignored or without a needed one."""
    judge(name, config)
    after = yaml_edit.put(name, text, config)
    for field, line in yaml_edit.places(name, after).items():
        if field not in KEYS:
            raise KubeError(
                f"{name} line {line}: {field}: Singularity-CRI ignores this key; it knows {', '.join(KEYS)}:"
                " correct it or take it out of the file"
            )
    missing = [field for field in REQUIRED if not yaml_edit.read(name, after, [field])]
    if missing:
        raise KubeError(f"{name}: {', '.join(missing)}: Singularity-CRI has no default for it once the file is there")
    return after


def keep(session: Session, wanted: Wanted, *, timeout: float, check: bool) -> JSON:
    """Keep the keys in the file, and a Singularity-CRI that runs with them and answers."""
    after = edited(wanted.path, _text(wanted.path), wanted.config)
    listening = yaml_edit.read(wanted.path, after, ["listenSocket"])
    refuse_in_use(wanted.path, listening, main_pid=_main_pid(wanted.unit))
    edits = (EditItem(wanted.path, _editor(wanted), json.dumps(wanted.config, sort_keys=True), create=True),)
    unit = UnitItem(wanted.unit, active=True, restart_on=(wanted.path, *wanted.restart_on))
    storage = DirectoryItem(yaml_edit.read(wanted.path, after, ["storageDir"]))
    desired = Desired(role=ROLE, directories=(storage,), edits=edits, units=(unit,))
    outcome = session.converge(resolve(session.host, desired), Contents(), check=check, show=True)
    if outcome.restarted:
        await_answer(listening, unit=wanted.unit, timeout=timeout)
    return {"changed": outcome.changed, "steps": outcome.steps, "diff": diff_of(outcome.changes), "socket": listening}


def take_back(session: Session, *, path: str, unit: str, check: bool) -> JSON:
    """Put everything back as it was.

    Images that were pulled into a directory of ours go with it. What CNI plugins know of pods goes, too, unless the
    node is in a cluster: then its pods run by another runtime, which uses the same directory.
    """
    sweep = Sweep(check=check)
    storage = str(yaml_edit.read(path, _text(path), ["storageDir"]) or "")
    to_empty = [storage] if storage else []
    if not os.path.exists(KUBELET_CONF):
        to_empty.append(CNI_STATE)
    to_empty = [folder for folder in to_empty if _is_ours(session, folder)]
    if to_empty and not check and _runs(unit):
        _command.run(["systemctl", "stop", "--", unit], timeout=_STOP)
    for folder in to_empty:
        sweep.contents(folder)
    report = session.restore(ROLE, check=check)
    steps = [*(f"remove {name}" for name in sweep.removed), *report.steps]
    left = [*sweep.left, *report.left]
    return {"changed": bool(steps), "steps": steps, "site": report.site, "left": left, "diff": diff_of(report.changes)}


def refuse_in_use(name: str, path: str, *, main_pid: int) -> None:
    """Raise KubeError where a program other than the unit's own process listens on the socket; name that program."""
    holder = _holder(path)
    if holder is None or 0 < holder == main_pid:
        return
    try:
        with open(f"/proc/{holder}/comm", encoding="utf-8", errors="replace") as file:
            program = f"{file.read().strip()} (process {holder})"
    except OSError:
        program = "another program"
    raise KubeError(
        f"{name}: listenSocket: {path} is in use by {program}: stop it, or choose another singularity_cri_socket."
        " Singularity-CRI was neither configured nor started"
    )


def await_answer(path: str, *, unit: str, timeout: float) -> None:
    """Wait until it answers: to systemd a program that cannot start has ended well, and is started again."""
    deadline = time.monotonic() + timeout
    while not _answers(path):
        if time.monotonic() > deadline:
            raise KubeError(
                f"{unit}: nobody answers on {path} {timeout:g} s after its start: {_last_words(unit)}: "
                f"see journalctl -u {unit}, correct it and run again"
            )
        time.sleep(0.1)


def _is_path(value: str) -> bool:
    return value.startswith("/") and value == os.path.normpath(value) and value != "/" and "\n" not in value


def _is_address(value: str) -> bool:
    match = re.fullmatch(r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})", value)
    return match is not None and 0 < int(match.group(1)) < 65536


def _editor(wanted: Wanted) -> t.Callable[[bytes], bytes]:
    def edit(data: bytes) -> bytes:
        return edited(wanted.path, data.decode("utf-8", "replace"), wanted.config).encode("utf-8")

    return edit


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise KubeError(f"{path}: is not UTF-8 text") from error


def _is_ours(session: Session, folder: str) -> bool:
    """Tell whether the directory was not there before us and our record still names it."""
    view = session.store.load()
    entry = view.entries.get(key("path", folder))
    absent = entry is not None and isinstance(entry.state, PathState) and entry.state.kind == ABSENT
    return absent and bool(view.claims.get(key("path", folder)))


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.settimeout(1.0)
        try:
            caller.connect(path)
        except OSError:
            return False
    return True


def _holder(path: str) -> t.Optional[int]:
    """Return the process that listens on a socket, 0 where that cannot be told; None where none does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.settimeout(1.0)
        try:
            caller.connect(path)
        except OSError as error:
            return None if error.errno in _NO_LISTENER else 0
        return int(struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])


def _main_pid(unit: str) -> int:
    words = ["systemctl", "show", "--property=MainPID", "--value", "--", unit]
    said = _command.run(words, timeout=_QUICK, ok=range(256)).out.strip()
    return int(said) if said.isdecimal() else 0


def _runs(unit: str) -> bool:
    return _command.run(["systemctl", "is-active", "--", unit], timeout=_QUICK, ok=range(256)).rc == 0


def _last_words(unit: str) -> str:
    """Return Singularity-CRI's own reason, where it wrote one."""
    said = _command.run(["journalctl", "--unit", unit, "--lines=50", "--output=cat"], timeout=_QUICK, ok=range(256)).out
    reasons = [line.partition("] ")[2] or line for line in said.splitlines() if "Could not" in line]
    return reasons[-1] if reasons else "it says nothing"
