# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the record of a host lies.

PRIVATE to the collection.
"""

from __future__ import annotations


class ModuleDocFragment:
    """``converged.hpc._record`` for modules that read or write it."""

    DOCUMENTATION = r"""
options:
  record_dir:
    description: The directory of the record, which tells what was there before this collection changed it.
    type: path
    default: /var/lib/converged/record
"""
