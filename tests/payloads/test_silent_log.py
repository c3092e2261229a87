# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A system log that takes nothing: no job waits for its line."""

import contextlib
import io
import json
import os
import select
import shutil
import syslog
import unittest
import unittest.mock

import hand_over
from nodeshare.run import cli
from simulation import Site, quick_directory


class SilentLog(unittest.TestCase):
    def setUp(self):
        self.top = quick_directory()
        self.addCleanup(shutil.rmtree, self.top)
        empty, self.end = os.pipe()
        self.addCleanup(os.close, empty)
        self.addCleanup(os.close, self.end)
        self.waited_out = False

        def blocks(*_line):
            """Wait as a full socket has one wait, through every signal."""
            select.select([empty], [], [], 300.0)
            self.waited_out = True

        for where, seconds in ((cli, 0.1), (hand_over, 0.1)):
            change = unittest.mock.patch.object(where, "TELL_SECONDS", seconds)
            change.start()
            self.addCleanup(change.stop)
        change = unittest.mock.patch.object(syslog, "syslog", blocks)
        change.start()
        self.addCleanup(change.stop)

    def test_a_begin_answers_although_the_log_takes_nothing(self):
        path = os.path.join(self.top, "nodeshare.json")
        for on_failure, code in (("accept", 0), ("requeue", 75)):
            with open(path, "w") as stream:
                json.dump({"node": "n1", "mode": "unknown", "on_failure": on_failure, "state_dir": self.top}, stream)
            site = Site(os.path.join(self.top, "state"))
            words = ["--settings", path, "begin", "--wlm", "slurm", "--job", "1"]
            self.assertEqual(cli.main(words, make_world=lambda _settings, site=site: site.node), code)
        self.assertFalse(self.waited_out)

    def test_wrong_words_are_answered_although_the_log_takes_nothing(self):
        with contextlib.redirect_stderr(io.StringIO()):
            cli.main(["--settings", os.path.join(self.top, "none"), "begin", "--frob"], make_world=None)
        self.assertFalse(self.waited_out)

    def test_a_hand_over_ends_although_the_log_takes_nothing(self):
        environ = {"SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": "n1"}
        hand_over.main(["prolog", os.path.join(self.top, "no-socket"), "1"], environ)
        self.assertFalse(self.waited_out)


if __name__ == "__main__":
    unittest.main()
