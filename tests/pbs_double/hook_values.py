# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The values that hooks get from PBS: they look like numbers, text and dictionaries, and are none of them quite."""

from __future__ import annotations

import functools
import re
import typing as t

_SIZE = re.compile(r"(\d+)([kmgtp]?)([bw]?)", re.IGNORECASE)
_PREFIXES = ["", "k", "m", "g", "t", "p"]
_WORD = 8


class pbs_int(int):
    """A whole number."""


class pbs_str(str):
    """Text."""

    __slots__ = ()


class job_state(int):
    """A job's state as a number."""


class duration(int):
    """Seconds that print as they were given."""

    _text: str

    def __new__(cls, value: int | str) -> duration:
        seconds = 0
        for part in str(value).split(":"):
            seconds = seconds * 60 + int(part)
        made = super().__new__(cls, seconds)
        made._text = str(value)
        return made

    def __str__(self) -> str:
        return self._text


@functools.total_ordering
class size:
    """An amount with its unit: adds and compares with its like and with numbers, and is no number itself."""

    __slots__ = ("_factor", "_number", "_shift")
    __hash__ = None  # type: ignore[assignment]  # as in PBS

    def __init__(self, value: int | str | size) -> None:
        match = _SIZE.fullmatch(str(value))
        if match is None:
            raise TypeError(f"{value}: bad value for _size")
        self._number = int(match[1])
        self._shift = _PREFIXES.index(match[2].lower())
        self._factor = _WORD if match[3].lower() == "w" else 1

    def __str__(self) -> str:
        return f"{self._number}{_PREFIXES[self._shift]}{'b' if self._factor == 1 else 'w'}"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int | size) and _bytes(self) == _bytes(other)

    def __lt__(self, other: object) -> bool:
        return isinstance(other, int | size) and _bytes(self) < _bytes(other)

    def __add__(self, other: object) -> size:
        return self._joined(other, 1)

    def __sub__(self, other: object) -> size:
        return self._joined(other, -1)

    def _joined(self, other: object, sign: int) -> size:
        """In the smaller unit of both, which is never less than a kilobyte."""
        if not isinstance(other, int | size):
            return NotImplemented  # type: ignore[no-any-return]  # what an operator says so that Python may refuse
        second = size(other)
        shift = max(1, min(self._shift, second._shift))
        number = _units(self, shift) + sign * _units(second, shift)
        if number < 0:
            raise ArithmeticError("expression evaluates to negative _size value")
        return size(f"{number}{_PREFIXES[shift]}b")


def _bytes(value: int | size) -> int:
    if isinstance(value, int):
        return value
    return value._number * value._factor << 10 * value._shift


def _units(value: size, shift: int) -> int:
    return -(-_bytes(value) >> 10 * shift)


def size_to_kbytes(value: object) -> int:
    """Rounded up; what is no size counts nothing."""
    return _units(value, 1) if isinstance(value, size) else 0


class generic_attr:
    """Prints as its text and is no text."""

    def __init__(self, value: str) -> None:
        self._value = value

    def __str__(self) -> str:
        return self._value


class name(generic_attr):
    """The name of a job."""


class project(generic_attr):
    """A project."""


class place(generic_attr):
    """How chunks are laid out."""


class select(generic_attr):
    """What was asked for."""


class pbs_resource:
    """Resources by name; a known one that was not asked for is None."""

    def __init__(self, values: t.Mapping[str, str]) -> None:
        self._values = {each: _KINDS[each](text) for each, text in values.items()}

    def keys(self) -> list[str]:
        """What was asked for."""
        return list(self._values)

    def __getattr__(self, resource: str) -> t.Any:
        if resource not in _KINDS:
            raise AttributeError(f"'pbs_resource' object has no attribute '{resource}'")
        return self._values.get(resource)

    def __getitem__(self, resource: str) -> t.Any:
        if not isinstance(resource, str):
            raise TypeError(f"attribute name must be string, not '{type(resource).__name__}'")
        return getattr(self, resource)

    def __contains__(self, resource: object) -> bool:
        return resource in self._values

    def __str__(self) -> str:
        return ",".join(f"{each}={value}" for each, value in self._values.items())


_KINDS: dict[str, t.Callable[[str], t.Any]] = {
    **dict.fromkeys(["ncpus", "ngpus", "nodect", "mpiprocs", "ompthreads", "naccelerators"], pbs_int),
    **dict.fromkeys(["mem", "vmem", "pmem", "pvmem", "hbmem", "accelerator_memory", "file"], size),
    **dict.fromkeys(["walltime", "cput", "pcput", "soft_walltime"], duration),
    **dict.fromkeys(["arch", "host", "vnode", "software", "accelerator_model"], pbs_str),
    "place": place,
    "select": select,
}


class vchunk:
    """What a job has of one vnode."""

    def __init__(self, text: str) -> None:
        self.vnode_name, *amounts = text.split(":")
        self.chunk_resources = pbs_resource(dict(amount.split("=", 1) for amount in amounts))


class exec_vnode(generic_attr):
    """All chunks, whatever parentheses are around them."""

    def __init__(self, value: str) -> None:
        super().__init__(value)
        self.chunks = [vchunk(part.strip("()")) for part in value.split("+")]
