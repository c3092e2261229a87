# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Message classes of the fields in `definitions.py`; all other fields of a message stay in it as they came.

The classes are built at the start, so that any protobuf from 3.20 up serves.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from cri_bridge.wire.definitions import ENUMS, MESSAGES
from cri_bridge.wire.methods import V1

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {"string": _Field.TYPE_STRING, "bool": _Field.TYPE_BOOL, "int64": _Field.TYPE_INT64}


def _described() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="cri_bridge.proto", package=V1, syntax="proto3")
    for name, values in ENUMS.items():
        # The names of an enum's values share the package in protobuf, so they get that of the enum before them.
        enum = file.enum_type.add(name=name)
        for value, number in values.items():
            enum.value.add(name=f"{name}_{value}", number=number)
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            _add(message, field, number, kind)
    return file


def _add(message: descriptor_pb2.DescriptorProto, name: str, number: int, kind: str) -> None:
    field = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
    *words, last = kind.split(" ")
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    elif words == ["enum"]:
        field.type, field.type_name = _Field.TYPE_ENUM, f".{V1}.{last}"
    elif words == ["map", "of"]:
        entry = message.nested_type.add(name="".join(word.capitalize() for word in name.split("_")) + "Entry")
        entry.options.map_entry = True
        _add(entry, "key", 1, last)
        _add(entry, "value", 2, last)
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{V1}.{message.name}.{entry.name}"
        field.label = _Field.LABEL_REPEATED
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{V1}.{last}"
        if words == ["repeated"]:
            field.label = _Field.LABEL_REPEATED


def _classes() -> dict[str, Any]:
    pool: Any = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(_described().SerializeToString())
    found = {name: pool.FindMessageTypeByName(f"{V1}.{name}") for name in MESSAGES}
    newer = getattr(message_factory, "GetMessageClass", None)  # protobuf 4.22 and later
    make: Any = newer or message_factory.MessageFactory(pool).GetPrototype  # type: ignore[attr-defined]
    return {name: make(descriptor) for name, descriptor in found.items()}


_CLASSES: Final = _classes()


def new(name: str) -> Any:
    """Return an empty message."""
    return _CLASSES[name]()


def parse(name: str, data: bytes) -> Any:
    """Return the message in these bytes; raise google.protobuf.message.DecodeError for other bytes."""
    return _CLASSES[name].FromString(data)


def number(enum: str, value: str) -> int:
    """Return the number of an enum's value."""
    return ENUMS[enum][value]
