# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's decisions: what a Node must say, in a table and through random histories of jobs and restarts."""

import calendar
import copy
import random
import time
import unittest

from nodeshare.controller.decide import (
    HELD_BY,
    HELD_UNTIL,
    LISTED,
    PLANNED,
    PLANNED_START,
    SHARE_MODE,
    STATE,
    Jobs,
    JobsByNode,
    NodeHolders,
    decide_nodes,
    ends_patch,
    node_from,
    patch_of,
    start_text,
)
from nodeshare.model.node.names import ANNOTATION, TAINT
from seeds import seeds

OURS = {"key": TAINT, "effect": "NoSchedule"}
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
NOON = "2099-11-23T12:00:00Z"
A, B = "slurm/1/0", "slurm/2/0"
KNOWS = {"state": "", "acting": True, "may_lift": True}


def node(name="n1", *, taints=(), held="", leases="", state="", version="5", mode="handover", start="", until=""):
    annotations = {HELD_BY: held, ANNOTATION: leases, STATE: state, PLANNED_START: start, "site": "x"}
    annotations[HELD_UNTIL] = until
    return {
        "metadata": {
            "name": name,
            "uid": "u-" + name,
            "resourceVersion": version,
            "annotations": {key: value for key, value in annotations.items() if value},
            "labels": {SHARE_MODE: mode} if mode else {},
        },
        "spec": {"taints": [dict(taint) for taint in taints], "unschedulable": CORDON in taints},
    }


def applied(item, patch):
    """What the API makes of a merge patch."""
    if patch["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
        raise AssertionError("not by compare-and-set")
    new = copy.deepcopy(item)
    for key, value in patch["metadata"].get("annotations", {}).items():
        new["metadata"]["annotations"].pop(key, None)
        if value is not None:
            new["metadata"]["annotations"][key] = value
    new["spec"].update(patch.get("spec", {}))
    new["metadata"]["resourceVersion"] = str(int(item["metadata"]["resourceVersion"]) + 1)
    return new


# What the case is, the node, what is believed of it, changed annotations, changed spec.
TAINTED, LIFTED = {"taints": [OURS]}, {"taints": []}
CASES = (
    ("a first job", node(), {"holders": (A,)}, {HELD_BY: A}, TAINTED),
    ("a second one costs no write", node(taints=[OURS], held=A), {"holders": (A, B)}, None, None),
    ("the listed one has ended", node(taints=[OURS], held=A), {"holders": (B,)}, {HELD_BY: B}, None),
    ("the last one has ended", node(taints=[OURS], held=A), {}, {HELD_BY: None}, LIFTED),
    (
        "the last one has ended, and its end goes with it",
        node(taints=[OURS], held=A, until=A + "=" + NOON),
        {},
        {HELD_BY: None, HELD_UNTIL: None},
        LIFTED,
    ),
    (
        "ends of jobs that are listed stay",
        node(taints=[OURS], held=A, until=A + "=" + NOON),
        {"holders": (A,)},
        None,
        None,
    ),
    (
        "the end of a job that is listed no more goes",
        node(taints=[OURS], held=A, until=A + "=" + NOON),
        {"holders": (B,)},
        {HELD_BY: B, HELD_UNTIL: None},
        None,
    ),
    ("leases of the node keep it", node(taints=[OURS], held=A, leases="l"), {}, None, None),
    ("leases alone taint it", node(leases="l"), {}, {}, TAINTED),
    ("no lease any more", node(taints=[OURS]), {}, {}, LIFTED),
    ("cannot tell is not gone", node(taints=[OURS], held=A), {"may_lift": False}, None, None),
    ("nor for a taint alone", node(taints=[OURS]), {"may_lift": False}, None, None),
    (
        "an unjudged entry stays",
        node(held=A),
        {"holders": (B,), "may_lift": False},
        {HELD_BY: B + "," + A},
        TAINTED,
    ),
    ("drained by the batch system", node(), {"state": "DRAIN: disk"}, {STATE: "DRAIN: disk"}, TAINTED),
    ("resumed", node(taints=[OURS], state="DRAIN"), {}, {STATE: None}, LIFTED),
    ("resumed under a job", node(taints=[OURS], held=A, state="DRAIN"), {"holders": (A,)}, {STATE: None}, None),
    ("states cannot be told", node(taints=[OURS], state="DRAIN"), {"state": None}, None, None),
    (
        "drained after its job",
        node(taints=[OURS], held=A),
        {"state": "DOWN"},
        {HELD_BY: None, STATE: "DOWN"},
        None,
    ),
    ("free and right", node(), {}, None, None),
    ("planned for a job that begins soon", node(), {"planned": True}, {STATE: PLANNED}, TAINTED),
    ("planned still", node(taints=[OURS], state=PLANNED), {"planned": True}, None, None),
    (
        "its job has begun",
        node(taints=[OURS], state=PLANNED),
        {"planned": True, "holders": (A,)},
        {HELD_BY: A, STATE: None},
        None,
    ),
    ("the plan has changed", node(taints=[OURS], state=PLANNED), {}, {STATE: None}, LIFTED),
    ("and states cannot be told", node(taints=[OURS], state=PLANNED), {"state": None}, {STATE: None}, LIFTED),
    ("planned and drained", node(), {"planned": True, "state": "DRAIN"}, {STATE: "DRAIN"}, TAINTED),
    ("planned beside pods", node(mode="placeholder"), {"planned": True}, None, None),
    ("the next start is told", node(), {"planned_start": NOON}, {PLANNED_START: NOON}, None),
    ("it is told already", node(start=NOON), {"planned_start": NOON}, None, None),
    ("no start is planned any more", node(start=NOON), {"planned_start": ""}, {PLANNED_START: None}, None),
    ("plans cannot be told", node(start=NOON), {"planned_start": None}, None, None),
    ("a start beside pods takes no whole node", node(mode="placeholder"), {"planned_start": NOON}, None, None),
    (
        "the mode has changed before a start",
        node(mode="placeholder", start=NOON),
        {"planned_start": NOON},
        {PLANNED_START: None},
        None,
    ),
    ("jobs stand beside pods there", node(mode="placeholder"), {"holders": (A,)}, None, None),
    ("beside pods of their own, too", node(mode="backed"), {"holders": (A,)}, None, None),
    ("not converted, or restored", node(mode=""), {"holders": (A,)}, None, None),
    ("not converted, and of a drained node's name", node(mode=""), {"state": "DRAIN: disk"}, None, None),
    ("not converted, and tainted by hand", node(mode="", taints=[OURS], leases="l"), {}, None, None),
    (
        "the mode has changed under a job",
        node(taints=[OURS], held=A, mode="placeholder"),
        {"holders": (A,)},
        {HELD_BY: None},
        LIFTED,
    ),
    (
        "drained where jobs stand beside pods",
        node(mode="placeholder"),
        {"holders": (A,), "state": "offline"},
        {STATE: "offline"},
        TAINTED,
    ),
    (
        "the node still says that it is taken",
        node(taints=[OURS], held=A, leases="l", mode="placeholder"),
        {"holders": (A,)},
        None,
        None,
    ),
    ("somebody else acts", node(taints=[OURS], held=A), {"acting": False}, None, None),
    ("a standby does not taint", node(leases="l"), {"acting": False}, None, None),
    ("a cordon stays", node(taints=[CORDON, OURS]), {}, {}, {"taints": [CORDON]}),
    (
        "a cordon stays when tainted",
        node(taints=[CORDON]),
        {"holders": (A,)},
        {HELD_BY: A},
        {"taints": [CORDON, OURS]},
    ),
)


class PatchTable(unittest.TestCase):
    def test_each_case_of_a_node_and_what_is_believed_of_it(self):
        for what, item, believed, annotations, spec in CASES:
            with self.subTest(what):
                patch = patch_of(node_from(item), NodeHolders(**dict(KNOWS, **believed)))
                if annotations is None:
                    self.assertIsNone(patch)
                    continue
                wanted = {"metadata": {"resourceVersion": "5"}}
                if annotations:
                    wanted["metadata"]["annotations"] = annotations
                if spec:
                    wanted["spec"] = spec
                self.assertEqual(patch, wanted)
                again = node_from(applied(item, patch))
                self.assertIsNone(
                    patch_of(again, NodeHolders(**dict(KNOWS, **believed))), "a second look finds nothing to do"
                )

    def test_a_thousand_holders_do_not_fill_the_annotation(self):
        holders = tuple("slurm/{}/0".format(number) for number in range(1000))
        patch = patch_of(node_from(node()), NodeHolders(holders, "", True, True))
        self.assertLess(len(patch["metadata"]["annotations"][HELD_BY]), 1000)

    def test_ends_are_told_of_listed_jobs_a_little_late_and_written_when_one_has_changed_by_minutes(self):
        noon = calendar.timegm(time.strptime(NOON, "%Y-%m-%dT%H:%M:%SZ"))
        item = node(held=A + "," + B)
        patch = ends_patch(node_from(item), {A: noon - 299.0, "slurm/3/0": noon})
        annotations = {HELD_UNTIL: A + "=" + NOON}
        self.assertEqual(patch, {"metadata": {"resourceVersion": "5", "annotations": annotations}})
        item["metadata"]["annotations"].update(annotations)
        for ends in ({A: noon - 1.0}, {A: noon}):
            with self.subTest(ends):
                self.assertIsNone(ends_patch(node_from(item), ends))
        found = ends_patch(node_from(item), {})
        self.assertEqual(found["metadata"]["annotations"], {HELD_UNTIL: None}, "suspended, or without a limit by now")
        found = ends_patch(node_from(item), {B: noon})
        self.assertEqual(found["metadata"]["annotations"], {HELD_UNTIL: B + "=" + NOON})
        found = ends_patch(node_from(item), {A: noon + 1.0, B: noon})
        text = A + "=2099-11-23T12:05:00Z," + B + "=" + NOON
        self.assertEqual(found["metadata"]["annotations"], {HELD_UNTIL: text})
        many = ["slurm/{}/0".format(number) for number in range(2 * LISTED)]
        found = ends_patch(node_from(node(held=",".join(many))), dict.fromkeys(many, noon))
        listed = found["metadata"]["annotations"][HELD_UNTIL].split(",")
        self.assertEqual(len(listed), LISTED, "an annotation has a bound")
        self.assertIsNone(ends_patch(node_from(node(held=A, mode="")), {A: noon}), "not converted")
        self.assertIsNone(ends_patch(node_from(node()), {A: noon}), "nothing holds it")

    def test_a_node_that_kubernetes_does_not_have_or_that_is_not_converted_is_named_and_skipped(self):
        beliefs = JobsByNode()
        beliefs.begin(A, ["n1", "ghost"])
        nodes = {"n1": node_from(node()), "cp1": node_from(node("cp1", mode=""))}
        decision = decide_nodes(nodes, beliefs, ["n1", "ghost", "cp1"])
        self.assertEqual((list(decision.patches), decision.unknown), (["n1"], ("ghost", "cp1")))


class BeliefTable(unittest.TestCase):
    def setUp(self):
        self.beliefs = JobsByNode()

    def listed(self, holding=(), ending=(), states=()):
        self.beliefs.ask()
        self.beliefs.take_jobs(Jobs({key: frozenset(["n1"]) for key in holding}, frozenset(ending)))
        self.beliefs.take_states(dict(states))

    def test_a_late_epilog_of_run_0_does_not_free_run_1(self):
        self.beliefs.begin("slurm/7/0", ["n1"])
        self.beliefs.begin("slurm/7/1", ["n1"])
        self.beliefs.end("slurm/7/0")
        self.assertEqual(self.beliefs.of("n1").holders, ("slurm/7/1",))

    def test_the_next_run_of_a_job_ends_the_one_before_it_and_no_other_job(self):
        for event in (self.beliefs.begin, lambda key, nodes: self.beliefs.end(key)):
            self.beliefs.begin("slurm/7/9", ["n1", "n2"])
            self.beliefs.begin("slurm/71/9", ["n2"])
            event("slurm/7/10", ["n1"])
            self.beliefs.end("slurm/7/10")
            self.assertEqual((self.beliefs.of("n1").holders, self.beliefs.of("n2").holders), ((), ("slurm/71/9",)))

    def test_the_end_of_an_earlier_run_is_not_taken_back_by_a_list_that_was_being_made(self):
        self.beliefs.begin("slurm/7/0", ["n1"])
        self.beliefs.ask()
        self.assertEqual(self.beliefs.end("slurm/7/1"), {"n1"})
        self.beliefs.take_jobs(Jobs({"slurm/7/0": frozenset(["n1"])}))
        self.assertEqual(self.beliefs.of("n1").holders, ())

    def test_a_job_is_gone_when_two_whole_lists_in_a_row_do_not_have_it(self):
        self.beliefs.begin(A, ["n1"])
        self.listed()
        self.assertEqual(self.beliefs.of("n1").holders, (A,))
        self.listed([A])
        self.listed()
        self.assertEqual(self.beliefs.of("n1").holders, (A,))
        self.listed()
        self.assertEqual(self.beliefs.of("n1").holders, ())

    def test_no_answer_changes_nothing_however_often(self):
        self.beliefs.begin(A, ["n1"])
        for _ in range(9):
            self.beliefs.ask()
            self.beliefs.take_jobs(None)
            self.beliefs.take_states(None)
        self.assertEqual(self.beliefs.of("n1"), NodeHolders((A,), None, True, False))

    def test_a_start_is_told_a_little_early_so_that_a_plan_that_moves_by_seconds_costs_no_write(self):
        noon = 4099118400.0
        self.assertEqual(start_text(None), "")
        self.assertEqual({start_text(noon + more) for more in (0.0, 1.5, 299.0)}, {start_text(noon)})
        self.assertNotEqual(start_text(noon - 1), start_text(noon))

    def test_before_the_first_plans_nothing_is_known_of_starts(self):
        self.assertIsNone(self.beliefs.of("n1").planned_start)
        self.beliefs.starts = {}
        self.assertEqual(self.beliefs.of("n1").planned_start, "")
        self.beliefs.starts = {"n1": None}
        self.assertIsNone(self.beliefs.of("n1").planned_start, "of this node it cannot be told")
        self.assertEqual(self.beliefs.of("n2").planned_start, "")

    def test_a_job_handed_over_while_the_list_was_made_is_not_missed_in_it(self):
        for _ in range(9):
            self.beliefs.ask()
            self.beliefs.begin(A, ["n1"])
            self.beliefs.take_jobs(Jobs({}))
            self.beliefs.ask()
            self.beliefs.take_jobs(Jobs({A: frozenset(["n1"])}))
        self.assertEqual(self.beliefs.of("n1").holders, (A,))

    def test_a_job_that_ended_while_the_list_was_made_does_not_come_back(self):
        self.beliefs.begin(A, ["n1"])
        self.beliefs.ask()
        self.beliefs.end(A)
        self.beliefs.take_jobs(Jobs({A: frozenset(["n1"])}))
        self.assertEqual(self.beliefs.of("n1").holders, ())

    def test_a_running_job_that_nobody_handed_over_is_taken_from_the_list(self):
        self.listed([A], ending=[B])
        self.assertEqual(self.beliefs.of("n1").holders, (A,))

    def test_a_job_that_is_ending_is_still_there(self):
        self.beliefs.begin(A, ["n1"])
        for _ in range(5):
            self.listed(ending=[A])
        self.assertEqual(self.beliefs.of("n1").holders, (A,))

    def test_a_node_that_the_batch_system_does_not_list_keeps_its_state(self):
        self.listed(states={"n2": ""})
        self.assertEqual((self.beliefs.of("n1").state, self.beliefs.of("n2").state), (None, ""))

    def test_nothing_may_be_lifted_before_two_whole_lists_and_the_states(self):
        self.beliefs.ask()
        self.beliefs.take_jobs(Jobs({}))
        self.assertFalse(self.beliefs.of("n1").may_lift)
        self.beliefs.take_jobs(Jobs({}))
        self.assertFalse(self.beliefs.of("n1").may_lift)
        self.beliefs.take_states({})
        self.assertTrue(self.beliefs.of("n1").may_lift)


class History:
    """A batch system, three Nodes and a controller that may die, be late or not be told."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.items = {name: node(name, version="1") for name in ("n1", "n2", "n3")}
        self.beliefs = JobsByNode()
        self.jobs = {}  # key -> nodes: what is really running
        self.told = set()  # of these, the ones that this life of the controller knows
        self.ever_told = set()  # or an earlier life did, too
        self.lifted = 0
        self.late = []  # keys whose epilog is on its way
        self.list = "none asked for"
        self.number = 0

    def step(self):
        act = self.random.choice(
            (
                *(self.start, self.finish, self.finish, self.requeue, self.epilog, self.epilog, self.ask, self.ask),
                *(self.take, self.take, self.lease, self.unlease, self.unlease, self.cordon, self.other_taint),
            )
        )
        (self.die if self.random.random() < 0.02 else act)()
        for name in self.random.sample(sorted(self.items), 2):
            self.settle(name)

    def settle(self, name):
        item = self.items[name]
        patch = decide_nodes({name: node_from(item)}, self.beliefs, [name]).patches.get(name)
        if patch is None:
            return
        new = applied(item, patch)
        assert "unschedulable" not in patch.get("spec", {})
        foreign = [taint for taint in item["spec"]["taints"] if taint["key"] != TAINT]
        assert [taint for taint in new["spec"]["taints"] if taint["key"] != TAINT] == foreign
        lifted = OURS in item["spec"]["taints"] and OURS not in new["spec"]["taints"]
        # A job that nobody told us of, and no list yet, is kept by its node's own leases.
        here = [key for key, nodes in self.jobs.items() if name in nodes and key in self.ever_told]
        assert not (lifted and here), "lifted under a job"
        self.lifted += lifted
        assert not (lifted and item["metadata"]["annotations"].get(ANNOTATION)), "lifted under a lease"
        self.items[name] = new

    def touch(self, name, change):
        item = copy.deepcopy(self.items[name])
        change(item)
        item["metadata"]["resourceVersion"] = str(int(item["metadata"]["resourceVersion"]) + 1)
        self.items[name] = item

    def any_node(self):
        return self.random.choice(sorted(self.items))

    def start(self, key=None):
        self.number += 1
        key = key or "slurm/{}/0".format(self.number)
        self.jobs[key] = frozenset(self.random.sample(sorted(self.items), self.random.randint(1, 3)))
        if self.random.random() < 0.8:
            self.beliefs.begin(key, self.jobs[key])
            self.told.add(key)
            self.ever_told.add(key)
            for name in self.jobs[key]:
                self.settle(name)
                assert OURS in self.items[name]["spec"]["taints"], "a job handed over, and no taint"

    def finish(self):
        """The key of what has ended, if anything has."""
        if self.jobs:
            key = self.random.choice(sorted(self.jobs))
            del self.jobs[key]
            self.told.discard(key)
            if self.random.random() < 0.8:
                self.late.append(key)
            return key
        return None

    def requeue(self):
        key = self.finish()
        if key:
            system, job, run = key.split("/")
            self.start("{}/{}/{}".format(system, job, int(run) + 1))

    def epilog(self):
        if self.late:
            self.beliefs.end(self.late.pop(self.random.randrange(len(self.late))))

    def ask(self):
        self.beliefs.ask()
        self.list = "asked for"

    def take(self):
        """The list is as things are at some moment after it was asked for: now, or not at all."""
        if self.list == "asked for":
            answers = self.random.random() < 0.8
            self.beliefs.take_jobs(Jobs(dict(self.jobs)) if answers else None)
            self.beliefs.take_states({} if answers else None)
            self.told |= set(self.jobs) if answers else set()
            self.ever_told |= self.told
            self.list = "none asked for"

    def lease(self):
        self.touch(self.any_node(), lambda item: item["metadata"]["annotations"].update({ANNOTATION: "l"}))

    def unlease(self):
        self.touch(self.any_node(), lambda item: item["metadata"]["annotations"].pop(ANNOTATION, None))

    def cordon(self):
        def toggle(item):
            taints = [taint for taint in item["spec"]["taints"] if taint != CORDON]
            item["spec"]["taints"] = taints if CORDON in item["spec"]["taints"] else [*taints, CORDON]

        self.touch(self.any_node(), toggle)

    def other_taint(self):
        def toggle(item):
            taints = [taint for taint in item["spec"]["taints"] if taint["key"] != "site"]
            item["spec"]["taints"] = [*taints, {"key": "site", "effect": "NoExecute"}]

        self.touch(self.any_node(), toggle)

    def die(self):
        self.beliefs = JobsByNode()
        self.told = set()
        self.list = "none asked for"

    def calm(self):
        """All jobs end, nobody is told, and lists come again."""
        self.jobs.clear()
        for name in self.items:
            self.touch(name, lambda item: item["metadata"]["annotations"].pop(ANNOTATION, None))
        for _ in range(2):
            self.beliefs.ask()
            self.beliefs.take_jobs(Jobs({}))
            self.beliefs.take_states({})
        for name in self.items:
            self.settle(name)


class RandomHistories(unittest.TestCase):
    def test_no_history_lifts_a_taint_under_a_job_or_leaves_one_behind(self):
        drawn, lifted = seeds("controller_histories", 400), 0
        for seed in drawn:
            with self.subTest(seed=seed):
                history = History(seed)
                for _ in range(60):
                    history.step()
                    for key in history.told & set(history.jobs):
                        self.assertIn(key, history.beliefs.nodes_of)
                lifted += history.lifted
                history.calm()
                for name, item in history.items.items():
                    self.assertNotIn(OURS, item["spec"]["taints"], name)
                    self.assertNotIn(HELD_BY, item["metadata"]["annotations"], name)
        self.assertGreater(lifted, len(drawn) * 3 // 4, "histories in which nothing is ever lifted prove nothing")


if __name__ == "__main__":
    unittest.main()
