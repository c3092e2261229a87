# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory of ended pods is given back before a job starts: on a simulated node, and by a drawn list of mounts."""

import os
import shutil
import tempfile
import unittest

from handover_case import HandoverCase
from nodeshare.host.host import HostError
from nodeshare.host.pods import volumes
from nodeshare.host.real_host import RealHost
from nodeshare.model import actions
from nodeshare.model.answer import Answer
from nodeshare.model.settings import Settings

UID = "0f0e0d0c-1111-2222-3333-444455556666"
OTHER = "aaaaaaaa-1111-2222-3333-444455556666"
STATIC = "0123456789abcdef0123456789abcdef"
PODS = "/var/lib/kubelet/pods/"


class BeforeAJob(HandoverCase):
    def test_memory_of_ended_pods_is_given_back_and_that_of_staying_ones_is_not(self):
        for handover, api_up, unmounts in (
            ("stop", True, True),
            ("stop", True, False),
            ("quiesce", True, False),
            ("quiesce", False, False),
        ):
            for grace in (0.0, 1.0, None):
                with self.subTest(handover=handover, api_up=api_up, unmounts=unmounts, grace=grace):
                    site = self.site(handover=handover, deadline=5.0)
                    site.node.unmounts = site.node.confirms = unmounts
                    site.node.add("web", in_memory=True, grace=grace)
                    site.node.add("logger", in_memory=True, stays=True)
                    site.repair()  # which hears from the API which pods stay
                    site.node.api_up = api_up
                    self.assertEqual(site.begin().done.outcome, actions.ACCEPT)
                    self.assert_free(site)
                    self.assertEqual(list(site.node.volumes), ["logger"])

    def test_a_living_kubelet_keeps_what_it_has_mounted_for_a_pod_that_begins(self):
        site = self.site()
        site.node.add("web")
        daemon = site.node.add("daemon", in_memory=True, stays=True)
        daemon.known = daemon.running = False  # its first container comes after its volumes
        site.begin()
        self.assertEqual(list(site.node.volumes), ["daemon"])

    def test_switched_off_the_node_gives_back_all_of_it(self):
        site = self.site()
        site.node.unmounts = False
        site.node.add("web", in_memory=True)
        site.node.add("logger", in_memory=True, stays=True)
        site.act(actions.OFF)
        self.assertEqual(site.node.volumes, {})

    def test_what_cannot_be_unmounted_is_said_and_keeps_no_job_out(self):
        site = self.site(handover="stop")
        site.node.unmounts = site.node.confirms = False
        site.node.add("web", in_memory=True)

        def busy(uids):
            raise HostError("memory of ended pods stays in use: cannot unmount " + uids[0])

        site.node.unmount = busy
        told = site.begin()
        self.assertEqual(told.done.outcome, actions.ACCEPT)
        self.assertIn("cannot unmount web", " ".join(told.remarks))
        self.assert_free(site)


class Mounts(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.top)
        os.mkdir(os.path.join(self.top, "self"))
        self.calls = []
        self.stuck = ()

    def mount(self, *mounts):
        with open(os.path.join(self.top, "self/mountinfo"), "w") as stream:
            for number, (path, kind) in enumerate(mounts):
                options = "shared:{} ".format(number) if number % 2 else ""
                stream.write("{} 1 0:{} / {} rw {}- {} none rw\n".format(number, number, path, options, kind))
        self.mounts = mounts

    def node(self):
        def run(argv, _seconds):
            self.calls.append(argv)
            self.mount(*(one for one in self.mounts if one[0] not in argv[2:] or one[0] in self.stuck))
            return Answer(0, "", "")

        return RealHost(Settings(run_dir=self.top, state_dir=self.top), proc=self.top, cgroup=self.top, run=run)

    def test_volumes_in_memory_are_told_by_pod_and_nothing_else_is(self):
        shm = PODS + UID + "/volumes/kubernetes.io~empty-dir/shm"
        part = PODS + UID + "/volume-subpaths/shm/app/0"
        huge = PODS + STATIC + "/volumes/kubernetes.io~empty-dir/huge"
        elsewhere = "/data\\040disk/kubelet/pods/" + OTHER + "/volumes/kubernetes.io~empty-dir/x"
        self.mount(
            (shm, "tmpfs"),
            (part, "tmpfs"),
            (huge, "hugetlbfs"),
            (elsewhere, "tmpfs"),
            (PODS + OTHER + "/volumes/kubernetes.io~projected/token", "tmpfs"),
            (PODS + OTHER + "/volumes/kubernetes.io~csi/pvc/mount", "nfs"),
            (PODS + OTHER + "/volumes/kubernetes.io~empty-dir/disk", "ext4"),
            ("/home/alice/pods/x/volumes", "tmpfs"),
            ("/dev/shm", "tmpfs"),
            ("/run", "tmpfs"),
        )
        self.assertEqual(
            volumes.find(self.top),
            {UID: (shm, part), STATIC: (huge,), OTHER: (elsewhere.replace("\\040", " "),)},
        )
        self.node().unmount((UID, STATIC))
        self.assertEqual(self.calls, [("umount", "--", *sorted((shm, part, huge), key=len, reverse=True))])
        self.assertEqual(self.node().mounted(), {OTHER})

    def test_a_mount_that_stays_is_an_error_that_names_it_and_one_that_is_gone_is_none(self):
        shm = PODS + UID + "/volumes/kubernetes.io~empty-dir/shm"
        self.mount((shm, "tmpfs"))
        self.stuck = (shm,)
        with self.assertRaisesRegex(HostError, "cannot unmount " + shm):
            self.node().unmount((UID,))
        self.mount()
        self.calls.clear()
        self.node().unmount((UID,))
        self.assertEqual(self.calls, [])


if __name__ == "__main__":
    unittest.main()
