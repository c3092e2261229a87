# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python3 -m nodeshare`; the launcher on a node does the same without searching for modules."""

import sys

from .host.real_host import RealHost
from .run.cli import main

sys.exit(main(sys.argv[1:], make_world=RealHost))
