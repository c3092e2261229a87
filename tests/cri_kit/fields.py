# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages of CRI with every field set, and messages as flat tables of fields, for comparisons field by field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from cri_kit.definitions import message_class

# Two of each, so that order and number count.
REPEATED = 2


def full(version: str, name: str, place: int = 0) -> Any:
    """Return a message with every field set to a value that says which field it is."""
    made = message_class(version, name)()
    for field in made.DESCRIPTOR.fields:
        _set(made, field, version, place)
    return made


def _set(made: Any, field: FieldDescriptor, version: str, place: int) -> None:
    if _is_map(field):
        made_map, kind = getattr(made, field.name), field.message_type.fields_by_name["value"]
        if kind.type == FieldDescriptor.TYPE_MESSAGE:
            made_map[f"{field.name}-key"].CopyFrom(full(version, kind.message_type.name, place))
        else:
            made_map[f"{field.name}-key"] = _scalar(kind, place)
    elif field.is_repeated:
        for number in range(REPEATED):
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                getattr(made, field.name).append(full(version, field.message_type.name, place + number))
            else:
                getattr(made, field.name).append(_scalar(field, place + number))
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        getattr(made, field.name).CopyFrom(full(version, field.message_type.name, place))
    else:
        setattr(made, field.name, _scalar(field, place))


def _scalar(field: FieldDescriptor, place: int) -> Any:
    if field.type == FieldDescriptor.TYPE_STRING:
        return f"{field.name} {place} ü"
    if field.type == FieldDescriptor.TYPE_BYTES:
        return f"{field.name} {place} ü".encode()
    if field.type == FieldDescriptor.TYPE_BOOL:
        return True
    if field.type == FieldDescriptor.TYPE_ENUM:
        return field.enum_type.values[-1].number
    return 1000 + 10 * field.number + place


def _is_map(field: FieldDescriptor) -> bool:
    return field.type == FieldDescriptor.TYPE_MESSAGE and bool(field.message_type.GetOptions().map_entry)


def table(message: Any, path: str = "") -> dict[str, Any]:
    """Return the fields that are set, by path; text as bytes, which is the same on the wire."""
    return dict(_rows(message, path))


def _rows(message: Any, path: str) -> Iterator[tuple[str, Any]]:
    for field, value in message.ListFields():
        here = f"{path}.{field.name}" if path else field.name
        if _is_map(field):
            for key in sorted(value):
                yield from _row(f"{here}[{key}]", value[key])
        elif field.is_repeated:
            for number, each in enumerate(value):
                yield from _row(f"{here}[{number}]", each)
        else:
            yield from _row(here, value)


def _row(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if hasattr(value, "ListFields"):
        yield path, "set"
        yield from _rows(value, path)
    else:
        yield path, value.encode() if isinstance(value, str) else value


def known(version: str, name: str, rows: dict[str, Any]) -> dict[str, Any]:
    """Return the rows of fields that this version of the message has."""
    return {path: value for path, value in rows.items() if _has(message_class(version, name).DESCRIPTOR, path)}


def _has(descriptor: Any, path: str) -> bool:
    for word in path.split("."):
        field = descriptor.fields_by_name.get(word.split("[")[0]) if descriptor is not None else None
        if field is None:
            return False
        descriptor = field.message_type
        if descriptor is not None and descriptor.GetOptions().map_entry:
            descriptor = descriptor.fields_by_name["value"].message_type
    return True
