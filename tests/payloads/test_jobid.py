# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job ids: the grammar of each batch system, and file names that user text cannot shape."""

import random
import unittest

from nodeshare.model.jobs import job_key
from seeds import seeds


class Grammar(unittest.TestCase):
    def test_ids_of_every_batch_system_are_accepted(self):
        for wlm, job in (
            ("slurm", "4711"),
            ("slurm", "123+1"),
            ("slurm", "123_4"),
            ("pbs", "12"),
            ("pbs", "12.srv"),
            ("pbs", "12[3].srv.example.org"),
            ("torque", "12-3.srv"),
            ("torque", "12[3].srv"),
            ("torque", "12.srv.big_one"),
            ("torque", "12"),
        ):
            with self.subTest(wlm=wlm, job=job):
                self.assertEqual(job_key.parse(wlm, job, "0"), job_key.JobKey(wlm, job, 0))

    def test_everything_else_is_refused_with_a_short_printable_line(self):
        hostile = [
            "",
            "-rf",
            "../x",
            "/etc/passwd",
            "1;touch pwned",
            "$(id)",
            "`id`",
            "1 2",
            "1\n",
            "\n1",
            "1\x00",
            "4711.batch",
            "--all",
            "12[].srv",
            "12[3",
            "1" * 11,
            "\uff11\uff12",
            "\u202e12",
            "1" + "a" * 100000,
            "1_",
            "+1",
            "123+1+1",
            "123_4_5",
            "n[1-9999999]",
        ]
        for job in hostile:
            with self.subTest(job=job[:20]):
                with self.assertRaises(job_key.JobIdError) as caught:
                    job_key.parse("slurm", job, "0")
                self.assertLess(len(str(caught.exception)), 450)
                self.assertTrue(str(caught.exception).isprintable())
        for job in ("12.", "12..srv", "12.-srv", "12.srv/../x", "12[3].srv\n", "12." + "a" * 200, "12[a].srv"):
            with self.subTest(job=job[:20]), self.assertRaises(job_key.JobIdError):
                job_key.parse("pbs", job, "0")

    def test_unknown_batch_system_and_odd_run_are_refused(self):
        odd = (("lsf", "0"), ("", "0"), ("slurm", "-1"), ("slurm", ""), ("slurm", "1.5"), ("slurm", "9" * 10))
        for wlm, run in odd:
            with self.subTest(wlm=wlm, run=run), self.assertRaises(job_key.JobIdError):
                job_key.parse(wlm, "1", run)


class FileNames(unittest.TestCase):
    def test_a_name_holds_no_separator_and_leads_back_to_its_key(self):
        names = {}
        for seed in seeds("job_ids", 2000):
            chance = random.Random(seed)
            wlm = chance.choice(job_key.SYSTEMS)
            job = str(chance.randrange(1, 10000))
            if wlm == "slurm":
                job += chance.choice(["", "+1", "_17"])
            else:
                job += chance.choice(["", "[3]"]) + chance.choice(["", ".srv", ".a-b.example.org"])
            key = job_key.parse(wlm, job, str(chance.randrange(3)))
            name = job_key.file_name(key)
            with self.subTest(seed=seed, key=key):
                self.assertRegex(name, r"\A[a-z]+\.[0-9A-Za-z=-]+\.r[0-9]+\Z")
                self.assertEqual(job_key.from_file_name(name), key)
                self.assertEqual(names.setdefault(name, key), key)

    def test_the_longest_id_still_fits_a_file_name(self):
        job = "1." + "[".replace("[", "a") * (job_key.LONGEST - 2)
        self.assertLess(len(".new." + job_key.file_name(job_key.parse("pbs", job, "999999999")) + ".lease"), 255)

    def test_foreign_file_names_are_refused(self):
        for name in ("x", "slurm.1", "slurm.1.r", "slurm.=2E=2E=2Fx.r0", "slurm.1.r0.lease", "../slurm.1.r0"):
            with self.subTest(name=name), self.assertRaises(job_key.JobIdError):
                job_key.from_file_name(name)


if __name__ == "__main__":
    unittest.main()
