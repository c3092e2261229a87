# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hook of PBS at work: nodeshare is run, bounded, and PBS hears what the site has chosen.

In all tests of hook and placeholders `rN` is a hole, and `bN` a bug, of the connector that these replace:
b1 dead on Python 3, b2 undefined names, b3 a setting that was missing, b4 units, b5 the job's total on each host,
b6 files named by users, b7 ids of sub-jobs, b8 wrong events, b9 exclusive, suspended and GPU jobs, b10 obeying a user's
variables, b11 as slow as its alarm, b12 a refused pod unseen, b13 an image that nobody has any more.
"""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock

import converged_hook
from converged_hook import ACCEPT, DRAIN, EVENTS, REQUEUE, main

NODESHARE = """#!{python} -IS
import json, os, sys, time
with open({calls!r}, "a") as stream:
    print(json.dumps([sys.argv[1:], dict(os.environ)]), file=stream)
time.sleep(float(open({wait!r}).read()) if sys.argv[1] == "begin" else 0)
sys.exit(int(open({status!r}).read()) if sys.argv[1] != "end" else 0)
"""
HOSTILE = ("-rf", "--all", "../x", "1;touch pwned", "$(touch pwned)", "`id`", "a\nb", "kube-apiserver", "x" * 100000)
HOSTILE += ("a\0b", "/etc/kubernetes/manifests/etcd")


class FakePbs:
    """The module as far as the hook may use it; all else is an AttributeError."""

    LOG_WARNING, ND_OFFLINE = 6, "offline"

    def __init__(self, kind, config, **job):
        names = ["EXECJOB_" + name.upper() for name in EVENTS] + ["EXECHOST_STARTUP", "EXECHOST_PERIODIC"]
        for number, name in enumerate(names):
            setattr(self, "HOOK_EVENT_" + name, number)
        self.hook_config_filename = config
        self.log, self.said = [], []
        job_list = job.pop("job_list", [])
        vnodes = {"n1": types.SimpleNamespace(state=None, comment=None)}
        self._event = types.SimpleNamespace(
            type=names.index(kind), requestor_host="n1", vnode_list=vnodes, accept=self._accept, reject=self._reject
        )
        if "EXECJOB" in kind:
            self._event.job = self._job(**job)
        elif kind == "EXECHOST_PERIODIC":
            self._event.job_list = {str(number): self._job(**one) for number, one in enumerate(job_list)}

    @staticmethod
    def _job(**job):
        known = {"id": "15.srv", "run_version": 1, "run_count": 1, "queue": "workq", "exec_host2": "n1:15002/0"}
        known.update(exec_host=None, exec_vnode="(n1:ncpus=1)", Resource_List={"place": None}, substate=42)
        known.update(job)
        return types.SimpleNamespace(**known)

    def event(self):
        return self._event

    def get_local_nodename(self):
        return "n1"

    def logmsg(self, level, text):
        self.log.append(text)

    def logjobmsg(self, job, text):
        self.log.append(job + " " + text)

    def _accept(self):
        self.said.append(ACCEPT)
        raise SystemExit

    def _reject(self, text):
        self.said.append("reject")
        raise SystemExit


class HookCase(unittest.TestCase):
    """A nodeshare that writes down how it was called, and answers as told."""

    def setUp(self):
        self.top = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.top)
        self.calls = os.path.join(self.top, "calls")
        self.write("wait", "0")
        self.write("status", "0")
        self.write("enabled", "")
        paths = {name: os.path.join(self.top, name) for name in ("calls", "wait", "status")}
        self.nodeshare = self.write("nodeshare", NODESHARE.format(python=sys.executable, **paths))
        os.chmod(self.nodeshare, stat.S_IRWXU)

    def write(self, name, text):
        path = os.path.join(self.top, name)
        with open(path, "w") as stream:
            stream.write(text)
        return path

    def called(self):
        if not os.path.exists(self.calls):
            return []
        with open(self.calls) as stream:
            return [json.loads(line) for line in stream]

    def verbs(self):
        return [words[0] for words, _environment in self.called()]

    def run_hook(self, kind="EXECJOB_BEGIN", config=None, job=None, **changes):
        given = {"nodeshare": [self.nodeshare], "enabled": os.path.join(self.top, "enabled")}
        given.update(changes)
        path = self.write("hook.CF", json.dumps(given)) if config is None else config
        pbs = FakePbs(kind, path, **(job or {}))
        with self.assertRaises(SystemExit):
            main(pbs)
        self.assertEqual(len(pbs.said), 1)
        return pbs


class Runs(HookCase):
    def test_nodeshare_gets_the_words_and_nothing_of_the_surroundings(self):
        os.environ["EVIL"] = "1"
        self.addCleanup(os.environ.pop, "EVIL")
        pbs = self.run_hook()
        ((words, environment),) = self.called()
        self.assertEqual(words[:4], ["begin", "--wlm=pbs", "--job=15.srv", "--run=1"])
        self.assertEqual(set(environment) - {"LC_CTYPE"}, {"PATH", "LC_ALL"})
        self.assertEqual(pbs.said, [ACCEPT])
        self.assertEqual(len(pbs.log), 1)
        self.assertRegex(
            pbs.log[0], r"^15.srv converged: event=begin run=1 .*--cpus=1 .*exit=0 outcome=accept seconds="
        )

    def test_what_nodeshare_says_is_what_pbs_hears(self):
        cases = (
            (0, ACCEPT, ACCEPT),
            (69, ACCEPT, DRAIN),
            (75, ACCEPT, REQUEUE),
            (1, ACCEPT, ACCEPT),
            (2, DRAIN, DRAIN),
        )
        for status, on_failure, outcome in (*cases, (1, REQUEUE, REQUEUE)):
            self.write("status", str(status))
            with self.subTest(status=status, on_failure=on_failure):
                pbs = self.run_hook(on_failure=on_failure)
                vnode = pbs.event().vnode_list["n1"]
                self.assertEqual(pbs.said, [ACCEPT if outcome == ACCEPT else "reject"])
                self.assertEqual(vnode.state, "offline" if outcome == DRAIN else None)
                self.assertIn("outcome=" + outcome, pbs.log[0])

    def test_a_job_that_host_after_host_refuses_is_sent_elsewhere_before_pbs_holds_it(self):
        drains = [("1", 10, REQUEUE, "offline"), ("1", 20, REQUEUE, "offline"), ("75", 10, REQUEUE, "offline")]
        refuses = [
            ("75", 9, REQUEUE, None),
            ("1", 11, REQUEUE, None),
            ("75", 10, ACCEPT, None),
            ("0", 20, REQUEUE, None),
        ]
        for status, run, on_failure, state in drains + refuses:
            self.write("status", status)
            with self.subTest(status=status, run=run, on_failure=on_failure):
                pbs = self.run_hook(job={"run_version": run}, on_failure=on_failure)
                self.assertEqual(pbs.event().vnode_list["n1"].state, state)

    def test_what_is_wrong_in_a_configuration_leaves_the_sites_choice_and_what_is_new_in_it_leaves_all(self):
        pbs = self.run_hook(on_failure=DRAIN, timeout_seconds="soon")
        self.assertEqual((pbs.said, pbs.event().vnode_list["n1"].state), (["reject"], "offline"))
        self.assertIn("timeout_seconds cannot be 'soon'", pbs.log[0])
        self.assertEqual(self.run_hook(on_failure=DRAIN, timeout_seconds=1, ignored_queues=["workq"]).said, [ACCEPT])
        self.assertEqual(self.called(), [])
        self.assertEqual(self.run_hook(on_failure=DRAIN, a_key_of_another_release=1).said, [ACCEPT])
        self.assertEqual(self.verbs(), ["begin"])
        os.unlink(os.path.join(self.top, "enabled"))
        self.assertEqual(self.run_hook(on_failure=DRAIN, timeout_seconds="soon").said, [ACCEPT])

    def test_what_is_wrong_in_a_configuration_stops_neither_an_end_nor_a_repair(self):
        jobs = {"job_list": [{"id": "15.srv"}]}
        for wrong in ({"timeout_seconds": "soon"}, {"default_mem": "1.5gb"}, {"devices": {"ngpus": "a b"}}):
            pbs = self.run_hook("EXECJOB_END", on_failure=DRAIN, **wrong)
            self.assertEqual(pbs.said, [ACCEPT])
            self.assertRegex(pbs.log[0], r' exit=0 wrong="\w+ cannot be .*" outcome=accept ')
            pbs = self.run_hook("EXECHOST_PERIODIC", job=jobs, **wrong)
            self.assertIn(' exit=0 wrong="', pbs.log[0])
            self.run_hook("EXECJOB_PRERESUME", **wrong)
        self.assertEqual(self.verbs(), ["end", "repair", "begin"] * 3)
        repairs = [words for words, _environment in self.called()[1::3]]
        self.assertEqual([words[2].split()[:2] for words in repairs], [["15.srv/1", "--cpus=1"]] * 3)

    def test_where_the_daemons_queues_cannot_be_read_no_job_is_taken_for_one_of_others(self):
        wrong, jobs = {"ignored_queues": "pods"}, {"job_list": [{"id": "15.srv"}]}
        self.run_hook("EXECHOST_PERIODIC", job=jobs, **wrong)
        for kind in ("EXECJOB_PRERESUME", "EXECJOB_POSTSUSPEND", "EXECJOB_END"):
            self.run_hook(kind, **wrong)
        self.assertEqual([words[:2] for words, _environment in self.called()], [["repair"], ["end", "--wlm=pbs"]])

    def test_where_the_daemons_queues_cannot_be_read_a_begin_ends_in_the_sites_choice(self):
        for on_failure, said in ((DRAIN, "reject"), (REQUEUE, "reject"), (ACCEPT, ACCEPT)):
            with self.subTest(on_failure):
                pbs = self.run_hook(on_failure=on_failure, ignored_queues="pods")
                self.assertEqual(pbs.said, [said])
                self.assertIn("ignored_queues cannot be 'pods'", pbs.log[0])
        self.assertEqual(self.called(), [])
        os.unlink(os.path.join(self.top, "enabled"))
        self.assertEqual(self.run_hook(on_failure=DRAIN, ignored_queues="pods").said, [ACCEPT])

    def test_without_a_program_nothing_is_run_in_its_place(self):
        for kind in ("EXECJOB_END", "EXECHOST_PERIODIC", "EXECJOB_BEGIN"):
            with self.subTest(kind):
                pbs = self.run_hook(kind, nodeshare=[])
                self.assertIn("nodeshare cannot be []", pbs.log[0])
                self.assertEqual((pbs.said, self.called()), ([ACCEPT], []))

    def test_a_refused_begin_leaves_no_lease(self):
        self.write("status", "75")
        self.run_hook()
        begin, end = (words for words, _environment in self.called())
        self.assertEqual(end, ["end", *begin[1:4]])

    def test_only_a_job_that_starts_can_be_refused(self):
        self.write("status", "75")
        for name in EVENTS[1:]:
            with self.subTest(name):
                self.assertEqual(self.run_hook("EXECJOB_" + name.upper(), on_failure=DRAIN).said, [ACCEPT])
        self.assertEqual(self.run_hook("EXECHOST_STARTUP", on_failure=DRAIN).said, [ACCEPT])
        self.assertEqual(self.verbs(), ["end", "end", "begin", "begin", "repair"])

    def test_b11_a_nodeshare_that_hangs_is_killed_well_before_the_alarm(self):
        self.write("wait", "900")
        with unittest.mock.patch("converged_hook.UNDO_SECONDS", 300.0):
            pbs = self.run_hook(timeout_seconds=301, on_failure=REQUEUE)
        self.assertEqual(pbs.said, ["reject"])
        self.assertIn(" killed outcome=requeue ", pbs.log[0])
        self.assertEqual(self.verbs()[-1:], ["end"])  # a slow machine may not have come as far as to begin

    def test_a_nodeshare_that_cannot_be_started_is_the_sites_choice(self):
        missing = [os.path.join(self.top, "nowhere")]
        self.assertEqual(self.run_hook(nodeshare=missing).said, [ACCEPT])
        pbs = self.run_hook(nodeshare=missing, on_failure=REQUEUE)
        self.assertEqual(pbs.said, ["reject"])
        self.assertIn("nowhere: No such file", pbs.log[0])

    def test_without_the_flag_nothing_is_run_or_said(self):
        os.unlink(os.path.join(self.top, "enabled"))
        for kind in ("EXECJOB_BEGIN", "EXECJOB_END", "EXECHOST_PERIODIC"):
            pbs = self.run_hook(kind)
            self.assertEqual((pbs.said, pbs.log, self.called()), ([ACCEPT], [], []))

    def test_b1_without_a_configuration_jobs_start_and_the_log_says_why(self):
        for config in (None, os.path.join(self.top, "none"), self.write("broken", "{")):
            pbs = FakePbs("EXECJOB_BEGIN", config)
            with self.subTest(config), self.assertRaises(SystemExit):
                main(pbs)
            self.assertEqual((pbs.said, len(pbs.log), self.called()), ([ACCEPT], 1, []))

    def test_a_surprise_of_pbs_is_the_sites_choice_at_begin_and_nothing_else(self):
        job = {"run_version": "x"}
        self.assertEqual(self.run_hook(job=job, on_failure=REQUEUE).said, ["reject"])
        pbs = self.run_hook("EXECJOB_END", job=job, on_failure=REQUEUE)
        self.assertEqual(pbs.said, [ACCEPT])
        self.assertIn('error="ValueError: ', pbs.log[0])

    def test_a_repair_hears_of_each_job_whose_begin_is_over_and_that_is_still_here(self):
        sizes = {"exec_vnode": "(n1:ncpus=2:mem=1kb)+(n2:ncpus=9)", "exec_host2": "n1:15002/0*2+n2:15002/0*9"}
        states = (0, 41, 42, 43, 45, 50, 53, 58)
        jobs = [dict(sizes, id="{}.srv".format(number), substate=number) for number in states]
        jobs += [{"id": "1.srv", "queue": "pods"}, {"id": "2.srv", "run_version": "x"}, {"id": "3", "substate": None}]
        self.run_hook("EXECHOST_PERIODIC", job={"job_list": jobs}, ignored_queues=["pods"])
        self.run_hook("EXECHOST_PERIODIC", job={"job_list": jobs[:1]})
        self.run_hook("EXECHOST_STARTUP")
        told = [words for words, _environment in self.called()]
        runs = ["{0}.srv/1 --cpus=2 --mem=1024 --cgroup=pbs_jobs.service/jobid/{0}.srv".format(one) for one in (41, 42)]
        asleep = ["{}.srv/1 --cpus=0 --mem=1024".format(one) for one in (43, 45)]
        self.assertEqual(told, [["repair", "--wlm=pbs", *runs, *asleep], ["repair"], ["repair"]])

    def test_the_part_of_this_host_is_found_by_its_name_where_vnodes_have_names_of_their_own(self):
        job = {"exec_vnode": "(blade7:ncpus=2)+(blade8:ncpus=9)", "exec_host2": "n1:15002/0*2+n2:15002/0*9"}
        self.run_hook(job=job)
        self.assertIn("--cpus=2", self.called()[0][0])

    def test_a_good_repair_is_no_line_of_the_moms_log(self):
        self.assertEqual(self.run_hook("EXECHOST_PERIODIC").log, [])
        self.write("status", "1")
        self.assertIn("event=periodic", self.run_hook("EXECHOST_PERIODIC").log[0])


class Forging(HookCase):
    """MoM hands a hook lines of which any may be a user's."""

    def lines(self, *texts):
        told = unittest.mock.patch.object(converged_hook, "told_by_mom", lambda: "".join(text + "\n" for text in texts))
        told.start()
        self.addCleanup(told.stop)

    GENUINE = (
        "pbs.event().job.id=15.srv",
        "pbs.event().job.queue=workq",
        "pbs.event().job.queue_type=E",
        "pbs.event().job.Account_Name=a",
        "pbs.event().job.exec_vnode=(n1:ncpus=1)",
        "pbs.event().job.exec_vnode_orig=(n1:ncpus=1)",
        "pbs.event().job.Resource_List[place]=free",
        'pbs.event().job.Variable_List="""A=1,B=() {',
        ' echo id=7.srv}"""',
        "pbs.event().job.run_count=1",
        "pbs.event().job.run_version=1",
    )

    def test_a_begin_of_which_pbs_tells_twice_is_refused_and_no_node_is_drained_for_it(self):
        self.lines(*self.GENUINE)
        self.assertEqual(self.run_hook(on_failure=DRAIN).said, [ACCEPT])
        self.assertEqual(self.verbs(), ["begin"])
        for forged in (
            'project="""',
            'Variable_List="""',
            "id=7.srv",
            "queue=pods",
            "exec_vnode=()",
            "run_version=9",
            'Resource_List["place"]=excl',
        ):
            for on_failure in (ACCEPT, REQUEUE, DRAIN):
                self.lines(*self.GENUINE[:4], "pbs.event().job." + forged, *self.GENUINE[4:])
                with self.subTest(forged, on_failure=on_failure):
                    pbs = self.run_hook(on_failure=on_failure, job={"run_version": 10})
                    self.assertEqual((pbs.said, pbs.event().vnode_list["n1"].state), (["reject"], None))
                    self.assertIn('error="ForgedError: ', pbs.log[0])
                    self.assertEqual(self.run_hook("EXECJOB_END", on_failure=on_failure).said, [ACCEPT])
        self.assertEqual(self.verbs(), ["begin"])

    def test_a_repair_leaves_out_the_job_of_which_pbs_tells_twice_and_no_other(self):
        heads = (
            '["15.srv"]',
            "[15.srv]",
            'X["15.srv"]',
            '"2.srv"["15.srv"]',
            '[x"15.srv"]',
            '["15.srv"][1]',
            '["15.srv"]',
        )
        for head in heads:
            genuine = ['pbs.event().job_list["{}.srv"].run_version=1'.format(number) for number in (2, 15)]
            line = "pbs.event().job_list" + head + (".A=" + '"' * 3 if head == heads[-1] else ".run_version=9")
            self.lines(*genuine, line, ' x"')
            pbs = self.run_hook("EXECHOST_PERIODIC", job={"job_list": [{"id": "2.srv"}, {"id": "15.srv"}]})
            with self.subTest(head):
                self.assertEqual([word.split()[0] for word in self.called()[-1][0][2:]], ["2.srv/1"])
                self.assertIn('wrong="15.srv is also told of by a user"', pbs.log[0])

    def test_no_line_makes_the_reading_slow(self):
        """Twice as much takes about twice as long; a minute would be the square of it."""
        for part in (".id[", "[", '["', ".a.", '"', "]"):
            text = 'pbs.event().job_list["1.srv"].id=1\npbs.event().job_list' + part * 300000
            with self.subTest(part):
                began = time.process_time()
                self.assertEqual(converged_hook.forged(text + "\n" + text + ".queue=\n"), {"1.srv"})
                self.assertLess(time.process_time() - began, 20)

    def test_the_lines_are_those_that_this_process_was_started_with(self):
        path = self.write("input", "pbs.event().job.id=1\n")
        code = "import converged_hook; print(converged_hook.told_by_mom(), end='')"
        for words, told in ((["--hook", "-i", path], b"pbs.event().job.id=1\n"), (["-i", "/none"], b""), ([], b"")):
            argv = [sys.executable, "-B", "-c", code, *words]  # no bytecode into the checkout
            said = subprocess.check_output(argv, env={"PYTHONPATH": ":".join(sys.path)})
            self.assertEqual(said, told)


class Holes(HookCase):
    """What the predecessor let happen, by its number in the list of holes."""

    def test_r2_r3_r4_r9_b6_b10_no_text_of_a_user_reaches_a_command_or_a_file(self):
        for text in HOSTILE:
            plain, before = self.run_hook(), sorted(os.listdir(self.top))
            variables = {"PODNAME": text, "PBS_O_WORKDIR": text}
            pbs = self.run_hook(job={"Job_Name": text, "Account_Name": text, "Variable_List": variables})
            with self.subTest(text[:20]):
                first, second = self.called()[-2:]
                self.assertEqual(second, first)
                self.assertEqual(pbs.said, plain.said)
                self.assertNotIn(text, pbs.log[0])
                self.assertEqual(sorted(os.listdir(self.top)), before)

    def test_r7_b4_one_core_is_one_core_and_a_kilobyte_is_1024_bytes(self):
        self.run_hook(job={"exec_vnode": "(n1:ncpus=1:mem=655360kb)"})
        ((words, _environment),) = self.called()
        self.assertIn("--cpus=1", words)
        self.assertIn("--mem=671088640", words)

    def test_r10_b2_no_failure_rejects_the_end_of_a_job(self):
        for status in ("0", "1", "69", "75", "255"):
            self.write("status", status)
            with self.subTest(status):
                self.assertEqual(self.run_hook("EXECJOB_END", on_failure=REQUEUE).said, [ACCEPT])
        self.assertEqual(self.run_hook("EXECJOB_END", nodeshare=["/nowhere"], on_failure=DRAIN).said, [ACCEPT])

    def test_an_id_that_is_none_is_the_sites_choice_and_no_word(self):
        for text in (*HOSTILE, "1.srv --cpus=9", "1.srv/2", "", "1[].srv"):
            with self.subTest(text[:20]):
                pbs = self.run_hook(job={"id": text}, on_failure=REQUEUE)
                self.assertEqual((pbs.said, self.called()), (["reject"], []))
                self.assertIn('error="ValueError: ', pbs.log[0])
                jobs = [{"id": text}, {"id": "2.srv"}]
                self.run_hook("EXECHOST_PERIODIC", job={"job_list": jobs})
                self.assertEqual([word.split()[0] for word in self.called()[0][0][2:]], ["2.srv/1"])
                os.unlink(self.calls)
