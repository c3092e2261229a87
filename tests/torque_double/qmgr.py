# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`qmgr` of the double; every error ends it with 2."""

from __future__ import annotations

import re
import sys
import time

from torque_double import callers
from torque_double.cluster import SERVER
from torque_double.state import VERSION, Attributes, Node, Refused, State

_COMMAND = re.compile(r"(\S+)\s+(\S+)(?:\s+(.*))?", re.DOTALL)
_ASSIGNMENT = re.compile(r"(\S+?)\s*(\+=|-=|=)\s*(.*)", re.DOTALL)
_VERBS = {"c": "create", "d": "delete", "s": "set", "u": "unset", "l": "list", "p": "print"}
_KINDS = {"s": "server", "q": "queue", "n": "node"}
_LISTS = frozenset(("managers", "operators", "acl_hosts", "acl_users", "acl_roots", "submit_hosts", "acl_groups"))
_SWITCHES = frozenset(
    [
        *("scheduling", "query_other_jobs", "down_on_error", "allow_node_submit", "acl_host_enable", "acl_user_enable"),
        *("enabled", "started", "mom_job_sync", "poll_jobs", "moab_array_compatible", "disable_server_id_check"),
        "display_job_server_suffix",
    ]
)
_PLAIN = frozenset(
    [
        *("default_queue", "log_events", "mail_from", "node_check_rate", "tcp_timeout", "job_stat_rate", "nppcu"),
        *("next_job_number", "keep_completed", "log_level", "scheduler_iteration", "node_pack", "comment"),
        *("allow_proxy_user", "job_start_timeout", "max_job_array_size", "kill_delay"),
        *("timeout_for_job_delete", "timeout_for_job_requeue"),
        "job_suffix_alias",
    ]
)
_SERVER = _LISTS | _SWITCHES | _PLAIN
_QUEUE = (
    frozenset(
        (
            "queue_type",
            "Priority",
            "max_running",
            "max_queuable",
            "acl_groups",
            "acl_hosts",
            "acl_users",
            "disallowed_types",
        )
    )
    | _SWITCHES
)
_RESOURCE = frozenset(("resources_default", "resources_max", "resources_min", "resources_available"))
_NODE = frozenset(("np", "properties", "note", "state", "gpus"))


def main(state: State, arguments: list[str]) -> int:
    """Commands of `-c`, or the lines of standard input."""
    if arguments[:1] == ["-c"]:
        commands = [arguments[1]]
    else:
        commands = [line.strip() for line in sys.stdin.read().splitlines() if line.strip()]
    status = 0
    for command in commands:
        try:
            _perform(state, command)
        except Refused as refusal:
            print(f"qmgr obj={_named(command)} svr=default: {refusal.text}", file=sys.stderr)
            status = 2
    return status


def _named(command: str) -> str:
    match = _COMMAND.fullmatch(command)
    kind = match[2] if match else ""
    return "" if not match or kind.startswith("s") else (match[3] or "").split(" ")[0]


def _perform(state: State, command: str) -> None:
    match = _COMMAND.fullmatch(command.strip())
    verb = _VERBS.get(match[1][:1], "") if match else ""
    kind = _KINDS.get(match[2][:1], "") if match else ""
    if match is None or not verb or not kind:
        print(f"qmgr: Syntax error\n{command}", file=sys.stderr)
        raise Refused(2, "Syntax error")
    rest = (match[3] or "").strip()
    if verb in ("list", "print"):
        _show(state, verb, kind, rest)
        return
    may = callers.is_operator(state) if kind == "node" and verb == "set" else callers.is_manager(state)
    callers.must_be(may)
    name = ""
    if kind != "server":
        name, _blank, rest = rest.partition(" ")
    if verb == "create":
        _create(state, kind, name, rest)
    elif verb == "delete":
        _known(state, kind, name)
        if kind == "queue" and any(job.queue == name for job in state.jobs.values()):
            raise Refused(15029, "Cannot delete busy object")
        del (state.queues if kind == "queue" else state.nodes)[name]
    else:
        for part in re.split(r",\s*(?=\w+(?:\.\w+)?\s*[+-]?=)", rest):
            _set(state, kind, name, part if verb == "set" else f"{part.strip()} = ", unset=verb == "unset")


def _create(state: State, kind: str, name: str, rest: str) -> None:
    if kind == "queue":
        if name in state.queues:
            raise Refused(15027, "Queue already exists")
        state.queues[name] = {}
    else:
        if name in state.nodes:
            raise Refused(15098, "Node name already exists")
        state.nodes[name] = Node(1, made=time.time())
    for part in rest.split(","):
        if part.strip():
            _set(state, kind, name, part)


def _known(state: State, kind: str, name: str) -> None:
    if kind == "queue" and name not in state.queues:
        raise Refused(15020, "Unknown queue")
    if kind == "node" and name not in state.nodes:
        raise Refused(15062, "Unknown node ")


def _set(state: State, kind: str, name: str, text: str, *, unset: bool = False) -> None:
    match = _ASSIGNMENT.fullmatch(text.strip() if not unset else text.lstrip())
    if match is None:
        raise Refused(2, "Syntax error")
    attribute, operator, value = match[1], match[2], match[3].strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    _known(state, kind, name)
    if kind == "node":
        _set_node(state.nodes[name], attribute, value)
        return
    known = _SERVER if kind == "server" else _QUEUE
    if attribute not in known and attribute.partition(".")[0] not in _RESOURCE:
        raise Refused(15002, f"Undefined attribute  MSG=invalid attribute {attribute}")
    held = state.server if kind == "server" else state.queues[name]
    _change(held, attribute, operator, value, unset=unset)


def _change(held: Attributes, attribute: str, operator: str, value: str, *, unset: bool) -> None:
    if unset or value == "":
        held.pop(attribute, None)
        return
    if attribute in _SWITCHES:
        if value.lower() not in ("true", "false", "t", "f", "1", "0", "y", "n"):
            raise Refused(15016, "Illegal attribute or resource value for")
        value = str(value.lower() in ("true", "t", "1", "y"))
    if attribute == "queue_type":
        value = "Execution" if value.lower().startswith("e") else "Route"
    if attribute in _LISTS:
        before = held.get(attribute, "").split(",") if held.get(attribute) else []
        words = [word.strip() for word in value.split(",")]
        if operator == "-=":
            words = [word for word in before if word not in words]
        elif operator == "+=":
            words = before + [word for word in words if word not in before]
        if not words:
            held.pop(attribute, None)
            return
        value = ",".join(words)
    held[attribute] = value


def _set_node(node: Node, attribute: str, value: str) -> None:
    if attribute not in _NODE:
        raise Refused(15063, f"Unknown node-attribute  MSG={attribute}")
    if attribute in ("np", "gpus"):
        setattr(node, attribute, int(value))
    elif attribute == "state":
        node.offline = "offline" in value
    else:
        setattr(node, attribute, value)


def _show(state: State, verb: str, kind: str, rest: str) -> None:
    name = "" if rest.startswith("@") else rest.split(" ")[0] if rest else ""
    if kind != "server" and name:
        _known(state, kind, name)
    if verb == "print":
        _print(state, kind, name)
    elif kind == "server":
        shown = {"server_state": "Active", "total_jobs": str(len(state.jobs)), **state.server, "pbs_version": VERSION}
        _list("Server", SERVER, shown)
    elif kind == "queue":
        for each in [name] if name else list(state.queues):
            _list("Queue", each, state.queues[each])
    else:
        for each in [name] if name else list(state.nodes):
            _list("Node", each, _of_node(state.nodes[each]))


def _of_node(node: Node) -> Attributes:
    found = {"np": str(node.np)}
    found.update({"properties": node.properties} if node.properties else {})
    return {**found, "ntype": "cluster", **({"note": node.note} if node.note else {})}


def _list(kind: str, name: str, shown: Attributes) -> None:
    print(f"{kind} {name}")
    for attribute, value in shown.items():
        print(f"\t{attribute} = {value}")
    print()


def _print(state: State, kind: str, name: str) -> None:
    if kind == "server":
        print("#\n# Create queues and set their attributes.\n#")
    if kind in ("server", "queue"):
        for each in [name] if name else list(state.queues):
            print(f"#\n# Create and define queue {each}\n#\ncreate queue {each}")
            _assignments("queue", f"{each} ", state.queues[each])
    if kind == "server":
        print("#\n# Set server attributes.\n#")
        _assignments("server", "", state.server)
    if kind == "node":
        for each in [name] if name else list(state.nodes):
            print(f"#\n# Create and define node {each}\n#\ncreate node {each}")
            _assignments("node", f"{each} ", _of_node(state.nodes[each]))


def _assignments(kind: str, name: str, shown: Attributes) -> None:
    for attribute, value in shown.items():
        values = value.split(",") if attribute in _LISTS else [value]
        for number, each in enumerate(values):
            text = f'"{each}"' if re.search("[' ,]", each) else f"'{each}'" if '"' in each else each
            print(f"set {kind} {name}{attribute} {'+=' if number else '='} {text}")
