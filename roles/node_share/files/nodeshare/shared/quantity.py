# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Amounts as Kubernetes and PBS spell them, as exact integers.

The two disagree on what a bare number, ``M`` and ``w`` mean, so each has a strict grammar of its own. Arithmetic is
exact, and text that would be bent silently (``1_000``, ``NaN``, a million digits) is an error.

One source with copies: edit it in plugins/module_utils/_shared, then type `make shared`. PRIVATE to the collection.
"""

import re
import typing as t

NANO = 10**9  # the finest grain that the API knows
# A quantity from the API server has at most about 25 characters; a longer one is an attack on the parser.
MAX_LENGTH = 64
MAX_EXPONENT = 99
LARGEST = 2**63 - 1  # what the Kubernetes API and PBS keep
# The API caps binary quantities at the largest number of their unit.
BINARY_CAP = LARGEST * NANO

_GRAMMAR = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_PBS = re.compile(r"([0-9]+)([kmgtp]?)([bw]?)", re.ASCII | re.IGNORECASE)
_SHIFT = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}


class QuantityError(ValueError):
    """Text that is no amount in the dialect it was read in; the message is one short line."""


def kubernetes(text: str) -> int:
    """Return the nano units of a quantity such as ``500m``, ``1.5Gi`` or ``-1e3``, as the Kubernetes API reads it.

    A fraction finer than a nano is rounded away from zero, and a binary amount is capped at 2^63-1. QuantityError says
    what is wrong.
    """
    match = fullmatch_or_error(_GRAMMAR, text, "Kubernetes quantity", "such as 500m, 1.5Gi or 2e3")
    sign, whole, part, exponent, suffix = match.groups()
    # apimachinery reads "." and "k" as zero; the documented grammar wants a digit, and so do we.
    if not (whole or part):
        raise QuantityError(f"{text!a} is no Kubernetes quantity: it has no digit")
    part, suffix = part or "", suffix or ""
    digits = int(whole + part)
    if exponent is not None:
        if abs(int(exponent)) > MAX_EXPONENT:
            raise QuantityError(f"{text!a}: exponent beyond {MAX_EXPONENT}")
        magnitude = _shift(digits, int(exponent) + 9 - len(part))
    elif suffix in _BINARY:
        magnitude = min(_shift(digits << _BINARY[suffix], 9 - len(part)), BINARY_CAP)
    else:
        magnitude = _shift(digits, _DECIMAL[suffix] + 9 - len(part))
    return -magnitude if sign == "-" else magnitude


def pbs_size(text: str) -> int:
    """Return the bytes of a PBS size: bytes where no unit stands, units of 1024, a word (``w``) being 8 bytes."""
    number, unit, word = fullmatch_or_error(_PBS, text, "PBS size", "such as 1gb, 655360kb or 1gw").groups()
    value = int(number) * (8 if word in ("w", "W") else 1) << _SHIFT[unit.lower()]
    return bounded(value, text)


def bounded(value: int, text: str) -> int:
    """Return the value; QuantityError if it is more than 2^63-1."""
    if value > LARGEST:
        raise QuantityError(f"{text!a} is larger than 2^63-1")
    return value


def fullmatch_or_error(pattern: "t.Pattern[str]", text: t.Any, what: str, example: str) -> "t.Match[str]":
    """Return the match of a pattern with a whole text of bounded length; QuantityError shows an example."""
    if not isinstance(text, str):
        raise QuantityError(f"{what}: expected text, found {type(text).__name__}")
    if len(text) > MAX_LENGTH:
        raise QuantityError(f"{what} of {len(text)} characters: at most {MAX_LENGTH} are read")
    match = pattern.fullmatch(text)
    if match is None:
        raise QuantityError(f"{text!a} is no {what} ({example})")
    return match


def _shift(digits: int, exponent: int) -> int:
    """Return digits * 10**exponent, rounded up."""
    scale = int(10 ** abs(exponent))
    return digits * scale if exponent >= 0 else -(-digits // scale)
