# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller tells Nodes when their jobs end: which Nodes it writes in the time that it has, and in what order."""

import threading
import types
import unittest
import unittest.mock

from nodeshare.controller import controller as module
from nodeshare.controller.controller import ENDS_SECONDS, Controller
from nodeshare.controller.decide import HELD_BY, HELD_UNTIL, SHARE_MODE, node_from
from nodeshare.kube.client import ApiError

NOON = 4099118400.0
JOB = "slurm/1/0"


def held_node(name, until=""):
    annotations = {HELD_BY: JOB}
    if until:
        annotations[HELD_UNTIL] = until
    labels = {SHARE_MODE: "handover"}
    return {"metadata": {"name": name, "resourceVersion": "1", "annotations": annotations, "labels": labels}}


class Telling(unittest.TestCase):
    def setUp(self):
        self.now = 0.0
        self.seconds = 0.0  # that each write takes
        self.written = []
        self.errors = {}  # by node
        self.remarks = []
        self.ends = {JOB: NOON}
        clock = types.SimpleNamespace(monotonic=lambda: self.now, time=lambda: self.now)
        patched = unittest.mock.patch.object(module, "time", clock)
        patched.start()
        self.addCleanup(patched.stop)

    def patch(self, name, body, manager=""):
        self.now += self.seconds
        self.written.append(name)
        if name in self.errors:
            raise self.errors[name]
        meta = self.items[name]["metadata"]
        meta["resourceVersion"] = str(int(meta["resourceVersion"]) + 1)
        for key, text in body["metadata"]["annotations"].items():
            meta["annotations"].pop(key, None)
            if text is not None:
                meta["annotations"][key] = text
        return node_from(self.items[name])

    def controller(self, *items):
        self.items = {item["metadata"]["name"]: item for item in items}
        batch = unittest.mock.Mock(kube_names=frozenset, wlm_name=str, ends=lambda: self.ends)
        made = Controller(
            api=unittest.mock.Mock(patch=self.patch),
            batch=batch,
            spool=unittest.mock.Mock(read=lambda: ()),
            connections=1,
            remark=self.remarks.append,
            told=None,
        )
        self.addCleanup(made.stop)
        made.replace([node_from(item) for item in items])
        return made

    def told(self, controller):
        """The Nodes that one look has written."""
        del self.written[:]
        controller.tell_ends()
        return list(self.written)

    def test_what_there_is_no_time_for_is_written_at_the_next_look(self):
        controller = self.controller(*(held_node("n{}".format(number)) for number in range(7)))
        self.seconds = ENDS_SECONDS * 0.45
        self.assertEqual(self.told(controller), ["n0", "n1", "n2"])
        self.ends = {JOB: NOON + 3600}
        self.assertEqual(self.told(controller), ["n3", "n4", "n5"], "the first are due again, and wait")
        self.assertEqual(self.told(controller), ["n6", "n0", "n1"])

    def test_a_node_that_the_api_refuses_to_change_stops_none_behind_it(self):
        controller = self.controller(held_node("n1"), held_node("n2"), held_node("n3"))
        self.errors = {"n1": ApiError(422, "a policy denies it")}
        self.assertEqual(self.told(controller), ["n1", "n2", "n3"])
        self.assertEqual(self.remarks, [HELD_UNTIL + ": a policy denies it"])
        self.errors = {"n1": ApiError(500, "broken")}
        self.assertEqual(self.told(controller), ["n1"], "the API is asked again at the next look")

    def test_an_end_that_is_known_no_more_goes_also_where_no_job_has_one(self):
        controller = self.controller(held_node("n1", until=JOB + "=2099-11-23T12:00:00Z"))
        self.ends = None
        self.assertEqual(self.told(controller), [], "the batch system did not tell")
        self.ends = {}
        self.assertEqual(self.told(controller), ["n1"])
        self.assertNotIn(HELD_UNTIL, self.items["n1"]["metadata"]["annotations"])

    def test_a_node_that_is_written_just_now_is_passed_over_and_told_behind_the_others(self):
        controller = self.controller(held_node("n1"), held_node("n2"))
        taint = controller._writing.setdefault("n1", threading.Lock())
        with taint:
            self.assertEqual(self.told(controller), ["n2"], "a taint is under way on n1")
        self.items["n2"]["metadata"]["annotations"].clear()
        controller.replace([node_from(item) for item in self.items.values()])
        self.seconds = ENDS_SECONDS * 2
        self.assertEqual(self.told(controller), ["n1"])

    def test_a_node_that_was_written_just_now_is_come_back_to_within_the_look(self):
        controller = self.controller(held_node("n1"), held_node("n2"))
        taint = controller._writing.setdefault("n1", threading.Lock())
        taint.acquire()
        writes = self.patch

        def patch(name, body, manager=""):
            if name == "n2":
                taint.release()
            return writes(name, body, manager)

        controller.api.patch = patch
        self.assertEqual(self.told(controller), ["n2", "n1"])

    def test_no_taint_is_written_beside_an_end(self):
        controller = self.controller(held_node("n1"))
        held = []
        writes = self.patch

        def patch(name, body, manager=""):
            held.append(controller._writing[name].locked())
            return writes(name, body, manager)

        controller.api.patch = patch
        controller.tell_ends()
        self.assertEqual((held, controller._writing["n1"].locked()), ([True], False))


if __name__ == "__main__":
    unittest.main()
