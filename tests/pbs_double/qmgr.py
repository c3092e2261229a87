# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`qmgr -c COMMAND` of the double."""

from __future__ import annotations

import re
import sys
import time
import typing as t

from pbs_double import attributes, hooks, schedule
from pbs_double.callers import caller
from pbs_double.cluster import SERVER
from pbs_double.state import VERSION, Refused, State, fresh_node

_COMMAND = re.compile(r"\s*(\w+)\s+(\w+)(?:\s+([^\s=+]+))?(?:\s+(.*))?\Z", re.DOTALL)
_ASSIGNMENT = re.compile(r"([\w.]+)\s*(\+=|-=|=)\s*(.*)\Z", re.DOTALL)
_HEADS = {
    "server": "#\n# Set server attributes.\n#\n",
    "queue": "#\n# Create queues and set their attributes.\n#\n",
    "node": "#\n# Create nodes and set their properties.\n#\n",
}
_WIDTH = 78


def main(state: State, arguments: list[str]) -> int:
    """One command, and the status with which qmgr exits."""
    match = _COMMAND.match(arguments[1]) if arguments[:1] == ["-c"] and len(arguments) == 2 else None
    if match is None or match[1] not in (*_CHANGES, "list", "print", "import", "export"):
        word = arguments[1].split()[0] if len(arguments) > 1 and arguments[1].split() else ""
        print(f"qmgr: Illegal operation: {word}\nTry 'help' if you are having trouble.", file=sys.stderr)
        return 1
    verb, kind, name, rest = match[1], match[2], match[3] or "", match[4] or ""
    if kind == "server":
        name, rest = "", f"{name} {rest}".strip()
    try:
        return _do(state, verb, kind, name, rest)
    except Refused as refusal:
        print(f"qmgr obj={name} svr=default: {refusal.text}", file=sys.stderr)
        # qmgr exits with the low byte of the server's number
        said = "hook error" if kind == "hook" else f"Error ({0x3A00 + refusal.number})"
        print(f"qmgr: {said} returned from server", file=sys.stderr)
        return 1 if verb in ("list", "print") else refusal.number


def _do(state: State, verb: str, kind: str, name: str, rest: str) -> int:
    if verb in ("list", "print") and not (kind == "hook" and caller() != "root"):
        return _show(state, verb, kind, name)
    if caller() != "root":
        raise Refused(32 if kind == "hook" else 159, "Unauthorized Request")
    if kind == "hook" and verb in ("import", "export"):
        return _text(state, verb, name, rest)
    if kind == "server" and verb in ("set", "unset"):
        word = re.split(r"(?=\+=|-=|=)", rest)[0]
        if word.strip().partition(".")[0] not in attributes.KINDS["server"]:
            line = f"{verb} server {rest}"
            print(f"qmgr: Syntax error\n{line}\n{' ' * len(f'{verb} server {word}')}^", file=sys.stderr)
            return 4
    _CHANGES[verb](state, kind, name, rest)
    return 0


def _create(state: State, kind: str, name: str, _rest: str) -> None:
    if kind == "hook":
        hooks.create(state, name)
    elif kind == "queue":
        if name in state.queues:
            raise Refused(177, "Queue already exists")
        state.queues[name] = {}
    elif name in state.nodes:
        raise Refused(218, "Node name already exists")
    else:
        state.nodes[name] = fresh_node(name, time.time())


def _delete(state: State, kind: str, name: str, _rest: str) -> None:
    if kind == "hook":
        hooks.delete(state, name)
        return
    _attributes(state, kind, name)
    if kind == "queue" and (
        any(node.get("queue") == name for node in state.nodes.values())
        or any(job.queue == name and job.state != "F" for job in state.jobs.values())
    ):
        raise Refused(179, "Cannot delete busy object")
    del (state.queues if kind == "queue" else state.nodes)[name]


def _set(state: State, kind: str, name: str, rest: str) -> None:
    match = _ASSIGNMENT.match(rest)
    if match is None:
        raise Refused(166, "Illegal attribute or resource value")
    attribute, operator, value = match[1], match[2], _unquoted(match[3])
    if kind == "hook":
        hooks.change(hooks.existing(state, name), attribute, operator, value)
        return
    current = _attributes(state, kind, name)
    new = attributes.changed(kind, current, attribute, operator, value)
    if kind == "queue" and attribute in ("enabled", "started") and "queue_type" not in current:
        raise Refused(182, "Cannot enable queue, incomplete definition")
    if new is None:
        current.pop(attribute, None)
    else:
        current[attribute] = new


def _unset(state: State, kind: str, name: str, rest: str) -> None:
    current = _attributes(state, kind, name)
    attributes.kind_of(kind, rest)
    current.pop(rest, None)


_CHANGES: dict[str, t.Callable[[State, str, str, str], None]] = {
    "create": _create,
    "delete": _delete,
    "set": _set,
    "unset": _unset,
}


def _attributes(state: State, kind: str, name: str) -> dict[str, str]:
    if kind == "server":
        return state.server
    if kind == "queue":
        if name not in state.queues:
            raise Refused(170, "Unknown queue")
        return state.queues[name]
    if name not in state.nodes:
        raise Refused(214, "Unknown node ")
    return state.nodes[name]


def _show(state: State, verb: str, kind: str, name: str) -> int:
    if kind == "hook":
        if name and name not in state.hooks:
            raise Refused(32, "hook not found")
        for hook in [name] if name else state.hooks:
            _list("Hook", hook, hooks.shown(state.hooks[hook]))
    elif kind == "server":
        if verb == "list":
            _list("Server", SERVER, _server_shown(state))
        else:
            _print(state, "queue", list(state.queues))
            sys.stdout.write(_HEADS["server"] + "".join(_settings("server", "", state.server)))
    else:
        everything = list(state.queues if kind == "queue" else state.nodes)
        names = everything if name in ("", "@default") else [name]
        for each in names:
            _attributes(state, kind, each)
        if verb == "print":
            _print(state, kind, names)
        for each in names if verb == "list" else []:
            _list(kind.capitalize(), each, list(_attributes(state, kind, each).items()))
    return 0


def _server_shown(state: State) -> list[tuple[str, str]]:
    return [
        ("server_state", "Active" if state.server.get("scheduling") == "True" else "Idle"),
        ("server_host", SERVER),
        ("total_jobs", str(len(state.jobs))),
        *state.server.items(),
        ("pbs_version", VERSION),
    ]


def _list(kind: str, name: str, shown: t.Iterable[tuple[str, str]]) -> None:
    print(f"{kind} {name}")
    for attribute, value in shown:
        print(f"    {attribute} = {_broken(attribute, value)}")
    print()


def _broken(attribute: str, value: str) -> str:
    """A long list fills its line, and every further element has one of its own, after a tab."""
    words = re.findall(r"[^,]*,|[^,]+", value)
    first = len(f"    {attribute} = ")
    filled = 0
    while filled < len(words) and first + len(words[filled]) <= _WIDTH:
        first += len(words[filled])
        filled += 1
    return "\n\t".join(["".join(words[: max(filled, 1)]), *words[max(filled, 1) :]])


def _print(state: State, kind: str, names: t.Sequence[str]) -> None:
    sys.stdout.write(_HEADS[kind])
    for name in names:
        sys.stdout.write(f"#\n# Create and define {kind} {name}\n#\ncreate {kind} {name}\n")
        shown = dict(_attributes(state, kind, name))
        if kind == "node":
            shown = {key: value for key, value in shown.items() if _settable(key)}
            shown = {"state": schedule.node_state(state, name), **shown}
        sys.stdout.write("".join(_settings(kind, f"{name} ", shown)))


def _settable(attribute: str) -> bool:
    return attribute.startswith("resources_available.") or attribute in ("queue", "comment", "resv_enable")


def _settings(kind: str, name: str, shown: t.Mapping[str, str]) -> t.Iterator[str]:
    for attribute, value in shown.items():
        for number, element in enumerate(attributes.elements(kind, attribute, value)):
            yield f"set {kind} {name}{attribute} {'+=' if number else '='} {_quoted(element)}\n"


def _quoted(value: str) -> str:
    if not re.search("[\"' ,]", value):
        return value
    mark = "'" if '"' in value else '"'
    return f"{mark}{value}{mark}"


def _unquoted(value: str) -> str:
    value = value.strip()
    return value[1:-1] if value[:1] in ('"', "'") and value[-1:] == value[:1] and len(value) > 1 else value


def _text(state: State, verb: str, name: str, rest: str) -> int:
    kind, _encoding, *target = rest.split(" ")
    if verb == "export":
        hook = hooks.existing(state, name)
        sys.stdout.buffer.write((hook.config if kind == "application/x-config" else hook.content) or b"")
        return 0
    try:
        hooks.store(state, name, kind, target[0])
    except Refused as refusal:
        if refusal.number != 1:
            raise
        print(refusal.text, file=sys.stderr)
        return 1
    return 0
