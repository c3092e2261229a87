# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hand-over proves accelerators free of pods: on a simulated node, and by a drawn /proc and /dev."""

import os
import shutil
import tempfile
import unittest
import unittest.mock

from handover_case import HandoverCase
from nodeshare.decide.handover import DEVICE_SECONDS
from nodeshare.host.pods import devices
from nodeshare.host.real_host import RealHost
from nodeshare.model import actions
from nodeshare.model.settings import Settings

UID = "0f0e0d0c-1111-2222-3333-444455556666"
OTHER = "aaaaaaaa-1111-2222-3333-444455556666"
GPU, UVM, RENDER = os.makedev(195, 0), os.makedev(510, 0), os.makedev(226, 128)


class BeforeAJob(HandoverCase):
    def test_a_job_starts_when_the_last_pod_has_let_go_of_its_device(self):
        for handover in ("quiesce", "stop"):
            with self.subTest(handover=handover):
                site = self.site(handover=handover, on_failure="drain")
                site.node.add("train", grace=1.0, holds=4.0)
                site.node.add("metrics", stays=True, holds=0.0)
                began = site.node.time
                self.assertEqual(site.begin().done.outcome, actions.ACCEPT)
                self.assertGreaterEqual(site.node.time - began, 5.0)
                self.assertEqual(list(site.node.device_holders()), ["metrics"])

    def test_a_device_that_is_never_free_ends_in_the_sites_outcome_and_is_named(self):
        site = self.site(on_failure="drain")
        site.node.add("train", grace=1.0, holds=1e9)
        began = site.node.time
        told = site.begin()
        self.assertEqual(told.done.outcome, actions.DRAIN)
        self.assertEqual(told.done.reason, "devices are in use: train has /dev/gpu0")
        self.assertLess(site.node.time - began, DEVICE_SECONDS + 5.0)
        self.assertEqual(site.begin("2").done.outcome, actions.DRAIN, "it is not taken for free the next time")

    def test_no_time_is_lost_where_no_pod_has_one(self):
        site = self.site()
        began = site.node.time
        site.begin()
        self.assertEqual(site.node.time, began)


class Drawn(unittest.TestCase):
    """Character devices cannot be made by everybody, so the numbers of files are drawn as well."""

    def setUp(self):
        self.top = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.top)
        self.numbers = {}
        self.stats = []
        for name, number in (("nvidia0", GPU), ("nvidia-uvm", UVM), ("dri/renderD128", RENDER), ("null", 259)):
            self.device("dev/" + name, number)
        self.device("dev/nvidiactl", 260)  # which is open wherever somebody looks at the cards

        def stat(path, **how):
            self.stats.append(path)
            found = really(path, **how)
            number = self.numbers.get(os.path.realpath(path) if isinstance(path, str) else path)
            if number is None:
                return found
            return unittest.mock.Mock(st_mode=0o020666, st_rdev=number)

        really = os.stat
        patched = unittest.mock.patch("nodeshare.host.pods.devices.os.stat", stat)
        patched.start()
        self.addCleanup(patched.stop)

    def put(self, path, text=""):
        path = os.path.join(self.top, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as stream:
            stream.write(text)
        return path

    def device(self, path, number):
        self.numbers[os.path.realpath(self.put(path))] = number

    def task(self, path, pod, *files, state="S", kind="tmpfs"):
        self.put(path + "/stat", "1 (a) b) {} 1 0".format(state))
        group = (
            "/kubepods.slice/kubepods-pod{}.slice/x".format(pod.replace("-", "_")) if pod else "/system.slice/x.service"
        )
        self.put(path + "/cgroup", "0::{}\n".format(group))
        self.put(
            path + "/mountinfo",
            "22 1 0:5 / /dev rw shared:1 - {} none rw\n7 1 0:6 / /n rw - nfs srv:/ rw\n".format(kind),
        )
        os.makedirs(os.path.join(self.top, path, "fd"))
        for number, (file, mount) in enumerate(files):
            os.symlink(os.path.join(self.top, file), os.path.join(self.top, path, "fd", str(number)))
            self.put("{}/fdinfo/{}".format(path, number), "pos:\t0\nflags:\t02\nmnt_id:\t{}\n".format(mount))

    def found(self):
        node = RealHost(
            Settings(run_dir=self.top),
            proc=os.path.join(self.top, "proc"),
            cgroup="",
            dev=os.path.join(self.top, "dev"),
        )
        return dict(node.device_holders())

    def test_processes_of_pods_with_an_accelerator_are_found_by_its_number(self):
        self.device("container/gpu", GPU)  # by another name
        self.put("container/file")
        self.task("proc/10", UID, ("container/file", 22), ("container/gpu", 22))
        self.task("proc/11", OTHER, ("dev/nvidiactl", 22), ("dev/null", 22))
        self.task("proc/12", "", ("dev/nvidia0", 22))  # the site's own service, or a batch job
        found = self.found()
        self.assertEqual(found, {UID: "process 10 of pod {} has {}/dev/nvidia0".format(UID, self.top)})

    def test_a_process_that_has_ended_has_what_its_threads_have_open(self):
        self.task("proc/10", "", state="Z")
        self.task("proc/10/task/10", "", state="Z")
        self.task("proc/10/task/11", UID, ("dev/dri/renderD128", 22), state="D")
        self.assertEqual(list(self.found()), [UID])

    def test_a_file_of_a_network_is_not_touched(self):
        self.device("nfs/gpu", GPU)
        self.task("proc/10", UID, ("nfs/gpu", 7), ("nfs/gpu", 99))
        self.task("proc/11", OTHER, ("nfs/gpu", 22), kind="fuse.sshfs")
        self.assertEqual(self.found(), {})
        self.assertEqual([path for path in self.stats if "/fd/" in path], [])

    def test_a_machine_without_accelerators_is_not_looked_through(self):
        self.task("proc/10", UID, ("dev/nvidia0", 22))
        with unittest.mock.patch("os.listdir", side_effect=AssertionError("looked through")):
            self.assertEqual(devices.holders(os.path.join(self.top, "proc"), {}), {})


if __name__ == "__main__":
    unittest.main()
