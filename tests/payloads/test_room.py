# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What pods ask for, as the kubelet counts it, and which of them make room."""

import random
import unittest

from nodeshare.decide import room
from nodeshare.model.node.observed import Guest, Pod, Room
from nodeshare.model.pods import pod_resources
from nodeshare.model.pods.placeholder import PRIORITY
from seeds import seeds


def requests(**wanted):
    return {"resources": {"requests": wanted}}


class Quantities(unittest.TestCase):
    def test_every_form_of_the_api_is_exact_in_thousandths(self):
        for text, amount in (
            ("1", 1000),
            ("500m", 500),
            ("0.5", 500),
            (".5", 500),
            ("2.", 2000),
            ("1e3", 1000000),
            ("1E", 10**21),
            ("1Ei", 1000 << 60),
            ("100n", 1),
            ("1.5Gi", 1536000 << 20),
            ("1Ki", 1024000),
            ("128974848", 128974848000),
            ("129e6", 129000000000),
            ("12E-1", 1200),
            ("0", 0),
            ("+1", 1000),
            ("9Ei", 1000 * (2**63 - 1)),  # the API caps what is binary
            ("1e99", 10**102),
        ):
            self.assertEqual(pod_resources.thousandths(text), amount, text)

    def test_what_is_no_quantity_is_refused(self):
        for text in ("", ".", "m", "-1", "1_000", " 1", "NaN", "1KB", "1.5.5", "1" * 65, "1e999", "1\n"):
            with self.assertRaises(ValueError, msg=text):
                pod_resources.thousandths(text)


class Requests(unittest.TestCase):
    def test_containers_run_together_and_init_containers_before_them(self):
        for spec, cpu in (
            ({"containers": [requests(cpu="1"), requests(cpu="500m"), {}]}, 1500),
            ({"containers": [requests(cpu="1")], "initContainers": [requests(cpu="3"), requests(cpu="2")]}, 3000),
            ({"containers": [requests(cpu="1")], "overhead": {"cpu": "250m"}}, 1250),
            ({"containers": [requests(cpu="1")], "resources": {"requests": {"cpu": "4"}}}, 4000),
            (
                {
                    "containers": [requests(cpu="1")],
                    "initContainers": [dict(requests(cpu="1"), restartPolicy="Always"), requests(cpu="3")],
                },
                4000,
            ),
        ):
            self.assertEqual(pod_resources.requests_of(spec), {"cpu": cpu, "pods": 1000}, spec)

    def test_gangs_are_known_by_the_names_of_their_schedulers(self):
        for meta, spec, gang in (
            ({"annotations": {"scheduling.k8s.io/group-name": "g"}}, {}, "g"),
            ({"annotations": {"scheduling.volcano.sh/group-name": "g"}}, {}, "g"),
            ({"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, {}, "g"),
            ({}, {"schedulingGroup": {"podGroupName": "g"}}, "g"),
            ({"labels": None}, {"schedulingGroup": None}, ""),
        ):
            self.assertEqual(pod_resources.gang_of(meta, spec), gang, (meta, spec))


def guest(name, cpu, *, priority=0, gang="", stays=False, leaving=False, over=False):
    pod = Pod("ns", name, name, stays, leaving, over)
    return Guest(pod, priority, gang, {"cpu": cpu, "memory": cpu, "pods": 1000})


def names(guests):
    return [one.pod.name for one in guests]


class Victims(unittest.TestCase):
    def chosen(self, cpu, *guests, allocatable=8000):
        found = Room(True, "", {"cpu": allocatable, "memory": 10**9, "pods": 100000}, guests)
        return names(room.victims({"cpu": cpu, "pods": 1000}, found))

    def test_who_goes_and_who_is_spared(self):
        for guests, cpu, expected in (
            ((guest("a", 2000),), 6000, []),
            ((guest("a", 2000),), 6001, ["a"]),
            ((guest("a", 4000), guest("b", 4000)), 1000, ["a"]),
            ((guest("low", 1000, priority=-1), guest("big", 7000)), 1000, ["low"]),
            ((guest("low", 1000, priority=-1), guest("big", 7000)), 2000, ["big"]),
            ((guest("member", 4000, gang="g"), guest("single", 4000)), 4000, ["single"]),
            ((guest("a", 4000, gang="f"), guest("b", 2000, gang="g"), guest("c", 2000, gang="g")), 4000, ["a"]),
            (
                (guest("a", 3000, gang="f"), guest("b", 2500, gang="g"), guest("c", 2500, gang="g")),
                5000,
                ["b", "c"],
            ),
            ((guest("small", 1000), guest("large", 7000)), 3000, ["large"]),
            ((guest("stays", 8000, stays=True),), 1000, []),
            ((guest("agent", 8000, priority=PRIORITY),), 1000, []),
            (
                (guest("agent", 4000, priority=PRIORITY), guest("cluster", 4000, priority=PRIORITY - 1)),
                1000,
                ["cluster"],
            ),
            ((guest("going", 8000, leaving=True),), 1000, []),
            ((guest("over", 8000, over=True),), 8000, []),
        ):
            self.assertEqual(self.chosen(cpu, *guests), expected, (guests, cpu))

    def test_of_those_that_leave_only_whose_place_is_needed_lingers(self):
        for guests, cpu, expected in (
            ((guest("a", 2000, leaving=True),), 6000, []),
            ((guest("a", 2000, leaving=True),), 6001, ["a"]),
            ((guest("a", 4000, leaving=True), guest("b", 4000, leaving=True)), 1000, ["a"]),
            ((guest("a", 4000, leaving=True), guest("b", 4000)), 1000, ["a"]),
            ((guest("a", 4000, leaving=True), guest("b", 4000)), 8000, ["a"]),
            ((guest("a", 8000, leaving=True, stays=True),), 1000, []),
            ((guest("a", 8000, leaving=True, over=True),), 1000, []),
            ((guest("a", 8000, leaving=True, priority=PRIORITY),), 1000, []),
        ):
            found = Room(True, "", {"cpu": 8000, "pods": 100000}, guests)
            self.assertEqual(names(room.lingering({"cpu": cpu, "pods": 1000}, found)), expected, (guests, cpu))

    def test_placeholders_may_have_what_those_leave_that_stay(self):
        for one, left in (
            (guest("web", 3000), 8000),
            (guest("logger", 3000, stays=True), 5000),
            (guest("agent", 3000, priority=PRIORITY), 5000),
            (guest("agent", 3000, priority=PRIORITY, leaving=True), 5000),
            (guest("agent", 3000, priority=PRIORITY, over=True), 8000),
            (guest("cluster", 3000, priority=PRIORITY - 1000), 8000),
        ):
            found = Room(True, "", {"cpu": 8000}, (one,))
            self.assertEqual(room.left_by_stayers(found), (("cpu", left),), one)

    def test_a_resource_that_is_not_short_takes_no_victim(self):
        found = Room(True, "", {"cpu": 8000, "memory": 9000}, (guest("a", 8000),))
        self.assertEqual(names(room.victims({"memory": 1000}, found)), [])
        self.assertEqual(names(room.victims({"memory": 2000}, found)), ["a"])

    def test_enough_go_where_that_helps_and_never_one_too_many(self):
        for seed in seeds("room_victims", 300):
            chance = random.Random(seed)
            guests = [
                guest(str(number), chance.choice([500, 1000, 2000]), priority=chance.choice([0, 5]))
                for number in range(chance.randrange(1, 10))
            ]
            used = sum(one.requests["cpu"] for one in guests)
            need = chance.choice([500, 3000, 8000])
            gone = [one for one in guests if one.pod.name in self.chosen(need, *guests, allocatable=max(used, 8000))]
            freed = sum(one.requests["cpu"] for one in gone)
            missing = need + used - max(used, 8000)
            self.assertGreaterEqual(freed, missing, seed)
            for one in gone:
                self.assertLess(freed - one.requests["cpu"], missing, seed)
            spared = [one for one in guests if one not in gone]
            if gone and spared:
                highest = max(one.priority for one in gone)
                low = sum(one.requests["cpu"] for one in guests if one.priority < highest)
                self.assertLess(low, missing, "a higher one went though lower ones were enough")


if __name__ == "__main__":
    unittest.main()
