# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clean-up of Singularity-CRI: what it removes, and what it must never touch."""

import contextlib
import io
import os
import shutil
import socket
import tempfile
import unittest

import sycri_clean

MOUNTS = """\
22 1 0:20 / / rw - ext4 /dev/sda1 rw
30 22 0:25 / /run/singularity/containers/a/rootfs rw - overlay overlay rw
31 30 0:26 / /run/singularity/containers/a/rootfs/with\\040blank rw - tmpfs tmpfs rw
32 22 0:27 / /run/singularity-other/containers rw - tmpfs tmpfs rw
"""


class Cleaning(unittest.TestCase):
    def setUp(self):
        self.top = os.path.realpath(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.top)
        self.run_dir = os.path.join(self.top, "run", "singularity")
        self.socket = os.path.join(self.top, "run", "s.sock")

    def file(self, *parts):
        path = os.path.join(self.top, *parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as stream:
            stream.write("x")
        return path

    def clean(self, *networks):
        return sycri_clean.clean(self.socket, self.run_dir, networks, root=self.top)

    def test_mounts_below_the_run_directory_come_last_first(self):
        below = sycri_clean.mounts_below("/run/singularity", MOUNTS)
        self.assertEqual(
            below,
            ["/run/singularity/containers/a/rootfs/with blank", "/run/singularity/containers/a/rootfs"],
        )

    def test_everything_of_ended_pods_goes(self):
        self.file("run/singularity/pods/p/config.json")
        self.file("run/singularity/containers/c/log")
        self.file("root/.singularity/instances/oci/node/root/c/c.json")
        self.file("var/lib/cni/networks/converged/10.244.1.2")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(self.socket)
        self.assertEqual(self.clean("converged"), [])
        for gone in ("run/singularity", "run/s.sock", "var/lib/cni/networks"):
            self.assertFalse(os.path.exists(os.path.join(self.top, gone)), gone)
        self.assertEqual(os.listdir(os.path.join(self.top, "root/.singularity/instances/oci/node")), [])

    def test_what_belongs_to_others_stays(self):
        mine = [
            self.file("run/singularity/notes"),
            self.file("var/lib/cni/networks/other/10.1.0.2"),
            self.file("root/.singularity/instances/sing/job"),
            self.file("run/s.sock"),  # not a socket: somebody named a file
        ]
        self.assertEqual(self.clean("converged"), [])
        self.assertTrue(all(os.path.exists(path) for path in mine))

    def test_a_socket_of_another_program_that_listens_stays(self):
        os.makedirs(os.path.dirname(self.socket))
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(self.socket)
            listening.listen()
            self.assertEqual(self.clean(), [self.socket + ": another program listens there, so it was left"])
            with socket.socket(socket.AF_UNIX) as caller:
                caller.connect(self.socket)

    def test_it_does_nothing_twice_and_nothing_on_a_fresh_node(self):
        self.assertEqual(self.clean("converged"), [])
        self.assertEqual(self.clean("converged"), [])

    def test_arguments_that_could_reach_half_the_system_are_refused(self):
        for argv in (
            ["--socket", "/run/s.sock", "--run-dir", "/run"],
            ["--socket", "/run/s.sock", "--run-dir", "/run/../etc"],
            ["--socket", "run/s.sock", "--run-dir", "/run/x"],
            ["--socket", "/run/s.sock", "--run-dir", "/run/x", "--network", "../networks"],
        ):
            with self.subTest(argv=argv), contextlib.redirect_stderr(io.StringIO()):
                with self.assertRaises(SystemExit) as raised:
                    sycri_clean.main(argv)
                self.assertEqual(raised.exception.code, 2)


if __name__ == "__main__":
    unittest.main()
