# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m cri_bridge` starts the bridge."""

import sys

from cri_bridge.run.cli import main

if __name__ == "__main__":
    sys.exit(main())
