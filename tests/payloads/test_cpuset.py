# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Confinement to housekeeping CPUs: a file tree with the kernel's rules of cgroup v1, and one of v2."""

import contextlib
import errno
import io
import os
import shutil
import tempfile
import unittest
from unittest import mock

from nodeshare.host.cgroups import cpuset
from nodeshare.host.cgroups.cpuset import Cpuset
from nodeshare.model.cpu_list import CpusetError


@contextlib.contextmanager
def kernel_refuses(*values, only=""):
    """Refuse these values as the kernel does where a CPU of them is offline."""
    put = cpuset._put

    def refusing(group, cpus):
        if cpus in values and group.endswith(only):
            raise CpusetError("{}: cannot set {}: Invalid argument".format(group, cpus))
        put(group, cpus)

    with mock.patch.object(cpuset, "_put", refusing):
        yield


@contextlib.contextmanager
def gone(group, code):
    """Answer as the kernel does when this group has been listed and is removed before it can be written."""

    def opened(path, mode="r"):
        if mode == "r+" and path.endswith(group + "/cpuset.cpus"):
            raise OSError(code, os.strerror(code))
        return open(path, mode)

    with mock.patch.object(cpuset, "open", opened, create=True):
        yield


class CpusetCase(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.top)
        self.cpuset = Cpuset(cgroup=self.top, saved=os.path.join(self.top, "saved.json"))

    def group(self, path, cpus):
        directory = os.path.join(self.top, path)
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, "cpuset.cpus"), "w") as stream:
            stream.write(cpus + "\n")
        return directory

    def everything(self):
        """Return all files and folders."""
        return sorted(os.path.join(at, name) for at, folders, files in os.walk(self.top) for name in folders + files)

    def cpus(self, path):
        with open(os.path.join(self.top, path, "cpuset.cpus")) as stream:
            return stream.read().split("\n")[0]

    def v1(self):
        self.group("cpuset", "0-7")
        self.group("cpuset/kubepods", "0-7")
        self.group("cpuset/kubepods/burstable", "0-7")
        self.group("cpuset/kubepods/podx/pinned", "4-5")
        self.group("cpuset/kubepods/podx", "0-7")


class V1(CpusetCase):
    def test_all_groups_are_confined_and_get_back_what_they_had(self):
        self.v1()
        self.cpuset.confine("0")
        self.cpuset.confine("0")
        for path in ("kubepods", "kubepods/burstable", "kubepods/podx", "kubepods/podx/pinned"):
            self.assertEqual(self.cpus("cpuset/" + path), "0")
        self.assertEqual(self.cpus("cpuset"), "0-7")
        self.cpuset.release()
        self.assertEqual(
            [self.cpus("cpuset/kubepods" + path) for path in ("", "/burstable", "/podx", "/podx/pinned")],
            ["0-7", "0-7", "0-7", "4-5"],
        )
        self.assertFalse(os.path.exists(self.cpuset.saved))

    def test_a_group_made_meanwhile_gets_what_its_parent_has(self):
        self.v1()
        self.cpuset.confine("0")
        self.group("cpuset/kubepods/new", "0")
        self.cpuset.release()
        self.assertEqual(self.cpus("cpuset/kubepods/new"), "0-7")

    def test_a_value_that_the_kernel_takes_no_more_becomes_what_the_parent_has_of_it(self):
        self.v1()
        self.cpuset.confine("0")
        self.group("cpuset", "0-3,6-7")  # two CPUs are offline since
        with kernel_refuses("0-7", "4-5"):
            self.cpuset.release()
        self.assertEqual(
            [self.cpus("cpuset/kubepods" + path) for path in ("", "/burstable", "/podx", "/podx/pinned")],
            ["0-3,6-7", "0-3,6-7", "0-3,6-7", "0-3,6-7"],
        )

    def test_one_group_that_cannot_be_given_back_keeps_no_other_and_stays_on_record(self):
        """Each in its turn, the first and the last that is visited too, in whatever order the directory lists them."""
        groups = {"": "0-7", "/burstable": "0-7", "/burstable/poda": "0-7", "/besteffort": "0-7", "/podx": "0-7"}
        groups["/podx/pinned"] = "4-5"
        for refused in groups:
            with self.subTest(refused=refused):
                self.v1()
                self.group("cpuset/kubepods/burstable/poda", "0-7")
                self.group("cpuset/kubepods/besteffort", "0-7")
                self.cpuset.confine("0")
                path = "cpuset/kubepods" + refused
                with kernel_refuses("4-5", "0-7", only=path), self.assertRaisesRegex(CpusetError, path + ":"):
                    self.cpuset.release()
                found = {group: self.cpus("cpuset/kubepods" + group) for group in groups}
                self.assertEqual(found, dict(groups, **{refused: "0"}))
                self.cpuset.release()
                self.assertEqual(self.cpus(path), groups[refused])

    def test_a_group_that_has_gone_meanwhile_is_no_error(self):
        self.v1()
        self.cpuset.confine("0")
        shutil.rmtree(os.path.join(self.top, "cpuset/kubepods/podx"))
        self.cpuset.release()
        self.assertEqual(self.cpus("cpuset/kubepods"), "0-7")

    def test_a_group_that_goes_while_its_list_is_written_is_no_error(self):
        for call in ("confine", "release"):
            for code in (errno.ENOENT, errno.ENODEV):  # gone before the file is opened; after
                with self.subTest(call=call, code=code):
                    self.v1()
                    if call == "release":
                        self.cpuset.confine("0")
                    with gone("podx/pinned", code):
                        self.cpuset.confine("0") if call == "confine" else self.cpuset.release()
                    self.assertEqual(self.cpus("cpuset/kubepods/podx"), "0" if call == "confine" else "0-7")


class V2(CpusetCase):
    def test_the_top_alone_is_set_and_emptied_again(self):
        directory = self.group("kubepods.slice", "")
        with open(os.path.join(directory, "cgroup.controllers"), "w") as stream:
            stream.write("cpuset cpu\n")
        self.group("kubepods.slice/pod1.slice", "")
        self.cpuset.confine("0-1")
        self.assertEqual((self.cpus("kubepods.slice"), self.cpus("kubepods.slice/pod1.slice")), ("0-1", ""))
        self.cpuset.release()
        self.assertEqual(self.cpus("kubepods.slice"), "")


class OfOneWithProcesses(io.TextIOWrapper):
    """A cpuset.cpus of v2 in a group with processes: the kernel takes every list but the empty one."""

    def write(self, text):
        if not text.strip():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(text)


def kernels_open(path, mode="r"):
    if path.endswith("kubepods.slice/cpuset.cpus") and mode == "r+":
        return OfOneWithProcesses(io.BufferedRandom(io.FileIO(path, "r+")), encoding="ascii")
    return open(path, mode)


class V2WithProcesses(CpusetCase):
    """As a kernel of version 6.1 was seen to answer."""

    def setUp(self):
        super().setUp()
        directory = self.group("kubepods.slice", "")
        with open(os.path.join(directory, "cgroup.controllers"), "w") as stream:
            stream.write("cpuset cpu\n")

    def everything_is(self, cpus):
        with open(os.path.join(self.top, "cpuset.cpus.effective"), "w") as stream:
            stream.write(cpus + "\n")

    def test_pods_that_run_on_get_all_cpus_again_although_their_group_cannot_be_emptied(self):
        self.everything_is("0-3")
        with mock.patch("nodeshare.host.cgroups.cpuset.open", kernels_open, create=True):
            for _job in range(2):
                self.cpuset.confine("2-3")
                self.assertEqual(self.cpus("kubepods.slice"), "2-3")
                self.cpuset.release()
                self.assertEqual(self.cpus("kubepods.slice"), "0-3")
                self.assertFalse(os.path.exists(self.cpuset.saved))

    def test_where_nothing_tells_all_cpus_the_refusal_names_the_file(self):
        with mock.patch("nodeshare.host.cgroups.cpuset.open", kernels_open, create=True):
            self.cpuset.confine("2-3")
            with self.assertRaisesRegex(CpusetError, "kubepods.slice/cpuset.cpus: cannot set all CPUs: No space left"):
                self.cpuset.release()


class Absent(CpusetCase):
    def test_a_node_without_pod_cgroups_has_nothing_to_confine(self):
        before = self.everything()
        for call in (lambda: self.cpuset.confine("0"), self.cpuset.release):
            call()
            self.assertEqual(self.everything(), before)

    def test_a_refusal_names_the_file(self):
        directory = self.group("kubepods", "0-3")
        os.unlink(os.path.join(directory, "cpuset.cpus"))
        os.mkdir(os.path.join(directory, "cpuset.cpus"))
        with self.assertRaises(CpusetError) as caught:
            self.cpuset.confine("0")
        self.assertIn(directory, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
