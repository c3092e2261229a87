# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of the hand-over share: a site in simulated time, and what free and given back mean."""

import os
import shutil
import unittest

from nodeshare.model.node.state import HELD, OPEN
from simulation import KUBELET, RUNTIME, Site, quick_directory


class HandoverCase(unittest.TestCase):
    def site(self, **settings):
        directory = quick_directory()
        self.addCleanup(shutil.rmtree, directory)
        return Site(os.path.join(directory, "state"), **settings)

    def assert_free(self, site):
        self.assertEqual(site.node.ordinary_running(), [])
        self.assertEqual(site.memory().phase, HELD)

    def assert_back(self, site):
        self.assertEqual(site.node.active, {KUBELET, RUNTIME})
        self.assertFalse(site.node.confined)
        self.assertEqual(site.node.announced, "")
        memory = site.memory()
        self.assertEqual((memory.phase, memory.stopped, memory.way), (OPEN, (), ""))
        self.assertEqual(site.memories.fenced() + site.memories.kept(), ())
