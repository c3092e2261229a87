# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How modules reach Torque.

PRIVATE to the collection.
"""

from __future__ import annotations


class ModuleDocFragment:
    """``converged.hpc._torque`` for modules that call Torque, ``.manages`` for those that change settings."""

    DOCUMENTATION = r"""
requirements:
  - Torque 6.1
options:
  bin_dir:
    description:
      - The directory of Torque's programs. By default the first that has C(pbsnodes) among those of the search path,
        V(/usr/local/bin), V(/opt/torque/bin) and V(/usr/bin).
    type: path
  timeout:
    description:
      - Seconds after which an answer of Torque is no longer waited for.
    type: int
    default: 60
"""

    MANAGES = r"""
options: {}
attributes:
  check_mode:
    description: Reads and says what it would change.
    support: full
  diff_mode:
    description: Shows what changes, and nothing else.
    support: full
  idempotent:
    description: A second run changes nothing.
    support: full
"""
