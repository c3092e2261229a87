# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Large sites: a job of 1,000 nodes, 100,000 elements of an array, and webhooks that need 5 s for an eviction."""

import json
import os
import shutil
import tempfile
import threading
import time
import unittest
import unittest.mock

from api_server import ApiCase
from controller_api import ClusterServer
from marks import oldest_python_only
from nodeshare.controller.batch.slurm import NODE_FIELDS, REASON_FIELDS, SlurmBatch
from nodeshare.controller.controller import Controller
from nodeshare.controller.decide import HELD_BY, LISTED, JobsByNode, node_from
from nodeshare.controller.kube import api as cluster_api
from nodeshare.model.answer import Answer
from nodeshare.model.node.observed import Pod
from test_controller_decisions import applied, node

LONG = 300.0
NODES = 1000
ELEMENTS = 100000
CONNECTIONS = 16
WEBHOOK = 5.0


class Api:
    """Nodes, and a pod on each. An eviction takes `WEBHOOK` seconds by a clock that the test moves."""

    def __init__(self, *items):
        self.items = {item["metadata"]["name"]: item for item in items}
        self.patches, self.evicted, self.guests = 0, [], {}
        self.now, self.under_way, self.most = 0.0, [], 0
        self.moved = threading.Condition()

    def patch(self, name, body):
        with self.moved:
            self.patches += 1
        self.items[name] = applied(self.items[name], body)
        return node_from(self.items[name])

    def node(self, name):
        return node_from(self.items[name])

    def pods(self, names):
        return {name: list(self.guests.get(name, ())) for name in names}

    def all_pods(self):
        return self.pods(list(self.items))

    def evict(self, pod):
        with self.moved:
            due = self.now + WEBHOOK
            self.under_way.append(due)
            self.most = max(self.most, len(self.under_way))
            self.moved.notify_all()
            if not self.moved.wait_for(lambda: self.now >= due, LONG):
                raise AssertionError("the clock stands still")
            self.under_way.remove(due)
            self.evicted.append(pod.name)
            self.guests.pop(pod.name, None)
            self.moved.notify_all()  # behind the last ones no eviction begins
            return True

    def step(self, done):
        """Move the clock to the end of the next eviction, as soon as no further one begins; False: all is done."""
        with self.moved:
            if not self.moved.wait_for(lambda: self.full() or done.is_set(), LONG):
                raise AssertionError("no eviction")
            if done.is_set():
                return False
            self.now = min(self.under_way)
            self.moved.notify_all()
            return True

    def full(self):
        running = [due for due in self.under_way if due > self.now]
        return len(running) == len(self.under_way) > 0 and len(running) == min(CONNECTIONS // 2, len(self.guests))

    def event(self, *_words):
        """No test here reads them."""


class Scale(unittest.TestCase):
    def controller(self, batch):
        names = ["n{}".format(number) for number in range(NODES)]
        items = [node(name) for name in names]
        self.api, self.remarks = Api(*items), []
        spool = unittest.mock.Mock(read=lambda: ())
        controller = Controller(
            api=self.api, batch=batch, spool=spool, connections=CONNECTIONS, remark=self.remarks.append, told=None
        )
        self.addCleanup(controller.stop)
        controller.replace([node_from(item) for item in items])
        return controller, names

    def held(self):
        return [item["metadata"]["annotations"].get(HELD_BY, "") for item in self.api.items.values()]

    def until_written(self, count):
        give_up = time.monotonic() + LONG
        while self.api.patches < count:
            self.assertLess(time.monotonic(), give_up, "{} of {} patches".format(self.api.patches, count))
            time.sleep(0.02)

    def slurm(self):
        self.jobs, self.asked = "", []

        def run(argv):
            self.asked.append(argv)
            if argv[0] == "scontrol":
                return Answer(0, "Slurmctld(primary) at h is UP\n", "")
            if argv[-1] in (NODE_FIELDS, REASON_FIELDS):
                return Answer(0, "n[0-{}]^idle^\n".format(NODES - 1), "")
            return Answer(0, self.jobs if "State:^" in argv[-1] else "", "")

        return SlurmBatch(
            run=run, squeue="squeue", sinfo="sinfo", scontrol="scontrol", host="h", names={}, remark=self.fail
        )

    @oldest_python_only
    def test_a_hundred_thousand_elements_of_an_array_cost_one_write_for_each_node_and_no_line(self):
        controller, _names = self.controller(self.slurm())
        line = "{}^0^RUNNING^n{}^\n"
        self.jobs = "".join(line.format(number, number % NODES) for number in range(1, ELEMENTS + 1))
        controller.poll()
        self.until_written(NODES)
        for _ in range(2):
            controller.poll()
        self.assertEqual(len(controller.beliefs.nodes_of), ELEMENTS)
        self.assertLess(max(map(len, self.held())), 20 * LISTED, "an annotation names some jobs, not all")
        self.assertTrue(all(self.held()))
        self.jobs = ""
        for _ in range(2):
            controller.poll()
        self.until_written(2 * NODES)
        controller.poll()
        self.assertEqual((self.api.patches, set(self.held()), self.remarks), (2 * NODES, {""}, ["in control"]))
        self.assertEqual(controller.beliefs.nodes_of, {}, "nothing grows")
        self.assertFalse([argv for argv in self.asked if "PENDING" in " ".join(argv)])

    def test_a_job_that_begins_again_looks_through_no_other_jobs(self):
        class Unread(dict):
            def __iter__(self):
                raise AssertionError("looked through all jobs")

            items = keys = __iter__

        beliefs = JobsByNode()
        for number in range(100):
            beliefs.begin("slurm/{}/0".format(number), ["n1"])
        beliefs.nodes_of = Unread(beliefs.nodes_of)
        beliefs.begin("slurm/7/2", ["n2"])
        self.assertEqual(beliefs.end("slurm/8/1"), {"n1"})
        self.assertEqual(beliefs.end("slurm/7/1"), frozenset(), "a later run stays")
        self.assertEqual(len(beliefs.nodes_of), 99)
        self.assertEqual(beliefs.end("slurm/7/2"), {"n2"})

    def test_a_webhook_of_five_seconds_delays_evictions_of_a_large_job_and_nothing_else(self):
        batch = unittest.mock.Mock(kube_names=frozenset, wlm_name=str)
        controller, names = self.controller(batch)
        last = names.pop()
        self.api.guests = {name: [Pod("a", name, "u-" + name)] for name in names}
        done, said, before = threading.Event(), [], threading.active_count()

        def begin():
            said.append(controller.begin("slurm/1/0", names, give_up=time.monotonic() + LONG))
            with self.api.moved:
                done.set()
                self.api.moved.notify_all()

        thread = threading.Thread(target=begin)
        thread.start()
        self.assertTrue(self.api.step(done))
        self.assertTrue(controller.begin("slurm/2/0", [last], give_up=time.monotonic() + LONG).ok)
        self.assertEqual(self.api.patches, NODES, "all nodes are tainted within the time of one eviction")
        threads = threading.active_count()
        while self.api.step(done):
            pass
        thread.join()
        self.assertEqual((said[0].ok, said[0].evicted, said[0].left), (True, NODES - 1, 0))
        self.assertEqual(sorted(self.api.evicted), sorted(names), "each pod is asked once")
        self.assertEqual(self.api.most, CONNECTIONS // 2)
        self.assertEqual(self.api.now, WEBHOOK * -(-(NODES - 1) // (CONNECTIONS // 2)))
        self.assertLessEqual(threads - before, 2 * CONNECTIONS + 2)


class Webhook(ApiCase):
    def test_an_eviction_whose_webhook_needs_longer_than_other_requests_may_take_is_waited_for(self):
        server = ClusterServer(self.certificates, names=("n1",))
        self.addCleanup(server.close)
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        pem = self.certificates.client
        config = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [
                {"name": "c", "cluster": {"server": server.url, "certificate-authority": self.certificates.ca}}
            ],
            "users": [{"name": "u", "user": {"client-certificate": pem, "client-key": pem}}],
        }
        path = os.path.join(folder, "kubeconfig")
        with open(path, "w") as stream:
            json.dump(config, stream)
        api = cluster_api.ClusterApi(path, timeout=0.5)
        api.renew()
        self.addCleanup(api.client(timeout=LONG).close)
        server.put_pod("web", "n1")
        server.delay = 1.5
        self.assertGreater(cluster_api.EVICTION_SECONDS, 2 * WEBHOOK)
        with unittest.mock.patch.object(cluster_api, "EVICTION_SECONDS", LONG):  # a loaded machine proves the same
            self.assertTrue(api.evict(Pod("default", "web", "uid-web")))
        self.assertEqual(server.pods, {})


if __name__ == "__main__":
    unittest.main()
