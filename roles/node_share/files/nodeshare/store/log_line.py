# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One line per call, key=value, to stderr and to the system log. What a user wrote is never part of it unquoted."""

import os
import re
import sys
from typing import Iterable, List, Tuple

_BARE = re.compile(r"[A-Za-z0-9_./:+,@-]+", re.ASCII)
LONGEST = 900  # a line of syslog may be cut at 1024


def line(pairs: Iterable[Tuple[str, object]]) -> str:
    words: List[str] = []
    for name, value in pairs:
        if value is None or value == "":
            continue
        text = "{:.3f}".format(value) if isinstance(value, float) else str(value)
        if not _BARE.fullmatch(text):
            text = '"' + ascii(text)[1:-1].replace('"', "'") + '"'
        words.append("{}={}".format(name, text))
    return " ".join(words)[:LONGEST]


def tell(text: str, *, bad: bool) -> None:
    import syslog

    syslog.openlog("nodeshare", syslog.LOG_PID, syslog.LOG_DAEMON)
    syslog.syslog(syslog.LOG_WARNING if bad else syslog.LOG_INFO, text)
    if "JOURNAL_STREAM" in os.environ:
        return  # below a unit stderr ends in the same journal
    try:
        sys.stderr.write("nodeshare: " + text + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # the caller has closed it; the system log has the line
