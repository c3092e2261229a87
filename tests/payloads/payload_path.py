# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the payloads importable for their tests, which run without any package manager under old interpreters."""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NODESHARE = os.path.join(ROOT, "roles", "node_share", "files")
PBS_SHARE = os.path.join(ROOT, "roles", "pbs_share", "files")

for folder in (PBS_SHARE, NODESHARE):
    if folder not in sys.path:
        sys.path.insert(0, folder)
