# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What PBS says of jobs and nodes, word for word; what is cut off, odd or an error is never read as "gone"."""

import json
import os
import shutil
import tempfile
import time
import unittest
import unittest.mock

from nodeshare.batch import pbs as batch_pbs
from nodeshare.controller import settings as controller_settings
from nodeshare.controller.batch import pbs
from nodeshare.controller.decide import Jobs
from nodeshare.host.command import TooLongError
from nodeshare.model import settings
from nodeshare.model.actions import ENDING, GONE, LIVE
from nodeshare.model.answer import Answer
from nodeshare.model.jobs.job_key import JobKey
from nodeshare.model.jobs.lease import Lease

DOWN = "Connection refused\nqstat: cannot connect to server srv (errno=15010)\n"
NODES = {
    "n1": {"Mom": "n1", "state": "job-busy", "resources_available": {"host": "n1"}, "comment": "old, now meaningless"},
    "n2": {"Mom": "n2", "state": "free", "resources_available": {"host": "n2"}},
    "blue": {"Mom": "n2", "state": "offline", "resources_available": {"host": "n2"}, "comment": 42},
    "n3": {"Mom": "n3.dom", "state": "state-unknown,down", "comment": "node down: communication \u00e9"},
}


def lease(job="15.srv", run=1, *, wlm="pbs", corrupt=False, cgroup=""):
    return Lease(JobKey(wlm, job, run), "b", 0.0, corrupt=corrupt, cgroup=cgroup)


def answer(key=None, content=None):
    whole = {"timestamp": 1, "pbs_version": "23.06.06", "pbs_server": "srv"}
    if key is not None:
        whole[key] = content
    return json.dumps(whole)


def job(state="R", run=1, exec_vnode="(n1:ncpus=1:mem=1kb)", **more):
    found = {"Job_Name": "x", "job_state": state, "run_count": run, "exec_vnode": exec_vnode}
    found.update(more)
    return {name: value for name, value in found.items() if value is not None}


def reservation(name, hour, *, text=""):
    """What pbs_rstat says of a reservation that begins at this hour."""
    said = "Resv ID: {}\nReserve_Name = x\n{}reserve_start = Mon Nov 23 {:02}:00:00 2099\nresv_nodes = (n1:ncpus=1)\n\n"
    return said.format(name, text, hour)


class Asking(unittest.TestCase):
    def ask(self, leases, code=0, out="", err=""):
        asked = []

        def run(argv):
            asked.append(argv)
            return Answer(code, out if isinstance(out, str) else out[argv[4:]], err)

        return asked, batch_pbs.ask(leases, qstat="/q", run=run, here="n9.dom")

    def test_all_leases_are_one_question(self):
        leases = (lease("2.srv"), lease("15[1].srv"), lease("2.srv", 2), lease("7", wlm="slurm"))
        asked, _found = self.ask(leases, out=answer())
        self.assertEqual(asked, [("/q", "-f", "-F", "json", "15[1].srv", "2.srv")])
        self.assertEqual(self.ask((lease("7", wlm="slurm"),)), ([], {}))

    def test_a_run_lives_ends_or_is_over(self):
        cases = [("R", 1, LIVE), ("S", 1, LIVE), ("U", 1, LIVE), ("E", 1, ENDING), ("R", 2, GONE), ("E", 2, GONE)]
        cases += [(state, 1, GONE) for state in "QHWTFXM"] + [("R", 0, None), ("B", 1, None), ("?", 1, None)]
        for state, run, verdict in cases:
            found = self.ask((lease(),), out=answer("Jobs", {"15.srv": job(state, run)}))[1]
            with self.subTest(state, run=run):
                self.assertEqual(found, {} if verdict is None else {"pbs/15.srv/1": verdict})

    def test_a_count_that_the_owner_has_raised_ends_no_run_while_the_job_has_this_host(self):
        here = ({"exec_vnode": "(n9:ncpus=1)"}, {"exec_vnode": "(blue:ncpus=1)", "exec_host": "N1/0+n9/0*2"})
        here += ({"exec_vnode": "(n9[0]:ncpus=1)"},)
        for state, verdict in (("R", LIVE), ("S", LIVE), ("E", ENDING), ("Q", GONE)):
            for placed in here:
                out = answer("Jobs", {"15.srv": job(state, 9, **placed)})
                with self.subTest(state, **placed):
                    self.assertEqual(self.ask((lease(),), out=out)[1], {"pbs/15.srv/1": verdict})

    def test_a_run_is_the_one_that_hooks_see_whatever_the_owner_of_the_job_has_set(self):
        for count in (0, 1, 9):
            for version, verdict in ((1, LIVE), (2, GONE)):
                out = answer("Jobs", {"15.srv": job("R", count, run_version=version)})
                with self.subTest(count=count, version=version):
                    self.assertEqual(self.ask((lease(),), out=out)[1], {"pbs/15.srv/1": verdict})

    def test_a_job_that_pbs_does_not_know_is_gone_and_the_others_are_judged(self):
        leases = (lease("1.srv"), lease("2.srv"), lease("3[4].srv"))
        err = "qstat: Unknown Job Id 1.srv\nqstat: 3[4].srv Job has finished, use -x or -H to obtain historical jobs\n"
        for code in (153, 35):
            found = self.ask(leases, code=code, out=answer("Jobs", {"2.srv": job()}), err=err)[1]
            self.assertEqual(found, {"pbs/1.srv/1": GONE, "pbs/2.srv/1": LIVE, "pbs/3[4].srv/1": GONE})

    def test_what_is_no_answer_leaves_all_as_it_is(self):
        good = answer("Jobs", {"15.srv": job("F")})
        unknown = "qstat: Unknown Job Id 15.srv\n"
        for code, out, err in (
            (255, answer(), DOWN),
            (0, answer(), ""),  # an empty list is no word about this job
            (0, good[:-20], ""),
            (0, "", ""),
            (0, "[]", ""),
            (0, "{}", ""),
            (0, '{"timestamp": 1, "Jobs": []}', ""),
            (0, '{"timestamp": 1, "Jobs": {"15.srv": 7}}', ""),
            (0, answer("Jobs", {"15.srv": job(None)}), ""),
            (0, answer("Jobs", {"15.srv": job(run="many")}), ""),
            (0, "[" * 100000, ""),
            (153, "", unknown),
            (159, answer(), unknown),
            (153, answer(), "qstat: Unknown Job Id 151.srv\n"),
            (153, answer(), "qstat: Unauthorized Request 15.srv\n"),
        ):
            with self.subTest(out[:30], code=code):
                self.assertEqual(self.ask((lease(),), code=code, out=out, err=err)[1], {})

    def test_a_job_that_cannot_be_read_hides_no_other(self):
        odd, good = answer("Jobs", {"1.srv": job(None)}), answer("Jobs", {"2.srv": job()})
        out = {("1.srv", "2.srv"): odd, ("1.srv",): odd, ("2.srv",): good}
        self.assertEqual(self.ask((lease("1.srv"), lease("2.srv")), out=out)[1], {"pbs/2.srv/1": LIVE})

    def test_what_a_user_wrote_so_deep_as_pbs_reads_it_blinds_nobody(self):
        for deep in ("[" * 1000 + "]" * 1000, '{"a":' * 1000 + "1" + "}" * 1000):
            out = answer("Jobs", {"15.srv": job(Variable_List={"X": "deep"})}).replace('"deep"', deep)
            self.assertEqual(self.ask((lease(),), out=out)[1], {"pbs/15.srv/1": LIVE})

    def test_what_a_user_wrote_makes_no_difference(self):
        wrote = {"Variable_List": {"job_state": "F", "x": "\t\x01"}, "Job_Name": "job_state = F", "Account_Name": 12345}
        out = answer("Jobs", {"15.srv": job(**wrote)}).replace("\\u0001", "\x01")
        self.assertEqual(self.ask((lease(),), out=out)[1], {"pbs/15.srv/1": LIVE})


class Life(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.top)

    def write(self, path, text=""):
        path = os.path.join(self.top, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as stream:
            stream.write(text)

    def life(self, *leases):
        found = batch_pbs.life(leases, home=self.top, cgroup=os.path.join(self.top, "cgroup"))
        return [found.get(str(one.key)) for one in leases]

    def test_a_job_new_on_the_list_of_the_mom_lives_in_its_last_run(self):
        self.write("mom_priv/jobs/15[1].srv.JB")
        leases = (lease("15[1].srv", 2), lease("15[1].srv", 3), lease("15.srv"), lease("7", wlm="slurm"))
        self.assertEqual(self.life(*leases), [False, True, False, None])
        self.assertEqual(self.life(leases[0]), [True])
        os.utime(os.path.join(self.top, "mom_priv/jobs/15[1].srv.JB"), (0, time.time() - batch_pbs.LISTED_SECONDS))
        self.assertEqual(self.life(leases[0]), [False])

    def test_a_clock_that_was_set_back_by_a_day_makes_no_dead_job_new(self):
        self.write("mom_priv/jobs/15.srv.JB")
        for ahead, expected in ((86400.0, [False]), (1.0, [True])):
            os.utime(os.path.join(self.top, "mom_priv/jobs/15.srv.JB"), (0, time.time() + ahead))
            self.assertEqual(self.life(lease("15.srv")), expected)

    def test_a_job_with_a_process_in_its_cgroup_lives_on_v1_and_v2(self):
        for number, place in enumerate(("cgroup/cpuset/a/{}", "cgroup/a/{}")):
            self.write(place.format(number) + "/cgroup.procs", "4711\n")
            self.write(place.format("empty") + "/cgroup.procs")
            leases = [lease(cgroup="a/" + name) for name in (str(number), "empty", "none")]
            self.assertEqual([self.life(one) for one in leases], [[True], [False], [False]])

    def test_a_process_outside_any_job_is_no_sign(self):
        self.write("cgroup/cpuset/cgroup.procs", "1\n")
        self.assertEqual(self.life(lease()), [False])


class Controller(unittest.TestCase):
    def batch(self, answers, *, names=None, ignored=(), host="srv.dom"):
        self.asked, self.remarks = [], []

        def run(argv):
            self.asked.append(argv)
            said = answers[argv[1] if argv[0] == "/q" else argv[0]]
            said = said(argv[-1] if argv[0] == "/r" else argv[4:]) if callable(said) else said
            if isinstance(said, Exception):
                raise said
            return said if isinstance(said, Answer) else Answer(0, said, "")

        return pbs.PbsBatch(
            run=run,
            qstat="/q",
            pbsnodes="/p",
            pbs_rstat="/r",
            host=host,
            names=names or {},
            remark=self.remarks.append,
            ignored=frozenset(ignored),
        )

    def site(self, jobs, **nodes):
        """Jobs that `qstat` knows, and the jobs of each vnode that `pbsnodes` lists."""
        self.jobs, self.nodes = jobs, nodes

        def qstat(names):
            unknown = "".join("qstat: Unknown Job Id {}\n".format(name) for name in names if name not in self.jobs)
            found = {name: self.jobs[name] for name in names if name in self.jobs}
            return Answer(153 if unknown else 0, answer("Jobs", found), unknown)

        def pbsnodes(_names):
            shown = {
                name: dict(fields, jobs=self.nodes[name]) if name in self.nodes else fields
                for name, fields in NODES.items()
            }
            for name, text in getattr(self, "reserved", {}).items():
                shown[name] = dict(shown[name], resv=text)
            return Answer(0, answer("nodes", shown), "")

        return {"-f": qstat, "/p": pbsnodes}

    def asked_about(self):
        """The jobs that each call of qstat was about, since the last look."""
        found = [sorted(argv[4:]) for argv in self.asked if argv[0] == "/q"]
        del self.asked[:]
        return found

    def test_nodes_of_jobs_are_their_hosts_by_kubernetes_names_as_soon_as_pbs_has_chosen_them(self):
        jobs = {
            "1.srv": job("R", substate=41, exec_vnode="(n1:ncpus=1)+(n2:ncpus=1+blue:ncpus=2)"),
            "2[1].srv": job("R", run=2, exec_vnode="(blue:ncpus=1)"),
            "3.srv": job("E"),
        }
        answers = self.site(jobs, n1=["1.srv", "3.srv"], n2=["1.srv"], blue=["1.srv/0", "1.srv/1", "2[1].srv"])
        batch = self.batch(answers, names={"n1": "k1"})
        expected = {"pbs/1.srv/1": frozenset(["k1", "n2"]), "pbs/2[1].srv/2": frozenset(["n2"])}
        self.assertEqual(batch.jobs(), Jobs(expected, frozenset(["pbs/3.srv/1"])))
        self.assertEqual(batch.states()["n2"], "offline: 42")
        self.assertEqual([argv[0] for argv in self.asked], ["/p", "/q"], "one look at the nodes serves both")

    def reservations(self, said, **reserved):
        """Return a site with reservations, by vnode; `said` is what pbs_rstat says of each."""
        answers = self.site({}, n1=[], n2=[], blue=[])
        self.reserved = reserved
        answers["/r"] = lambda argv: said[argv]
        return answers

    def hours(self, batch):
        """Return when the next reservation begins on each node, and forget which were asked about before."""
        batch.jobs(), batch.states()
        del self.asked[:]
        found = batch.starts()
        return found and {name: at and time.localtime(at)[:4] for name, at in found.items()}

    def test_reservations_begin_on_the_nodes_that_the_server_says_and_each_is_asked_about(self):
        said = {"R1.srv": reservation("R1.srv", 10), "S2.srv": reservation("S2.srv", 9)}
        answers = self.reservations(said, n1="R1.srv, S2.srv", blue="R1.srv")
        batch = self.batch(answers, names={"n1": "k1"})
        expected = {"k1": (2099, 11, 23, 9), "n2": (2099, 11, 23, 10)}
        self.assertEqual(self.hours(batch), expected, "the vnode blue is on n2")
        self.assertEqual(self.asked, [("/r", "-F", "R1.srv"), ("/r", "-F", "S2.srv")])
        self.reserved = {}
        self.assertEqual((self.hours(batch), self.asked), ({}, []), "no node has a reservation")
        answers["/p"] = OSError("no server")
        self.assertIsNone(self.hours(batch))

    def test_no_text_of_a_reservation_tells_when_another_begins(self):
        forged = "Resv ID: R1.srv\nreserve_start = Sun Nov  1 09:00:00 2099\n"
        said = {"R1.srv": reservation("R1.srv", 10), "R9.srv": reservation("R9.srv", 9, text=forged)}
        batch = self.batch(self.reservations(said, n1="R1.srv", n2="R9.srv"))
        self.assertEqual(self.hours(batch), {"n1": (2099, 11, 23, 10)}, "one with two beginnings has none")

    def test_a_reservation_of_which_it_cannot_be_told_when_it_begins_changes_nothing(self):
        whole = reservation("R1.srv", 10)
        for odd in ("", whole[:-9], reservation("R2.srv", 10), Answer(1, "", "unknown"), OSError("no end within 20 s")):
            batch = self.batch(self.reservations({"R1.srv": odd}, n1="R1.srv"))
            with self.subTest(odd):
                self.assertEqual(self.hours(batch), {"n1": None})
                self.assertTrue(self.remarks)

    def test_a_reservation_without_an_answer_hides_only_what_begins_on_its_own_nodes(self):
        gone = Answer(1, "", "pbs_rstat: Unknown Reservation Id R1.srv")
        said = {"R1.srv": gone, "R2.srv": reservation("R2.srv", 9), "R3.srv": reservation("R3.srv", 8)}
        batch = self.batch(self.reservations(said, n1="R1.srv,R3.srv", n2="R2.srv"))
        self.assertEqual(self.hours(batch), {"n1": None, "n2": (2099, 11, 23, 9)})
        said["R1.srv"] = reservation("R1.srv", 7)
        self.assertEqual(self.hours(batch), {"n1": (2099, 11, 23, 7), "n2": (2099, 11, 23, 9)})
        said["R1.srv"] = gone
        self.assertEqual(self.hours(batch)["n1"], (2099, 11, 23, 7), "it keeps what it said last")

    def test_what_is_no_id_of_a_reservation_is_not_asked_about(self):
        batch = self.batch(self.reservations({}, n1="--version, -F, R1 srv", n2=None))
        self.assertEqual((self.hours(batch), self.asked), ({}, []))

    def test_reservations_are_asked_about_in_turn_as_there_is_time(self):
        names = ["R{}.srv".format(number) for number in range(5)]
        said = {name: reservation(name, 10) for name in names}
        batch = self.batch(self.reservations(said, n1=",".join(names)))
        now = [0.0]

        def monotonic():
            now[0] += pbs.RESERVATIONS_SECONDS * 0.3
            return now[0]

        def asked():
            with unittest.mock.patch.object(pbs.time, "monotonic", monotonic):
                found = self.hours(batch)
            return found, [argv[2][1] for argv in self.asked]

        self.assertEqual(asked(), ({"n1": None}, ["0", "1", "2"]))
        self.assertIn("2 of 5 reservations not asked about", self.remarks[0])
        self.assertEqual(asked(), ({"n1": (2099, 11, 23, 10)}, ["3", "4", "0"]))
        said["R1.srv"] = reservation("R1.srv", 8)
        self.assertEqual(asked(), ({"n1": (2099, 11, 23, 8)}, ["1", "2", "3"]))

    def test_jobs_that_wait_are_not_asked_about_and_those_that_are_known_but_once(self):
        jobs = {"{}.srv".format(number): job("Q", run=0, exec_vnode=None) for number in range(1000)}
        jobs.update({"2000.srv": job(), "2001.srv": job()})
        batch = self.batch(self.site(jobs, n1=["2000.srv"]))
        for _ in range(3):
            self.assertEqual(set(batch.jobs().holding), {"pbs/2000.srv/1"})
        self.assertEqual(self.asked_about(), [["2000.srv"]])
        self.nodes["n1"].append("2001.srv")
        self.assertEqual(len(batch.jobs().holding), 2)
        self.assertEqual(self.asked_about(), [["2001.srv"]])

    def test_a_suspended_job_leaves_its_nodes_list_and_holds_them_until_it_has_ended(self):
        batch = self.batch(self.site({"1.srv": job()}, n1=["1.srv"]))
        held = Jobs({"pbs/1.srv/1": frozenset(["n1"])})
        self.assertEqual(batch.jobs(), held)
        for state in "SU":
            self.jobs["1.srv"], self.nodes["n1"] = job(state), []
            self.assertEqual(batch.jobs(), held)
        self.jobs["1.srv"], self.nodes["n1"] = job(), ["1.srv"]
        self.assertEqual(batch.jobs(), held)
        self.jobs, self.nodes["n1"] = {}, []
        self.assertEqual(batch.jobs(), Jobs({}))
        self.asked_about()
        self.assertEqual((batch.jobs(), self.asked_about()), (Jobs({}), []))

    def test_a_job_that_is_run_again_elsewhere_holds_its_new_nodes(self):
        batch = self.batch(self.site({"1.srv": job()}, n1=["1.srv"]))
        batch.jobs()
        self.jobs["1.srv"], self.nodes = job(run=2, exec_vnode="(n2:ncpus=1)"), {"n2": ["1.srv"]}
        self.assertEqual(batch.jobs(), Jobs({"pbs/1.srv/2": frozenset(["n2"])}))
        self.jobs["1.srv"], self.nodes = job("Q", run=2, exec_vnode=None), {}
        self.assertEqual(batch.jobs(), Jobs({}))

    def test_a_job_that_cannot_be_read_holds_its_nodes_and_hides_no_other(self):
        jobs = {"{}.srv".format(number): job() for number in range(7)}
        jobs["3.srv"] = job(None)
        batch = self.batch(self.site(jobs, n1=sorted(jobs)))
        expected = {"pbs/{}.srv/{}".format(number, int(number != 3)) for number in range(7)}
        self.assertEqual(set(batch.jobs().holding), expected)
        self.assertIn("'3.srv': no job with a state", self.remarks[0])
        self.nodes["n1"] = []  # suspended, or over: cannot be told
        self.assertIn("pbs/3.srv/0", batch.jobs().holding)
        self.jobs["3.srv"], self.nodes["n1"] = job(), ["3.srv"]
        self.assertIn("pbs/3.srv/1", batch.jobs().holding)

    def test_an_answer_that_is_too_long_is_asked_for_in_parts(self):
        jobs = {"{}.srv".format(number): job() for number in range(9)}
        answers = self.site(jobs, n1=sorted(jobs))
        whole = answers["-f"]
        answers["-f"] = lambda names: whole(names) if len(names) < 3 else TooLongError("more than 3 bytes")
        self.assertEqual(len(self.batch(answers).jobs().holding), 9)

    def test_no_word_about_a_job_is_not_its_end(self):
        answers = self.site({"1.srv": job()}, n1=["1.srv"])
        batch = self.batch(answers)
        held, said = batch.jobs(), answers["-f"]
        self.nodes["n1"] = []
        for odd in (answer(), answer("Jobs", {"1.srv": job(None)}), "{}"):
            answers["-f"] = odd
            self.assertEqual(batch.jobs(), held)
        self.jobs, answers["-f"] = {}, said
        self.assertEqual(batch.jobs(), Jobs({}))

    def test_jobs_of_pods_hold_no_node_against_pods(self):
        jobs = {"1.srv": job(queue="pods"), "2.srv": job("E", queue="pods"), "3.srv": job(queue="workq")}
        batch = self.batch(self.site(jobs, n1=sorted(jobs)), ignored=("pods",))
        self.assertEqual(batch.jobs(), Jobs({"pbs/3.srv/1": frozenset(["n1"])}))
        self.asked_about()
        self.assertEqual(batch.jobs(), Jobs({"pbs/3.srv/1": frozenset(["n1"])}))
        self.assertEqual(self.asked_about(), [["2.srv"]])

    def test_the_queues_of_pods_are_names(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        path = os.path.join(folder, "controller.json")
        for value, expected in ((["pods"], {"pods"}), ([], set()), ("pods", None), ([""], None), ([7], None)):
            with open(path, "w") as stream:
                json.dump({"host": "srv", "ignored_queues": value}, stream)
            with self.subTest(value=value):
                if expected is not None:
                    self.assertEqual(controller_settings.load(path).ignored_queues, expected)
                else:
                    with self.assertRaisesRegex(settings.SettingsError, "a list of names"):
                        controller_settings.load(path)

    def test_no_jobs_is_an_answer(self):
        self.assertEqual(self.batch({"/p": answer("nodes", NODES)}).jobs(), Jobs({}))

    def test_states_that_close_a_vnode_close_its_host(self):
        batch = self.batch({"/p": answer("nodes", NODES)}, names={"n3.dom": "n3"})
        down = "down+state-unknown: node down: communication \\xe9"
        self.assertEqual(batch.states(), {"n1": "", "n2": "offline: 42", "n3": down})

    def test_who_is_in_control_is_the_server_that_is_active(self):
        for host, expected in (("srv", True), ("srv.dom", True), ("other.dom", False)):
            batch = self.batch({"-B": answer("Server", {"name": {"server_host": host}})})
            self.assertIs(batch.in_control(), expected)

    def test_an_error_is_no_list(self):
        cut = answer("Jobs", {"1.srv": job()})[:-9]
        for said in (Answer(255, answer(), DOWN), OSError("no end within 20 s"), "", cut, "null", '{"Jobs": {}}'):
            batch = self.batch(dict.fromkeys(("-f", "-B", "/p"), said))
            self.assertEqual((batch.jobs(), batch.states(), batch.in_control()), (None, None, None))
            self.assertTrue(self.remarks)
        for said in (Answer(255, answer(), DOWN), OSError("no end within 20 s")):
            batch = self.batch(dict(self.site({}, n1=["1.srv"]), **{"-f": said}))
            self.assertIsNone(batch.jobs())
            self.assertTrue(self.remarks)
        for nodes in ({}, {"n1": dict(NODES["n1"], jobs="1.srv")}, {"n1": dict(NODES["n1"], jobs=[7])}):
            odd = self.batch({"/p": answer("nodes", nodes)})
            self.assertEqual((odd.jobs(), odd.states()), (None, None))


if __name__ == "__main__":
    unittest.main()
