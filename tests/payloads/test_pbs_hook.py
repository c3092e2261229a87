# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hook of PBS decides: what of a job is on this host, and what nodeshare is told of it."""

import json
import unittest

from converged_hook import EVENTS, Config, Facts, decide, parse_config, size

CONFIG = Config(nodeshare=("/usr/sbin/nodeshare",))
TWO = "(n1:ncpus=2:mem=102400kb)+(n2:ncpus=1:mem=204800kb)"


def facts(event="begin", exec_vnode="(n1:ncpus=1:mem=1048576kb)", exec_host="n1:15002/0", names=("n1",), **more):
    given = {"job": "15.srv", "run": 1, "queue": "workq", "place": "free"}
    given.update(more)
    return Facts(event, exec_vnode=exec_vnode, exec_host=exec_host, names=frozenset(names), **given)


def share(config=CONFIG, **more):
    """What nodeshare is told to be taken, without the cgroup."""
    words = decide(facts(**more), config._replace(cgroup_prefix=None))
    return list(words[5:])


class Shares(unittest.TestCase):
    def test_b5_a_job_takes_what_its_chunks_have_on_this_host(self):
        cases = (
            (TWO, "n1:15002/0*2+n2:15002/0", "n1", ["--cpus=2", "--mem=104857600"]),
            (TWO, "n1:15002/0*2+n2:15002/0", "n2", ["--cpus=1", "--mem=209715200"]),
            # two chunks on one host, and one over two of its vnodes
            ("(n1:ncpus=1)+(n1:ncpus=1)", "n1:1/0+n1:1/1", "n1", ["--cpus=2"]),
            ("(n2[0]:ncpus=2+n2[1]:ncpus=1:mem=1kb)", "n2:1/0*0", "n2", ["--cpus=3", "--mem=1024"]),
            # vnodes whose names say nothing of their host
            ("(blue:ncpus=4)+(red:ncpus=1)", "n1:1/0*4+n2:1/0", "n2", ["--cpus=1"]),
            # the lists do not match: the names have to do
            ("(n1[0]:ncpus=4)+(n2[3]:ncpus=1)", "", "n2", ["--cpus=1"]),
            ("(n1.dom:ncpus=4)+(n2.dom:ncpus=1)", "N1.dom:1/0*4+N2.dom:1/0", "n1", ["--cpus=4"]),
            ("(10.0.0.1:ncpus=4)+(10.0.0.2:ncpus=1)", "10.0.0.1:1/0*4+10.0.0.2:1/0", "10.0.0.2", ["--cpus=1"]),
            # GPUs, and resources that are none of ours
            ("(n1:ncpus=1:ngpus=2:scratch=1.5:color=red)", "n1:1/0", "n1", ["--cpus=1", "--device=nvidia.com/gpu=2"]),
            ("(n1:ncpus=1:ngpus=0)", "n1:1/0", "n1", ["--cpus=1"]),
            ("(n1:ngpus=1)+(n1:ngpus=1)", "n1:1/0+n1:1/1", "n1", ["--cpus=0", "--device=nvidia.com/gpu=2"]),
            ("(n1)", "n1:1/0", "n1", ["--cpus=0"]),
            # no more than nodeshare can read
            ("(n1:ncpus=1:ngpus=1234567)", "n1:1/0", "n1", ["--cpus=1", "--device=nvidia.com/gpu=999999"]),
            ("(n1:ncpus=1:mem=9999999pb)", "n1:1/0", "n1", ["--cpus=1", "--mem=" + "9" * 15]),
            ("(n1:ncpus={})".format("9" * 15), "n1:1/0", "n1", ["--cpus=" + "9" * 12]),
        )
        for exec_vnode, exec_host, name, words in cases:
            with self.subTest(exec_vnode, host=name):
                self.assertEqual(share(exec_vnode=exec_vnode, exec_host=exec_host, names=(name,)), words)

    def test_where_the_share_cannot_be_told_the_job_has_the_host(self):
        for exec_vnode in ("", "n1", "(n9:ncpus=1)", "(n1:ncpus=x)", "(n1:ncpus=1:mem=1.5gb)", "(n1:ncpus=-1)", "((("):
            with self.subTest(exec_vnode):
                self.assertEqual(share(exec_vnode=exec_vnode, exec_host=""), ["--exclusive"])

    def test_b4_sizes_are_exact(self):
        cases = (("0kb", 0), ("1", 1), ("1b", 1), ("1kb", 1024), ("1k", 1024), ("655360kb", 655360 << 10))
        cases += (("1gb", 1 << 30), ("1GB", 1 << 30), ("2tb", 2 << 40), ("1pb", 1 << 50), ("3w", 24), ("1mw", 8 << 20))
        for text, number in cases:
            with self.subTest(text):
                self.assertEqual(size(text), number)
        for text in ("", "kb", "1.5gb", "-1kb", "1 gb", "1gib", "1kb\n", "9" * 16, "\u0661kb"):
            with self.subTest(text), self.assertRaises(ValueError):
                size(text)

    def test_a_job_without_a_memory_request_has_the_sites_default(self):
        config = CONFIG._replace(default_mem="256mb")
        self.assertEqual(share(config, exec_vnode="(n1:ncpus=1)"), ["--cpus=1", "--mem=268435456"])
        self.assertEqual(share(config, exec_vnode="(n1:ncpus=1:mem=1kb)"), ["--cpus=1", "--mem=1024"])

    def test_b9_exclusive_is_what_the_job_and_its_host_say_together(self):
        cases = (
            ("free", None, False),
            ("scatter:excl", None, True),
            ("exclhost", None, True),
            ("excl", "ignore_excl", False),
            ("free", "default_excl", True),
            ("pack", "default_exclhost", True),
            ("pack:shared", "default_exclhost", False),
            ("pack:shared", "force_exclhost", True),
            ("free", "force_excl", True),
            ("scatter:group=exclusive_switch", None, False),
        )
        for place, sharing, exclusive in cases:
            config = CONFIG._replace(sharing={} if sharing is None else {"n1.dom": sharing, "n2": "force_excl"})
            with self.subTest(place, sharing=sharing):
                self.assertEqual("--exclusive" in share(config, place=place), exclusive)


class Decisions(unittest.TestCase):
    def test_b8_each_event_has_its_command(self):
        job = ("--wlm=pbs", "--job=15[1].srv", "--run=3")
        begun = ("--limit=12", "--cpus=1", "--mem=1073741824")
        cgroup = "--cgroup=pbs_jobs.service/jobid/15[1].srv"
        cases = (
            ("begin", ("begin", *job, *begun, cgroup)),
            ("end", ("end", *job)),
            ("abort", ("end", *job)),
            ("preterm", ()),
            ("postsuspend", ("begin", *job, "--limit=12", "--cpus=0", "--mem=1073741824")),
            ("preresume", ("begin", *job, *begun, cgroup)),
            ("startup", ("repair",)),
            ("periodic", ("repair",)),
            ("other", ()),
        )
        for event, words in cases:
            with self.subTest(event):
                self.assertEqual(decide(facts(event, job="15[1].srv", run=3), CONFIG), words)

    def test_jobs_of_queues_that_the_daemon_fills_are_left_alone(self):
        config = CONFIG._replace(ignored_queues=frozenset(["pods"]))
        for event in EVENTS:
            with self.subTest(event):
                self.assertEqual(decide(facts(event, queue="pods"), config), ())
                self.assertEqual(decide(facts(event, queue="podsx"), config), decide(facts(event), CONFIG))

    def test_b3_a_configuration_is_checked_key_by_key(self):
        good = {"nodeshare": ["/bin/a", "b"], "timeout_seconds": 9, "ignored_queues": ["q"], "default_mem": None}
        right = Config(("/bin/a", "b"), timeout_seconds=9, ignored_queues=frozenset(["q"]))
        self.assertEqual(parse_config(json.dumps(good)), right)
        self.assertEqual(parse_config(json.dumps(dict(good, a_key_of_another_release=1))), right)
        bad = ({"nodeshare": []}, {"nodeshare": "x"}, {"nodeshare": ["x"]}, {"timeout_seconds": True})
        bad += ({"timeout_seconds": 3}, {"on_failure": "panic"}, {"default_mem": "1.5gb"}, {"default_mem": 1})
        bad += (
            {"ignored_queues": "q"},
            {"devices": {"ngpus": 1}},
            {"devices": {"ngpus": "a b"}},
            {"devices": {"x": ""}},
            {"sharing": []},
            {"cgroup_prefix": "../x"},
        )
        bad += ({"enabled": "relative"},)
        for change in bad:
            changed = dict(good)
            changed.update(change)
            with self.subTest(change):
                config = parse_config(json.dumps(changed))
                self.assertRegex(config.wrong, "^{} cannot be ".format(*change))
                for name in set(good) - set(change):
                    self.assertEqual(getattr(config, name), getattr(right, name))
        self.assertIn("nodeshare is missing", parse_config("{}").wrong)
        for text in ("", "[]", "{", "null"):
            with self.subTest(text), self.assertRaises(ValueError):
                parse_config(text)
