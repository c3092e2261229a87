# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two servers of PBS, of which the other one becomes active: a controller beside each, and one of them writes."""

import time
import unittest
import unittest.mock

from nodeshare.controller.batch.pbs import PbsBatch
from nodeshare.controller.controller import Controller
from nodeshare.controller.decide import HELD_BY, node_from
from nodeshare.model.answer import Answer
from test_batch_pbs import DOWN, NODES, answer, job
from test_controller_decisions import applied, node


class Pbs:
    """Whichever server is active answers on both hosts, as PBS_PRIMARY and PBS_SECONDARY have it."""

    def __init__(self):
        self.active = "srv1"
        self.jobs = {}

    def run(self, argv):
        if not self.active:
            return Answer(255, answer(), DOWN)
        if argv[1] == "-B":
            return Answer(0, answer("Server", {"srv": {"server_host": self.active + ".site"}}), "")
        if argv[1] == "-f":
            unknown = "".join("qstat: Unknown Job Id {}\n".format(name) for name in argv[4:] if name not in self.jobs)
            return Answer(153 if unknown else 0, answer("Jobs", self.jobs) if self.jobs else answer(), unknown)
        here = {
            name: [one for one, fields in self.jobs.items() if name in fields["exec_vnode"]] for name in ("n1", "n2")
        }
        return Answer(0, answer("nodes", {name: dict(NODES[name], jobs=jobs) for name, jobs in here.items()}), "")


class Api:
    """Nodes, who wrote them, and everybody who is told."""

    def __init__(self):
        self.items = {name: node(name) for name in ("n1", "n2")}
        self.writers = []
        self.controllers = {}

    def of(self, host):
        mine = unittest.mock.Mock()
        mine.patch = lambda name, patch: self.patch(host, name, patch)
        mine.node = lambda name: node_from(self.items[name])
        return mine

    def patch(self, host, name, patch):
        self.writers.append(host)
        self.items[name] = applied(self.items[name], patch)
        seen = node_from(self.items[name])
        for controller in self.controllers.values():
            controller.changed("MODIFIED", seen)
        return seen

    def held(self):
        return {name: item["metadata"]["annotations"].get(HELD_BY) for name, item in self.items.items()}


class Failover(unittest.TestCase):
    def setUp(self):
        self.pbs, self.api, self.remarks = Pbs(), Api(), []
        for host in ("srv1", "srv2"):
            names = {"host": host, "names": {}, "remark": self.remarks.append}
            batch = PbsBatch(run=self.pbs.run, qstat="/q", pbsnodes="/p", **names)
            spool = unittest.mock.Mock(read=lambda: ())
            more = {"connections": 2, "remark": self.remarks.append, "told": unittest.mock.Mock()}
            controller = Controller(api=self.api.of(host), batch=batch, spool=spool, **more)
            self.addCleanup(controller.stop)
            self.api.controllers[host] = controller
            controller.replace([node_from(item) for item in self.api.items.values()])

    def poll(self, times=2):
        for _time in range(times):
            for controller in self.api.controllers.values():
                controller.poll()

    def until_held(self, **expected):
        give_up = time.monotonic() + 300
        while self.api.held() != expected and time.monotonic() < give_up:
            time.sleep(0.01)
        self.assertEqual(self.api.held(), expected)

    def test_the_controller_beside_the_active_server_writes_and_no_other(self):
        self.pbs.jobs = {"1.srv": job(exec_vnode="(n1:ncpus=1)")}
        self.poll()
        self.until_held(n1="pbs/1.srv/1", n2=None)
        self.assertEqual(set(self.api.writers), {"srv1"})

        self.pbs.active = ""
        self.poll()
        self.until_held(n1="pbs/1.srv/1", n2=None)

        self.pbs.active, self.pbs.jobs = "srv2", {"2.srv": job(exec_vnode="(n2:ncpus=1)")}
        del self.api.writers[:]
        self.poll()
        self.until_held(n1=None, n2="pbs/2.srv/1")
        self.assertEqual(set(self.api.writers), {"srv2"})
        self.assertIn("another controller is in control: standing by", self.remarks)

        self.pbs.active, self.pbs.jobs = "srv1", {}
        del self.api.writers[:]
        self.poll()
        self.until_held(n1=None, n2=None)
        self.assertEqual(set(self.api.writers), {"srv1"})


if __name__ == "__main__":
    unittest.main()
