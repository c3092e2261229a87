# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs as nodeshare runs them, on nodes and for the controller: bounded in time and in what they say."""

import os
import shutil
import tempfile
import unittest

from nodeshare.host.command import LONGEST_ERROR, TooLongError, run_bounded
from nodeshare.host.host import HostError
from nodeshare.host.real_host import run_command


class Commands(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)

    def sh(self, text, **bounds):
        return run_bounded(("/bin/sh", "-c", text, "sh", self.directory), **dict({"seconds": 300.0}, **bounds))

    def ended(self):
        """Whether the program that wrote its number is gone, or about to be."""
        with open(os.path.join(self.directory, "pid")) as stream:
            path = "/proc/{}/stat".format(stream.read().strip())
        for _ in range(10**6):
            try:
                with open(path) as stream:
                    if stream.read().rpartition(")")[2].split()[0] == "Z":
                        return True
            except OSError:
                return True
        return False

    def test_code_and_both_outputs_are_returned_and_nothing_of_our_environment_goes_on(self):
        os.environ["JOB_OWNER"] = "x"
        self.addCleanup(os.environ.pop, "JOB_OWNER")
        answer = self.sh("echo \"out $JOB_OWNER\"; printf 'err\\377' >&2; exit 7")
        self.assertEqual(answer, (7, "out \n", "err\ufffd"))

    def test_an_answer_without_end_is_cut_off_and_its_program_ends_with_all_that_it_started(self):
        with self.assertRaisesRegex(TooLongError, "more than 1000 bytes"):
            self.sh("echo $$ > $1/pid; yes & yes", longest=1000)
        self.assertTrue(self.ended())
        self.assertEqual(len(self.sh("head -c 1000 /dev/zero", longest=1000).out), 1000)

    def test_errors_without_end_fill_no_memory(self):
        answer = self.sh("head -c 10000000 /dev/zero >&2; echo done")
        self.assertEqual((answer.out, len(answer.err)), ("done\n", LONGEST_ERROR))

    def test_a_program_that_hangs_or_whose_child_keeps_the_pipe_is_ended_in_time(self):
        for text in ("exec sleep 1000", "sleep 1000 &", "exec >&- 2>&-; exec sleep 1000"):
            with self.subTest(text), self.assertRaisesRegex(OSError, "no end within 0.5 s"):
                self.sh("echo $$ > $1/pid; " + text, seconds=0.5)
            self.assertTrue(self.ended())

    def test_a_node_ends_a_program_in_time_with_the_child_that_keeps_its_pipe(self):
        text = "sleep 1000 & echo $! > $1/pid; exec sleep 1000"
        with self.assertRaisesRegex(HostError, "/bin/sh -c: no end within 0.5 s"):
            run_command(("/bin/sh", "-c", text, "sh", self.directory), 0.5)
        self.assertTrue(self.ended())

    def test_a_program_that_is_not_there_is_named(self):
        with self.assertRaisesRegex(OSError, "/none: No such file"):
            run_bounded(("/none",))


if __name__ == "__main__":
    unittest.main()
