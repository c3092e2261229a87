# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Torque's scripts decide: tables without any process."""

import os
import select
import sys
import tempfile
import time
import unittest
from unittest import mock

import pelogue
from nodeshare.model.jobs import job_key
from pelogue import Answer, Facts, Settings

HERE = Settings(names=("n1",))


def told(resources, **facts):
    return pelogue.share_arguments(Facts("prologue", "0.srv", resources=resources, **facts), HERE)


class Names(unittest.TestCase):
    def test_the_number_of_the_host_says_which_script_of_the_sites_runs_and_not_the_name_that_a_user_chose(self):
        table = (
            # the file that Torque has run, on a sister, the site's own
            ("prologue", False, "prologue"),
            ("prologue", True, "prologue.parallel"),
            ("prologue.parallel", True, "prologue.parallel"),
            ("prologue.parallel", False, "prologue"),  # qsub -T parallel
            ("prologue.user", False, "prologue"),  # qsub -T user, as root
            ("prologue.user.parallel", True, "prologue.parallel"),
            ("epilogue.precancel", False, "epilogue"),  # qsub -T precancel
            ("prologue.user.gpu", False, "prologue"),
            ("prologue.gpu", False, "prologue.gpu"),  # a job type of the site
            ("epilogue.gpu", True, "epilogue.gpu"),
            ("epilogue", False, "epilogue"),
            ("epilogue.parallel", True, "epilogue.parallel"),
        )
        for name, is_sister, own in table:
            with self.subTest(name=name, is_sister=is_sister):
                self.assertEqual(pelogue.own_script(name, is_sister=is_sister), own)


class Time(unittest.TestCase):
    def test_torque_takes_ten_seconds_from_an_alarm_that_is_longer_and_of_several_the_shortest_counts(self):
        table = (("", 290), ("$prologalarm 15", 5), ("$prologalarm 10\n", 10), ("x\n  $prologalarm\t300 \ny", 290))
        table += (("#$prologalarm 15", 290), ("$prologalarm soon", 290), ("$prologalarm 60\n$prologalarm 40", 30))
        table += (("$prologalarm 40\n$prologalarm 60", 30),)
        for config, seconds in table:
            with self.subTest(config=config):
                self.assertEqual(pelogue.alarm_seconds(config), seconds)

    def test_what_the_sites_script_has_taken_is_not_there_for_us_and_a_lease_is_written_all_the_same(self):
        settings = HERE._replace(timeout_seconds=60)
        self.assertEqual(pelogue.seconds_left(settings, 290, 0), 60)
        self.assertEqual(pelogue.seconds_left(settings, 50, 25), 20)
        self.assertEqual(pelogue.seconds_left(settings, 50, 49), pelogue.LEAST_SECONDS)


class Waiting(unittest.TestCase):
    def test_a_job_starts_when_nodeshare_ends_and_not_at_the_next_look(self):
        slept = []
        with mock.patch("time.sleep", lambda seconds, sleep=time.sleep: (slept.append(seconds), sleep(seconds))):
            code = pelogue.run(["/bin/sh", "-c", "sleep 0.2; exit 75"], 10.0)
        self.assertEqual(code, 75)
        self.assertLess(sum(slept), 0.05)

    def test_one_that_has_closed_its_files_has_the_rest_of_its_time_to_end(self):
        argv = [sys.executable, "-c", "import os, time; os.closerange(3, 256); time.sleep(0.3); os._exit(75)"]
        with mock.patch.object(pelogue, "REAP_SECONDS", 0.05):
            self.assertEqual(pelogue.run(argv, 30.0), 75)

    def test_one_that_does_not_end_in_time_is_killed_with_all_that_it_has_started(self):
        with tempfile.TemporaryDirectory() as folder:
            held = os.path.join(folder, "held")
            os.mkfifo(held)
            reader = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
            self.addCleanup(os.close, reader)
            self.assertIsNone(pelogue.run(["/bin/sh", "-c", "sleep 600 >" + held + " & echo >" + held + "; wait"], 0.5))
            self.assertEqual(os.read(reader, 1), b"\n", "it had started")
            self.assertTrue(select.select([reader], [], [], 30.0)[0], "what it had started still runs")
            self.assertEqual(os.read(reader, 1), b"")

    def test_neither_one_that_cannot_be_started_nor_one_that_was_killed_has_an_exit_code(self):
        for argv in (["/nowhere/nodeshare"], ["/bin/sh", "-c", "kill -9 $$"]):
            with self.subTest(argv=argv):
                self.assertIsNone(pelogue.run(argv, 10.0))

    def test_a_host_without_a_free_descriptor_fails_no_prologue(self):
        with mock.patch("os.pipe", side_effect=OSError(24, "Too many open files")):
            self.assertIsNone(pelogue.run(["/bin/true"], 10.0))


class Refusals(unittest.TestCase):
    def test_a_job_is_refused_only_by_what_nodeshare_or_the_site_says(self):
        requeue = HERE._replace(on_failure="requeue")
        table = (
            # nodeshare's code, settings, on a sister, tries so far, the answer
            (0, HERE, False, 0, Answer(0)),
            (1, HERE, False, 0, Answer(0)),
            (None, HERE, False, 0, Answer(0)),
            (None, HERE, True, 0, Answer(0)),
            (255, HERE, True, 0, Answer(0)),
            (0, requeue, False, 0, Answer(0)),
            (None, requeue, False, 0, Answer(2, 1.0)),
            (75, HERE, False, 1, Answer(2, 2.0)),
            (69, HERE, False, 3, Answer(2, 8.0)),
            (75, HERE, True, 0, Answer(2)),
            (69, HERE, True, 99, Answer(2)),
        )
        for code, settings, is_sister, tries, answer in table:
            with self.subTest(code=code, tries=tries):
                found = pelogue.answer(code, settings, is_sister=is_sister, tries=tries, left=100)
                self.assertEqual(found, answer)

    def test_torque_would_go_on_for_ever_so_a_job_that_was_refused_ten_times_starts(self):
        answers = [pelogue.answer(75, HERE, is_sister=False, tries=n, left=100) for n in range(12)]
        self.assertEqual([one.code for one in answers], [2] * 10 + [0] * 2)
        self.assertEqual([one.pause for one in answers[:7]], [1, 2, 4, 8, 16, 30, 30])
        self.assertEqual(pelogue.answer(75, HERE, is_sister=False, tries=5, left=-3).pause, 0)


class Runs(unittest.TestCase):
    def test_files_of_leases_are_found_by_the_names_that_nodeshare_gives(self):
        for job in ("0.srv", "31[1].srv.example.org", "12-3.srv"):
            name = job_key.file_name(job_key.parse("torque", job, "7"))
            self.assertEqual(name, pelogue.file_part(job) + ".r7")
            self.assertEqual(pelogue.runs(job, [name + ".lease", "x"]), ([7], []))

    def test_a_job_that_torque_starts_again_on_this_host_is_another_run(self):
        part = pelogue.file_part("0.srv")
        table = (
            # files, the run that begins, those that end, the one that a sweep tells of
            ([], 1, [1], 1),
            [[part + ".r1.lease"], 1, [1], 1],
            [[part + ".r1.ended"], 2, [1], 1],
            [[part + ".r1.ended", part + ".r2.ended"], 3, [1], 2],
            [[part + ".r1.ended", part + ".r2.lease"], 2, [2], 2],
            [[part + ".r1.lease", part + ".r3.lease"], 3, [1, 3], 3],
            [["torque.10=2Esrv.r4.lease", part + ".r.lease", ".new." + part + ".r1.lease"], 1, [1], 1],
        )
        for entries, begins, ends, lasts in table:
            with self.subTest(entries=entries):
                self.assertEqual(pelogue.run_that_begins("0.srv", entries), begins)
                self.assertEqual(pelogue.runs_that_end("0.srv", entries), ends)
                self.assertEqual(pelogue.run_that_lasts("0.srv", entries), lasts)

    def test_the_moms_own_files_name_its_jobs(self):
        names = ["0.srv.JB", "0.srv.SC", "31-1.srv.example.org.JB", "31-1.srv.TK", "x.JB", "5.JB", "1;id.srv.JB"]
        names += ["6.srv.big_one.JB"]
        self.assertEqual(pelogue.jobs_in(names), ["0.srv", "31[1].srv.example.org", "5", "6.srv.big_one"])

    def test_a_file_whose_name_torque_may_have_cut_names_no_job(self):
        """A lease by that name would be ended by no epilogue."""
        longest, cut = "7.srv." + "a" * (pelogue.LONGEST_FILE - 7), "8.srv." + "a" * (pelogue.LONGEST_FILE - 6)
        self.assertEqual(pelogue.jobs_in([longest + ".JB", cut + ".JB"]), [longest])


class Sizes(unittest.TestCase):
    def test_the_first_host_knows_its_slots_by_the_list_of_hosts(self):
        table = (
            ("nodes=1:ppn=2,mem=100mb", {"slots": 2, "all_slots": 2}, ["--cpus=2", "--mem=104857600"]),
            ("nodes=2:ppn=4,mem=10gb", {"slots": 4, "all_slots": 8}, ["--cpus=4", "--mem=5368709120"]),
            ("nodes=2:ppn=2,pmem=1gb", {"slots": 4, "all_slots": 4}, ["--cpus=4", "--mem=4294967296"]),
            ("nodes=3:ppn=1,mem=100b", {"slots": 1, "all_slots": 3}, ["--cpus=1", "--mem=34"]),
            ("ncpus=2,walltime=01:00:00", {"slots": 1, "all_slots": 1}, ["--cpus=2"]),
            ("nodes=1:gpus=1:fast", {"slots": 1, "all_slots": 1}, ["--cpus=1", "--device=nvidia.com/gpu=1"]),
            ("nodes=2:ppn=2:gpus=1", {"slots": 4, "all_slots": 4}, ["--cpus=4", "--device=nvidia.com/gpu=2"]),
        )
        for resources, facts, words in table:
            with self.subTest(resources=resources):
                self.assertEqual(told(resources, **facts), words)

    def test_a_sister_knows_its_slots_only_where_the_request_names_hosts(self):
        self.assertEqual(told("nodes=n2:ppn=2+n1", is_sister=True, all_slots=3), ["--cpus=1"])
        self.assertEqual(told("nodes=n2+n1.example.org:ppn=3", is_sister=True, all_slots=4), ["--cpus=3"])
        for resources in ("nodes=2:ppn=4", "nodes=n2:ppn=2+1:ppn=4", "nodes=n2+n3", "mem=1gb", ""):
            with self.subTest(resources=resources):
                self.assertEqual(told(resources, is_sister=True, all_slots=8), ["--exclusive"])

    def test_what_is_said_twice_or_is_no_size_counts_as_the_whole_node(self):
        for resources in ("mem=1gb,other=x,mem=1kb", "nodes=1:ppn=4,nodes=1", "mem=lots", "nodes=1:gpus=1+n2,mem=1"):
            with self.subTest(resources=resources):
                self.assertEqual(told(resources, slots=1, all_slots=1), ["--exclusive"])

    def test_a_job_without_memory_has_what_the_site_says(self):
        settings = HERE._replace(default_mem="2gb")
        facts = Facts("prologue", "0.srv", resources="nodes=1", slots=1, all_slots=1)
        self.assertEqual(pelogue.share_arguments(facts, settings), ["--cpus=1", "--mem=2147483648"])


class Ids(unittest.TestCase):
    def test_an_id_that_torque_would_not_give_is_none(self):
        for job in ("", "-rf", "a", "0.srv;id", "0.srv\n", "$(id)", "0." + "s" * 200, "31[1", "0.-srv", "../0.srv"):
            with self.subTest(job=job):
                self.assertEqual(pelogue.facts_of("prologue", [job], {}, ("n1",)).job, "")
        for job in ("0.srv", "31[1].srv.example.org", "7"):
            self.assertEqual(pelogue.facts_of("prologue", [job], {}, ("n1",)).job, job)


class Values(unittest.TestCase):
    def test_settings_of_another_release_or_with_a_wrong_value_are_an_error_that_names_it(self):
        self.assertEqual(pelogue.parse_settings('{"names": ["n1"]}').names, ("n1",))
        table = (('{"timeout_seconds": -1}', "timeout_seconds"), ('{"on_failure": "drain"}', "on_failure"))
        table += (('{"nodeshare": "x"}', "nodeshare"), ('{"new": 1}', "no object of"), ("[]", "no object of"))
        for text, words in table:
            with self.subTest(text=text), self.assertRaisesRegex(ValueError, words):
                pelogue.parse_settings(text)


if __name__ == "__main__":
    unittest.main()
