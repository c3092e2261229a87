# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`pbsnodes` of the double, which ends with 0 also where it was refused."""

from __future__ import annotations

import getopt
import sys
import time

from torque_double import as_xml, callers, schedule
from torque_double.state import Job, State, last_seen, ranges


def main(state: State, arguments: list[str]) -> int:
    """Shows or marks nodes."""
    try:
        given, names = getopt.getopt(arguments, "axlnocrqN:A:s:")
    except getopt.GetoptError as error:
        print(f"pbsnodes: {error}", file=sys.stderr)
        return 1
    options = dict(given)
    if {"-o", "-c", "-r", "-N"} & set(options):
        for name in names:
            _mark(state, name, options)
        return 0
    unknown = [name for name in names if name not in state.nodes]
    if unknown:
        print("pbsnodes: Unknown node  MSG=cannot locate specified node", file=sys.stderr)
        return 1
    if not state.nodes:
        print(
            "pbsnodes: Server has no node list MSG=node list is empty - check 'server_priv/nodes' file", file=sys.stderr
        )
        return 1
    if "-l" in options:
        for name in names or list(state.nodes):
            words = schedule.node_words(state, name, time.time())
            if {"down", "offline"} & set(words):
                note = f" {state.nodes[name].note}" if "-n" in options else ""
                _write(f"{name:<20} {','.join(words)}{note}\n")
        return 0
    found = [(name, _attributes(state, name)) for name in names or list(state.nodes)]
    if "-x" in options:
        inner = "".join(f"<Node>{as_xml.elements([('name', name), *each])}</Node>" for name, each in found)
        _write(f"<Data>{inner}</Data>\n".replace('"', "&quot;"))
    else:
        for name, each in found:
            _write(f"{name}\n" + "".join(f"     {key} = {value}\n" for key, value in each) + "\n")
    return 0


def _mark(state: State, name: str, options: dict[str, str]) -> None:
    """The words go to standard error, and the status stays 0."""
    what = "note attribute" if "-N" in options else "node state"
    if not callers.is_operator(state):
        print(f"Error setting {what} for {name} - Unauthorized Request ", file=sys.stderr)
    elif name not in state.nodes:
        print(f"Error setting {what} for {name} - Unknown node  MSG=cannot locate specified node", file=sys.stderr)
    else:
        node = state.nodes[name]
        if "-N" in options:
            node.note = "" if options["-N"] == "n" else options["-N"]
        if "-o" in options:
            node.offline = True
        if "-c" in options:
            node.offline = False
        if "-r" in options:
            node.offline, node.reset = False, True


def _attributes(state: State, name: str) -> list[as_xml.Attribute]:
    node, now = state.nodes[name], time.time()
    taken = schedule.used(state, name)
    found = [("state", ",".join(schedule.node_words(state, name, now))), ("power_state", "Running")]
    found.append(("np", str(node.np)))
    found += [("properties", node.properties)] if node.properties else []
    found.append(("ntype", "cluster"))
    jobs: dict[str, tuple[Job, list[int]]] = {}
    for slot, job in sorted(taken.items()):
        jobs.setdefault(job.id, (job, []))[1].append(slot)
    if jobs:
        found.append(("jobs", ",".join(f"{ranges(slots)}/{each}" for each, (_job, slots) in jobs.items())))
    seen = last_seen(state, name)
    if seen:
        here = " ".join(jobs)
        text = f"opsys=linux,uname=Linux {name},nusers=0,ncpus={node.np},physmem=8000000kb,loadave=0.10,"
        text += f"message={node.message}," if node.message else ""
        found.append(("status", f"{text}state=free,varattr= ,cpuclock=Fixed,rectime={int(seen)},jobs={here}"))
    found += [("note", node.note)] if node.note else []
    found += [("mom_service_port", "15002"), ("mom_manager_port", "15003")]
    found += [("gpus", str(node.gpus))] if node.gpus else []
    return found


def _write(text: str) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
