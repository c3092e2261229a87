# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The batch system's configuration as a node itself sees it, and the lines of the site's scripts that would kill pods.

No daemon is asked: a thousand nodes that ask the controller at once are a storm. Scripts that a script names are read,
too, as most sites' Epilog only calls others.

PRIVATE to the collection.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import re
import typing as t

from ... import _programs
from ..._slurm import version
from ..._slurm.client import Slurm
from ..._slurm.conf import kept as slurm_kept
from ..._slurm.conf import model as slurm_conf
from ..._slurm.errors import SlurmError
from ..._texts import text_of
from . import node, script_patterns, torque

SCRIPT_KEYS = ("Prolog", "Epilog", "TaskProlog", "TaskEpilog", "HealthCheckProgram", "RebootProgram")
HEALTH = ("/etc/nhc/*.conf", "/etc/nhc/scripts/*.nhc", "/etc/converged/torque/site/*")
OF_PBS = ("mom_priv/config", "mom_priv/*logue", "mom_priv/hooks/*.PY")
OF_TORQUE = ("mom_priv/config", "mom_priv/*logue*")  # of any ending, as users choose it
MAX_SCRIPTS = 100
# Of programs in /bin or /usr/bin there are many, and they are not the site's; as folders they stand in every PATH.
_PATHS = re.compile(r"(?<![\w.$}*-])/(?!(?:s?bin|usr/s?bin|dev|proc|sys)(?![\w.+@-]))[\w.+@-]+/[\w./+@-]+")


def slurm(path: str, *, told: str = "", bin_dir: str = "") -> t.Dict[str, t.Any]:
    """Read slurm.conf of this node: which file, what is in it, what its scripts are, and where Slurm's programs are.

    ``path`` and ``bin_dir`` are the inventory's, "" where the node is to find them; ``told`` is slurmctld's slurm.conf.
    """
    programs = _programs.slurm_bin_dir(bin_dir, program="squeue")
    read, kept = (path, slurm_kept.how(path)) if path else slurm_kept.here(told, programs)
    found = {"conf": read, "kept": kept, "bin_dir": programs or "", "squeue": _has(programs, "squeue")}
    nothing = {"error": "", "digest": "", "files": [], "scripts": [], "missing": []}
    if not read:
        return {**found, **nothing}
    path = read
    try:
        conf = slurm_conf.load(path, release=_release(programs, bin_dir), read=_read)
    except SlurmError as error:
        return {**found, **nothing, "error": str(error), "files": [path]}
    named = [value for key in SCRIPT_KEYS for value in conf.values(key) if value]
    scripts = [script for value in named for script in sorted(glob.glob(_absolute(value, path)))]
    return {
        **found,
        "error": "",
        "digest": hashlib.sha256(slurm_conf.inlined_text(conf).encode("utf-8", "surrogateescape")).hexdigest(),
        "files": sorted(conf.files),
        "scripts": scripts,
        "missing": [value for value in named if not glob.glob(_absolute(value, path))],
    }


def _release(programs: t.Optional[str], bin_dir: str) -> version.Version:
    """Return the release of Slurm's programs here.

    scontrol answers nothing when slurm.conf has a fault. slurmd does, and may be in another folder, such as /usr/sbin:
    so the fault itself is what the administrator reads, with its line.
    """
    beside = _programs.slurm_bin_dir(bin_dir, program="slurmd")
    if programs is None:
        return Slurm(timeout=node.SECONDS, bin_dir=beside).version()
    try:
        return Slurm(timeout=node.SECONDS, bin_dir=programs).version()
    except SlurmError:
        if beside not in (None, programs):
            with contextlib.suppress(SlurmError):
                return Slurm(timeout=node.SECONDS, bin_dir=beside).version()
        raise


def killing(
    scripts: t.Sequence[str], *, pbs_home: str = _programs.PBS_HOME, torque_home: str = torque.HOME
) -> t.List[t.Dict[str, t.Any]]:
    """Return every line that kills, in scripts, in what they call and in the site's health checks, by file and line."""
    of_moms = [os.path.join(glob.escape(pbs_home), part) for part in OF_PBS]
    of_moms += [os.path.join(glob.escape(torque_home), part) for part in OF_TORQUE]
    waiting = [*scripts, *(path for pattern in (*HEALTH, *of_moms) for path in sorted(glob.glob(pattern)))]
    seen: t.Set[str] = set()
    lines: t.List[t.Dict[str, t.Any]] = []
    while waiting and len(seen) < MAX_SCRIPTS:
        path = os.path.realpath(waiting.pop(0))
        if path in seen or not os.path.isfile(path):
            continue
        seen.add(path)
        text = text_of(path)
        if "\0" in text:
            continue
        lines += [{"path": path, **found._asdict()} for found in script_patterns.killing(text)]
        waiting += _called(text)
    return lines


def _has(folder: t.Optional[str], program: str) -> bool:
    return folder is not None and os.access(os.path.join(folder, program), os.X_OK)


def _called(text: str) -> t.List[str]:
    """Return the scripts that a script names; of a folder, all in it."""
    called = []
    for path in dict.fromkeys(_PATHS.findall(text)):
        inside = sorted(glob.glob(os.path.join(glob.escape(path), "*"))) if os.path.isdir(path) else [path]
        called += [one for one in inside if os.path.isfile(one) and _is_script(one)]
    return called


def _is_script(path: str) -> bool:
    try:
        with open(path, "rb") as stream:
            return stream.read(2) == b"#!"
    except OSError:
        return False


def _absolute(value: str, conf: str) -> str:
    return value if value.startswith("/") else os.path.join(os.path.dirname(conf), value)


def _read(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read(8 * 1024 * 1024)
