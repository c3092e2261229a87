# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that the API and other parts know."""

import re
from typing import Any, Dict, Mapping, Tuple

TAINT = "converged.hpc/batch"
ANNOTATION, HELD_BY = "converged.hpc/leases", "converged.hpc/held-by"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


def announcement(node: Dict[str, Any]) -> str:
    return str((node["metadata"].get("annotations") or {}).get(ANNOTATION) or "")


def holders_of(node: Dict[str, Any]) -> Tuple[str, ...]:
    """Return the jobs, as keys, for which the controllers have tainted the node and asked its pods to leave."""
    text = str((node["metadata"].get("annotations") or {}).get(HELD_BY) or "")
    return tuple(word for word in text.split(",") if word)


def held_seconds(node: Dict[str, Any], date: str) -> float:
    """Return the seconds since the controllers wrote their list of jobs, by the server's clock; 0: cannot tell.

    They may have written something else since, so it may be longer.
    """
    if not holders_of(node):
        return 0.0
    import calendar
    import email.utils

    now = email.utils.parsedate_tz(date)
    times = [
        str(entry.get("time"))
        for entry in node["metadata"].get("managedFields") or ()
        if "f:" + HELD_BY in (entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:annotations") or {})
    ]
    if not times or now is None or not all(_TIME.fullmatch(text) for text in times):
        return 0.0
    written = calendar.timegm(tuple(int(number) for number in re.findall(r"[0-9]+", max(times))))
    return max(0.0, float(email.utils.mktime_tz(now) - written))


def is_our_taint(taint: Mapping[str, Any]) -> bool:
    return taint.get("key") == TAINT and taint.get("effect") in ("NoSchedule", "NoExecute")
