# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every module says of itself.

PRIVATE to the collection.
"""

from __future__ import annotations


class ModuleDocFragment:
    """``converged.hpc._attributes`` for every module, ``.reads`` for those that change nothing, ``.on_controller``
    for those that reach no host.
    """

    DOCUMENTATION = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/converged.hpc.hpc) in C(module_defaults) to set options for all modules of this collection.
    support: full
    membership: [converged.hpc.hpc]
"""

    READS = r"""
options: {}
attributes:
  check_mode:
    description: The module runs the same in check mode.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
  idempotent:
    description: It changes nothing, and two runs return the same while nothing else changes.
    support: full
"""

    ON_CONTROLLER = r"""
options: {}
attributes:
  action:
    description: Everything is done on the controller.
    support: full
"""
