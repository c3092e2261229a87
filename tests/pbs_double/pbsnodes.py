# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`pbsnodes` of the double."""

from __future__ import annotations

import getopt
import sys
import time

from pbs_double import as_json, schedule
from pbs_double.state import State

_ZERO = {"mem": "0kb", "ncpus": "0", "naccelerators": "0", "accelerator_memory": "0kb", "hbmem": "0kb", "vmem": "0kb"}


def main(state: State, arguments: list[str]) -> int:
    """Shows or marks nodes."""
    options, words = _parsed(arguments)
    if "-l" in options:
        for name in state.nodes:
            if {"offline", "down"} & set(schedule.node_state(state, name).split(",")):
                print(f"{name:<20} {schedule.node_state(state, name)} {state.nodes[name].get('comment', '')}")
        return 0
    if {"-o", "-r", "-C"} & set(options):
        return _mark(state, options, words)
    unknown = [name for name in words if name not in state.nodes]
    for name in unknown:
        print(f"Node: {name},  Error: Unknown node ", file=sys.stderr)
    names = list(state.nodes) if "-a" in options else [name for name in words if name in state.nodes]
    if options.get("-F") == "json":
        sys.stdout.write(as_json.answer("nodes", {name: _as_json(state, name) for name in names}))
    else:
        for name in names:
            _as_text(state, name)
    return 1 if unknown else 0


def _parsed(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return the options with their values, and the names; options may come behind names."""
    given, words = getopt.gnu_getopt(arguments, "avorlC:F:")
    return dict(given), words


def _mark(state: State, options: dict[str, str], names: list[str]) -> int:
    status = 0
    for name in names:
        if name not in state.nodes:
            print(f"Error marking node {name} - Unknown node ", file=sys.stderr)
            status = 1
            continue
        node = state.nodes[name]
        if "-o" in options:
            node["offline"] = "1"
        if "-r" in options:
            for flag in ("offline", "offline_by_mom"):
                node.pop(flag, None)
        if options.get("-C"):
            node["comment"] = options["-C"]
        elif "-C" in options:
            node.pop("comment", None)
    return status


def _as_json(state: State, name: str) -> dict[str, object]:
    shown = as_json.grouped(_attributes(state, name), drop_zero=["resources_assigned"])
    jobs = [job for job, _slot in schedule.used(state, name)[2]]
    return {key: jobs if key == "jobs" else value for key, value in shown.items()}


def _as_text(state: State, name: str) -> None:
    print(name)
    for attribute, value in _attributes(state, name).items():
        if attribute == "last_state_change_time":
            value = time.ctime(int(value))
        print(f"     {attribute} = {value}")
    print()


def _attributes(state: State, name: str) -> dict[str, str]:
    cores, memory, jobs = schedule.used(state, name)
    assigned = {**_ZERO, "ncpus": str(cores), "mem": f"{memory // 1024}kb"}
    shown: dict[str, str] = {}
    for attribute, value in state.nodes[name].items():
        if attribute == "resources_available.arch" and jobs:
            shown["jobs"] = ", ".join(f"{job}/{slot}" for job, slot in jobs)
        if attribute == "resv_enable":
            shown.update({f"resources_assigned.{key}": assigned[key] for key in sorted(assigned)})
            if "comment" in state.nodes[name]:
                shown["comment"] = state.nodes[name]["comment"]
        if attribute not in ("offline", "offline_by_mom", "comment"):
            shown[attribute] = value
        if attribute == "ntype":
            shown["state"] = schedule.node_state(state, name)
    return shown
