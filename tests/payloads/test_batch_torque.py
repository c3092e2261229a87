# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Torque says of jobs and nodes, word for word; what is cut off, odd or an error is never read as "gone"."""

import os
import shutil
import tempfile
import unittest

from nodeshare.batch import torque as batch_torque
from nodeshare.controller.batch import torque
from nodeshare.controller.decide import Jobs
from nodeshare.model.actions import ENDING, GONE, LIVE
from nodeshare.model.answer import Answer
from nodeshare.model.jobs.job_key import JobKey
from nodeshare.model.jobs.lease import Lease

HEAD = '<?xml version="1.0"?>\n'
DOWN = "qstat: cannot connect to server srv (errno=111) Connection refused\n"
UNKNOWN = "qstat: Unknown Job Id Error 15.srv\n"


def lease(job="15.srv", run=1, wlm="torque"):
    return Lease(JobKey(wlm, job, run), "b", 0.0)


def element(name="15.srv", state="R", exec_host="n9/0-3", more=""):
    placed = "<exec_host>{}</exec_host>".format(exec_host) if exec_host else ""
    text = "<Job><Job_Id>{}</Job_Id><Job_Name>x</Job_Name><job_state>{}</job_state>{}{}</Job>"
    return text.format(name, state, placed, more)


def answer(*elements):
    return "{}<Data>{}</Data>\n".format(HEAD, "".join(elements))


def names_jobs(*lines):
    """The server's own attributes, of which these say how it names jobs."""
    told = "".join("    {}\n".format(line) for line in ("server_state = Active", *lines, "pbs_version = 6.1.3"))
    return Answer(0, "Server: srv\n" + told + "\n", "")


class Asking(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.home)
        self.has_server("srv\n")
        self.server = names_jobs()

    def has_server(self, text):
        """Write the file by which commands of Torque find their server."""
        with open(os.path.join(self.home, "server_name"), "w") as stream:
            stream.write(text)

    def ask(self, leases, said):
        """Each question but the one about the server is about one job; `said` is an answer, or one for each job."""
        self.asked = []

        def run(argv):
            self.asked.append(argv)
            if argv[1:] == ("-B", "-f"):
                return self.server
            return said[argv[2]] if isinstance(said, dict) else said

        return batch_torque.ask(leases, qstat="/q", run=run, home=self.home, here="n9.dom")

    def test_each_job_is_a_question_and_other_systems_jobs_are_none(self):
        leases = (lease("2.srv"), lease("2.srv", 2), lease("7", wlm="slurm"), lease("3.srv", wlm="pbs"))
        found = self.ask(leases, Answer(0, answer(element("2.srv")), ""))
        self.assertEqual(self.asked, [("/q", "-x", "2.srv")])
        self.assertEqual(found, {"torque/2.srv/1": LIVE, "torque/2.srv/2": LIVE})

    def test_a_job_lives_here_ends_here_or_is_over(self):
        cases = [("R", "n9/0-3", LIVE), ("R", "n1/0+N9.dom/2", LIVE), ("S", "n9/0", LIVE), ("E", "n9/0", ENDING)]
        cases += [(state, "n9/0", GONE) for state in "QHWTC"] + [(state, "", GONE) for state in "QHWTC"]
        cases += [("R", "n1/0-3", GONE), ("S", "n91/0", GONE), ("R", "", None), ("?", "n9/0", None)]
        for state, hosts, verdict in cases:
            found = self.ask((lease(),), Answer(0, answer(element(state=state, exec_host=hosts)), ""))
            with self.subTest(state, hosts=hosts):
                self.assertEqual(found, {} if verdict is None else {"torque/15.srv/1": verdict})

    def test_only_the_code_for_an_unknown_job_with_its_words_says_that_it_is_gone(self):
        self.assertEqual(self.ask((lease(),), Answer(153, "", UNKNOWN)), {"torque/15.srv/1": GONE})
        for said in (
            Answer(153, "", ""),
            Answer(153, answer(element()), UNKNOWN),
            Answer(159, "", "qstat: Unauthorized Request 15.srv\n"),
            Answer(111, "", DOWN),
            Answer(0, "", ""),
            Answer(0, answer(), ""),
            Answer(0, answer(element("151.srv")), ""),
            Answer(0, answer(element())[:-12], ""),
            Answer(0, answer(element(state="")), ""),
            Answer(0, answer(element(exec_host="n9/0+x")), ""),
            Answer(162, "", UNKNOWN),
            Answer(1, "", UNKNOWN),
        ):
            with self.subTest(said=said):
                self.assertEqual(self.ask((lease(),), said), {})

    def test_a_job_of_another_server_is_not_gone_because_this_one_does_not_know_it(self):
        cases = [("srv", "15.srv", True), ("srv.a.org:15001\n", "15.srv", True), ("SRV", "15[2].srv.a.org", True)]
        cases += [("first,srv.a.org\n", "15.SRV.a.org", True), ("srv", "15", False), ("", "15", False)]
        cases += [("srv", "5.other-srv", False), ("srv.a.org", "15.srv.b.org", False), ("srv", "15.srv2", False)]
        cases += [("", "15.srv", False), (" \n,", "15.srv", False), ("a.srv", "15.srv", False)]
        for text, job, told in cases:
            self.has_server(text)
            with self.subTest(text, job=job):
                found = self.ask((lease(job),), Answer(153, "", UNKNOWN))
                self.assertEqual(list(found.values()), [GONE] if told else [])
        os.remove(os.path.join(self.home, "server_name"))
        self.assertEqual(self.ask((lease(),), Answer(153, "", UNKNOWN)), {})
        self.home = ""
        self.assertEqual(self.ask((lease(),), Answer(153, "", UNKNOWN)), {})

    def test_a_job_of_this_server_is_gone_by_whatever_name_the_server_gives_its_jobs(self):
        """Torque finds no job by a name of another form, also not where the job lives."""
        alias, hidden = "job_suffix_alias = Big_One", "display_job_server_suffix = False"
        cases = [((), "15.srv", True), (("display_job_server_suffix = True",), "15.srv", True)]
        cases += [((alias,), "15.srv.big_one", True), ((alias,), "15[3].srv.Big_One", True)]
        cases += [((alias,), "15.srv", False), ((alias,), "15.big_one", False), ((alias,), "15.srv2.big_one", False)]
        cases += [((alias,), "15.srv.a.org.big_one", False), ((alias,), "15", False), ((alias,), "15.srv.other", False)]
        cases += [((hidden, alias), "15.big_one", True), ((hidden, alias), "15.srv.big_one", False)]
        cases += [((hidden,), "15", True), ((hidden,), "15.srv", False), ((hidden,), "15.big_one", False)]
        for text in ("srv", "srv.a.org"):
            self.has_server(text)
            for lines, job, told in cases:
                self.server = names_jobs(*lines)
                with self.subTest(text, lines=lines, job=job):
                    found = self.ask((lease(job),), Answer(153, "", UNKNOWN))
                    self.assertEqual(list(found.values()), [GONE] if told else [])
        self.has_server("srv")
        self.server = names_jobs("job_suffix_alias = " + "a" * 20 + "\n\t" + "b" * 20)
        self.assertTrue(self.ask((lease("1.srv." + "a" * 20 + "b" * 20),), Answer(153, "", UNKNOWN)))

    def test_a_server_that_does_not_tell_how_it_names_jobs_is_believed_nothing(self):
        for said in (Answer(111, "", DOWN), Answer(0, "", ""), Answer(0, "srv\n", ""), Answer(1, "Server: srv\n", "")):
            self.server = said
            with self.subTest(said=said):
                self.assertEqual(self.ask((lease(),), Answer(153, "", UNKNOWN)), {})

    def test_how_jobs_are_named_is_asked_once_and_only_where_a_job_is_unknown(self):
        self.ask((lease("1.srv"), lease("2.srv")), Answer(153, "", UNKNOWN))
        self.assertEqual(self.asked, [("/q", "-x", "1.srv"), ("/q", "-x", "2.srv"), ("/q", "-B", "-f")])

    def test_a_server_that_is_down_is_asked_once(self):
        self.assertEqual(self.ask((lease("1.srv"), lease("2.srv")), Answer(111, "", DOWN)), {})
        self.assertEqual(len(self.asked), 1)

    def test_a_job_that_this_host_may_not_see_hides_no_other(self):
        said = {"1.srv": Answer(159, "", "no"), "2.srv": Answer(0, answer(element("2.srv")), "")}
        self.assertEqual(self.ask((lease("1.srv"), lease("2.srv")), said), {"torque/2.srv/1": LIVE})

    def test_what_a_user_wrote_makes_no_difference(self):
        for wrote in (
            "\n    exec_host = n1/0",
            "bell\x07\x00",
            "&lt;job_state&gt;C&lt;/job_state&gt;",
            '&lt;?xml version="1.0"?&gt;&lt;Data&gt;',
            "\ufffd &nonsense; ]]&gt;",
            "$(reboot) `x` \"'",
        ):
            more = "<Account_Name>{0}</Account_Name><Variable_List>A={0}</Variable_List>".format(wrote)
            said = Answer(0, answer(element(more=more)), "")
            with self.subTest(wrote=wrote):
                self.assertEqual(self.ask((lease(),), said), {"torque/15.srv/1": LIVE})

    def test_a_document_type_is_no_answer(self):
        bomb = '<!DOCTYPE x [<!ENTITY a "aaaa">]>' + answer(element())[len(HEAD) :]
        self.assertEqual(self.ask((lease(),), Answer(0, HEAD + bomb, "")), {})

    def test_an_answer_cut_anywhere_within_a_job_is_none(self):
        whole = answer(element(more="<Resource_List><nodes>1</nodes></Resource_List>"))
        for end in range(len(HEAD + "<Data>") + 1, len(whole) - 1):
            with self.assertRaises(ValueError):
                batch_torque.jobs(whole[:end])


class Life(unittest.TestCase):
    def test_a_job_lives_here_as_long_as_the_mom_has_its_file(self):
        top = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, top)
        os.makedirs(os.path.join(top, "mom_priv", "jobs"))
        long = "15.srv." + "a" * 60
        for name in ("15.srv.JB", "31-2.srv.JB", "40.srv.SC", long[:61] + ".JB"):
            open(os.path.join(top, "mom_priv", "jobs", name), "w").close()
        leases = (
            lease(),
            lease("31[2].srv"),
            lease("40.srv"),
            lease("16.srv"),
            lease("15.srv", wlm="pbs"),
            lease(long),
        )
        self.assertEqual(
            batch_torque.life(leases, home=top),
            {
                "torque/15.srv/1": True,
                "torque/31[2].srv/1": True,
                "torque/40.srv/1": False,
                "torque/16.srv/1": False,
                "torque/{}/1".format(long): True,
            },
        )


class Site(unittest.TestCase):
    def setUp(self):
        self.jobs = {}
        self.nodes = {"n1": "", "n2": ""}
        self.words = {"n2": ("free", "old, now meaningless")}
        self.asked = []
        self.remarks = []
        self.said = {}

    def batch(self, names=None, ignored=()):
        return torque.TorqueBatch(
            run=self.run_one,
            qstat="/q",
            pbsnodes="/p",
            host="srv",
            names=names or {},
            remark=self.remarks.append,
            ignored=frozenset(ignored),
        )

    def run_one(self, argv):
        self.asked.append(argv)
        odd = self.said.get(argv[:2]) or self.said.get(argv)
        if odd is not None:
            if isinstance(odd, OSError):
                raise odd
            return odd
        if argv[0] == "/p":
            return Answer(0, self.nodes_now(), "")
        if argv[1] == "-B":
            return Answer(0, "Server  Max\n", "")
        known = [name for name in argv[2:] if name in self.jobs]
        missing = [name for name in argv[2:] if name not in self.jobs]
        err = "".join("qstat: Unknown Job Id Error {}\n".format(name) for name in missing)
        return Answer(153 if missing else 0, "".join(answer(self.jobs[name]) for name in known), err)

    def nodes_now(self):
        found = []
        for name, jobs in sorted(self.nodes.items()):
            state, note = self.words.get(name, ("free", ""))
            text = "<Node><name>{}</name><state>{}</state><np>4</np><jobs>{}</jobs><note>{}</note></Node>"
            found.append(text.format(name, state, jobs, note))
        return "<Data>{}</Data>\n".format("".join(found))

    def questions(self):
        found = [argv[2:] for argv in self.asked if argv[:2] == ("/q", "-x")]
        del self.asked[:]
        return found

    def test_nodes_of_jobs_are_their_hosts_by_kubernetes_names(self):
        self.jobs = {
            "1.srv": element("1.srv", "R", "n1/0-1+n2/0", "<start_count>1</start_count>"),
            "2[1].srv": element("2[1].srv", "R", "n2/1,3", "<start_count>2</start_count>"),
        }
        self.nodes = {"n1": "0-1/1.srv", "n2": "0/1.srv,1,3/2[1].srv"}
        expected = {"torque/1.srv/1": frozenset(["k1", "n2"]), "torque/2[1].srv/2": frozenset(["n2"])}
        self.assertEqual(self.batch(names={"n1": "k1"}).jobs(), Jobs(expected))

    def test_jobs_that_are_known_are_asked_about_but_once(self):
        self.jobs = {"1.srv": element("1.srv", exec_host="n1/0"), "2.srv": element("2.srv", exec_host="n1/1")}
        self.nodes["n1"] = "0/1.srv"
        batch = self.batch()
        for _ in range(3):
            self.assertEqual(set(batch.jobs().holding), {"torque/1.srv/0"})
        self.assertEqual(self.questions(), [("1.srv",)])
        self.nodes["n1"] = "0/1.srv,1/2.srv"
        self.assertEqual(len(batch.jobs().holding), 2)
        self.assertEqual(self.questions(), [("2.srv",)])

    def test_a_suspended_job_leaves_its_nodes_list_and_holds_them_until_it_has_ended(self):
        self.jobs = {"1.srv": element("1.srv", exec_host="n1/0")}
        self.nodes["n1"] = "0/1.srv"
        batch = self.batch()
        held = Jobs({"torque/1.srv/0": frozenset(["n1"])})
        self.assertEqual(batch.jobs(), held)
        self.jobs["1.srv"], self.nodes["n1"] = element("1.srv", "S", "n1/0"), ""
        self.assertEqual(batch.jobs(), held)
        self.jobs["1.srv"] = element("1.srv", "C", "n1/0")
        self.assertEqual(batch.jobs(), Jobs({}))
        self.questions()
        self.assertEqual((batch.jobs(), self.questions()), (Jobs({}), []))

    def test_no_word_about_a_job_is_not_its_end(self):
        self.jobs = {"1.srv": element("1.srv", exec_host="n1/0")}
        self.nodes["n1"] = "0/1.srv"
        batch = self.batch()
        held = batch.jobs()
        self.nodes["n1"] = ""
        for odd in (Answer(0, "", ""), Answer(0, answer()[:-5], ""), Answer(0, answer(element("1.srv", "")), "")):
            self.said[("/q", "-x", "1.srv")] = odd
            self.assertEqual(batch.jobs(), held)
        for odd in (Answer(111, "", DOWN), Answer(159, "", "no"), OSError("no end within 20 s")):
            self.said[("/q", "-x", "1.srv")] = odd
            self.assertIsNone(batch.jobs())
        self.jobs, self.said = {}, {}
        self.assertEqual(batch.jobs(), Jobs({}))

    def test_a_job_that_the_server_does_not_know_holds_a_node_that_lists_it(self):
        self.jobs = {"1.srv": element("1.srv", exec_host="n1/0")}
        self.nodes = {"n1": "0/1.srv,1/7.other", "n2": "0/7.other"}
        batch = self.batch()
        both = {"torque/1.srv/0": frozenset(["n1"]), "torque/7.other/0": frozenset(["n1", "n2"])}
        for _ in range(3):
            self.assertEqual(batch.jobs(), Jobs(both))
        self.nodes = {"n1": "", "n2": ""}
        self.jobs = {}
        self.assertEqual(batch.jobs(), Jobs({}), "neither the server nor a node has them")

    def test_jobs_of_pods_hold_no_node_against_pods(self):
        queue = "<queue>pods</queue>"
        self.jobs = {
            "1.srv": element("1.srv", exec_host="n1/0", more=queue),
            "2.srv": element("2.srv", exec_host="n1/1"),
        }
        self.nodes["n1"] = "0/1.srv,1/2.srv"
        expected = Jobs({"torque/2.srv/0": frozenset(["n1"])})
        self.assertEqual(self.batch(ignored=("pods",)).jobs(), expected)

    def test_states_that_close_a_node_and_its_note(self):
        self.words = {"n1": ("offline,job-exclusive", "disk &lt;1&gt;"), "n2": ("free,job-exclusive", "meaningless")}
        self.assertEqual(self.batch(names={"n2": "k2"}).states(), {"n1": "offline: disk <1>", "k2": ""})
        self.words = {"n1": ("down", "ERROR: prolog/epilog failed, file: x, exit: 1"), "n2": ("busy", "")}
        self.assertEqual(self.batch().states()["n1"], "down: ERROR: prolog/epilog failed, file: x, exit: 1")

    def test_in_control_is_the_server_that_answers_by_its_own_name(self):
        self.assertIs(self.batch().in_control(), True)
        self.said[("/q", "-B", "srv")] = Answer(111, "", DOWN)
        self.assertIs(self.batch().in_control(), False)
        self.said[("/q", "-B")] = Answer(111, "", DOWN)
        self.assertIsNone(self.batch().in_control())
        self.said = {("/q", "-B", "srv"): Answer(33, "", "trqauthd")}
        self.assertIsNone(self.batch().in_control())
        self.said = {("/q", "-B", "srv"): OSError("no end within 20 s")}
        self.assertIsNone(self.batch().in_control())

    def test_an_error_is_no_list(self):
        for said in (
            Answer(1, "", "pbsnodes: Unauthorized Request"),
            OSError("no end within 20 s"),
            Answer(0, "", ""),
            Answer(0, "<Data></Data>", ""),
            Answer(0, self.nodes_now()[:-9], ""),
            Answer(0, "<Data><Node><name>n1</name></Node></Data>", ""),
            Answer(0, "<Data><Node><name>n1</name><state>free</state><jobs>x</jobs></Node></Data>", ""),
        ):
            self.said[("/p", "-x")] = said
            batch = self.batch()
            self.assertEqual((batch.jobs(), batch.states()), (None, None))
            self.assertTrue(self.remarks)


if __name__ == "__main__":
    unittest.main()
