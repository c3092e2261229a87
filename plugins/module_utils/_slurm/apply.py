# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carries out a plan for slurm.conf: reads the files, lets Slurm's parser judge the result, and writes by the record.

All settings of one host are named in one call. The record then takes back, line by line, what is no longer asked for,
and in the end everything.

PRIVATE to the collection.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import stat
import tempfile
import time
import typing as t

from .._record.host import paths
from .._record.model.items import Desired, EditItem, key
from .._record.request.contents import Contents
from .._record.request.desired import resolve
from .._record.run.session import Outcome, Session
from . import running, version
from .client import Slurm
from .conf import edits
from .conf import model as slurm_conf
from .conf import text as conf_text
from .conf.edits import Plan, Wish
from .conf.model import Conf
from .conf.text import ConfText
from .errors import ConfError, NoAnswerError

ROLE = "slurm_conf"
# Where slurmd and commands keep what slurmctld sent them; an edit there would be gone with the next copy.
_FETCHED = ("/run/slurm/conf/", "/var/run/slurm/conf/", "/proc/", "/dev/")
_MOST_LOOKS = 10
_PAUSE = 0.5  # before 23.11 slurmctld answers `reconfigure` before it has read the files


def load(slurm: Slurm, path: str | None) -> Conf:
    """Load the configuration at ``path``, or where slurmctld says it is."""
    try:
        release = slurm.version()
    except NoAnswerError:
        # Slurm's programs print nothing, not even their release, beside a slurm.conf that they refuse.
        if path is not None:
            slurm_conf.load(path, release=version.Version(0, 0, 0), read=read)
        raise
    return slurm_conf.load(path or location(slurm), release=release, read=read)


def location(slurm: Slurm) -> str:
    """Return the path of the slurm.conf that slurmctld says it uses."""
    path = slurm.config().get("SLURM_CONF")
    if not isinstance(path, str) or not path.startswith("/"):
        raise ConfError(f"scontrol show config names {path!a} as SLURM_CONF: say the path of slurm.conf")
    return path


def read(path: str) -> bytes:
    """Read one configuration file; refuse all but a regular file."""
    if path.startswith(_FETCHED):
        raise ConfError(f"{path} is a copy that slurmctld sent (configless): change slurm.conf on the controller")
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ConfError(f"{path} is not a regular file")
    if os.path.getsize(path) > conf_text.MAX_BYTES:
        raise ConfError(f"{path} has more than {conf_text.MAX_BYTES} bytes: this is no slurm.conf")
    with open(path, "rb") as file:
        return file.read()


def converge(
    session: Session, slurm: Slurm, conf: Conf, wishes: t.Sequence[Wish], *, check: bool, validate: bool
) -> tuple[Plan, Outcome]:
    """Make the files say what is wished, or in check mode say what would change."""
    plan = edits.plan(conf, wishes)
    if plan.changed and validate:
        _judge(slurm, conf, plan)
    return plan, session.converge(_desired(session, conf, wishes, plan), Contents(), check=check, show=True)


def follow(
    slurm: Slurm, conf: Conf, keys: t.Sequence[str], *, pause: t.Callable[[float], object] = time.sleep
) -> list[str]:
    """Let the daemons read the files again, and return the keys that still do not run: they need a restart."""
    slurm.reconfigure()
    late = running.pending(conf, slurm.config(), keys)
    for _look in range(_MOST_LOOKS):
        if not late:
            break
        pause(_PAUSE)
        late = running.pending(conf, slurm.config(), keys)
    return late


def digests(conf: Conf) -> dict[str, str]:
    """Return a digest of each file, so that copies on several hosts can be compared."""
    return {
        path: hashlib.sha256(conf_text.encode(text.text())).hexdigest() for path, text in sorted(conf.files.items())
    }


def hunks(before: ConfText, after: str) -> str:
    """Return the changed lines only: a slurm.conf may hold passwords elsewhere."""
    lines = conf_text.parse(before.path, after).lines
    found = difflib.unified_diff(before.lines, lines, before.path, before.path, n=1)
    return printable("".join(line if line.endswith("\n") else line + "\n" for line in found))


def printable(text: str) -> str:
    """Return a text for a result: bytes that are no UTF-8 are replaced."""
    return conf_text.encode(text).decode("utf-8", "replace")


def _desired(session: Session, conf: Conf, wishes: t.Sequence[Wish], plan: Plan) -> Desired:
    """Return files that change now and those that an earlier call has changed; no other file enters the record."""
    view = session.store.load()
    spec = json.dumps([str(conf.release), *wishes])
    items = []
    for path in conf.files:
        real = paths.resolve(session.host, path, follow_last=True)
        if path in plan.changed or ROLE in view.claims.get(key("path", real), {}):
            items.append(EditItem(path=path, edit=_editor(conf, path, wishes), spec=spec))
    return resolve(session.host, Desired(role=ROLE, edits=tuple(items)))


def _editor(conf: Conf, path: str, wishes: t.Sequence[Wish]) -> t.Callable[[bytes], bytes]:
    """Return the plan for one file, worked out again for whatever text the record finds or has kept of it."""

    def edit(data: bytes) -> bytes:
        text = conf_text.decode(data)
        plan = edits.plan(slurm_conf.loaded_from(conf, {path: text}), wishes)
        return conf_text.encode(plan.changed.get(path, text))

    return edit


def _judge(slurm: Slurm, conf: Conf, plan: Plan) -> None:
    """Let Slurm's own parser read the result as one file; say so if it refuses the file as it is already."""
    found = _objection(slurm, slurm_conf.loaded_from(conf, plan.changed))
    if found is None:
        return
    before = _objection(slurm, conf)
    if before is not None:
        raise ConfError(f"{conf.path} is refused as it is, before any change. {before}")
    raise ConfError(f"{conf.path} with the change: {found}")


def _objection(slurm: Slurm, conf: Conf) -> str | None:
    with tempfile.NamedTemporaryFile(prefix="slurm.conf.") as file:
        file.write(conf_text.encode(slurm_conf.inlined_text(conf)))
        file.flush()
        try:
            slurm.check_conf(file.name)
        except ConfError as error:
            return str(error)
    return None
