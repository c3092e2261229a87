# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signs of life: step daemons on the node, and Slurm's answers word for word."""

import os
import shutil
import tempfile
import unittest

from nodeshare.batch import slurm
from nodeshare.host import job_liveness
from nodeshare.model import answer
from nodeshare.model.actions import ENDING, GONE, LIVE
from nodeshare.model.jobs.job_key import JobKey
from nodeshare.model.jobs.lease import Lease


def lease(job="4711", run=0, *, wlm="slurm", boot="b", corrupt=False):
    return Lease(JobKey(wlm, job, run), boot, 0.0, corrupt=corrupt)


class Life(unittest.TestCase):
    def setUp(self):
        self.proc = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.proc)

    def process(self, pid, title, user=None):
        os.mkdir(os.path.join(self.proc, str(pid)))
        with open(os.path.join(self.proc, str(pid), "cmdline"), "w") as stream:
            stream.write(title)
        with open(os.path.join(self.proc, str(pid), "status"), "w") as stream:
            stream.write("Name:\tx\nUid:\t{0}\t{0}\t{0}\t{0}\n".format(os.getuid() if user is None else user))

    def life(self, one):
        return job_liveness.life((one,), boot_id="b", proc=self.proc)[str(one.key)]

    def test_a_job_lives_where_a_step_daemon_carries_its_id(self):
        for pid, title in ((1, "init"), (2, "slurmstepd: [4711.batch]"), (3, "slurmstepd: [12.extern]")):
            self.process(pid, title)
        self.process(4, "bash\0-c\0slurmstepd: [99.0]")
        self.process(6, "slurmstepd: [98.0]", user=os.getuid() + 1)
        os.mkdir(os.path.join(self.proc, "5"))
        self.assertTrue(self.life(lease("4711")))
        self.assertTrue(self.life(lease("12")))
        for job in ("1", "47", "98", "99"):
            self.assertFalse(self.life(lease(job)))

    def test_what_cannot_be_told_from_here_is_not_told(self):
        self.assertIsNone(self.life(lease("12.srv", wlm="pbs")))
        self.assertIsNone(self.life(lease("1_2")))
        self.assertIsNone(self.life(lease("x", wlm="unknown", boot="", corrupt=True)))

    def test_no_process_outlives_its_boot(self):
        self.assertFalse(self.life(lease("12.srv", wlm="pbs", boot="earlier")))


class Asking(unittest.TestCase):
    def ask(self, one, code=0, out="", err=""):
        asked = []

        def run(argv):
            asked.append(argv)
            return answer.Answer(code, out, err)

        answers = slurm.ask_slurm((one,), squeue="/usr/bin/squeue", run=run)
        return answers.get(str(one.key)), asked

    def test_states_of_the_same_run_and_of_later_ones(self):
        for state, restarts, verdict in (
            ("RUNNING", 0, LIVE),
            ("CONFIGURING", 0, LIVE),
            ("COMPLETING", 0, ENDING),
            ("SUSPENDED", 0, LIVE),
            ("COMPLETED", 0, GONE),
            ("CANCELLED", 0, GONE),
            ("NODE_FAIL", 0, GONE),
            ("PENDING", 0, None),
            ("RUNNING", 1, GONE),
            ("PENDING", 1, GONE),
            ("SOMETHING_NEW", 0, None),
        ):
            with self.subTest(state=state, restarts=restarts):
                out = "{:<20}{:<20}{:<12}\n".format(4711, state, restarts)
                self.assertEqual(self.ask(lease(), out=out)[0], verdict)

    def test_only_a_clear_word_about_this_job_counts_as_gone(self):
        self.assertEqual(self.ask(lease(), 1, err="slurm_load_jobs error: Invalid job id specified\n")[0], GONE)
        silence = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
        for err in (silence, "", "Segmentation"):
            with self.subTest(err=err):
                self.assertIsNone(self.ask(lease(), 1, err=err)[0])
        for out in ("", "1 COMPLETED 0\n", "4711 COMPLETED\n", "4711 COMPLETED x\n", "4711 COMPLETED 0 RUNNING\n"):
            with self.subTest(out=out):
                self.assertIsNone(self.ask(lease(), 0, out=out)[0])

    def test_a_job_that_goes_on_without_this_node_is_over_here(self):
        silence = "slurm_load_node error: Unable to contact slurm controller (connect failure)\n"
        for state, here, verdict in (
            ("RUNNING", answer.Answer(0, "", ""), GONE),
            ("RUNNING", answer.Answer(0, "4711 RUNNING 0\n", ""), LIVE),
            ("COMPLETING", answer.Answer(0, "\n", ""), GONE),
            ("COMPLETING", answer.Answer(0, "4711 COMPLETING 0\n", ""), ENDING),
            ("RUNNING", answer.Answer(1, "", silence), LIVE),
            ("RUNNING", answer.Answer(1, "", "squeue: error: Invalid node name n7\n"), LIVE),
        ):
            with self.subTest(state=state, here=here):
                answers = [here, answer.Answer(0, "4711 {} 0\n".format(state), "")]
                found = slurm.ask_slurm((lease(),), squeue="squeue", run=lambda _argv, answers=answers: answers.pop())
                self.assertEqual((found, answers), ({"slurm/4711/0": verdict}, []))

    def test_a_job_that_only_stages_out_has_left_its_nodes(self):
        self.assertEqual(self.ask(lease(), out="4711 STAGE_OUT 0\n")[0], GONE)

    def test_the_words_of_a_question_are_this_host_and_the_checked_id_of_a_job_of_this_cluster(self):
        asked = []

        def run(argv):
            asked.append(argv)
            return answer.Answer(0, "4711 RUNNING 0\n", "")

        for one in (lease(), lease("1_2"), lease("1.srv", wlm="pbs")):
            slurm.ask_slurm((one,), squeue="/usr/bin/squeue", run=run, here="n7.example.com")
        words = ("--noheader", "--local", "--states=all", "--Format=JobID:20,State:20,RestartCnt:12", "--jobs=4711")
        question = ("/usr/bin/squeue", *words)
        self.assertEqual(asked, [question, (*question, "--nodelist=n7")])


if __name__ == "__main__":
    unittest.main()
