# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether processes run. A zombie has ended."""

import time

PAUSE = 0.02


def still_running(pids, seconds):
    """Wait up to so many seconds until these processes have ended; return those that have not."""
    until = time.monotonic() + seconds
    while any(is_running(pid) for pid in pids) and time.monotonic() < until:
        time.sleep(PAUSE)
    return [pid for pid in pids if is_running(pid)]


def is_running(pid):
    """Tell whether a process runs."""
    try:
        with open("/proc/{}/stat".format(pid)) as stream:
            return stream.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False
