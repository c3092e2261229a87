# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole calls in share mode `placeholder`: files, an API over TLS, and a kubelet that shows what it lets in."""

import json
import os
import unittest

from api_server import ApiServer
from nodeshare import kube_room
from nodeshare.view import Pod
from test_cli import KUBELET, RUNTIME, CliCase
from test_kube import KubeCase

LABEL = "converged.hpc/placeholder"


class WithKubelet(ApiServer):
    """The mirror pods of a directory of manifests are there as soon as somebody asks for them."""

    directory = ""
    hangs = False

    def route(self, handler, body):
        asked = handler.path.rpartition("/")[2]
        if not self.hangs and handler.path.startswith("/api/v1/namespaces/kube-system/pods/"):
            self.mirror(asked[: -len("-n1")] + ".json")
        elif not self.hangs and LABEL in asked and "%21%3D" not in asked:
            for name in sorted(os.listdir(self.directory)):
                self.mirror(name)
        return ApiServer.route(self, handler, body)

    def mirror(self, name):
        with open(os.path.join(self.directory, name)) as stream:
            pod = json.load(stream)
        meta = pod["metadata"]
        mirror = {"kubernetes.io/config.mirror": meta["uid"], "kubernetes.io/config.hash": meta["uid"]}
        meta.update(name=meta["name"] + "-n1", uid="api-" + meta["uid"], annotations=mirror)
        self.pods[meta["namespace"], meta["name"]] = dict(pod, status={"phase": "Pending"})


class PlacingCase(CliCase):
    def setUp(self):
        CliCase.setUp(self)
        self.api.close()
        self.api = WithKubelet(self.certificates)
        self.addCleanup(self.api.close)
        self.api.directory = os.path.join(self.top, "manifests")
        os.mkdir(self.api.directory)
        self.api.node["status"] = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
        self.write("cgroup/cpuset/cpuset.cpus", "0-3")
        self.write("cgroup/cpuset/kubepods/cpuset.cpus", "0-3")
        self.write("cgroup/cpuset/pbs_jobs.service/jobid/1.srv/cpuset.cpus", "0-1")
        self.write("proc/meminfo", "MemTotal: 16777216 kB")
        self.configure(mode="placeholder", manifests=self.api.directory, deadline=0)

    def write(self, path, text):
        path = os.path.join(self.top, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as stream:
            stream.write(text + "\n")

    def pod_cores(self):
        with open(os.path.join(self.top, "cgroup/cpuset/kubepods/cpuset.cpus")) as stream:
            return stream.readline().strip()

    def begin(self, *words):
        return self.call("begin", "--wlm", "pbs", "--job", "1.srv", "--run", "1", *words)


class Lives(PlacingCase):
    def test_a_whole_life(self):
        code, err = self.begin("--cpus", "2", "--mem", "1gb")
        self.assertEqual(code, 0)
        self.assertRegex(
            err,
            r"\Anodeshare: event=begin wlm=pbs job=1.srv run=1 outcome=accept lease=new placed=1 "
            r"reason=\"1 held by placeholders\" seconds=\d+\.\d{3}\n\Z",
        )
        shown = self.state()
        self.assertEqual((shown["phase"], len(shown["placeholders"]), self.active()), ("open", 1, {KUBELET, RUNTIME}))
        self.assertEqual(self.pod_cores(), "2-3")
        self.assertEqual(self.begin("--cpus", "2", "--mem", "1gb")[0], 0)
        code, err = self.call("end", "--wlm", "pbs", "--job", "1.srv", "--run", "1")
        self.assertIn("lease=ended removed=1 ", err)
        self.assertEqual((os.listdir(self.api.directory), self.pod_cores()), ([], "0-3"))
        self.assertIsNone(self.announced())

    def test_pods_in_the_way_are_evicted_by_the_kubelets_identity(self):
        self.api.add_pod("web")
        self.api.pods["default", "web"]["spec"].update(
            priority=5, containers=[{"resources": {"requests": {"cpu": "3"}}}]
        )
        self.configure(mode="placeholder", manifests=self.api.directory, deadline=60)
        code, err = self.begin("--cpus", "2")
        self.assertEqual((code, "evicted=1 placed=1" in err), (0, True), err)

    def test_a_kubelet_that_lets_nothing_in_ends_in_the_sites_outcome_within_the_callers_limit(self):
        self.api.hangs = True
        self.configure(mode="placeholder", manifests=self.api.directory, on_failure="requeue")
        code, err = self.begin("--cpus", "2", "--limit", "2")
        self.assertEqual((code, "the kubelet has not admitted lease-pbs-1-srv-" in err), (75, True), err)
        self.assertEqual(self.pod_cores(), "2-3")

    def test_the_way_back_takes_every_placeholder_and_the_fence(self):
        self.begin("--cpus", "2")
        self.write("manifests/site.json", "{}")
        os.rename(os.path.join(self.api.directory, "site.json"), os.path.join(self.api.directory, ".site.json"))
        self.assertEqual(self.call("forget")[0], 0)
        self.assertEqual((os.listdir(self.api.directory), self.pod_cores()), ([".site.json"], "0-3"))

    def test_a_split_must_say_which_cores_are_the_pods(self):
        self.configure(mode="placeholder", fence="split")
        self.assertIn("pod_cpus is missing", self.call("repair")[1])


class Asking(KubeCase):
    def test_room_is_what_the_node_has_and_who_is_on_it_but_for_placeholders(self):
        self.api.node["status"] = {"allocatable": {"cpu": "1900m", "memory": "1Ki", "pods": "110"}}
        self.api.add_pod("web")
        web = self.api.pods["default", "web"]
        web["spec"].update(priority=7, containers=[{"resources": {"requests": {"cpu": "1"}}}])
        web["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "gang"}
        self.api.add_pod("lease-pbs-1", mirror=True)
        self.api.pods["default", "lease-pbs-1"]["metadata"]["labels"] = {LABEL: "true"}
        room = kube_room.ask_room(self.node())
        self.assertEqual((room.answers, room.allocatable), (True, {"cpu": 1900, "memory": 1024000, "pods": 110000}))
        (guest,) = room.guests
        self.assertEqual((guest.pod.name, guest.priority, guest.gang), ("web", 7, "gang"))
        self.assertEqual(guest.requests, {"cpu": 1000, "pods": 1000})
        self.assertIsInstance(guest.pod, Pod)

    def test_an_answer_that_is_not_understood_is_none(self):
        self.api.node["status"] = {"allocatable": {"cpu": "much"}}
        room = kube_room.ask_room(self.node())
        self.assertEqual((room.answers, "not understood" in room.why), (False, True))
        self.api.fail = [("GET", 500)]
        self.assertFalse(kube_room.ask_room(self.node()).answers)

    def test_only_what_the_kubelet_shows_and_has_not_given_up_is_in(self):
        for name, how in (("a", {}), ("b", {"phase": "Failed"}), ("c", {"leaving": True})):
            self.api.add_pod(name + "-n1", namespace="kube-system", mirror=True, **how)
            self.api.pods["kube-system", name + "-n1"]["metadata"]["labels"] = {LABEL: "true"}
        node = self.node()
        self.assertEqual(kube_room.admitted(node, {"a": "", "b": ""}), {"hash-a-n1"})
        self.assertEqual(kube_room.admitted(node, {"a": ""}), {"hash-a-n1"})
        self.assertEqual([kube_room.admitted(node, {name: ""}) for name in "bcx"], [frozenset()] * 3)


if __name__ == "__main__":
    unittest.main()
