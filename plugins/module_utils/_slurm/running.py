# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which settings of slurm.conf the running slurmctld does not follow yet. Pure.

The file is compared with what runs, and not with what this run has changed. So the next run makes good for one that was
killed between the edit and `scontrol reconfigure`, and a key that needs a restart shows itself.

PRIVATE to the collection.
"""

from __future__ import annotations

import typing as t

from .conf import prolog_flags
from .conf.model import SCRIPTS, Conf
from .parse import Setting

# Newer releases print Alloc for these, older ones do not.
_MAY_BRING_ALLOC = frozenset(["deferbatch", "forcerequeueonfail"])


def pending(conf: Conf, running: t.Mapping[str, Setting], keys: t.Iterable[str]) -> list[str]:
    """Return keys with another value in the files than the one that runs; keys at their default are not judged."""
    shown = {key.lower(): value for key, value in running.items()}
    return [key for key in keys if not _same(conf, key.lower(), shown.get(key.lower()))]


def _same(conf: Conf, key: str, running: Setting) -> bool:
    if key in SCRIPTS:
        return [value for value in conf.values(key) if value] == (running or [])
    wanted, shown = conf.value(key) or "", str(running or "")
    if key == "prologflags":
        return _same_flags(prolog_flags.effective(wanted), prolog_flags.effective(shown))
    if not wanted:
        return True
    # scontrol adds units ("10 sec") and may sort lists.
    return wanted.lower() in (shown.lower(), shown.lower().partition(" ")[0]) or _sorted(wanted) == _sorted(shown)


def _same_flags(wanted: frozenset[str], shown: frozenset[str]) -> bool:
    return wanted == shown or (wanted & _MAY_BRING_ALLOC != frozenset() and wanted | {"alloc"} == shown)


def _sorted(text: str) -> list[str]:
    return sorted(prolog_flags.words(text.lower()))
