# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can go wrong between us and PBS, as one tree, so that a module catches one class.

PRIVATE to the collection.
"""

from __future__ import annotations


class PbsError(Exception):
    """Anything that stops a module; its text is one line for an administrator."""


class SpecError(PbsError):
    """What was asked for cannot be said to PBS, or would not be what it seems. Nothing was changed."""


class NoAnswerError(PbsError):
    """PBS gave no trustworthy answer, or refused. Never to be taken for "there is none"."""
