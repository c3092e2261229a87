# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has which node right now, as one short line; and the same every second while something goes on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from demo.intervals import CLOSED, HELD, PLAIN, SHARED
from demo.kube_record import CONVERTING, TAINT

WIDE = 44


def owner(node: Mapping[str, Any] | None) -> str:
    """What a Node object says about whose the node is."""
    if node is None:
        return PLAIN
    taints = {taint["key"] for taint in node["spec"].get("taints", ())}
    if TAINT in taints:
        return HELD
    conditions = node.get("status", {}).get("conditions", ())
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return SHARED if ready and CONVERTING not in taints and not node["spec"].get("unschedulable") else CLOSED


def pods_on(pods: Iterable[Mapping[str, Any]], name: str) -> str:
    """`4 pods (2 leaving)`: those that have not ended."""
    here = [pod for pod in pods if pod["spec"].get("nodeName") == name]
    alive = [pod for pod in here if pod.get("status", {}).get("phase") in ("Pending", "Running")]
    counts = Counter("leaving" if "deletionTimestamp" in pod["metadata"] else "here" for pod in alive)
    total = sum(counts.values())
    words = f"{total} pod{'' if total == 1 else 's'}"
    return words + (f" ({counts['leaving']} leaving)" if counts["leaving"] else "")


def line(
    seconds: float,
    names: Sequence[str],
    *,
    nodes: Iterable[Mapping[str, Any]],
    pods: Sequence[Mapping[str, Any]],
    jobs: Mapping[str, Sequence[str]],
) -> str:
    """One second: for each node its owner, its jobs and its pods."""
    found = {node["metadata"]["name"]: node for node in nodes}
    cells = []
    for name in names:
        words = [owner(found.get(name)), *(f"job {job}" for job in jobs.get(name, ())), pods_on(pods, name)]
        cells.append(f"{name}: {', '.join(words)}".ljust(WIDE))
    return f"  {seconds:5.1f} s  {'| '.join(cells)}".rstrip()


def watch(show: Callable[[float], tuple[str, bool]], *, most: float, every: float = 1.0) -> bool:
    """Print what `show` says every second until it says that all is done; False when that took too long."""
    begun = time.monotonic()
    while True:
        passed = time.monotonic() - begun
        text, done = show(passed)
        print(text, flush=True)
        if done:
            return True
        if passed > most:
            return False
        time.sleep(max(0.0, every - (time.monotonic() - begun - passed)))
