# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nodeshare: gives a node to batch jobs when they start, and back to Kubernetes when the last one has ended.

Runs on every converged node, called by the batch system's scripts, a boot unit and a timer; there is no daemon here.
Standard library only and Python 3.6 syntax, because nodes keep the Python that their system came with.
"""
