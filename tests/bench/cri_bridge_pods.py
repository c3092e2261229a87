# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How soon a pod is Ready through cri_bridge, and a node that joins, beside a node with containerd in the same run.

Two nodes of one bed: n1 behind the bridge, with containerd 1.6 as the runtime that speaks CRI v1alpha2, and n2 with
containerd as converged.hpc installs it. Pods come in turns, first here and then there. A time ends with the first
answer of the API that says Ready; the API is asked every 20 ms.
"""

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import _figures
from bench._beds import own_bed
from e2e import workload
from e2e.cri.site import NODE, OTHER, prepared
from e2e.handover.sharing import Sharing
from testbed.controlplane import admin
from testbed.kube_api import Api, ApiError, Json

PODS = "/api/v1/namespaces/default/pods"
STEP, MOST = 0.02, 120.0
RATIO, JOIN = 1.5, 3.0


def seen(api: Api, path: str) -> Json | None:
    """Return the object, or None where the API says that there is none; any other answer ends the benchmark."""
    try:
        return api.get(path)
    except ApiError as error:
        if error.status != 404:
            raise
        return None


def is_ready(found: Json | None) -> bool:
    """Tell whether an object is there and has the condition Ready."""
    conditions = found.get("status", {}).get("conditions", []) if found is not None else []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def seconds_until(api: Api, path: str, holds: Callable[[Json | None], bool]) -> float:
    """Return the seconds from now to the first answer about the object for which this holds."""
    begin = time.monotonic()
    while not holds(seen(api, path)):
        if time.monotonic() > begin + MOST:
            sys.exit(f"{path}: waited {MOST:.0f} s in vain")
        time.sleep(STEP)
    return time.monotonic() - begin


def pod_seconds(api: Api, node: str, name: str) -> float:
    """Create a pod on the node, and return the seconds until it is Ready."""
    pod = workload.pod(name, nodeName=node, tolerations=workload.EVERYWHERE)
    api.request("POST", PODS, pod)
    spent = seconds_until(api, f"{PODS}/{name}", is_ready)
    api.request("DELETE", f"{PODS}/{name}", None)
    seconds_until(api, f"{PODS}/{name}", lambda found: found is None)
    return spent


def join_seconds(api: Api, site: Sharing, node: str) -> float:
    """Start the node's kubelet where the cluster does not know the node, and return the seconds until it is Ready."""
    site.node(node, "systemctl stop kubelet")
    api.request("DELETE", f"/api/v1/nodes/{node}", None)
    site.node(node, "systemctl start --no-block kubelet")
    return seconds_until(api, f"/api/v1/nodes/{node}", is_ready)


def measure(site: Sharing, options: argparse.Namespace) -> list[tuple[str, list[float], list[float]]]:
    """Return the seconds behind the bridge and beside it, for each thing that is timed."""
    with contextlib.closing(admin(site.bed.bed)) as api:
        for node in (NODE, OTHER):  # the first pod of a node makes its bridge and fills caches
            pod_seconds(api, node, f"first-{node}")
        pods = _in_turns(options.pods, lambda node, number: pod_seconds(api, node, f"p{number}-{node}"))
        joins = _in_turns(options.joins, lambda node, _number: join_seconds(api, site, node))
    return [("pod created → Ready", *pods), ("kubelet started → node Ready", *joins)]


def _in_turns(rounds: int, timed: Callable[[str, int], float]) -> tuple[list[float], list[float]]:
    through, beside = [], []
    for number in range(rounds):
        through.append(timed(NODE, number))
        beside.append(timed(OTHER, number))
    return through, beside


def main() -> int:
    parser = _figures.parser_of(__doc__, "--pods 5 --joins 1")
    parser.add_argument("--pods", type=_figures.count, default=20, help="pods on each node (default: %(default)s)")
    parser.add_argument("--joins", type=_figures.count, default=5, help="joins of each node (default: %(default)s)")
    options = parser.parse_args()
    with own_bed(f"bridge-pods-{os.getpid()}") as bed, tempfile.TemporaryDirectory() as folder:
        site = prepared(bed, Path(folder))
        print("converting n1 and n2", file=sys.stderr, flush=True)
        site.play("site")
        found = measure(site, options)
    rows, late = [], []
    for what, through, beside in found:
        ratios = [one / other for one, other in zip(through, beside, strict=True)]
        middle, ratio = statistics.median(through), statistics.median(ratios)
        rows.append([what, _seconds(through), _seconds(beside), f"{ratio:.2f}"])
        if what.startswith("pod") and ratio > RATIO:
            late.append(f"{what}: {ratio:.2f} times containerd, asked {RATIO}")
        if what.startswith("kubelet") and middle > JOIN:
            late.append(f"{what}: {middle:.2f} s, asked {JOIN}")
    head = ["what", "through the bridge", "containerd", "median ratio of a pair"]
    print(f"{_figures.load_average()}\n\n{_figures.table(head, rows)}")
    for each in late:
        print(f"missed: {each}", file=sys.stderr)
    return 1 if late else 0


def _seconds(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} s ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    sys.exit(main())
