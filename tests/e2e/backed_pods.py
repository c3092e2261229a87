# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that are jobs of PBS on a converted site: the daemon beside the server, a user's namespace, its pods."""

from __future__ import annotations

import json
from typing import Any

from e2e import workload
from e2e.handover.sharing import Sharing
from e2e.placement import wheels
from e2e.placement.cluster import CONVERGED, GROUP_NAME, KUBE_BATCH
from e2e.playing import play

DAEMON, USER, NAMESPACE, QUEUE = "bob", "alice", "physics", "pods"
LABELS = {"site/account": "phys-2026", "site/user": USER}
GANG = [f"gang-{number}" for number in range(8)]
WHEELS, FAREWELLS = "/run/e2e-wheels", "/run/e2e-farewells"
DROP_IN = "/etc/systemd/system/converged-placement.service.d"
# The double has no server that would write for the daemon's user; OpenPBS may lie below /tmp, and he has his own.
REACHES_PBS = "[Service]\nReadWritePaths=-/var/spool/pbs-cluster\nBindReadOnlyPaths={}\n"
SETTINGS = {
    "pbs_bin_dir": "/opt/pbs/bin",
    "pbs_queue": f"'{QUEUE}'",
    "pbs_account": 'namespace.labels."site/account"',
    "pbs_project": "namespace.name",
    "pbs_user": 'namespace.labels."site/user"',
    "pbs_cores": "pack",
}
# What a container does: it says goodbye when it is asked to end. A slow one then waits until it is let go.
POLITE = "trap 'touch /farewells/$HOSTNAME; {0}exit 0' TERM; while :; do sleep 0.2; done"
GRACE = 120
SLOW = "until test -e /farewells/go; do sleep 0.2; done; "


class BackedPods:
    """What an administrator and a user of such a queue do and see."""

    def __init__(self, site: Sharing) -> None:
        self.site = site

    def deploy(self) -> None:
        """The daemon on the server's host, by its role; users of namespaces by sudo."""
        site = self.site
        reaches = REACHES_PBS.format(site.bed.bed.pbs_exec)
        site.ctl(f"mkdir -p {DROP_IN} {WHEELS}; cat > {DROP_IN}/pbs.conf", input=reaches)
        version = site.ctl("python3 -c \"import sys; print('%d.%d' % sys.version_info[:2])\"").strip()
        packed = wheels.as_folder(wheels.wheels(python=version))
        site.bed.exec("ctl", ["tar", "--extract", "--directory", WHEELS], input=packed)
        site.hosts["all"]["children"]["converged_placement"] = {"hosts": {"ctl": {}}}
        site.set("converged_placement", placement_wheels=WHEELS, placement_user=DAEMON, placement_run_as=USER)
        site.set("converged_placement", placement_settings=SETTINGS)
        site.run([play("converged_placement", "placement")])

    def take_back(self) -> None:
        self.site.run([play("converged_placement", "placement/restore")])
        self.site.ctl(f"rm -r {DROP_IN} {WHEELS}")

    def apply(self) -> None:
        """A Deployment, a gang, and a slow pod that wants half a core."""
        web = workload.deployment("web", 1)
        web["spec"]["template"]["metadata"]["annotations"] = _annotations()
        spec = web["spec"]["template"]["spec"]
        spec |= {"schedulerName": "placement"}
        spec["containers"][0]["resources"] = {"requests": {"cpu": "500m"}}
        del spec["topologySpreadConstraints"]
        group = {"apiVersion": KUBE_BATCH, "kind": "PodGroup", "metadata": {"name": "gang", "namespace": NAMESPACE}}
        gang = [_pod(name, "100m", {GROUP_NAME: "gang"}, last="") for name in GANG]
        objects = [
            {"apiVersion": CONVERGED, "kind": "Queue", "metadata": {"name": QUEUE}, "spec": {"backedBy": "pbs"}},
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": LABELS}},
            {**web, "metadata": {"name": "web", "namespace": NAMESPACE}},
            {**group, "spec": {"minMember": len(GANG), "queue": QUEUE}},
            *gang,
            _pod("half", "500m", _annotations(), last=SLOW),
        ]
        for one in objects[:2]:
            workload.apply(self.site, one)
        self.site.bed.kubectl("wait", "--for=create", "--timeout=280s", f"--namespace={NAMESPACE}", "sa/default")
        workload.apply(self.site, *objects[2:])

    def clear(self) -> None:
        # A namespace that still has pods looks at them again only after half of their grace, which is a minute here.
        self.site.kubectl("delete", "deployments,pods", "--all", f"--namespace={NAMESPACE}")
        self.site.kubectl("delete", "namespace", NAMESPACE)
        self.site.kubectl("delete", f"queues.{CONVERGED.partition('/')[0]}", QUEUE)

    def pods(self) -> dict[str, dict[str, Any]]:
        found = json.loads(self.site.kubectl("get", "pods", f"--namespace={NAMESPACE}", "--output=json"))["items"]
        return {pod["metadata"]["name"]: pod for pod in found}

    def running(self) -> dict[str, str]:
        """The node of each pod whose containers run and that nobody has asked to end; a Deployment's by its name."""
        return {
            name.split("-")[0] if name.startswith("web") else name: pod["spec"]["nodeName"]
            for name, pod in self.pods().items()
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        }

    def events(self, pod: str) -> set[str]:
        """Reasons of what was said about it."""
        words = (f"--namespace={NAMESPACE}", f"--field-selector=involvedObject.name={pod}", "--output=json")
        return {item["reason"] for item in json.loads(self.site.kubectl("get", "events", *words))["items"]}

    def farewells(self) -> set[str]:
        return {name for node in self.site.nodes for name in self.site.node(node, f"ls {FAREWELLS}").split()}

    def is_slow_there(self, node: str) -> bool:
        """Whether the container that waits has a process."""
        return bool(self.site.node(node, "pgrep -f '/farewells/g[o]'", check=False))

    def let_go(self, node: str) -> None:
        self.site.node(node, f"touch {FAREWELLS}/go")

    def keep_waiting(self) -> None:
        """Slow ones that come later wait again."""
        for node in self.site.nodes:
            self.site.node(node, f"rm -f {FAREWELLS}/go")


def _annotations() -> dict[str, str]:
    return {"scheduling.converged.hpc/queue": QUEUE}


def polite(name: str, cpu: str, *, last: str, node: str = "") -> workload.Json:
    """A pod that says goodbye, and does what is `last`."""
    made = workload.pod(name, node=node, command=["sh", "-c", POLITE.format(last)], grace=GRACE)
    container = made["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": cpu}}
    container["volumeMounts"] = [{"name": "farewells", "mountPath": "/farewells"}]
    made["spec"]["volumes"] = [{"name": "farewells", "hostPath": {"path": FAREWELLS, "type": "DirectoryOrCreate"}}]
    return made


def _pod(name: str, cpu: str, annotations: dict[str, str], *, last: str) -> workload.Json:
    made = polite(name, cpu, last=last)
    made["metadata"] |= {"namespace": NAMESPACE, "annotations": annotations}
    made["spec"]["schedulerName"] = "placement"
    return made
