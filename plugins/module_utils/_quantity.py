# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Amounts and durations as Kubernetes, Slurm and PBS spell them, as exact numbers.

The three disagree on what a bare number, ``M`` and ``w`` mean, and a wrong reading books memory that is not there. So
every dialect has its own strict grammar, and arithmetic is exact (no floating point). Text that one of them would bend
silently (``1_000``, ``NaN``, a million digits) is an error, and so is a negative amount.

PRIVATE to the collection.
"""

from __future__ import annotations

import re
import typing as t
from fractions import Fraction

from ._shared import quantity

QuantityError = quantity.QuantityError
pbs_size = quantity.pbs_size
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SLURM = re.compile(r"([0-9]+)(?:([kKmMgGtT])[bB]?)?\Z", re.ASCII)
_UNITS = r"(?=[0-9])(?:([0-9]+)d)?(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s?)?"
# Slurm takes fewer parts, too, and then 90:00 are minutes: such a text is for a person to make clear.
_CLOCK = r"(?:([0-9]+)-)?([0-9]+):([0-9]{2}):([0-9]{2})"
_DURATION = re.compile(rf"(?:{_UNITS}|{_CLOCK})\Z", re.ASCII)


def kubernetes(text: str) -> Fraction:
    """Return a resource quantity (``500m``, ``1.5Gi``, ``1e3``) as the Kubernetes API reads it, and none below zero."""
    nano = quantity.kubernetes(text)
    if nano < 0:
        raise QuantityError(f"{text!a} is negative")
    quantity.bounded(-(-nano // quantity.NANO), text)
    return Fraction(nano, quantity.NANO)


def slurm_memory(text: str) -> int:
    """Return bytes of a Slurm memory size: mebibytes without a unit, units of 1024, rounded up to mebibytes."""
    number, unit = quantity.fullmatch_or_error(_SLURM, text, "Slurm memory size", "such as 2000, 2000M or 2G").groups()
    power = _POWER[(unit or "m").lower()]
    mebibytes = -(-int(number) * 1024**power // 1024**2)
    return quantity.bounded(mebibytes * 1024**2, text)


def byte_count(text: str, dialect: str) -> int:
    """Return whole bytes, rounded up, of an amount in the named dialect: kubernetes, slurm or pbs."""
    if dialect == "kubernetes":
        value = kubernetes(text)
        return -(-value.numerator // value.denominator)
    readers: dict[str, t.Callable[[str], int]] = {"slurm": slurm_memory, "pbs": pbs_size}
    if dialect not in readers:
        raise QuantityError(f"dialect {dialect!a}: kubernetes, slurm or pbs")
    return readers[dialect](text)


def millicores(text: str) -> int:
    """Return thousandths of a core of a Kubernetes cpu quantity, rounded up as the scheduler does."""
    value = kubernetes(text) * 1000
    return -(-value.numerator // value.denominator)


def seconds(text: str) -> int:
    """Return seconds of a duration: ``90``, ``1d12h``, ``30m``, or Slurm's ``1-12:00:00``."""
    groups = quantity.fullmatch_or_error(_DURATION, text, "duration", "such as 90, 30m, 1d12h or 1-12:00:00").groups()
    days, hours, minutes, rest = (int(units or clock or 0) for units, clock in zip(groups[:4], groups[4:]))
    return quantity.bounded(((days * 24 + hours) * 60 + minutes) * 60 + rest, text)
