# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sending pods away for a job: no job waits behind another one's slow evictions, and no pods hide others."""

import json
import threading
import time
import unittest
import unittest.mock
import urllib.parse

from nodeshare.controller.controller import Controller
from nodeshare.controller.decide import node_from
from nodeshare.controller.kube.api import PODS_PAGE, ClusterApi
from nodeshare.controller.kube.pods import FEW, Pods
from nodeshare.kube.client import ApiError, TooLong
from nodeshare.model.node.names import ANNOTATION
from nodeshare.model.node.observed import Pod
from test_controller_decisions import OURS, applied, node

LONG = 300.0
TAINT_SECONDS = 60.0  # only a fault takes so long


class Api:
    """Nodes and pods; evictions wait for `open`, and lists of all pods for `listing`."""

    def __init__(self, *items):
        self.items = {item["metadata"]["name"]: item for item in items}
        self.guests = {}
        self.evictions, self.lists = [], []
        self.open, self.listing = threading.Event(), threading.Event()
        self.asked, self.begun = threading.Semaphore(0), threading.Semaphore(0)

    def pods(self, names):
        self.lists.append(tuple(names))
        return {name: list(self.guests.get(name, ())) for name in names}

    def all_pods(self):
        found = {name: list(pods) for name, pods in self.guests.items()}
        self.lists.append(None)
        self.begun.release()
        if not self.listing.wait(LONG):
            raise AssertionError("never opened")
        return found

    def evict(self, pod):
        self.evictions.append(pod.uid)
        self.asked.release()
        if pod.namespace == "slow" and not self.open.wait(LONG):
            raise AssertionError("never opened")
        return pod.namespace == "slow"

    def patch(self, name, body):
        self.items[name] = applied(self.items[name], body)
        return node_from(self.items[name])

    def node(self, name):
        return node_from(self.items[name])

    def event(self, *_words):
        """No test here reads them."""


class Case(unittest.TestCase):
    def controller(self, *items, connections=4):
        self.api = Api(*items)
        self.addCleanup(self.api.listing.set)
        self.addCleanup(self.api.open.set)
        batch = unittest.mock.Mock(kube_names=frozenset, wlm_name=str)
        spool = unittest.mock.Mock(read=lambda: ())
        controller = Controller(
            api=self.api, batch=batch, spool=spool, connections=connections, remark=lambda _text: None, told=None
        )
        controller.replace([node_from(item) for item in items])
        self.addCleanup(controller.stop)
        self.addCleanup(self.api.open.set)
        return controller

    def beside(self, act, *arguments, **more):
        """Do something beside the test; returns a function that waits for what it returned."""
        said = []
        thread = threading.Thread(target=lambda: said.append(act(*arguments, **more)))
        thread.start()

        def wait():
            thread.join(LONG)
            return said[0]

        return wait

    @staticmethod
    def guests(count, namespace="slow"):
        return [Pod(namespace, "p{}".format(number), "{}-{}".format(namespace, number)) for number in range(count)]


class Slow(Case):
    def test_a_job_whose_pods_are_slow_to_evict_delays_no_other_jobs_taint_and_no_other_jobs_evictions(self):
        controller = self.controller(*(node("n{}".format(number)) for number in (1, 2, 3)))
        self.api.guests["n1"] = self.guests(60)
        first = self.beside(controller.begin, "slurm/1/0", ["n1"], give_up=time.monotonic() + LONG)
        for _ in range(2):
            self.assertTrue(self.api.asked.acquire(timeout=LONG))
        self.assertTrue(controller.begin("slurm/2/0", ["n2"], give_up=time.monotonic() + LONG).ok)
        self.api.guests["n3"] = self.guests(1, "quick")
        third = self.beside(controller.begin, "slurm/3/0", ["n3"], give_up=time.monotonic() + LONG)
        self.assertTrue(self.api.asked.acquire(timeout=LONG))
        self.assertEqual(self.api.evictions[2:3], ["quick-0"], "one job has a part of the connections, never all")
        self.api.guests.clear()
        self.assertTrue(third().ok)
        self.api.open.set()
        self.assertTrue(first().ok)

    def test_jobs_whose_evictions_take_all_connections_for_these_delay_no_taint_of_another_job(self):
        controller = self.controller(*(node("n{}".format(number)) for number in (1, 2, 3)))
        for number in (1, 2):
            name = "n{}".format(number)
            self.api.guests[name] = self.guests(60)
            self.beside(controller.begin, "slurm/{}/0".format(number), [name], give_up=time.monotonic() + LONG)
            for _ in range(2):
                self.assertTrue(self.api.asked.acquire(timeout=LONG))
        third = controller.begin("slurm/3/0", ["n3"], give_up=time.monotonic() + TAINT_SECONDS)
        self.assertEqual((third.ok, third.reason), (True, ""))
        self.assertEqual(len(self.api.evictions), 4, "evictions have as many connections as taints, and no more")
        self.assertFalse(self.api.open.is_set())
        self.api.guests.clear()

    def test_a_job_is_answered_at_its_deadline_whatever_evictions_are_under_way(self):
        controller = self.controller(node("n1"))
        self.api.guests["n1"] = self.guests(60)
        outcome = controller.begin("slurm/1/0", ["n1"], give_up=time.monotonic() + 0.5)
        self.assertEqual((outcome.ok, outcome.reason, outcome.left), (False, "pods have not left in time", 60))
        self.assertFalse(self.api.open.is_set())
        self.assertEqual(len(self.api.evictions), 2, "what was not begun is not begun after the deadline")


class Serial(Case):
    def test_serial_jobs_do_not_wait_for_a_pod_that_nobody_can_end_on_a_node_that_its_own_leases_hold(self):
        item = node("n1", taints=[OURS], leases='["slurm/1/0"]')
        controller = self.controller(item)
        self.api.guests["n1"] = [Pod("ns", "db-0", "u1", leaving=True, mounts=True)]
        for job in "234":
            outcome = controller.begin("slurm/{}/0".format(job), ["n1"], give_up=time.monotonic() + LONG)
            self.assertEqual((outcome.ok, outcome.reason), (True, ""))
            controller.end("slurm/{}/0".format(job), ["n1"], give_up=time.monotonic() + LONG)
        self.assertEqual((self.api.lists, self.api.evictions), ([], []))

    def test_a_node_that_takes_itself_while_its_job_waits_is_waited_for_no_longer(self):
        controller = self.controller(node("n1"))
        self.api.guests["n1"] = self.guests(1, "refused")
        began = self.beside(controller.begin, "slurm/1/0", ["n1"], give_up=time.monotonic() + LONG)
        self.assertTrue(self.api.asked.acquire(timeout=LONG))
        item = json.loads(json.dumps(self.api.items["n1"]))
        item["metadata"]["annotations"][ANNOTATION] = '["slurm/1/0"]'
        item["metadata"]["resourceVersion"] += "0"
        controller.changed("MODIFIED", node_from(item))
        self.assertTrue(began().ok)


class Shared(Case):
    names = tuple("n{}".format(number) for number in range(FEW + 1))

    def setUp(self):
        self.api = Api()
        self.pods = Pods(self.api, stopping=threading.Event())
        self.addCleanup(self.pods.shutdown, wait=True)
        self.addCleanup(self.api.listing.set)

    def test_all_that_wait_for_large_jobs_share_one_list_and_none_gets_one_that_began_before_its_call(self):
        first = self.beside(self.pods.on, self.names, give_up=time.monotonic() + LONG)
        self.assertTrue(self.api.begun.acquire(timeout=LONG))
        self.api.guests["n7"] = self.guests(1)  # bound after that list began
        for _ in range(20):
            with self.assertRaisesRegex(ApiError, "did not come in time"):
                self.pods.on(self.names, give_up=time.monotonic())
        self.assertEqual(self.api.lists, [None])
        later = self.beside(self.pods.on, self.names, give_up=time.monotonic() + LONG)
        self.api.listing.set()
        self.assertEqual(set(map(len, first().values())), {0})
        found = later()
        self.assertEqual((len(found), [pod.uid for pod in found["n7"]]), (FEW + 1, ["slow-0"]))
        self.assertIn(len(self.api.lists), (2, 3))

    def test_a_list_that_fails_is_told_to_all_and_the_next_is_made(self):
        self.api.listing.set()
        answers = [ApiError(500, "etcd"), {}]
        self.api.all_pods = lambda: self.raised(answers.pop(0))
        with self.assertRaisesRegex(ApiError, "etcd"):
            self.pods.on(self.names, give_up=time.monotonic() + LONG)
        self.assertEqual(len(self.pods.on(self.names, give_up=time.monotonic() + LONG)), FEW + 1)

    @staticmethod
    def raised(answer):
        if isinstance(answer, Exception):
            raise answer
        return answer

    def test_few_nodes_are_asked_one_by_one(self):
        self.pods.on(self.names[:FEW], give_up=time.monotonic() + LONG)
        self.assertEqual(self.api.lists, [tuple(sorted(self.names[:FEW]))])


class Pages(unittest.TestCase):
    """Pods as the API has them, of which an answer may have so many bytes."""

    def setUp(self):
        self.sizes, self.paths = {}, []
        self.longest = 1000
        self.api = ClusterApi("/none", timeout=LONG)
        client = unittest.mock.Mock(request=self.request)
        self.api.client = lambda: client

    def request(self, _method, path, *, read):
        self.paths.append(path)
        query = {name: words[0] for name, words in urllib.parse.parse_qs(path.partition("?")[2]).items()}
        start, limit = int(query.get("continue", 0)), int(query["limit"])
        names = sorted(self.sizes)[start : start + limit]
        if sum(self.sizes[name] for name in names) > self.longest:
            raise TooLong(0, "too long")
        more = str(start + limit) if start + limit < len(self.sizes) else ""
        items = [
            {"metadata": {"namespace": "a", "name": name, "uid": name}, "spec": {"nodeName": "n1"}} for name in names
        ]
        return read({"kind": "PodList", "metadata": {"continue": more}, "items": items})

    def test_pods_too_big_for_one_answer_are_listed_in_smaller_pages_and_hide_no_other(self):
        self.sizes = {"p{:03}".format(number): 1 for number in range(500)}
        self.sizes.update({"p{:03}".format(number): 900 for number in range(100, 120)})
        for listed in (self.api.all_pods(), self.api.pods(["n1"])):
            self.assertEqual([pod.uid for pod in listed["n1"]], sorted(self.sizes))
        self.assertLess(len(self.paths), 150, "pages grow again behind them")

    def test_one_pod_that_is_too_long_for_any_answer_is_an_error_and_no_empty_list(self):
        self.sizes = {"p1": 1, "p2": 1001}
        with self.assertRaises(TooLong):
            self.api.pods(["n1"])

    def test_pages_are_short_and_finished_pods_are_left_out_by_the_api(self):
        self.api.all_pods()
        query = urllib.parse.parse_qs(self.paths[0].partition("?")[2])
        self.assertEqual(query["limit"], [str(PODS_PAGE)])
        expected = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
        self.assertEqual(query["fieldSelector"], [expected])


if __name__ == "__main__":
    unittest.main()
