# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the list of faults (tests/mutations) showed to be missing: each test here fails with a fault of that list."""

import contextlib
import os
import shutil
import socket
import stat
import sys
import tempfile
import threading
import unittest
import unittest.mock

import hand_over
from handover_case import HandoverCase
from nodeshare.controller.controller import Controller
from nodeshare.controller.decide import Jobs, NodeSeen
from nodeshare.host.host import HostError
from nodeshare.host.real_host import RealHost, run_command
from nodeshare.kube.client import ApiError
from nodeshare.model.answer import Answer
from nodeshare.model.node.state import HELD
from nodeshare.model.settings import HANDOVER, Settings
from running import still_running
from test_pbs_hook_runs import HookCase

PARENT = """#!{python} -IS
import subprocess, sys, time
if sys.argv[1] == "begin":
    child = subprocess.Popen([sys.executable, "-IS", "-c", "import time; time.sleep(600)"])
    with open({child!r}, "w") as stream:
        stream.write(str(child.pid))
    time.sleep(600)
"""


class TimeLimit(HookCase):
    def test_past_the_time_limit_what_nodeshare_has_started_is_killed_with_it(self):
        child = os.path.join(self.top, "child")
        path = self.write("parent", PARENT.format(python=sys.executable, child=child))
        os.chmod(path, stat.S_IRWXU)
        self.run_hook(nodeshare=[path], timeout_seconds=5.0)
        with open(child) as stream:
            pid = int(stream.read())
        self.assertEqual(still_running([pid], 30.0), [])


class AfterBoot(HandoverCase):
    def test_a_job_that_starts_right_after_a_boot_finds_pods_confined_anew(self):
        site = self.site()
        site.begin()
        self.assertEqual(site.memory().phase, HELD)
        site.node.reboot()
        self.assertFalse(site.node.confined)
        site.begin("2")
        self.assert_free(site)
        self.assertTrue(site.node.confined)

    def test_what_was_held_is_proven_anew_where_the_directory_in_memory_outlives_the_boot(self):
        site = self.site()
        site.begin()
        with open(site.memories.path, "rb") as stream:
            memory = stream.read()
        site.node.reboot()
        with open(site.memories.path, "wb") as stream:
            stream.write(memory)
        self.assertEqual(site.memory().phase, HELD)
        site.begin("2")
        self.assert_free(site)
        self.assertTrue(site.node.confined)


class OneMoreJob(HandoverCase):
    def test_a_pod_that_has_come_back_to_a_held_node_leaves_before_one_more_job_starts(self):
        for way in ("quiesce", "stop"):
            with self.subTest(way=way):
                site = self.site(handover=way)
                site.begin("1")
                self.assert_free(site)
                site.node.add("stray", tolerates=True)
                site.begin("2")
                self.assert_free(site)


class Services(unittest.TestCase):
    UNITS = ("kubelet.service", "containerd.service")

    def node(self, *answers):
        """Return a node on which systemctl gives these answers, one after the other."""
        left = list(answers)
        top = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, top)
        settings = Settings(node="n1", run_dir=top)
        return RealHost(settings, proc=top, cgroup=top, run=lambda argv, seconds: left.pop(0))

    def test_a_service_that_does_not_stop_is_an_error_that_says_why(self):
        node = self.node(Answer(1, "", "Job for kubelet.service failed."))
        with self.assertRaisesRegex(HostError, "systemctl stop: exit 1: .*Job for kubelet.service failed"):
            node.stop_units(self.UNITS, force=False)

    def test_a_service_is_there_until_it_has_stopped(self):
        for state in ("active", "activating", "reloading", "deactivating", "refreshing"):
            with self.subTest(state=state):
                node = self.node(Answer(0, state + "\ninactive\n", ""))
                self.assertEqual(node.active_units(self.UNITS), ("kubelet.service",))

    def test_programs_get_nothing_of_the_callers_environment(self):
        with unittest.mock.patch.dict(os.environ, {"LD_PRELOAD": "", "SLURM_CONF": "/tmp/of-a-user"}):
            answer = run_command(("/usr/bin/env",), 10.0)
        names = {line.partition("=")[0] for line in answer.out.splitlines()}
        self.assertEqual(names - {"LC_CTYPE", "PWD", "_"}, {"PATH", "LC_ALL", "SYSTEMD_PAGER"})


class Drips(unittest.TestCase):
    def test_an_answer_that_comes_byte_by_byte_holds_a_job_no_longer_than_any_other(self):
        top = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, top)
        path = os.path.join(top, "socket")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(listener.close)
        listener.bind(path)
        listener.listen(1)
        over = threading.Event()

        def drip():
            link = listener.accept()[0]
            with link, contextlib.suppress(OSError):
                for _byte in range(60):
                    link.sendall(b".")
                    if over.wait(0.1):
                        return

        server = threading.Thread(target=drip)
        server.start()
        said = hand_over.hand_over(path, b"{}\n", 1.0)
        over.set()
        server.join()
        self.assertEqual(said, "no answer within 1 s")


class NodesAndApi:
    """A batch system with one job, and an API that fails at the first write. Nothing else can be asked of either."""

    def __init__(self):
        self.writes = 0
        self.written = threading.Event()

    def patch(self, name, body):
        self.writes += 1
        if self.writes == 1:
            raise ApiError(500, "etcd has no leader")
        self.written.set()
        return NodeSeen(name, "uid", "2", tuple(body["spec"]["taints"]), ("slurm/1/0",), mode=HANDOVER)

    def in_control(self):
        return True

    def jobs(self):
        return Jobs({"slurm/1/0": frozenset(("n1",))})

    def states(self):
        return {}

    def wlm_name(self, name):
        return name

    def show(self, node, held):
        """Nothing is shown."""

    def read(self):
        return []


class Retry(unittest.TestCase):
    def test_a_taint_that_could_not_be_written_is_written_before_the_next_list_of_jobs(self):
        site = NodesAndApi()
        controller = Controller(
            api=site, batch=site, spool=site, connections=1, remark=lambda text: None, told=lambda *words: None
        )
        controller.replace([NodeSeen("n1", "uid", "1", mode=HANDOVER)])
        with unittest.mock.patch("nodeshare.controller.controller.LEARNING_SECONDS", 3600.0):
            polls = threading.Thread(target=controller.run_polls, args=(3600.0,), kwargs={"beat": lambda: None})
            polls.start()
            written = site.written.wait(30.0)
            controller.stop()
            polls.join()
        self.assertTrue(written)
        self.assertTrue(controller.nodes["n1"].tainted)


if __name__ == "__main__":
    unittest.main()
