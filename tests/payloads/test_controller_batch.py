# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Slurm's programs print, in our words; what is cut off, odd or too much is refused, and never read as "none"."""

import json
import os
import shutil
import tempfile
import time
import unittest

from nodeshare.batch import hostlist
from nodeshare.controller import settings
from nodeshare.controller.batch import slurm as cluster_batch
from nodeshare.controller.batch.maintenance import is_maintenance
from nodeshare.model.answer import Answer
from nodeshare.model.settings import SettingsError
from nodeshare.run import arguments


def slurm(run, remarks=None):
    remark = [].append if remarks is None else remarks.append
    return cluster_batch.SlurmBatch(run=run, squeue="q", sinfo="i", scontrol="s", host="h", names={}, remark=remark)


class Hostlists(unittest.TestCase):
    def test_lists_become_names(self):
        cases = (
            ("n1", ["n1"]),
            ("n[1-3]", ["n1", "n2", "n3"]),
            ("n[08-10],login", ["n08", "n09", "n10", "login"]),
            ("r[1-2]n[1,3]", ["r1n1", "r1n3", "r2n1", "r2n3"]),
            ("n[1-2]-ib", ["n1-ib", "n2-ib"]),
            ("n1,n1", ["n1"]),
            ("a[1-2]b[3-4]c[5-6]", ["a1b3c5", "a1b3c6", "a2b3c5", "a2b3c6", "a1b4c5", "a1b4c6", "a2b4c5", "a2b4c6"]),
            ("", []),
        )
        for text, names in cases:
            with self.subTest(text):
                self.assertEqual(list(hostlist.expand(text)), names)

    def test_what_is_no_list_is_refused_and_a_bomb_at_once(self):
        bombs = ("n[1-9999999]", "n[1-60000][1-60000]", "n[1-65536],m[1-2]", "n" * (2 << 20))
        for text in (*bombs, "n[1", "n1]", "n[[1]]", "n[a-b]", "n[]", "a b", "-rf", "$(id)", "n1\n", "n[3-1]x y"):
            with self.subTest(text[:40]), self.assertRaises(hostlist.HostlistError):
                hostlist.expand(text)

    def test_one_odd_name_hides_no_other(self):
        cases = (
            ("n[1-2],a b,m3", ["n1", "n2", "m3"]),
            ("n1,n[a-b],r[1-2]n[3,5]", ["n1", "r1n3", "r1n5", "r2n3", "r2n5"]),
            ("n1,n[1-9999999],n2", ["n1", "n2"]),
            ("n[1", []),
        )
        for text, names in cases:
            with self.subTest(text):
                found, odd = hostlist.expand_readable(text)
                self.assertEqual((list(found), bool(odd)), (names, True))
        self.assertEqual(hostlist.expand_readable("n[1-2]"), (("n1", "n2"), ""))


class Answers(unittest.TestCase):
    def test_the_list_of_jobs_knows_who_holds_and_who_ends(self):
        text = "7^0^RUNNING^n[1-2]^\n8^2^CONFIGURING^n3^\n9^0^PENDING^^\n10^0^COMPLETING^n1^\n11^0^COMPLETED^n1^\n"
        holding, ending = cluster_batch.job_list(text)
        self.assertEqual(holding, {"slurm/7/0": {"n1", "n2"}, "slurm/8/2": {"n3"}})
        self.assertEqual(ending, {"slurm/10/0"})

    def test_a_job_that_only_stages_out_holds_no_node_and_is_not_asked_for(self):
        self.assertEqual(cluster_batch.job_list("7^0^STAGE_OUT^n[1-2]^\n"), ({}, frozenset()))
        self.assertNotIn("STAGE_OUT", cluster_batch.STATES)

    def test_an_answer_that_is_not_whole_is_no_answer(self):
        for text in ("7^0^RUNNING^n1^", "7^0^RUNNING\n", "x^0^RUNNING^n1^\n", "7^0^RUNNING^n[1^\n"):
            with self.subTest(text), self.assertRaises(ValueError):
                cluster_batch.job_list(text)
        for text in ("", "n1^idle^", "No nodes in the system\n", "n1^idle\n", "\n"):
            with self.subTest(text), self.assertRaises(ValueError):
                cluster_batch.node_states(text)

    def test_states_that_close_a_node_are_told_with_the_administrators_reason(self):
        cases = (
            ("idle", ""),
            ("mixed+planned", ""),
            ("allocated+completing", ""),
            ("idle+cloud", ""),
            ("idle+drain", "DRAIN"),
            ("idle+maintenance+reserved", "MAINTENANCE"),
            ("mixed+reboot_requested", "REBOOT_REQUESTED"),
            ("down+reboot_issued+not_responding", "DOWN+REBOOT_ISSUED+NOT_RESPONDING"),
            ("idle+powered_down", "POWERED_DOWN"),
        )
        for state, told in cases:
            with self.subTest(state):
                self.assertEqual(cluster_batch.node_states("n1^{}^\n".format(state)), ({"n1": told}, ""))
        text = "n[1,4]^bad \u00e9 ^disk [root@2026-01-01T00:00:00]^\nn2^none^\nn3^^\n"
        self.assertEqual(cluster_batch.node_reasons(text), dict.fromkeys(("n1", "n4"), "bad \\xe9 ^disk"))

    def test_no_text_of_a_slurmd_or_a_reason_tells_the_state_of_another_node(self):
        said = {
            cluster_batch.NODE_FIELDS: "n5^idle^\nn9^idle+drain^\n",
            cluster_batch.REASON_FIELDS: "n9^disk\nn5^down\nn5 ^x^\n^\n",
        }
        asked = []

        def run(argv):
            asked.append(argv)
            return Answer(0, said[argv[-1]], "")

        batch = slurm(run)
        self.assertEqual(batch.states(), {"n5": "", "n9": "DRAIN: disk"})
        self.assertEqual({argv[0] for argv in asked}, {"i"}, "scontrol show node has words of the slurmd")
        said[cluster_batch.REASON_FIELDS] = ""
        self.assertEqual(batch.states(), {"n5": "", "n9": "DRAIN"})

    def test_one_node_that_cannot_be_read_keeps_its_state_and_the_others_are_read(self):
        texts = ["n5^idle+drain^\nn[8-9]^idle^\n", "n5 x^down^y\nn[8-9],$(id),n[3^down^\n"]
        remarks = []
        batch = slurm(lambda argv: Answer(0, texts[0] if argv[-1] == cluster_batch.NODE_FIELDS else "", ""), remarks)
        self.assertEqual(batch.states(), {"n5": "DRAIN", "n8": "", "n9": ""})
        del texts[0]
        self.assertEqual(batch.states(), {"n5": "DRAIN", "n8": "DOWN", "n9": "DOWN"})
        self.assertIn("n5 x^down^y", remarks[0])

    def test_a_reason_that_cannot_be_told_is_no_change(self):
        codes = [0]

        def run(argv):
            if argv[-1] == cluster_batch.NODE_FIELDS:
                return Answer(0, "n1^idle+drain^\n", "")
            return Answer(codes[0], "n1^disk^\n" if codes[0] == 0 else "", "")

        batch = slurm(run, [])
        self.assertEqual(batch.states(), {"n1": "DRAIN: disk"})
        codes[0] = 1
        self.assertEqual(batch.states(), {"n1": "DRAIN: disk"})

    def test_pending_jobs_and_tasks_are_not_asked_for(self):
        asked = []
        slurm(lambda argv: asked.append(argv) or Answer(0, "", "")).jobs()
        states = next(word for word in asked[0] if word.startswith("--states=")).partition("=")[2].split(",")
        self.assertEqual(set(states), cluster_batch.HOLDING | cluster_batch.ENDING)
        self.assertNotIn("PENDING", states)
        self.assertIn("--local", asked[0], "jobs of other clusters of a federation hold nothing here")

    def test_plans_become_the_earliest_start_of_each_node_and_what_is_odd_is_no_plan(self):
        jobs = "2099-11-23T12:00:00^n[1-2]^\n2099-11-23T11:00:00^n2^\nN/A^n3^\n2099-11-23T11:00:00^^\nx\n"
        jobs += "2099-11-23T11:00:00^n[1-99999999]^\n2099-11-23T11:00:00^(null)^\n"
        text = "ReservationName=a StartTime={} EndTime=2099-11-24T10:00:00 Duration=1-00:00:00 Nodes={} NodeCnt=1\n"
        reservations = text.format("2099-11-23T10:00:00", "n1") + text.format("2099-11-23T10:00:00", "(null)")
        reservations += "No reservations in the system\n"
        said = {"q": Answer(0, jobs, ""), "s": Answer(0, reservations, "")}
        found = slurm(lambda argv: said[argv[0]]).starts()
        hours = {name: time.strftime("%d %H:%M", time.localtime(at)) for name, at in found.items()}
        self.assertEqual(hours, {"n1": "23 10:00", "n2": "23 11:00"})
        for program in said:
            self.assertIsNone(
                slurm(lambda argv, at=program: Answer(1, "", "") if argv[0] == at else said[argv[0]]).starts()
            )

    def test_ends_are_those_of_jobs_with_a_limit_and_what_is_odd_has_none(self):
        text = "7^0^2099-11-23T12:00:00^\n8^2^NONE^\n9^0^N/A^\n11^1^^\n"
        text += "x^0^2099-11-23T12:00:00^\n10^0^2099-11-23T12:00:00\n"
        asked = []
        found = slurm(lambda argv: asked.append(argv) or Answer(0, text, "")).ends()
        self.assertEqual({key: time.localtime(at)[:4] for key, at in found.items()}, {"slurm/7/0": (2099, 11, 23, 12)})
        self.assertIn("--states=CONFIGURING,RUNNING", asked[0], "what a suspended job prints is too early")
        self.assertIsNone(slurm(lambda _argv: Answer(1, "", "")).ends())

    def test_a_reservation_that_began_long_ago_hides_no_plan_behind_it(self):
        jobs = "2099-11-23T12:00:00^n1^\n"
        text = "ReservationName=a StartTime={} EndTime=2099-12-24T10:00:00 Duration=1-00:00:00 Nodes=n[1-2] NodeCnt=2\n"
        said = {"q": Answer(0, jobs, ""), "s": Answer(0, text.format("2020-01-01T00:00:00"), "")}
        found = slurm(lambda argv: said[argv[0]]).starts()
        self.assertEqual([(name, time.localtime(at).tm_year) for name, at in found.items()], [("n1", 2099)])

    def test_states_of_maintenance_are_told_by_their_words_and_never_by_the_reason(self):
        cases = (
            ("DRAIN: disk", ("drain",), True),
            ("MAINTENANCE+RESERVED", ("maintenance",), True),
            ("REBOOT_ISSUED", ("reboot",), True),
            ("POWERING_DOWN", ("power_down",), True),
            ("offline: new disk", ("drain",), True),
            ("DOWN: DRAIN", ("drain",), False),
            ("DOWN: +DRAIN+", ("drain",), False),
            ("DRAIN", (), False),
            ("", ("drain", "reboot"), False),
        )
        for state, wanted, expected in cases:
            with self.subTest(state, wanted=wanted):
                self.assertIs(is_maintenance(state, wanted), expected)

    def test_the_first_controller_that_is_up_is_in_control(self):
        line = "Slurmctld({}) at {} is {}\n"
        one, two = ("primary", "ctl1.site"), ("backup", "ctl2")
        cases = (
            ((line.format(*one, "UP") + line.format(*two, "UP")), "ctl1", True),
            ((line.format(*one, "UP") + line.format(*two, "UP")), "ctl2", False),
            ((line.format(*one, "DOWN") + line.format(*two, "UP")), "ctl2", True),
            ((line.format(*one, "DOWN") + line.format(*two, "DOWN")), "ctl2", None),
            ("", "ctl1", None),
        )
        for text, host, expected in cases:
            with self.subTest(text, host=host):
                self.assertIs(cluster_batch.in_control(text, host=host), expected)

    def test_a_program_that_fails_or_hangs_is_cannot_tell(self):
        def hangs(_argv):
            raise OSError("squeue: no end within 20 s")

        for run in (hangs, lambda _argv: Answer(1, "", "slurm_load_jobs error: Unable to contact slurm controller")):
            remarks = []
            batch = slurm(run, remarks)
            self.assertEqual((batch.jobs(), batch.states(), batch.in_control()), (None, None, None))
            self.assertTrue(remarks)


class Settings(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)

    def load(self, values):
        path = os.path.join(self.directory, "controller.json")
        with open(path, "w") as stream:
            json.dump(values, stream)
        return settings.load(path)

    def test_what_is_given_counts_and_the_rest_has_defaults(self):
        found = self.load({"host": "ctl", "period": 5, "names": {"N1": "n1"}})
        self.assertEqual((found.host, found.period, found.names, found.connections), ("ctl", 5.0, {"N1": "n1"}, 16))

    def test_a_bad_value_is_refused_by_its_name(self):
        cases = {
            "host": "",
            "kubeconfig": "x",
            "socket": "/" + "x" * 200,
            "group": "a b",
            "names": ["n1"],
            "deadline": -1,
            "period": 0,
            "connections": True,
            "evict_on": ["down"],
            "drain_ahead": -1,
            "colour": "blue",
        }
        for name, value in cases.items():
            with self.subTest(name), self.assertRaisesRegex(SettingsError, name):
                self.load(dict({"host": "ctl"}, **{name: value}))
        with self.assertRaisesRegex(SettingsError, "host is missing"):
            self.load({})

    def test_the_command_line_knows_the_service_and_its_settings(self):
        self.assertEqual(arguments.parse(["controller"]).settings, settings.PATH)
        self.assertEqual(arguments.parse(["controller", "--settings", "/x"]).settings, "/x")
        self.assertNotEqual(arguments.parse(["repair"]).settings, settings.PATH)


if __name__ == "__main__":
    unittest.main()
