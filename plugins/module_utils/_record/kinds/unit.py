# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd units: all read in one call; enablement is read as the links it consists of, so that it goes back exactly."""

from __future__ import annotations

import os
import stat
import typing as t

from ..host.host import Host
from ..model.errors import RecordError
from ..model.items import UnitState

FOLDER = "/etc/systemd/system"
FOLDERS = (
    FOLDER,
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
START_SECONDS = 300
_PROPERTIES = ("LoadState", "ActiveState", "UnitFileState", "NeedDaemonReload", "Type", "RemainAfterExit")
_RUNNING = ("active", "reloading", "activating", "refreshing")


def read_all(host: Host, names: t.Sequence[str]) -> t.Dict[str, UnitState]:
    """Return the state of every unit named."""
    if not names:
        return {}
    links = read_links(host)
    shown = host.ask(["systemctl", "show", "--property", ",".join(_PROPERTIES), "--", *names]).out
    blocks = [
        dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in shown.strip().split("\n\n")
    ]
    if len(blocks) != len(names) or any(name not in block for block in blocks for name in _PROPERTIES[:3]):
        raise RecordError(f"systemctl show answered for {len(blocks)} of {len(names)} units: {', '.join(names)}")
    return {name: _state(host, name, block, links) for name, block in zip(names, blocks)}


def _state(host: Host, name: str, block: t.Mapping[str, str], links: t.Sequence[t.Tuple[str, str]]) -> UnitState:
    mine = [(path, target) for path, target in links if name in (os.path.basename(path), os.path.basename(target))]
    active = block["ActiveState"] in _RUNNING
    return UnitState(
        load=block["LoadState"],
        active=active,
        failed=block["ActiveState"] == "failed",
        enabled=block["UnitFileState"],
        links=tuple(mine),
        needs_reload=block.get("NeedDaemonReload") == "yes",
        oneshot=block.get("Type") == "oneshot" and block.get("RemainAfterExit") != "yes",
        condition_unmet=not active and block["LoadState"] == "loaded" and _is_condition_unmet(host, name),
    )


def _is_condition_unmet(host: Host, name: str) -> bool:
    """Return whether systemd would skip a start, as a condition of the unit does not hold. None before 250 tells."""
    answer = host.ask(["systemd-analyze", "condition", f"--unit={name}"], ok=(0, 1))
    return "Conditions failed" in answer.out + answer.err


def read_links(host: Host) -> t.List[t.Tuple[str, str]]:
    """Return every link in /etc/systemd/system and one level below, and its target."""
    found = []
    for name in host.names(FOLDER):
        path = f"{FOLDER}/{name}"
        if name.endswith((".wants", ".requires", ".upholds")):
            inner = [f"{path}/{below}" for below in host.names(path)]
        else:
            inner = [path]
        found += [(link, host.link_target(link)) for link in inner if _is_link(host, link)]
    return found


def _is_link(host: Host, path: str) -> bool:
    found = host.lstat(path)
    return found is not None and stat.S_ISLNK(found.st_mode)


def unit_of(path: str) -> str:
    """Return the unit of a unit file, a drop-in or a link in a systemd directory; nothing for other paths."""
    for folder in FOLDERS:
        if path.startswith(f"{folder}/"):
            first = path[len(folder) + 1 :].split("/")[0]
            return first[:-2] if first.endswith(".d") else first
    return ""


def act(host: Host, verb: str, name: str) -> None:
    """Perform start, restart, stop, enable or disable; the error says where to look further."""
    try:
        host.run(["systemctl", verb, "--", name], timeout=START_SECONDS)
    except RecordError as error:
        raise RecordError(f"unit {name}: {verb} failed: {error}; see: journalctl -u {name}") from error


def reload(host: Host) -> None:
    """Let systemd read its unit files again."""
    host.run(["systemctl", "daemon-reload"], timeout=START_SECONDS)


def reset_failed(host: Host, name: str) -> None:
    """Reset a failure; a unit that is gone has none."""
    host.run(["systemctl", "reset-failed", "--", name], timeout=START_SECONDS, ok=(0, 1))


def put_links(host: Host, now: UnitState, was: UnitState) -> None:
    """Put the enablement back to the very links it was."""
    for path, target in now.links:
        if (path, target) not in was.links and _is_link(host, path):
            host.remove(path)
            folder = os.path.dirname(path)
            if folder != FOLDER and not host.names(folder):
                host.remove_directory(folder)
    for path, target in was.links:
        if (path, target) not in now.links and not _is_link(host, path):
            if host.lstat(os.path.dirname(path)) is None:
                host.make_directory(os.path.dirname(path), 0o755)
            host.make_link(path, target)
