# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the folder of the batch system's programs on this host, so that an administrator need not name it.

Slurm: the search path, else the folder beside a daemon of Slurm, by its unit and by its process. PBS: ``PBS_EXEC`` of
``/etc/pbs.conf``. The programs are run as root. So a folder beside a daemon counts only if root owns every part
of its path and no other user may write to it.

PRIVATE to the collection.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import typing as t

from . import _command
from ._texts import text_of

DAEMONS = ("slurmctld", "slurmd")
PBS_CONF = "/etc/pbs.conf"
PBS_BIN_DIR = "/opt/pbs/bin"
PBS_HOME = "/var/spool/pbs"
_SECONDS = 10.0


def executables(shown: str) -> t.List[str]:
    """Return the paths of the programs in `systemctl show --property=ExecStart`, in order."""
    return [path for path in re.findall(r"^ExecStart=\{ path=(\S+) ;", shown, re.MULTILINE) if path.startswith("/")]


def folders(daemon: str) -> t.List[str]:
    """Return the folders in which programs of the installation of a daemon may be: sbin/slurmd has bin beside it."""
    own = os.path.dirname(daemon)
    beside = os.path.join(os.path.dirname(own), "bin")
    return [beside, own]


def pbs_settings(text: str) -> t.Dict[str, str]:
    """Return the assignments of a pbs.conf by name; of several lines for one name the last counts, as in PBS."""
    found = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            found[name.strip()] = value.strip().strip("\"'")
    return found


def is_roots(path: str) -> bool:
    """Return whether only root can change a file: root owns each part of its path and no other may write there."""
    parts = {"/"}
    for each in (os.path.abspath(path), os.path.realpath(path)):
        while each != "/":
            parts.add(each)
            each = os.path.dirname(each)
    try:
        found = [os.stat(part) for part in parts]
    except OSError:
        return False
    return all(one.st_uid == 0 and not stat.S_IMODE(one.st_mode) & 0o022 for one in found)


def beside(daemons: t.Iterable[str], program: str, *, is_safe: t.Callable[[str], bool] = is_roots) -> t.Optional[str]:
    """Return the first folder beside one of the daemons that has the program; None if there is none."""
    for daemon in daemons:
        for folder in folders(daemon):
            path = os.path.join(folder, program)
            if os.access(path, os.X_OK) and is_safe(path):
                return folder
    return None


def slurm_bin_dir(given: t.Optional[str], *, program: str = "scontrol") -> t.Optional[str]:
    """Return the folder of Slurm's programs: the given one, else the one found here; None if there is none."""
    if given:
        return given
    found = shutil.which(program, path=_command.PATH)
    return os.path.dirname(found) if found else beside(daemons(), program)


def pbs_bin_dir(given: t.Optional[str]) -> str:
    """Return the folder of PBS's programs: the given one, else that of this host's pbs.conf, else PBS's own."""
    if given:
        return given
    folder = pbs_settings(text_of(PBS_CONF)).get("PBS_EXEC", "")
    return f"{folder.rstrip('/')}/bin" if folder.startswith("/") else PBS_BIN_DIR


def pbs_home() -> str:
    """Return the folder of PBS's own files on this host."""
    folder = pbs_settings(text_of(PBS_CONF)).get("PBS_HOME", "")
    return folder if folder.startswith("/") else PBS_HOME


def daemons() -> t.Iterator[str]:
    """Yield paths of Slurm's daemons: as their units say, which an upgrade leaves valid, then of running processes."""
    units = [f"{name}.service" for name in DAEMONS]
    with contextlib.suppress(_command.CommandError):
        yield from executables(
            _command.run(["systemctl", "show", "--property=ExecStart", *units], timeout=_SECONDS).out
        )
    for process in sorted(os.listdir("/proc")):
        if process.isdigit() and text_of(f"/proc/{process}/comm").strip() in DAEMONS:
            try:
                yield os.readlink(f"/proc/{process}/exe")
            except OSError:  # it has ended, or has no file
                continue
