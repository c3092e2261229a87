# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How modules reach Slurm.

PRIVATE to the collection.
"""

from __future__ import annotations


class ModuleDocFragment:
    """``converged.hpc._slurm`` for modules that call Slurm, ``.conf_path`` for those that can be given its conf."""

    DOCUMENTATION = r"""
requirements:
  - Slurm 22.05 or newer
options:
  bin_dir:
    description:
      - The directory of Slurm's programs. By default the search path is looked through, then the folders beside
        slurmctld and slurmd, which count if only root can write there.
    type: path
  timeout:
    description:
      - Seconds after which an answer of Slurm is no longer waited for.
    type: int
    default: 60
"""

    CONF_PATH = r"""
options:
  conf_path:
    description:
      - The C(slurm.conf) by which the programs find the cluster, where it is not in its usual place.
    type: path
"""
