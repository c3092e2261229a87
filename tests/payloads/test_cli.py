# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole calls: exit codes, the one log line, hostile arguments, full disks, kills of real processes, many at once."""

import contextlib
import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest
import unittest.mock

from api_server import ApiCase, ApiServer
from marks import oldest_python_only
from nodeshare.model import answer
from nodeshare.model.node import names
from nodeshare.run import arguments, cli
from nodeshare.store import settings_file
from simulated_host import Systemd, make_world
from simulation import quick_directory

KUBELET, RUNTIME = "kubelet.service", "containerd.service"
HERE = os.path.dirname(os.path.abspath(__file__))


class CliCase(ApiCase):
    def setUp(self):
        self.top = quick_directory()
        self.addCleanup(shutil.rmtree, self.top)
        self.api = ApiServer(self.certificates)
        self.addCleanup(self.api.close)
        self.api.node["spec"] = {"taints": [{"key": names.TAINT, "effect": "NoSchedule"}]}
        self.units = os.path.join(self.top, "units.json")
        with open(self.units, "w") as stream:
            json.dump([KUBELET, RUNTIME], stream)
        self.settings = os.path.join(self.top, "nodeshare.json")
        self.configure()

    def configure(self, **changes):
        pem = self.certificates.client
        values = {
            "node": "n1",
            "mode": "handover",
            "run_dir": os.path.join(self.top, "run"),
            "state_dir": os.path.join(self.top, "disk"),
            "linger": 0,
            "deadline": 60,
            "limit": 120,
            "api_timeout": 20,
            "squeue": "/usr/bin/squeue",
            "api": {"server": self.api.url, "ca_file": self.certificates.ca, "cert_file": pem, "key_file": pem},
        }
        values.update(changes)
        with open(self.settings, "w") as stream:
            json.dump(values, stream)

    def call(self, *arguments):
        """Exit code and what was written to stderr."""
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            code = cli.main(["--settings", self.settings, *arguments], make_world=make_world(self.units, self.top))
        return code, err.getvalue()

    def process(self, *arguments, point=""):
        return subprocess.Popen(
            [
                sys.executable,
                "-B",
                "-W",
                "error",
                os.path.join(HERE, "simulated_host.py"),
                self.settings,
                self.units,
                point,
                *arguments,
            ],
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )

    def finished(self, process):
        err = process.communicate(timeout=300)[1]
        return process.returncode, err

    def active(self):
        return Systemd(self.units).active()

    def state(self):
        return json.loads(self.shown("--json"))

    def shown(self, *options):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(self.call("show", *options)[0], 0)
        return out.getvalue()

    def announced(self):
        return self.api.node["metadata"]["annotations"].get(names.ANNOTATION)

    def job(self, verb, job="4711"):
        return (verb, "--wlm", "slurm", "--job", job)


class Lives(CliCase):
    def test_a_whole_life_in_quiesce(self):
        self.api.add_pod("web")
        self.api.add_pod("logger", owner="DaemonSet")
        code, err = self.call(*self.job("begin"))
        self.assertEqual(code, 0)
        self.assertRegex(
            err,
            r"\Anodeshare: event=begin wlm=slurm job=4711 run=0 outcome=accept lease=new way=quiesce "
            r"evicted=1 reason=\"held by quiesce\" seconds=\d+\.\d{3}\n\Z",
        )
        self.assertEqual([name for _, name in self.api.pods], ["logger"])
        self.assertEqual(self.announced(), '["slurm/4711/0"]')
        self.assertEqual((self.state()["phase"], self.active()), ("held", {KUBELET, RUNTIME}))
        self.assertEqual(self.call(*self.job("end"))[0], 0)
        self.assertEqual(self.call("repair")[0], 0)
        self.assertEqual((self.state()["phase"], self.announced()), ("open", None))

    def test_a_whole_life_in_stop_without_the_api(self):
        self.configure(handover="stop")
        self.api.fail = [("GET", 500)] * 50
        self.assertEqual(self.call(*self.job("begin"))[0], 0)
        self.assertEqual(self.active(), set())
        self.call(*self.job("end"))
        self.assertIn("until the API answers", self.call("repair")[1])
        self.assertEqual(self.active(), set())
        self.api.fail = []
        self.call("repair")
        self.assertEqual(self.active(), {KUBELET, RUNTIME})

    def test_expired_or_missing_credentials_do_not_keep_a_job_waiting(self):
        pem = os.path.join(self.top, "missing.pem")
        self.configure(api={"server": self.api.url, "ca_file": self.certificates.ca, "cert_file": pem, "key_file": pem})
        code, err = self.call(*self.job("begin"))
        self.assertEqual((code, self.active()), (0, set()))
        self.assertIn("way=stop", err)

    def test_a_budget_and_a_job_that_waits(self):
        self.configure(after_deadline="job_waits", deadline=0.5)
        self.api.add_pod("quorum")
        self.api.protected = {("default", "quorum")}
        code, err = self.call(*self.job("begin"))
        self.assertEqual(code, 75)
        self.assertIn("default/quorum", err)
        self.assertTrue(any(path.endswith("/events") for _, path, _ in self.api.calls))
        self.assertIn(("default", "quorum"), self.api.pods)

    def test_off_and_on(self):
        self.assertEqual(self.call("off")[0], 0)
        self.assertEqual((self.active(), self.state()["off"]), (set(), True))
        self.assertEqual(self.call(*self.job("begin"))[0], 0)
        self.call(*self.job("end"))
        self.assertEqual(self.call("on")[0], 0)
        self.assertEqual((self.active(), self.state()["off"]), ({KUBELET, RUNTIME}, False))

    def test_a_switch_off_behind_which_pods_run_on_is_a_failure(self):
        run = Systemd.run

        def stuck(systemd, argv, seconds):
            return answer.Answer(0, "", "") if "stop" in argv else run(systemd, argv, seconds)

        with unittest.mock.patch.object(Systemd, "run", stuck):
            code, err = self.call("off")
        self.assertEqual((code, self.active(), self.state()["off"]), (1, {KUBELET, RUNTIME}, True))
        self.assertRegex(err, 'error="pods may run on: .*cannot be stopped')
        # The next call, or the repair, goes on.
        self.assertEqual((self.call("off")[0], self.active()), (0, set()))

    def test_a_switch_on_behind_which_no_kubelet_starts_is_a_failure(self):
        run = Systemd.run

        def stuck(systemd, argv, seconds):
            return answer.Answer(0, "", "") if "start" in argv else run(systemd, argv, seconds)

        self.call("off")
        with unittest.mock.patch.object(Systemd, "run", stuck):
            code, err = self.call("on")
        self.assertEqual((code, self.active(), self.state()["off"]), (1, set(), False))
        self.assertRegex(err, 'error="not open yet: .* did not start; each repair tries again"')
        self.assertEqual((self.call("repair")[0], self.active()), (0, {KUBELET, RUNTIME}))

    def test_a_switch_on_waits_for_the_api_without_a_failure(self):
        self.call("off")
        self.api.fail = [("GET", 500)] * 1000
        for _again in range(2):  # from the phase that it was left in, too
            code, err = self.call("on")
            self.assertEqual((code, self.active(), self.state()["off"]), (0, set(), False), err)
            self.assertIn("until the API answers", err)

    def test_adopted_jobs_are_leases(self):
        code, err = self.call("adopt", "--wlm", "slurm", "4711", "4712/1")
        self.assertEqual((code, len(self.state()["leases"])), (0, 2))
        self.assertIn("new=2", err)
        self.call("end", "--wlm", "slurm", "--job", "4712", "--run", "1")
        self.assertEqual([lease["job"] for lease in self.state()["leases"]], ["4711"])

    def test_a_runtime_is_stopped_for_a_job_only_where_the_node_has_joined_a_cluster(self):
        kubeconfig = os.path.join(self.top, "kubelet.conf")
        self.configure(kubeconfig=kubeconfig, handover="stop")
        with open(self.units, "w") as stream:
            json.dump([RUNTIME], stream)
        self.call("adopt", "--wlm", "slurm", "4711")
        self.call(*self.job("begin"))
        self.assertEqual(self.active(), {RUNTIME})
        with open(kubeconfig, "w") as stream:
            stream.write("{}")
        self.call("adopt", "--wlm", "slurm", "4711")
        self.assertEqual(self.active(), set())

    def test_a_job_whose_end_was_missed_is_found_by_repair(self):
        self.call(*self.job("begin"))
        code, err = self.call("repair")
        self.assertEqual((code, self.state()["leases"]), (0, []))
        self.assertIn("dropped slurm/4711/0", err)

    def test_the_way_back_gives_back_what_a_job_has_taken_although_it_runs(self):
        cores = os.path.join(self.top, "cgroup", "cpuset", "kubepods", "cpuset.cpus")
        os.makedirs(os.path.dirname(cores))
        for handover, damage in (("quiesce", ""), ("stop", ""), ("stop", "state.json")):
            with self.subTest(handover=handover, damage=damage):
                with open(cores, "w") as stream:
                    stream.write("0-7\n")
                self.configure(handover=handover)
                self.assertEqual(self.call(*self.job("begin"))[0], 0)
                self.api.fail = [("GET", 500)] * 50
                if damage:
                    with open(os.path.join(self.top, "run", damage), "w") as stream:
                        stream.write("?")
                for _again in range(2):
                    self.assertEqual(self.call("forget")[0], 0)
                    with open(cores) as stream:
                        self.assertEqual((self.active(), stream.read().split()[0]), ({KUBELET, RUNTIME}, "0-7"))
                    self.assertFalse(os.path.isdir(self.closed()) and os.listdir(self.closed()), "units are fenced")
                shutil.rmtree(os.path.join(self.top, "run"))
                self.api.fail = []

    def test_pods_that_stay_are_capped_for_the_job_and_have_their_memory_back_after_it(self):
        group = os.path.join(self.top, "cgroup", "memory", "kubepods")
        limit = os.path.join(group, "memory.limit_in_bytes")
        os.makedirs(group)
        for path, value in ((limit, 8 << 30), (os.path.join(group, "memory.usage_in_bytes"), 1 << 30)):
            with open(path, "w") as stream:
                stream.write("{}\n".format(value))
        self.api.add_pod("logger", owner="DaemonSet")
        for calls, cap in (((self.job("begin"),), 3 << 29), ((self.job("end"), ("repair",)), 8 << 30)):
            for call in calls:
                self.assertEqual(self.call(*call)[0], 0)
            with open(limit) as stream:
                self.assertEqual(int(stream.readline()), cap)

    def test_the_way_back_withdraws_what_the_node_says_of_its_leases_unless_its_kubelet_goes_too(self):
        """Nothing would withdraw it later, and the controllers' service keeps such a node from pods."""
        self.assertEqual(self.call(*self.job("begin"))[0], 0)
        self.assertEqual(self.call("forget", "--leave", KUBELET)[0], 0)
        self.assertEqual(self.announced(), '["slurm/4711/0"]')
        self.api.fail = [("GET", 500)] * 50
        code, err = self.call("forget")
        self.assertEqual((code, self.announced()), (0, '["slurm/4711/0"]'))
        self.assertIn("still announces jobs", err)
        self.api.fail = [("PATCH", 403)] * 50
        code, err = self.call("forget")
        self.assertEqual((code, self.announced()), (0, '["slurm/4711/0"]'))
        self.assertIn("still announces jobs", err)
        self.api.fail = []
        code, err = self.call("forget")
        self.assertEqual((code, self.announced()), (0, None))
        self.assertNotIn("still announces jobs", err)

    def test_the_way_back_starts_nothing_that_is_to_go_and_needs_no_settings(self):
        self.configure(handover="stop")
        self.assertEqual(self.call(*self.job("begin"))[0], 0)
        self.assertEqual(self.call("forget", "--leave", KUBELET)[0], 0)
        self.assertEqual(self.active(), {RUNTIME})

    def test_a_service_that_does_not_start_is_named_on_the_way_back(self):
        self.configure(handover="stop")
        self.call(*self.job("begin"))
        with unittest.mock.patch.object(Systemd, "run", lambda *_call: answer.Answer(1, "", "no such unit")):
            code, err = self.call("forget")
        self.assertEqual(code, 1)
        self.assertIn("systemctl start: exit 1", err)

    def closed(self):
        return os.path.join(self.top, "run", "closed")

    def test_show_is_for_people_too(self):
        self.call(*self.job("begin"))
        self.assertEqual(self.shown(), "node: held by quiesce\nleases: 1\n  slurm/4711/0\n")
        lease = os.path.join(self.top, "run", "slurm.4711.r0.lease")
        with open(lease) as stream:
            earlier = json.dumps(dict(json.load(stream), boot_id="earlier"))
        for name, content in (("4711", earlier), ("5", "")):
            with open(lease.replace("4711", name), "w") as stream:
                stream.write(content)
        marked = "  slurm/5/0 (unreadable)\n  slurm/4711/0 (of an earlier boot)\n"
        self.assertEqual(self.shown()[-len(marked) :], marked)


class BadInput(CliCase):
    HOSTILE = ("$(touch pwned)", "-rf", "../x", "4711\nevent=end", "4711;id", "", "4711 ", "'", '"', "x" * 5000)

    def test_hostile_job_ids_end_in_the_sites_outcome_on_one_line(self):
        for outcome, code in (("accept", 0), ("requeue", 75), ("drain", 69)):
            self.configure(on_failure=outcome)
            for job in self.HOSTILE:
                with self.subTest(outcome=outcome, job=job[:20]):
                    found, err = self.call("begin", "--wlm", "slurm", "--job", job)
                    self.assertEqual((found, err.count("\n")), (code, 1))
                    self.assertLess(len(err), 1000)
                    self.assertEqual(self.call("end", "--wlm", "slurm", "--job=" + job)[0], 0 if code == 0 else 69)
        self.assertFalse(os.path.exists(os.path.join(self.top, "run")))

    def test_wrong_usage_of_begin_ends_in_the_sites_outcome_too(self):
        self.configure(on_failure="requeue")
        for words in (
            ("begin",),
            ("begin", "--wlm", "slurm"),
            (*self.job("begin"), "--mem", "lots"),
            (*self.job("begin"), "--frob"),
            ("begin", "--wlm", "lsf", "--job", "1"),
            (*self.job("begin"), "--run", "-1"),
            (*self.job("begin"), "--device", "$(id)"),
            (*self.job("begin"), "--device", "nvidia.com/gpu=two"),
            (*self.job("begin"), "--cgroup", "/pbs_jobs.service/jobid/1.srv"),
            (*self.job("begin"), "--cgroup", "pbs_jobs.service/../../1.srv"),
            (*self.job("begin"), "--cgroup", ""),
        ):
            with self.subTest(words=words):
                self.assertEqual(self.call(*words)[0], 75)
        self.assertEqual(self.call("frob")[0], 2)

    def test_settings_without_a_share_mode_are_named_and_a_repair_refuses_them(self):
        for content, message in (
            ("{", "not JSON"),
            ("[" * 100000, "not JSON"),
            ("[]", "not a JSON object"),
            ("{}", "node is missing"),
            ('{"node": "n1"}', "mode is missing: must be one of handover, placeholder"),
            ('{"node": "n1", "mode": "shared"}', "mode is 'shared': must be one of handover, placeholder"),
            ('{"node": "n1", "mode": ["placeholder"]}', "must be one of handover, placeholder"),
        ):
            with open(self.settings, "w") as stream:
                stream.write(content)
            with self.subTest(content=content[:50]):
                code, err = self.call("repair")
                self.assertEqual((code, message in err, self.settings in err), (1, True, True), err)

    def test_a_key_that_cannot_be_read_is_named_and_costs_itself_alone(self):
        for changes, message in (
            ({"node": "N1"}, "node is 'N1'"),
            ({"frob": 1, "frib": 2}, "unknown key 'frob'; unknown key 'frib'"),
            ({"deadline": "soon"}, "deadline is 'soon': must be seconds"),
            ({"housekeeping_cpus": "3-1"}, "housekeeping_cpus is '3-1': must be a CPU list"),
            ({"housekeeping_cpus": ""}, "housekeeping_cpus is '': must be a CPU list"),
            ({"pod_cpus": "0-3,"}, "pod_cpus is '0-3,': must be a CPU list"),
            ({"pod_cpus": 3}, "pod_cpus is 3: must be a CPU list"),
            ({"services": ["a b"]}, "a systemd unit name"),
            ({"handover": "stopp"}, "one of quiesce, stop"),
            ({"fence": "split"}, "pod_cpus is missing"),
            ({"api": {}}, "an object with"),
        ):
            self.configure(**changes)
            with self.subTest(changes=changes):
                code, err = self.call("repair")
                self.assertEqual((code, message.replace("'", "\\'") in err or message in err), (0, True), err)
                self.assertIn(self.settings, err)
                loaded = settings_file.load(self.settings)
                self.assertEqual((loaded.mode_known, loaded.settings.limit), (True, 120.0))

    def test_a_node_that_shares_by_placeholders_does_so_with_a_key_of_the_next_release(self):
        self.configure(
            mode="placeholder", manifests=os.path.join(self.top, "manifests"), key_of_the_next_release=1, limit=2
        )
        err = self.call("begin", "--wlm", "pbs", "--job", "1.srv", "--run", "1", "--cpus", "1")[1]
        self.assertIn("unknown key", err)
        self.assertEqual(self.active(), {KUBELET, RUNTIME})
        self.assertEqual([name[:9] for name in os.listdir(os.path.join(self.top, "manifests"))], ["lease-pbs"])

    def test_without_a_share_mode_a_begin_touches_no_service_and_ends_in_the_sites_outcome(self):
        for outcome, code in (("accept", 0), ("requeue", 75), ("drain", 69)):
            with self.subTest(outcome=outcome):
                self.configure(on_failure=outcome, mode="of the next release")
                self.api.add_pod("web")
                done, err = self.call(*self.job("begin"))
                self.assertEqual((done, "share mode is not known" in err), (code, True), err)
                self.assertEqual((self.active(), list(self.api.pods)), ({KUBELET, RUNTIME}, [("default", "web")]))
                self.configure()
                self.assertEqual([lease["job"] for lease in self.state()["leases"]], ["4711"])
                self.configure(mode="of the next release")
                self.assertEqual(self.call(*self.job("end"))[0], 0)
                self.configure()
                self.assertEqual(self.state()["leases"], [])

    def test_a_kubelet_whose_pods_are_nowhere_in_sight_is_named(self):
        def nowhere(settings):
            node = make_world(self.units, self.top)(settings)
            node.cpuset.cgroup = os.path.join(self.top, "nowhere")
            return node

        for active, told in (([KUBELET, RUNTIME], True), ([], False)):
            with open(self.units, "w") as stream:
                json.dump(active, stream)
            err = io.StringIO()
            with contextlib.redirect_stderr(err):
                self.assertEqual(cli.main(["--settings", self.settings, *self.job("begin")], make_world=nowhere), 0)
            self.assertEqual("no cgroup of all pods" in err.getvalue(), told, err.getvalue())
            self.call("forget")

    def test_the_way_back_and_the_kill_switch_need_no_share_mode(self):
        self.configure(mode="of the next release", kubeconfig="/dev/null")
        self.assertEqual(self.call("off")[0], 0)
        self.assertEqual(self.active(), set())
        self.assertEqual(self.call("forget")[0], 0)
        self.assertEqual(self.active(), {KUBELET, RUNTIME})

    def test_sizes_are_bytes_in_powers_of_1024(self):
        for text, bytes_ in (
            ("16GiB", 16 << 30),
            ("16G", 16 << 30),
            ("16GB", 16 << 30),
            ("4000M", 4000 << 20),
            ("512", 512),
            ("1K", 1024),
            ("102400kb", 100 << 20),
            ("0", 0),
            ("5B", 5),
        ):
            self.assertEqual(arguments.size(text), bytes_, text)
        path = "pbs_jobs.service/jobid/15[1].pbs-srv"
        words = ("--mem", "16GiB", "--cpus", "8", "--device", "nvidia.com/gpu=2", "--exclusive", "--cgroup", path)
        self.call(*self.job("begin"), *words)
        lease = self.state()["leases"][0]
        self.assertEqual((lease["memory"], lease["cores"], lease["exclusive"]), (16 << 30, 8, True))
        self.assertEqual((lease["devices"], lease["cgroup"]), (["nvidia.com/gpu=2"], path))

    def test_where_nothing_can_be_written_the_node_is_freed_and_held_by_the_name_of_the_job(self):
        for outcome in ("accept", "requeue"):
            with self.subTest(outcome=outcome):
                self.configure(on_failure=outcome, handover="stop")
                pid = os.fork()
                if pid == 0:
                    status = 99
                    try:
                        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                        os.makedirs(os.path.join(self.top, "run"), exist_ok=True)
                        resource.setrlimit(resource.RLIMIT_FSIZE, (60, 60))
                        status, err = self.call(*self.job("begin"))
                        status = status if "cannot write" in err and "lease=named" in err else 98
                    finally:
                        os._exit(status)
                self.assertEqual(os.WEXITSTATUS(os.waitpid(pid, 0)[1]), 0)
                self.assertEqual(self.active(), set())
                self.assertEqual(sorted(os.listdir(os.path.join(self.top, "run", "closed"))), [RUNTIME, KUBELET])
                self.assertEqual([row["unreadable"] for row in self.state()["leases"]], [True])

    def test_a_directory_in_memory_that_cannot_be_made_ends_in_the_sites_outcome(self):
        with open(os.path.join(self.top, "file"), "w"):
            self.configure(on_failure="drain", run_dir=os.path.join(self.top, "file", "run"))
        self.assertEqual(self.call(*self.job("begin"))[0], 69)


class Processes(CliCase):
    POINTS = (
        "before:Remember",
        "after:Remember",
        "before:Announce",
        "after:Announce",
        "before:Evict",
        "after:Evict",
        "before:Confine",
        "after:Confine",
        "before:StopUnits",
        "after:StopUnits",
    )

    @oldest_python_only
    def test_killed_at_each_point_of_a_begin_the_next_call_puts_it_right(self):
        for handover in ("quiesce", "stop"):
            for point in self.POINTS:
                if (handover == "stop") == ("Confine" in point) or (handover == "quiesce" and "StopUnits" in point):
                    continue
                with self.subTest(handover=handover, point=point):
                    self.configure(handover=handover)
                    self.api.add_pod("web")
                    code, err = self.finished(self.process(*self.job("begin"), point=point))
                    self.assertEqual(code, -signal.SIGKILL, err)
                    self.assertEqual(self.finished(self.process(*self.job("begin", "5")))[0], 0)
                    self.assertEqual((self.api.pods, self.state()["phase"]), ({}, "held"))
                    for job in ("4711", "5"):
                        self.call(*self.job("end", job))
                    self.call("repair")
                    self.assertEqual((self.state()["phase"], self.active()), ("open", {KUBELET, RUNTIME}))
                    self.assertIsNone(self.announced())

    @oldest_python_only
    def test_many_jobs_at_once_free_the_node_once(self):
        self.api.add_pod("web")
        begins = [self.process(*self.job("begin", str(number))) for number in range(1, 7)]
        for process in begins:
            code, err = self.finished(process)
            self.assertEqual(code, 0, err)
        evictions = [path for verb, path, _ in self.api.calls if verb == "POST" and path.endswith("/eviction")]
        self.assertEqual(len(evictions), 1)
        self.assertEqual(sum(1 for verb, _, _ in self.api.calls if verb == "PATCH"), 1)
        ends = [self.process(*self.job("end", str(number))) for number in range(1, 7)]
        self.assertEqual([self.finished(process)[0] for process in ends], [0] * 6)
        self.call("repair")
        self.assertEqual((self.state()["phase"], self.state()["leases"]), ("open", []))

    def test_what_a_repair_has_done_before_the_linger_is_told_after_it(self):
        self.configure(linger=1, squeue=self.squeue("slurm_load_jobs error: Invalid job id specified"))
        self.assertEqual(self.call(*self.job("begin"))[0], 0)
        code, said = self.call("repair", "--linger")
        self.assertEqual((code, self.state()["phase"]), (0, "open"))
        self.assertIn("dropped=1 ", said)
        self.assertIn("the batch system says that this run is over", said)

    def squeue(self, error):
        """One that knows no job."""
        path = os.path.join(self.top, "squeue")
        with open(path, "w") as stream:
            stream.write("#!/bin/sh\necho '{}' >&2; exit 1\n".format(error))
        os.chmod(path, 0o755)
        return path

    def test_off_in_the_middle_of_an_eviction_is_obeyed_at_once(self):
        begin = self.in_an_eviction()
        self.assertEqual(self.call("off")[0], 0)
        self.assertEqual(self.finished(begin)[0], 0)
        self.assertEqual([call for call in self.api.calls if call[0] == "DELETE"], [], "the job's deadline has passed")
        self.assertEqual(self.active(), set())

    def test_an_end_does_not_wait_for_an_eviction(self):
        begin = self.in_an_eviction()
        self.assertEqual(self.call(*self.job("end", "5"))[0], 0)
        self.assertIsNone(begin.poll())
        self.api.protected.clear()
        self.assertEqual(self.finished(begin)[0], 0)

    def in_an_eviction(self):
        """A begin that waits for a pod which may not be evicted."""
        self.configure(deadline=600, limit=900)
        self.api.add_pod("quorum")
        self.api.protected = {("default", "quorum")}
        begin = self.process(*self.job("begin"))
        while not any(path.endswith("/eviction") for _, path, _ in list(self.api.calls)):
            self.assertIsNone(begin.poll())
            time.sleep(0.02)
        return begin

    def test_a_hang_of_everything_still_ends_in_the_sites_outcome(self):
        self.configure(limit=1, on_failure="drain")
        script = (
            "import sys; sys.path.insert(0, sys.argv[1]); import simulated_host\n"
            "from nodeshare.run import cli; cli.OVERTIME = 1.0\n"
            "simulated_host.Systemd.run = lambda *a: __import__('time').sleep(600)\n"
            "sys.exit(simulated_host.run_and_kill(sys.argv[2], sys.argv[3], '', sys.argv[4:]))\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-B", "-c", script, HERE, self.settings, self.units, *self.job("begin")],
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )
        code, err = self.finished(process)
        self.assertEqual((code, "not done within 2 s" in err), (69, True), err)


if __name__ == "__main__":
    unittest.main()
