# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one error of this package: a line that names the thing, what was found and what to do."""

from __future__ import annotations


class RecordError(Exception):
    """Nothing was guessed; what was done before it is in the record."""
