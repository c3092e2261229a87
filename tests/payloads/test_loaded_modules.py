# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node and a controller load the modules of their own batch system alone.

tests/gates/scopes.toml counts on it: a change of what only PBS loads does not run the tests of Slurm sites.
"""

import subprocess
import sys
import unittest

# Each is a process of its own, since other tests load all batch systems.
CONTROLLER = (
    "from nodeshare.controller import service, settings\n"
    "service._batch(settings.ControllerSettings(host='h', wlm=wlm), print)\n"
)
# With the settings that the role node_share writes for each batch system.
NODE = (
    "from nodeshare.host.real_host import RealHost\n"
    "from nodeshare.model.jobs.job_key import JobKey\n"
    "from nodeshare.model.jobs.lease import Lease\n"
    "from nodeshare.model.settings import Settings\n"
    "from nodeshare.run import cli, recover_leases\n"
    "given = {\n"
    "    'slurm': {'squeue': '/bin/false'},\n"
    "    'pbs': {'qstat': '/bin/false', 'pbs_home': '/nowhere'},\n"
    "    'torque': {'qstat': '/bin/false', 'torque_home': '/nowhere'},\n"
    "}\n"
    "key = JobKey(wlm, '1' if wlm == 'slurm' else '1.server', 0)\n"
    "world, leases = RealHost(Settings(node='n1', **given[wlm])), (Lease(key, 'boot', 1.0),)\n"
    "world.life(leases)\n"
    "world.ask_batch(leases)\n"
    "recover_leases._is_listed(key, world.settings)\n"
)
SHOWN = "print(*sorted(name for name in sys.modules if name.startswith('nodeshare.') and '.batch.' in name))\n"


def loaded(program, wlm):
    """Return the modules of batch systems that a program has loaded."""
    text = "import sys\nwlm = sys.argv[1]\n" + program + SHOWN
    out = subprocess.check_output((sys.executable, "-B", "-c", text, wlm), timeout=300)
    return set(out.decode("ascii").split())


class OfOneBatchSystem(unittest.TestCase):
    def test_a_controller_loads_those_of_its_site(self):
        parts = ("batch.hostlist", "controller.batch.batch", "controller.batch.maintenance")
        pbs = ("batch.pbs", "batch.torque", "controller.batch.pbs", "controller.batch.torque")
        for wlm, own in (("slurm", ("controller.batch.slurm",)), ("pbs", pbs), ("torque", pbs)):
            with self.subTest(wlm):
                self.assertEqual(loaded(CONTROLLER, wlm), {"nodeshare." + name for name in parts + own})

    def test_a_node_loads_those_of_its_jobs(self):
        pbs = {"nodeshare.batch.pbs", "nodeshare.batch.torque"}
        for wlm, own in (("slurm", {"nodeshare.batch.slurm"}), ("pbs", pbs), ("torque", pbs)):
            with self.subTest(wlm):
                self.assertEqual(loaded(NODE, wlm), own)


if __name__ == "__main__":
    unittest.main()
