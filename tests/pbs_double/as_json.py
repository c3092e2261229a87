# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON as PBS's programs make it: every value is parsed as JSON first, and all of it is printed with tabs."""

from __future__ import annotations

import json
import re
import time
import typing as t
from itertools import accumulate

from pbs_double.cluster import SERVER
from pbs_double.state import VERSION

_DEEPEST = 1000
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}
_NUMBER = re.compile(r"-?[0-9][0-9+\-eE.]*")


def coerced(text: str) -> t.Any:
    """``007`` is 7 and ``[1]`` a list; what is no JSON, or too deep, is text."""
    if _NUMBER.fullmatch(text):
        try:
            number = float(text)
        except ValueError:
            return text
        return int(number) if number.is_integer() and abs(number) < 1e15 else number
    if text[:1] in ("{", "[", '"') or text in ("true", "false", "null"):
        if max(accumulate(_STEPS.get(letter, 0) for letter in text)) > _DEEPEST:
            return text
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def answer(section: str | None, content: dict[str, t.Any]) -> str:
    """A whole answer; without content there is no section."""
    whole: dict[str, t.Any] = {"timestamp": int(time.time()), "pbs_version": VERSION, "pbs_server": SERVER}
    if section is not None:
        whole[section] = content
    return _printed(whole, 0) + "\n"


def grouped(attributes: t.Mapping[str, str], *, drop_zero: t.Container[str] = ()) -> dict[str, t.Any]:
    """Attributes with their resources as objects; in some a zero is left out."""
    found: dict[str, t.Any] = {}
    for name, text in attributes.items():
        group, dot, resource = name.partition(".")
        if not dot:
            found[name] = coerced(text)
            continue
        value = coerced(text)
        inner = found.setdefault(group, {})
        if group not in drop_zero or not (value == 0 or str(value).startswith("0")):
            inner[resource] = value
    return found


def _printed(value: t.Any, depth: int) -> str:
    if isinstance(value, dict):
        inner = "\t" * (depth + 1)
        lines = [f"{inner}{_text(key)}:\t{_printed(item, depth + 1)}" for key, item in value.items()]
        return "{\n" + "".join(",\n".join(lines) + "\n" if lines else "") + "\t" * depth + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_printed(item, depth) for item in value) + "]"
    return _text(value)


def _text(value: t.Any) -> str:
    return json.dumps(value, ensure_ascii=False)
