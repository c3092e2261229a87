# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names in host lists as Slurm prints them, which can be names of nodes, each once."""

import contextlib
import re
from typing import Dict, Tuple

from ..shared import hostlist

HostlistError = hostlist.HostlistError
MOST = hostlist.MAX_HOSTS
LONGEST = hostlist.MAX_TEXT
_BLANK = re.compile(r"\s")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}", re.ASCII)


def expand(text: str) -> Tuple[str, ...]:
    """Return the names in their order, each once.

    Slurm reads blanks between names and prints none, so a text with blanks is not Slurm's. A name becomes part of a
    request to the API, so it must be one.
    """
    if _BLANK.search(text[:LONGEST]):
        raise HostlistError("host list {}: a blank".format(ascii(text[:60])))
    names = tuple(dict.fromkeys(hostlist.expand(text)))
    for name in names:
        if not _NAME.fullmatch(name):
            raise HostlistError("{}: not a host name".format(ascii(name[:60])))
    return names


def expand_readable(text: str) -> Tuple[Tuple[str, ...], str]:
    """Return the names that can be read, each once, and what cannot: one odd name hides no other."""
    try:
        return expand(text), ""
    except HostlistError as error:
        odd = str(error)
    names: Dict[str, None] = {}
    for word in re.split(r",(?![^\[\]]*\])", text[:LONGEST]):
        if len(names) < MOST:
            with contextlib.suppress(HostlistError):
                names.update(dict.fromkeys(expand(word)))
    return tuple(names), odd
