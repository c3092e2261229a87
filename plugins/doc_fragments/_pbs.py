# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How modules reach PBS.

PRIVATE to the collection.
"""

from __future__ import annotations


class ModuleDocFragment:
    """``converged.hpc._pbs`` for modules that call PBS, ``.manages`` for those that change settings."""

    DOCUMENTATION = r"""
requirements:
  - OpenPBS 23.06
options:
  bin_dir:
    description:
      - The directory of PBS's programs. By default C(bin) in C(PBS_EXEC) of the host's C(/etc/pbs.conf), else
        V(/opt/pbs/bin).
    type: path
  timeout:
    description:
      - Seconds after which an answer of PBS is no longer waited for.
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
