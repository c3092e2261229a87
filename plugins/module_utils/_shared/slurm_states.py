# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""States of a Slurm job, by what they mean for its nodes.

One source with copies: edit it in plugins/module_utils/_shared, then type `make shared`. PRIVATE to the collection.
"""

# The job has its nodes. One in STAGE_OUT has left them: files go back from a burst buffer, and Slurm shows COMPLETING
# until the nodes are free.
HOLDING = frozenset(("RUNNING", "CONFIGURING", "SUSPENDED", "RESIZING", "SIGNALING", "STOPPED"))
# The job ends, and its nodes are not free yet.
ENDING = frozenset(("COMPLETING",))
# The job has ended, or has left its nodes.
OVER = frozenset(
    (
        "COMPLETED",
        "CANCELLED",
        "FAILED",
        "TIMEOUT",
        "NODE_FAIL",
        "PREEMPTED",
        "BOOT_FAIL",
        "DEADLINE",
        "OUT_OF_MEMORY",
        "STAGE_OUT",
    )
)
