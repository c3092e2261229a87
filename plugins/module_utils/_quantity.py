# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Amounts and durations as Kubernetes, Slurm and PBS spell them, as exact numbers.

The three disagree on what a bare number, ``M`` and ``w`` mean, and a wrong reading books memory that is not there. So
every dialect has its own strict grammar, arithmetic is exact (no floating point), and text that one of them would bend
silently (``1_000``, ``NaN``, a sign, a million digits) is an error.

PRIVATE to the collection.
"""

from __future__ import annotations

import re
import typing as t
from fractions import Fraction

MAX_TEXT = 64
_LARGEST = 2**63 - 1  # what the Kubernetes API, Slurm and PBS keep
_NANO = 10**9  # Kubernetes rounds up what is finer
_DECIMAL = {"n": -3, "u": -2, "m": -1, "": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}

_KUBERNETES = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,2})|([KMGTPE]i|[numkMGTPE])?)\Z", re.ASCII)
_SLURM = re.compile(r"([0-9]+)(?:([kKmMgGtT])[bB]?)?\Z", re.ASCII)
_PBS = re.compile(r"([0-9]+)([kKmMgGtTpP]?)([bBwW]?)\Z", re.ASCII)
_UNITS = r"(?=[0-9])(?:([0-9]+)d)?(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s?)?"
# Slurm takes fewer parts, too, and then 90:00 are minutes: such a text is for a person to make clear.
_CLOCK = r"(?:([0-9]+)-)?([0-9]+):([0-9]{2}):([0-9]{2})"
_DURATION = re.compile(rf"(?:{_UNITS}|{_CLOCK})\Z", re.ASCII)


class QuantityError(ValueError):
    """Text that is no amount in the dialect it was read in."""


def kubernetes(text: str) -> Fraction:
    """A resource quantity (``500m``, ``1.5Gi``, ``1e3``); what is finer than a nano is rounded up, as the API does."""
    match = _match(_KUBERNETES, text, "Kubernetes quantity", "such as 500m, 1.5Gi or 2e3")
    number, exponent, suffix = match.groups()
    if exponent is not None:
        factor = Fraction(10) ** int(exponent)
    elif suffix in _BINARY:
        factor = Fraction(1024) ** _BINARY[suffix]
    else:
        factor = Fraction(1000) ** _DECIMAL[suffix or ""]
    value = _fraction(number) * factor
    return Fraction(_bounded(-(-value * _NANO // 1), text, _LARGEST * _NANO), _NANO)


def slurm_memory(text: str) -> int:
    """Bytes of a Slurm memory size: mebibytes where no unit stands, units of 1024, rounded up to mebibytes."""
    number, unit = _match(_SLURM, text, "Slurm memory size", "such as 2000, 2000M or 2G").groups()
    power = _POWER[(unit or "m").lower()]
    mebibytes = -(-int(number) * 1024**power // 1024**2)
    return _bounded(mebibytes * 1024**2, text, _LARGEST)


def pbs_size(text: str) -> int:
    """Bytes of a PBS size: bytes where no unit stands, units of 1024, a word (``w``) being 8 bytes."""
    number, prefix, unit = _match(_PBS, text, "PBS size", "such as 1gb, 655360kb or 1gw").groups()
    value = int(number) * 1024 ** _POWER[prefix.lower()] * (8 if unit.lower() == "w" else 1)
    return _bounded(value, text, _LARGEST)


def byte_count(text: str, dialect: str) -> int:
    """Whole bytes, rounded up, of an amount in the named dialect: kubernetes, slurm or pbs."""
    if dialect == "kubernetes":
        value = kubernetes(text)
        return -(-value.numerator // value.denominator)
    readers: dict[str, t.Callable[[str], int]] = {"slurm": slurm_memory, "pbs": pbs_size}
    if dialect not in readers:
        raise QuantityError(f"dialect {dialect!a}: kubernetes, slurm or pbs")
    return readers[dialect](text)


def millicores(text: str) -> int:
    """Thousandths of a core of a Kubernetes cpu quantity, rounded up as the scheduler does."""
    value = kubernetes(text) * 1000
    return -(-value.numerator // value.denominator)


def seconds(text: str) -> int:
    """Of a duration: ``90``, ``1d12h``, ``30m``, or Slurm's ``1-12:00:00``."""
    groups = _match(_DURATION, text, "duration", "such as 90, 30m, 1d12h or 1-12:00:00").groups()
    days, hours, minutes, rest = (int(units or clock or 0) for units, clock in zip(groups[:4], groups[4:]))
    return _bounded(((days * 24 + hours) * 60 + minutes) * 60 + rest, text, _LARGEST)


def _match(pattern: re.Pattern[str], text: t.Any, what: str, example: str) -> re.Match[str]:
    if not isinstance(text, str):
        raise QuantityError(f"{what}: expected text, found {type(text).__name__}")
    if len(text) > MAX_TEXT:
        raise QuantityError(f"{what} of {len(text)} characters: at most {int(MAX_TEXT)} are read")
    match = pattern.match(text)
    if match is None:
        raise QuantityError(f"{text!a} is no {what} ({example})")
    return match


def _fraction(number: str) -> Fraction:
    whole, _point, part = number.partition(".")
    return Fraction(int(whole + part or "0"), 10 ** len(part))


def _bounded(value: int, text: str, largest: int) -> int:
    if value > largest:
        raise QuantityError(f"{text!a} is larger than 2^63-1")
    return value
