# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole calls in share mode `placeholder`: files, an API over TLS, and a kubelet that shows what it lets in."""

import contextlib
import errno
import hashlib
import json
import os
import resource
import shutil
import signal
import unittest
import unittest.mock

from api_server import ApiServer
from marks import oldest_python_only
from nodeshare.host.host import HostError
from nodeshare.host.real_host import RealHost
from nodeshare.kube import room_reader
from nodeshare.model.answer import Answer
from nodeshare.model.cpu_list import format_cpus, parse_cpus
from nodeshare.model.node import names
from nodeshare.model.node.observed import Pod
from nodeshare.store import files
from nodeshare.store.state_store import StateStore
from simulated_host import Systemd
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
                if not name.startswith("."):
                    self.mirror(name)
        return ApiServer.route(self, handler, body)

    def mirror(self, name):
        try:
            with open(os.path.join(self.directory, name)) as stream:
                pod = json.load(stream)
        except FileNotFoundError:
            return  # taken away meanwhile
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

    @staticmethod
    @contextlib.contextmanager
    def full_disk(*, after, writes=1000000):
        """Writes fail after so many that succeed, in memory too; `writes` is how many fail before there is room."""
        written = []

        def write(fd, data):
            written.append(fd)
            if after < len(written) <= after + writes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return really(fd, data)

        really = os.write
        with unittest.mock.patch("os.write", write):
            yield

    @contextlib.contextmanager
    def read_only(self):
        """Make the kubelet's directory as a file system that the kernel has remounted after an error."""

        def refusing(really, writes):
            def acted(path, *rest, **how):
                if str(path).startswith(self.api.directory) and writes(*rest):
                    raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
                return really(path, *rest, **how)

            return acted

        def writes(flags, *_mode):
            return flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)

        with contextlib.ExitStack() as stack:
            for name, when in (("open", writes), ("unlink", lambda *_: True), ("rename", lambda *_: True)):
                stack.enter_context(unittest.mock.patch("os." + name, refusing(getattr(os, name), when)))
            yield

    def job(self, verb, job="1.srv"):
        return (verb, "--wlm", "pbs", "--run", "1", "--job", job)

    def begin(self, *words):
        return self.call(*self.job("begin"), *words)


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
        code, err = self.call(*self.job("end"))
        self.assertIn("lease=ended removed=1 ", err)
        self.assertEqual((os.listdir(self.api.directory), self.pod_cores()), ([], "0-3"))
        self.assertIsNone(self.announced())

    def test_a_job_does_not_begin_beside_pods_whose_cgroup_is_nowhere_in_sight(self):
        self.state()  # the cgroups are made by the first call
        for hierarchy in ("cpuset", "memory"):
            for fence, code in (("cores", 75), ("counts", 0)):
                with self.subTest(hierarchy=hierarchy, fence=fence):
                    self.configure(
                        mode="placeholder", manifests=self.api.directory, on_failure="requeue", fence=fence, deadline=0
                    )
                    top = os.path.join(self.top, "cgroup", hierarchy)
                    os.rename(os.path.join(top, "kubepods"), os.path.join(top, "k8s"))
                    with unittest.mock.patch("simulated_host.KUBEPODS", ()):
                        done, err = self.begin("--cpus", "2")
                    os.rename(os.path.join(top, "k8s"), os.path.join(top, "kubepods"))
                    self.assertEqual((done, "no cgroup of all pods" in err), (code, code == 75), err)
                    self.call(*self.job("end"))

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

    def test_where_services_cannot_be_asked_each_call_names_the_error_and_the_job_has_its_cores(self):
        with unittest.mock.patch.object(RealHost, "active_units", side_effect=HostError("systemctl: no end")):
            for words, code in (
                ((*self.job("begin"), "--cpus", "2"), 0),
                (("adopt", "--wlm", "pbs"), 1),
                (("repair",), 1),
                (("on",), 1),
            ):
                done, err = self.call(*words)
                self.assertEqual((done, 'error="systemctl: no end"' in err), (code, True), err)
                self.assertEqual(self.pod_cores(), "2-3")

    def test_the_way_back_takes_every_placeholder_and_the_fence(self):
        self.begin("--cpus", "2")
        self.write("manifests/site.json", "{}")
        os.rename(os.path.join(self.api.directory, "site.json"), os.path.join(self.api.directory, ".site.json"))
        self.assertEqual(self.call("forget")[0], 0)
        self.assertEqual((os.listdir(self.api.directory), self.pod_cores()), ([".site.json"], "0-3"))

    def test_a_switch_on_behind_which_no_kubelet_starts_is_a_failure_beside_a_job_too(self):
        run = Systemd.run

        def stuck(systemd, argv, seconds):
            return Answer(0, "", "") if "start" in argv else run(systemd, argv, seconds)

        self.begin("--cpus", "2")
        self.call("off")
        with unittest.mock.patch.object(Systemd, "run", stuck):
            code, err = self.call("on")
        self.assertEqual((code, self.active()), (1, set()), err)
        self.assertRegex(err, 'error="not open yet: .* did not start; each repair tries again"')
        self.assertEqual((self.call("on")[0], self.active()), (0, {KUBELET, RUNTIME}))

    def test_a_kubelet_that_only_its_fence_names_is_started_until_it_runs(self):
        run = Systemd.run

        def stuck(systemd, argv, seconds):
            return Answer(0, "", "") if "start" in argv else run(systemd, argv, seconds)

        def no_room(store, _memory):
            raise files.StoreError(store.path + ": no room")

        self.call("repair")  # there is a record, which names nothing as stopped
        with unittest.mock.patch.object(StateStore, "save", no_room):
            self.call("off")
        with unittest.mock.patch.object(Systemd, "run", stuck):
            self.call("repair")
        self.assertEqual(self.active(), set())
        self.call("repair")
        self.assertEqual(self.active(), {KUBELET, RUNTIME})

    def test_on_the_way_back_pods_end_before_their_fence_where_the_kubelet_goes_too(self):
        self.begin("--cpus", "2")
        with unittest.mock.patch.object(Systemd, "run", lambda *_call: Answer(1, "active\nactive\n", "busy")):
            code, err = self.call("forget", "--leave", KUBELET)
        self.assertEqual((code, self.pod_cores(), len(os.listdir(self.api.directory))), (1, "2-3", 1), err)
        self.assertEqual(self.call("forget", "--leave", KUBELET)[0], 0)
        self.assertEqual((self.active(), os.listdir(self.api.directory), self.pod_cores()), ({RUNTIME}, [], "0-3"))

    def test_on_the_way_back_a_full_disk_keeps_nothing(self):
        self.begin("--cpus", "2")
        pid = os.fork()
        if pid == 0:
            status = 99
            try:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (60, 60))
                status, _err = self.call("forget", "--leave", KUBELET)
            finally:
                os._exit(status)
        self.assertEqual(os.WEXITSTATUS(os.waitpid(pid, 0)[1]), 0)
        self.assertEqual((self.active(), os.listdir(self.api.directory), self.pod_cores()), ({RUNTIME}, [], "0-3"))

    def test_on_the_way_back_without_jobs_pods_are_the_kubelets_own_matter(self):
        self.assertEqual(self.call("forget", "--leave", KUBELET)[0], 0)
        self.assertEqual(self.active(), {KUBELET, RUNTIME})

    def test_a_split_must_say_which_cores_are_the_pods(self):
        self.configure(mode="placeholder", fence="split")
        self.assertIn("pod_cpus is missing", self.call("repair")[1])


class Faults(PlacingCase):
    """Whatever goes wrong, the next call leaves one placeholder for each lease, and pods off the cores of all jobs."""

    BEGIN = ("Evict", "Remember", "Place", "AwaitAdmission", "DrawFence")
    END = ("Unplace", "DrawFence")

    def cores(self, job, cpus):
        self.write("cgroup/cpuset/pbs_jobs.service/jobid/{}/cpuset.cpus".format(job), cpus)

    def held(self):
        """The jobs that have a lease; each has a placeholder, nobody else has one, and the fence is around them."""
        shown = self.state()
        jobs = sorted(lease["job"] for lease in shown["leases"])
        placed = []
        for name in shown["placeholders"]:
            with open(os.path.join(self.api.directory, name + ".json")) as stream:
                told = json.load(stream)["metadata"]["annotations"]["converged.hpc/lease"]
            placed.append(json.loads(told)["job"])
        self.assertEqual(sorted(placed), jobs)
        taken = set()
        for job in jobs:
            with open(os.path.join(self.top, "cgroup/cpuset/pbs_jobs.service/jobid", job, "cpuset.cpus")) as stream:
                taken |= parse_cpus(stream.read())
        self.assertEqual(self.pod_cores(), format_cpus(frozenset(range(4)) - taken))
        return jobs

    @oldest_python_only
    def test_killed_at_each_point_of_a_begin_or_an_end_the_next_call_puts_it_right(self):
        self.cores("2.srv", "2")
        points = [("begin", name) for name in self.BEGIN] + [("end", name) for name in self.END]
        for verb, point in [(verb, side + name) for verb, name in points for side in ("before:", "after:")]:
            with self.subTest(verb=verb, point=point):
                shutil.rmtree(os.path.join(self.top, "run"), ignore_errors=True)
                self.configure(mode="placeholder", manifests=self.api.directory)
                self.api.add_pod("web")
                self.api.pods["default", "web"]["spec"]["containers"] = [{"resources": {"requests": {"cpu": "3"}}}]
                words = self.job(verb)
                if verb == "begin":
                    words += ("--cpus", "2")
                    self.api.hangs = "AwaitAdmission" in point
                else:
                    self.begin("--cpus", "2")
                code, err = self.finished(self.process(*words, point=point))
                self.assertEqual(code, -signal.SIGKILL, err)
                self.api.hangs = False
                self.assertEqual(self.call(*self.job("begin", "2.srv"), "--cpus", "1")[0], 0)
                self.assertEqual(self.held(), ["1.srv", "2.srv"] if verb == "begin" else ["2.srv"])
                for job in ("1.srv", "2.srv"):
                    self.assertEqual(self.call(*self.job("end", job))[0], 0)
                self.assertEqual(self.held(), [])

    def test_a_disk_that_is_full_from_any_write_on_ends_in_the_sites_outcome_and_a_repair_makes_it_good(self):
        self.configure(mode="placeholder", manifests=self.api.directory, deadline=0, on_failure="requeue")
        codes = []
        while 0 not in codes:
            with self.full_disk(after=len(codes)):
                code, err = self.begin("--cpus", "2")
            self.assertEqual("No space left on device" in err, code != 0, err)
            codes.append(code)
            self.assertEqual(self.call("repair")[0], 0)
            self.assertEqual(self.held(), ["1.srv"][: len(codes) - 1])
            with self.full_disk(after=0):
                code, err = self.call(*self.job("end"))
            self.assertIn("lease=unmarked" if len(codes) > 1 else "No space left on device", err)
            self.assertEqual(code, 0 if len(codes) > 1 else 69, "without a lease nothing tells a late begin")
            self.assertEqual(self.held(), [], "no lease outlives its end")
            self.assertEqual(self.call(*self.job("end"))[0], 0)
            self.assertEqual(self.held(), [])
        self.assertEqual(set(codes[:-1]), {75})
        self.assertGreater(len(codes), 3, "lease, placeholder, cpuset")

    def test_beside_what_a_read_only_directory_keeps_the_next_job_has_its_cores_and_all_calls_say_what_it_is(self):
        self.cores("2.srv", "2-3")
        self.assertEqual(self.begin("--cpus", "2")[0], 0)
        said = r"; placeholders of ended jobs cannot be removed: lease-pbs-1-srv-\w+-r1\""
        with self.read_only():
            for call, cores in (
                (self.job("end"), "0-3"),
                ((*self.job("begin", "2.srv"), "--cpus", "2"), "0-1"),
                (("repair",), "0-1"),
            ):
                code, err = self.call(*call)
                self.assertRegex(err, said)
                self.assertIn("cannot remove: Read-only file system", err)
                self.assertEqual((code, self.pod_cores()), (0, cores))
        self.assertEqual(self.call("repair")[0], 0)
        self.assertEqual([name.split("-")[2] for name in os.listdir(self.api.directory)], ["2"])

    def test_a_lease_that_the_disk_did_not_take_at_first_is_recorded_before_the_call_ends(self):
        with self.full_disk(after=0, writes=1):
            code, err = self.begin("--cpus", "2")
        self.assertEqual((code, self.held()), (0, ["1.srv"]), err)
        self.assertIn(" lease=new ", err)
        self.assertNotIn("error=", err)

    @oldest_python_only
    def test_hooks_at_once_leave_exactly_what_has_not_ended(self):
        jobs = ["{}.srv".format(number) for number in range(1, 5)]
        for cpu, job in enumerate(jobs):
            self.cores(job, str(cpu))

        def at_once(*calls):
            for process in [self.process(*call, *(("--cpus", "1") if call[0] == "begin" else ())) for call in calls]:
                code, err = self.finished(process)
                self.assertEqual(code, 0, err)
                self.assertNotIn("error=", err)

        at_once(*(self.job("begin", job) for job in jobs[:3] + jobs[:3]))
        self.assertEqual(self.held(), jobs[:3])
        at_once(
            *(self.job(*call) for call in (("end", jobs[0]), ("begin", jobs[3]), ("end", jobs[1]), ("end", jobs[0])))
        )
        self.assertEqual(self.held(), jobs[2:])


class Asking(KubeCase):
    def test_room_is_what_the_node_has_and_who_is_on_it_but_for_placeholders(self):
        self.api.node["status"] = {"allocatable": {"cpu": "1900m", "memory": "1Ki", "pods": "110"}}
        self.api.node["metadata"]["annotations"] = {names.ANNOTATION: '["slurm/1/0"]'}
        self.api.add_pod("web")
        web = self.api.pods["default", "web"]
        web["spec"].update(priority=7, containers=[{"resources": {"requests": {"cpu": "1"}}}])
        web["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "gang"}
        for number in range(1000):
            self.add_labelled("lease-pbs-{}".format(number), namespace="kube-system", mirror=True)
        room = room_reader.ask_room(self.node(), frozenset)
        self.assertEqual((room.answers, room.allocatable), (True, {"cpu": 1900, "memory": 1024000, "pods": 110000}))
        self.assertEqual(room.announced, '["slurm/1/0"]')
        (guest,) = room.guests
        self.assertEqual((guest.pod.name, guest.priority, guest.gang), ("web", 7, "gang"))
        self.assertEqual(guest.requests, {"cpu": 1000, "pods": 1000})
        self.assertIsInstance(guest.pod, Pod)

    def test_the_label_alone_makes_no_placeholder_of_a_pod(self):
        self.api.node["status"] = {"allocatable": {"cpu": "4", "pods": "110"}}
        for name, mirror in (("forged", False), ("forged-mirror", True)):
            self.add_labelled(name, mirror=mirror)
        self.add_labelled("lease-pbs-1", namespace="kube-system", mirror=True)
        self.api.add_pod("dns", namespace="kube-system")
        found = room_reader.ask_room(self.node(), frozenset)
        self.assertEqual(sorted(guest.pod.name for guest in found.guests), ["dns", "forged"])

    def test_a_static_pod_stays_if_it_runs_here_and_a_mirror_without_processes_takes_no_room(self):
        self.api.node["status"] = {"allocatable": {"cpu": "4", "pods": "110"}}
        self.api.add_pod("static", mirror=True)
        self.api.add_pod("forged", mirror=True)
        self.api.pods["default", "forged"]["metadata"]["annotations"]["kubernetes.io/config.hash"] = "uid-of-a-pod"
        uid = hashlib.md5(b"static").hexdigest()
        for running, expected in (([uid], ["static"]), (["another"], [])):
            guests = room_reader.ask_room(self.node(), lambda running=running: frozenset(running)).guests
            self.assertEqual([guest.pod.name for guest in guests if guest.stays], expected)
            self.assertEqual([guest.pod.name for guest in guests], expected)

    def test_of_mirrors_of_a_static_pod_that_runs_only_the_one_counts_that_the_kubelet_has_acknowledged(self):
        self.api.node["status"] = {"allocatable": {"cpu": "4", "pods": "110"}}
        for name, leaving in (("another", False), ("static", False), ("held", True)):
            self.api.add_pod(name, mirror=True, leaving=leaving)
            pod = self.api.pods["default", name]
            pod["metadata"]["annotations"]["kubernetes.io/config.hash"] = hashlib.md5(b"static").hexdigest()
            pod["status"] = {"phase": "Pending"}  # as the API server makes it
        uid = hashlib.md5(b"static").hexdigest()
        self.assertEqual(room_reader.ask_room(self.node(), lambda: frozenset([uid])).guests, ())
        self.api.pods["default", "static"]["status"]["startTime"] = "2026-01-01T00:00:00Z"  # and pulls its image
        guests = room_reader.ask_room(self.node(), lambda: frozenset([uid])).guests
        self.assertEqual([(guest.pod.name, guest.stays) for guest in guests], [("static", True)])

    def test_placeholders_are_not_even_sent(self):
        for number in range(1000):
            self.add_labelled("lease-pbs-{}".format(number), namespace="kube-system", mirror=True)
        sent = []
        route = self.api.route
        self.api.route = lambda handler, body: sent.append(route(handler, body)) or sent[-1]
        self.assertTrue(room_reader.ask_room(self.node(), frozenset).answers)
        self.assertEqual([len(answer.get("items", ())) for _status, answer in sent], [0, 0, 0])

    def add_labelled(self, name, **how):
        self.api.add_pod(name, **how)
        self.api.pods[how.get("namespace", "default"), name]["metadata"]["labels"] = {LABEL: "true"}

    def test_an_answer_that_is_not_understood_is_none(self):
        self.api.node["status"] = {"allocatable": {"cpu": "much"}}
        room = room_reader.ask_room(self.node(), frozenset)
        self.assertEqual((room.answers, "not understood" in room.why), (False, True))
        self.api.fail = [("GET", 500)]
        self.assertFalse(room_reader.ask_room(self.node(), frozenset).answers)

    def test_only_what_the_kubelet_shows_and_has_not_given_up_is_in(self):
        for name, how in (("a", {}), ("b", {"phase": "Failed"}), ("c", {"leaving": True})):
            self.api.add_pod(name + "-n1", namespace="kube-system", mirror=True, **how)
            self.api.pods["kube-system", name + "-n1"]["metadata"]["labels"] = {LABEL: "true"}
        node, uid = self.node(), hashlib.md5(b"a-n1").hexdigest()
        self.assertEqual(room_reader.admitted(node, {"a": "", "b": ""}), {uid})
        self.assertEqual(room_reader.admitted(node, {"a": ""}), {uid})
        self.assertEqual([room_reader.admitted(node, {name: ""}) for name in "bcx"], [frozenset()] * 3)


if __name__ == "__main__":
    unittest.main()
