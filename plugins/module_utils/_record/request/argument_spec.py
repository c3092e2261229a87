# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of `node_state`: the action plugin checks them on the controller, the module once more on the node."""

from __future__ import annotations

import typing as t

_ATTRIBUTES: t.Dict[str, t.Any] = {"owner": {"type": "str"}, "group": {"type": "str"}, "mode": {"type": "str"}}


def _items(options: t.Dict[str, t.Any]) -> t.Dict[str, t.Any]:
    path = {"type": "str", "required": True}
    return {"type": "list", "elements": "dict", "default": [], "options": dict({"path": path}, **options)}


def _named(options: t.Dict[str, t.Any]) -> t.Dict[str, t.Any]:
    name = {"type": "str", "required": True}
    return {"type": "list", "elements": "dict", "default": [], "options": dict({"name": name}, **options)}


_WORDS: t.Dict[str, t.Any] = {"type": "list", "elements": "str", "default": []}

ARGUMENT_SPEC: t.Dict[str, t.Any] = {
    "state": {"type": "str", "choices": ["present", "restored"], "default": "present"},
    "role": {"type": "str"},
    "record_dir": {"type": "path", "default": "/var/lib/converged/record"},
    "record_copy_dir": {"type": "path"},
    "packages": _WORDS,
    "kernel_modules": _WORDS,
    "sysctls": _named({"value": {"type": "str", "required": True}}),
    "directories": _items(_ATTRIBUTES),
    "files": _items(
        dict(
            _ATTRIBUTES,
            src={"type": "path"},
            content={"type": "raw"},
            secret={"type": "bool", "default": False},
            validate={"type": "list", "elements": "str"},
        )
    ),
    "lines": _items(
        {
            "line": {"type": "str"},
            "regexp": {"type": "str"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "create": {"type": "bool", "default": False},
            "secret": {"type": "bool", "default": False},
        }
    ),
    "links": _items({"target": {"type": "str", "required": True}}),
    "absent": _WORDS,
    "units": _named(
        {
            "state": {"type": "str", "choices": ["started", "stopped"]},
            "enabled": {"type": "bool"},
            "restart_on": {"type": "list", "elements": "str"},
        }
    ),
}

# What the action plugin adds for the module. `_lines` are the lines that must not be shown: Ansible hides their text.
SENT_SPEC: t.Dict[str, t.Any] = {
    "_sent": {"type": "dict", "default": {}},
    "_lines": {"type": "dict", "default": {}, "no_log": True},
}
