# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes data as TOML, which containerd reads: settings are data up to the last moment, and no template branches.

PRIVATE to the collection.
"""

from __future__ import annotations

import json
import re
import typing as t

_BARE = re.compile(r"[A-Za-z0-9_-]+")


class TomlError(ValueError):
    """A value that TOML cannot hold."""


def dump(table: t.Mapping[str, t.Any]) -> str:
    """Return the document: plain values first, then each table under its full name."""
    return "\n".join(_table((), table)) + "\n"


def _table(path: t.Tuple[str, ...], table: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    plain = {name: value for name, value in table.items() if not isinstance(value, t.Mapping)}
    inner = {name: value for name, value in table.items() if isinstance(value, t.Mapping)}
    if path and (plain or not inner):
        yield f"[{'.'.join(_key(name) for name in path)}]"
    for name, value in plain.items():
        yield f"{_key(name)} = {_value((*path, name), value)}"
    for name, value in inner.items():
        yield from _table((*path, name), value)


def _key(name: str) -> str:
    if not isinstance(name, str):
        raise TomlError(f"key {name!r}: expected text")
    return name if _BARE.fullmatch(name) else _text(name)


def _text(value: str) -> str:
    # JSON's escapes are TOML's, but for the one control character that JSON leaves as it is.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(path: t.Tuple[str, ...], value: t.Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _text(str(value))
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_value(path, item) for item in value)}]"
    if isinstance(value, t.Mapping):
        return "{" + ", ".join(f"{_key(name)} = {_value(path, item)}" for name, item in value.items()) + "}"
    raise TomlError(f"{'.'.join(path)}: expected text, a whole number, a truth value or a list, found {value!r}")
