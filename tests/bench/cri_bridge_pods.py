# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How soon a pod is Ready through cri_bridge, and a node that joins, beside a node with containerd in the same run.

Two nodes of one bed: n1 behind the bridge, with containerd 1.6 as the runtime that speaks CRI v1alpha2, and n2 with
containerd as converged.hpc installs it. Pods come in turns, first here and then there. A time ends with the first
answer of the API that says Ready; the API is asked every 20 ms. At the end pods rest on n1, and the processor time of
the bridge and of the runtime, with the programs that it started, is counted. Where a machine has Singularity-CRI itself
(`e2e/cri/real.py`), that is the runtime.
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
from e2e.cri import real
from e2e.cri.site import NODE, OTHER, prepared
from e2e.handover.sharing import Sharing
from testbed.controlplane import admin
from testbed.kube_api import Api, ApiError, Json

PODS = "/api/v1/namespaces/default/pods"
STEP, MOST = 0.02, 120.0
RATIO, JOIN, REST = 1.5, 3.0, 0.1
BRIDGE, RUNTIME = "converged-cri-bridge", "sycri"
# A kept answer is good for a minute, so the first questions after the pods came are over then.
CALM_SECONDS = 60.0


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


def made(node: str, name: str) -> Json:
    """Return a pod for the node, with the image that its runtime takes."""
    pod = workload.pod(name, nodeName=node, tolerations=workload.EVERYWHERE)
    if node == NODE and real.found():
        pod["spec"]["containers"][0].update(real.IMAGE)
    return pod


def processor_seconds(site: Sharing, unit: str) -> float:
    """Return the processor time of a unit's main process on n1, with the ended programs that it started."""
    stat = site.node(NODE, f"cat /proc/$(systemctl show --property=MainPID --value {unit})/stat")
    hundredths = [int(word) for word in stat.rsplit(")", 1)[1].split()[11:15]]
    return sum(hundredths) / 100


def at_rest(api: Api, site: Sharing, pods: int, seconds: int) -> tuple[float, float]:
    """Have so many pods rest on n1; return the cores that the bridge and the runtime use meanwhile."""
    names = [f"rests{number}" for number in range(pods)]
    for name in names:
        api.request("POST", PODS, made(NODE, name))
    for name in names:
        seconds_until(api, f"{PODS}/{name}", is_ready)
    time.sleep(CALM_SECONDS)
    begin = time.monotonic()
    before = [processor_seconds(site, unit) for unit in (BRIDGE, RUNTIME)]
    time.sleep(seconds)
    after = [processor_seconds(site, unit) for unit in (BRIDGE, RUNTIME)]
    took = time.monotonic() - begin
    return (after[0] - before[0]) / took, (after[1] - before[1]) / took


def pod_seconds(api: Api, node: str, name: str) -> float:
    """Create a pod on the node, and return the seconds until it is Ready."""
    api.request("POST", PODS, made(node, name))
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


def measure(
    site: Sharing, options: argparse.Namespace
) -> tuple[list[tuple[str, list[float], list[float]]], tuple[float, float]]:
    """Return the seconds behind the bridge and beside it, for each thing that is timed; and the cores at rest."""
    with contextlib.closing(admin(site.bed.bed)) as api:
        for node in (NODE, OTHER):  # the first pod of a node makes its bridge and fills caches
            pod_seconds(api, node, f"first-{node}")
        pods = _in_turns(options.pods, lambda node, number: pod_seconds(api, node, f"p{number}-{node}"))
        joins = _in_turns(options.joins, lambda node, _number: join_seconds(api, site, node))
        rest = at_rest(api, site, options.rest, options.seconds)
    return [("pod created → Ready", *pods), ("kubelet started → node Ready", *joins)], rest


def _in_turns(rounds: int, timed: Callable[[str, int], float]) -> tuple[list[float], list[float]]:
    through, beside = [], []
    for number in range(rounds):
        through.append(timed(NODE, number))
        beside.append(timed(OTHER, number))
    return through, beside


def main() -> int:
    parser = _figures.parser_of(__doc__, "--pods 5 --joins 1 --rest 4 --seconds 60")
    parser.add_argument("--pods", type=_figures.count, default=20, help="pods on each node (default: %(default)s)")
    parser.add_argument("--joins", type=_figures.count, default=5, help="joins of each node (default: %(default)s)")
    parser.add_argument("--rest", type=_figures.count, default=20, help="pods at rest (default: %(default)s)")
    parser.add_argument("--seconds", type=_figures.count, default=180, help="of rest (default: %(default)s)")
    options = parser.parse_args()
    with own_bed(f"bridge-pods-{os.getpid()}") as bed, tempfile.TemporaryDirectory() as folder:
        site = prepared(bed, Path(folder))
        print("converting n1 and n2", file=sys.stderr, flush=True)
        site.play("site")
        found, (bridge, runtime) = measure(site, options)
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
    print(f"{_figures.load_average()}\n\n{_figures.table(head, rows)}\n")
    if bridge + runtime > REST:
        late.append(f"{options.rest} pods at rest: {bridge + runtime:.3f} cores, asked {REST}")
    cells = [f"{each:.3f}" for each in (bridge, runtime, bridge + runtime, REST)]
    print(_figures.table(["cores", "bridge", "runtime", "both", "asked"], [[f"{options.rest} pods at rest", *cells]]))
    for each in late:
        print(f"missed: {each}", file=sys.stderr)
    return 1 if late else 0


def _seconds(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} s ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    sys.exit(main())
