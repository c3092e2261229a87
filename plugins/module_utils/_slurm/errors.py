# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can go wrong between us and Slurm, as one tree, so that a module catches one class.

PRIVATE to the collection.
"""

from __future__ import annotations


class SlurmError(Exception):
    """Anything that stops a module; its text is one line for an administrator."""


class ConfError(SlurmError):
    """slurm.conf cannot be read as Slurm reads it, or cannot be changed as asked. It is left as it is."""


class NoAnswerError(SlurmError):
    """Slurm gave no trustworthy answer. Never to be taken for "there is none"."""


class NoProgramsError(NoAnswerError):
    """Slurm's programs are not where they were looked for."""
