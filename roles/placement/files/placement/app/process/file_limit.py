# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the system lets a process have, looked at before anything begins.

A daemon that runs out of file descriptors would go on without some of its connections, and try for ever. Chance would
decide which watch or which binding fails.
"""

import resource
from typing import Final

from placement.kube.watch.watched_resources import sources
from placement.kube.write.dispatcher import WRITERS

# Connections for Events, the Lease and what PBS is asked, questions and scrapes, the journal, the interpreter's own.
_OTHERS: Final = 48


class LimitError(Exception):
    """It cannot run so; the message says what to raise, and to what."""


def assure_files(binders: int) -> None:
    """Raise the limit of file descriptors to what is needed, up to the hard limit."""
    needed = len(sources()) + binders + WRITERS + _OTHERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _suffices(soft, needed):
        return
    if not _suffices(hard, needed):
        raise LimitError(
            f"{binders} binders need {needed} open files, and the limit is {hard}: "
            "raise it (LimitNOFILE= of the unit, ulimit -n), or set fewer binders"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _suffices(limit: int, needed: int) -> bool:
    return limit == resource.RLIM_INFINITY or limit >= needed
