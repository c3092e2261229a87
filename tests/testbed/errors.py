# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors that a person can act upon: one line, the thing, what was found, what to do."""

from __future__ import annotations


class BedError(Exception):
    """Something about the machine or a bed stands in the way. Exit status 1."""

    exit_status = 1


class UsageError(BedError):
    """The request itself is wrong. Exit status 2, as argparse has it."""

    exit_status = 2
