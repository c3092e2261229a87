# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m testbed`."""

from __future__ import annotations

import sys

from testbed.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
