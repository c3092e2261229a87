# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Ansible's side of the playbooks costs at many nodes: the plays as they are, with modules that answer at once.

No host is there: what a module and its connection take, and how many run beside each other (forks), comes on top. The
checks of the inventory and of the joint verdict run as they are.
"""

import importlib.util
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import _figures
from rehearsals import conftest as rehearsals

# The collection from this checkout, as the unit tests have it.
sys.path.insert(0, os.environ["ANSIBLE_COLLECTIONS_PATH"].split(":")[0])
UTILS = "ansible_collections.converged.hpc.plugins.module_utils"
report = importlib.import_module(f"{UTILS}._preflight.report")
FILES = importlib.import_module(f"{UTILS}._slurm.ours").FILES
ROOT = Path(__file__).parents[2]
FORKS = 20


def spoiling() -> Any:
    """Return a module of the unit tests, whose folder is no package."""
    path = ROOT / "tests/unit/plugins/module_utils/_preflight/spoiled_site.py"
    spec = importlib.util.spec_from_file_location("spoiled_site", path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules["spoiled_site"] = found
    spec.loader.exec_module(found)
    return found


spoiled_site = spoiling()


class Many:
    """A converted site of many nodes on which nothing is left to do, but on those that are new."""

    def __init__(self, stage: Any, nodes: int) -> None:
        self.stage = stage
        self.nodes = [f"n{at:04d}" for at in range(1, nodes + 1)]

    def run(self, playbook: str, *, shared: list[str], new: str = "", **given: Any) -> tuple[float, float, int]:
        """Seconds by the clock and of processors, and how many results Ansible had."""
        groups = {
            "converged_nodes": self.nodes,
            "converged_shared": shared,
            "converged_controllers": ["ctl"],
            "converged_kube": ["kube"],
        }
        with tempfile.TemporaryDirectory() as folder:
            rehearsal = rehearsals.Rehearsal(self.stage, Path(folder), groups)
            for name, result in done(self.nodes, new).items():
                rehearsal.answer(result, module=name)
            if new:
                rehearsal.answer(rehearsals.seen(), module="share_node_info", host=new)
            began, spent = time.monotonic(), processor_seconds()
            given["slurm_share_site_scripts"] = dict.fromkeys(FILES, "")
            said = rehearsal.playbook(playbook, "--forks", str(FORKS), **given)
            seconds = time.monotonic() - began
        assert said.passed, said.said[-4000:]
        return seconds, processor_seconds() - spent, len(said.calls)


def processor_seconds() -> float:
    """Of programs that were started here and have ended."""
    times = os.times()
    return times.children_user + times.children_system


def done(nodes: list[str], new: str) -> Mapping[str, Mapping[str, Any]]:
    """What modules answer on a site that is converted, with Slurm calling our scripts."""
    config = {key: [f"/etc/converged/slurm/{name}"] for key, name in FILES.items()}
    still = {"changed": False}
    return {
        **dict.fromkeys(("node_state", "kubelet_config", "kube_join", "k8s", "command"), still),
        "share_node_info": rehearsals.seen(record=["node_kubelet"], enabled=True),
        "share_facts": {"ansible_facts": {"converged_share": fact()}},
        "slurm_info": {
            **rehearsals.USUAL["slurm_info"],
            "config": config,
            "nodes": [{"name": name, "state": "IDLE", "flags": []} for name in nodes],
            "jobs": [],
            "partitions": [],
        },
        "slurm_conf": {"changed": False, "conf_path": "/etc/slurm/slurm.conf", "digests": {}, "restart_needed": []},
        "kube_bootstrap_token": {"changed": False, "api_server": "https://kube:6443", "ca_hashes": [], "missing": []},
        "kube_node": {"changed": False, "labelled": {}, "untainted": [], "tainted": []},
        "kube_client_config": {"changed": False, "csr": ""},
        "kube_info": {"nodes": {name: {"ready": True, "unschedulable": False} for name in nodes if name != new}},
    }


def fact() -> dict[str, Any]:
    node = {"phase": "open", "way": "", "off": False, "leases": []}
    services = {"kubelet": "active", "converged-controller": "active"}
    return {
        "present": True,
        "summary": "held by node_share: 12 paths",
        "roles": ["node_share"],
        "sharing": {"enabled": True, "error": "", "services": services, "node": node},
    }


def preflight(stage: Any, nodes: int) -> tuple[float, float, int]:
    """The role share_preflight: each host is asked, and all are judged by the joint verdict as it is."""
    site = sound(nodes)
    names = list(site.nodes)
    groups = {"converged_nodes": names, "converged_shared": names, "converged_controllers": ["ctl"]}
    with tempfile.TemporaryDirectory() as folder:
        rehearsal = rehearsals.Rehearsal(stage, Path(folder), {**groups, "converged_kube": ["kube"]})
        rehearsal.answer({"nodes": {}, "version": "v1.36.3", **site.kube}, module="kube_info")
        slurm = {"config": site.config, "nodes": site.slurm_nodes, "partitions": site.partitions, "version": "22.05.8"}
        rehearsal.answer({**rehearsals.USUAL["slurm_info"], **slurm}, module="slurm_info")
        usual = spoiled_site.host("any")
        answer = {"found": usual["found"], "offset": usual["offset"], "echoed": ["wanted"]}
        rehearsal.answer(answer, module="share_node_info")
        began, spent = time.monotonic(), processor_seconds()
        role = {"name": "converged.hpc.share_preflight", "rolespec_validate": False}
        hosts = "converged_nodes:converged_controllers"
        play = {"hosts": hosts, "gather_facts": False, "tasks": [{"ansible.builtin.import_role": role}]}
        said = rehearsal.play([play])
        seconds = time.monotonic() - began
    # The stand-in calls all hosts by one name, so what the verdict is does not matter here, but that it is one.
    assert "see above" in said.said or "fit to be shared" in said.said, said.said[-4000:]
    return seconds, processor_seconds() - spent, len(said.calls)


def sound(nodes: int) -> Any:
    """A site of as many nodes, each of which has two networks and no address that is pinned."""
    site = spoiled_site.Site()
    site.nodes = {f"n{at:04d}": spoiled_site.host(f"n{at:04d}") for at in range(nodes)}
    for at, one in enumerate(site.nodes.values()):
        one["found"]["addresses"] = {"eth0": [f"10.0.{at // 250}.{at % 250}"], "ib0": [f"10.1.{at // 250}.{at % 250}"]}
    site.slurm_nodes = [spoiled_site.slurm_node(name) for name in site.nodes]
    return site


def judged(nodes: int) -> float:
    """Seconds for the joint verdict on as many nodes."""
    site = sound(nodes)
    began = time.monotonic()
    lines = report.lines({host: verdict.findings for host, verdict in site.judge().items()})
    assert len(lines) < 10, lines
    return time.monotonic() - began


def stage(folder: Path, real: str = "share_inventory") -> Any:
    """The collection with stand-ins, but for this action."""
    made = rehearsals.Stage(folder)
    shutil.copy2(ROOT / f"plugins/action/{real}.py", made.inner / "plugins/action")
    return made


def row(what: str, done: list[tuple[float, float, int]]) -> str:
    """A line of the table: medians."""
    seconds, spent, calls = (statistics.median(column) for column in zip(*done, strict=True))
    return f"| {what} | {seconds:.0f} | {spent:.0f} | {calls:.0f} |"


def main() -> int:
    parser = _figures.parser_of(__doc__, "--nodes 50")
    parser.add_argument("--nodes", type=_figures.count, default=600, help="how many (default: %(default)s)")
    parser.add_argument("--only", choices=("preflight", "new", "one", "all", "status"), help="only this run")
    parser.add_argument("--times", type=_figures.count, default=1, help="how often each run; medians are printed")
    options = parser.parse_args()
    os.environ["ANSIBLE_FORKS"] = str(FORKS)
    with tempfile.TemporaryDirectory() as folder:
        site = Many(stage(Path(folder)), options.nodes)
        every, last = site.nodes, site.nodes[-1]
        runs = [
            ("new", "site: one more node, by converged_convert", "site", every, last, {"converged_convert": last}),
            ("one", "site: nothing to do, one node is shared", "site", every[:1], "", {}),
            ("all", "site: nothing to do, all are shared", "site", every, "", {}),
            ("status", "status", "status", every, "", {}),
        ]
        print(f"{options.nodes} nodes, forks {FORKS}, load {os.getloadavg()[0]:.0f}")
        print("| what | seconds | of processors | calls of modules |\n|---|---|---|---|")
        print(f"| the joint verdict alone | {judged(options.nodes):.1f} | | |", flush=True)
        if options.only in (None, "preflight"):
            judging = stage(Path(folder) / "judging", "share_verdict")
            print(
                row(
                    "preflight: every host is read and judged",
                    [preflight(judging, options.nodes) for _time in range(options.times)],
                )
            )
        for name, what, playbook, shared, new, given in runs:
            if options.only in (None, name):
                done = [site.run(playbook, shared=shared, new=new, **given) for _time in range(options.times)]
                print(row(what, done), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
