# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The test bed: real Slurm, real Kubernetes and real nodes, as containers on one machine.

It exists so that every promise of the collection is proved on the parts it is made for.
`python -m testbed --help` is the way in; `testbed.api` is the same for tests.
"""
