# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes of pods, found through /proc and cgroups: in drawn trees, and real ones that are really killed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from nodeshare.host.pods.processes import Workloads
from running import still_running

UID = "0f0e0d0c-1111-2222-3333-444455556666"
OTHER = "aaaaaaaa-1111-2222-3333-444455556666"
HASH = "0123456789abcdef0123456789abcdef"


class Drawn(unittest.TestCase):
    """A /proc and a /sys/fs/cgroup as files."""

    def setUp(self):
        self.top = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.top)
        for name in ("proc", "cgroup", "bundles"):
            os.mkdir(os.path.join(self.top, name))
        self.workloads = Workloads(
            proc=os.path.join(self.top, "proc"),
            cgroup=os.path.join(self.top, "cgroup"),
            bundles=os.path.join(self.top, "bundles"),
        )

    def put(self, path, text):
        path = os.path.join(self.top, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as stream:
            stream.write(text)

    def process(self, pid, *, parent=1, name="app", state="S", cgroup="/", arguments=(), user=None):
        user = os.getuid() if user is None else user
        self.put("proc/{}/status".format(pid), "Name:\t{}\nUid:\t{}\t0\t0\t0\n".format(name, user))
        self.put("proc/{}/stat".format(pid), "{} ({}) {} {} 0 0".format(pid, name, state, parent))
        self.put("proc/{}/cgroup".format(pid), "4:memory:{}\n0::/\n".format(cgroup))
        self.put("proc/{}/cmdline".format(pid), "\0".join(arguments))

    def shim(self, pid, sandbox="abc", *, namespace="k8s.io", user=None):
        self.process(
            pid,
            user=user,
            name="containerd-shim",
            arguments=(
                "/usr/bin/containerd-shim-runc-v2",
                "-namespace",
                namespace,
                "-id",
                sandbox,
                "-address",
                "/run/x.sock",
            ),
        )

    def found(self):
        return {uid: sorted(workload.pids) for uid, workload in self.workloads.find().items()}

    def test_a_pod_is_found_by_its_cgroup_under_every_layout(self):
        layouts = (
            ("memory/kubepods/burstable/pod{}/c1", UID),
            ("kubepods/pod{}/c1", UID),
            (
                "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{}.slice/cri-containerd-x.scope",
                UID.replace("-", "_"),
            ),
            ("kubepods/burstable/pod{}/c1", HASH),
        )
        for layout, written in layouts:
            with self.subTest(layout=layout):
                self.put("cgroup/" + layout.format(written) + "/cgroup.procs", "70\n71\n")
                self.process(70)
                self.process(71, state="Z")
                self.assertEqual(self.found(), {written.replace("_", "-"): [70]})
                shutil.rmtree(os.path.join(self.top, "cgroup"))

    def test_a_pod_without_cgroups_is_found_by_its_shim_and_bundle(self):
        self.shim(60, "sandbox1")
        self.process(61, parent=60, name="pause")
        self.process(62, parent=60)
        self.process(63, parent=62)
        self.put("bundles/sandbox1/config.json", json.dumps({"annotations": {"io.kubernetes.cri.sandbox-uid": UID}}))
        workload = self.workloads.find()[UID]
        self.assertEqual(
            (sorted(workload.pids), sorted(workload.inits), sorted(workload.shims)), ([61, 62, 63], [62], [60])
        )

    def test_a_shim_whose_pod_cannot_be_told_is_found_all_the_same(self):
        self.shim(60, "../../etc")
        self.process(61, parent=60)
        self.assertEqual(self.found(), {"sandbox-../../etc": [61]})

    def test_shims_of_other_clients_and_shims_without_processes_are_nobodys_pods(self):
        self.shim(60, namespace="moby")
        self.process(61, parent=60)
        self.shim(70)
        self.process(71, parent=70, state="Z")
        self.assertEqual(self.found(), {})

    def test_what_a_batch_user_calls_a_shim_is_no_pod(self):
        self.shim(60, user=os.getuid() + 1)
        self.process(61, parent=60)
        self.assertEqual(self.found(), {})

    def test_containers_of_podman_which_batch_jobs_may_run_are_nobodys_pods(self):
        """Both words as the two programs are called: CRI-O 1.32, Podman 4.3."""
        name = "k8s_web_web-0_default_{}_0".format(UID)
        self.process(60, name="conmon", arguments=("/usr/bin/conmon", "-b", "/run/b", "-c", "abc", "-n", name, "-s"))
        self.process(61, parent=60)
        self.process(70, name="conmon", arguments=("/usr/bin/conmon", "--api-version", "1", "-c", "abd", "-n", "job"))
        self.process(71, parent=70)
        self.assertEqual(self.found(), {"sandbox-abc": [61]})

    def test_processes_of_a_pod_outlive_their_shim_in_its_cgroup(self):
        self.put("cgroup/kubepods/pod{}/c1/cgroup.procs".format(UID), "80\n")
        self.process(80, parent=1)
        self.assertEqual(self.found(), {UID: [80]})

    def test_pods_are_found_although_a_former_cgroup_driver_or_a_pod_that_ended_has_left_empty_cgroups(self):
        pod = "/kubepods.slice/kubepods-pod{}.slice/cri-containerd-x.scope/cgroup.procs".format(UID.replace("-", "_"))
        self.process(80, parent=1)
        for mine, left in (
            ("", "kubepods"),
            ("memory", "memory/kubepods"),
            ("memory", "kubepods"),
            ("pids", "memory/kubepods.slice"),
            ("cpu", "memory/kubepods/pod{}".format(OTHER)),
        ):
            with self.subTest(mine=mine, left=left):
                self.put("cgroup/" + mine + pod, "80\n")
                self.put("cgroup/{}/cgroup.procs".format(left), "")
                self.assertEqual(self.found(), {UID: [80]})
                shutil.rmtree(os.path.join(self.top, "cgroup"))

    def test_hostile_process_names_and_vanishing_processes_do_no_harm(self):
        self.process(90, name="a) S 60 (b")
        self.process(91, name="")
        os.mkdir(os.path.join(self.top, "proc/92"))
        self.put("proc/93/stat", "")
        self.assertEqual(self.found(), {})


class Real(unittest.TestCase):
    """Real processes below a real parent that is called containerd-shim."""

    def setUp(self):
        self.top = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.top)
        self.workloads = Workloads(cgroup=os.path.join(self.top, "none"), bundles=os.path.join(self.top, "bundles"))

    def pod(self, body):
        """A shim with one container; the child says `up` when it is ready."""
        program = os.path.join(self.top, "containerd-shim-runc-v2")
        shutil.copy("/bin/bash", program)
        child = "import signal, sys, time, os\n{}\nprint('up', flush=True)\ntime.sleep(300)\n".format(body)
        shim = subprocess.Popen(
            [
                program,
                "-c",
                '"$PYTHON" -c "$CHILD" & wait; sleep 0.1',
                "-namespace",
                "k8s.io",
                "-id",
                "test{}".format(os.getpid()),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PYTHON": sys.executable, "CHILD": child, "PATH": "/usr/bin:/bin"},
        )
        self.addCleanup(self.reap, shim)
        self.assertEqual(shim.stdout.readline(), b"up\n")
        return "sandbox-test{}".format(os.getpid())

    @staticmethod
    def reap(shim):
        shim.kill()
        shim.wait()
        shim.stdout.close()

    def gone(self, uid, seconds):
        give_up = time.monotonic() + seconds
        while uid in self.workloads.find():
            if time.monotonic() > give_up:
                return False
            time.sleep(0.02)
        return True

    def test_a_polite_pod_ends_when_asked(self):
        uid = self.pod("")
        self.assertIn(uid, self.workloads.find())
        self.workloads.terminate((uid,))
        self.assertTrue(self.gone(uid, 120))

    def test_a_deaf_pod_with_children_is_killed_as_a_whole(self):
        uid = self.pod("signal.signal(signal.SIGTERM, signal.SIG_IGN)\nfor _ in range(3): os.fork() or time.sleep(300)")
        self.workloads.terminate((uid,))
        self.assertFalse(self.gone(uid, 0.3))
        pids = self.workloads.find()[uid].pids
        self.assertGreater(len(pids), 3)
        self.workloads.kill((uid,), seconds=60)
        self.assertTrue(self.gone(uid, 120))
        # A process is below the shim no more when its parent has ended, although the kernel may still have to end it.
        self.assertEqual(still_running(pids, 60), [])

    def test_what_a_runtime_has_frozen_is_thawed_to_die(self):
        """A file stands for the freezer here; the real one is in the tests end to end."""
        process = subprocess.Popen(["sleep", "300"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        states = {}
        for uid, procs in ((UID, "{}\n".format(process.pid)), (OTHER, "")):
            for hierarchy, name, text in (("memory", "cgroup.procs", procs), ("freezer", "freezer.state", "FROZEN")):
                directory = os.path.join(self.top, "cgroup", hierarchy, "kubepods/besteffort/pod" + uid, "c1")
                os.makedirs(directory)
                states[uid] = os.path.join(directory, name)
                with open(states[uid], "w") as stream:
                    stream.write(text)
        Workloads(cgroup=os.path.join(self.top, "cgroup")).kill((UID,), seconds=10)
        self.assertEqual(process.wait(120), -signal.SIGKILL)
        found = {}
        for uid, path in states.items():
            with open(path) as stream:
                found[uid] = stream.read()
        self.assertEqual(found, {UID: "THAWED", OTHER: "FROZEN"})

    def test_nobody_else_is_signalled(self):
        bystander = subprocess.Popen(["sleep", "300"])
        self.addCleanup(bystander.wait)
        self.addCleanup(bystander.kill)
        uid = self.pod("")
        self.workloads.kill((uid,), seconds=60)
        self.assertIsNone(bystander.poll())
        self.workloads.kill(("unknown",), seconds=0.1)
        self.workloads.terminate(("unknown",))
        self.assertIsNone(bystander.poll())


if __name__ == "__main__":
    unittest.main()
