# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's `topology.conf` as a topology: the tree of switches, or blocks.

A leaf switch lists nodes, any other switch lists switches. The leaves are the innermost level, and a switch is one
level above the highest of its children. Slurm's own manual, topology.conf(5), says what a line may have.
"""

from typing import Final

from placement.graph.topology import Path, Topology, TopologyError, check_name, filled
from placement.shared.hostlist import HostlistError, expand

_KEYS: Final = frozenset({"switchname", "switches", "nodes", "linkspeed", "blockname", "blocksizes"})
_LONGEST: Final = 1 << 24


class _Switch:
    """One line of the file."""

    __slots__ = ("height", "line", "nodes", "parent", "switches")

    def __init__(self, line: int, switches: list[str], nodes: list[str]) -> None:
        self.line = line
        self.switches = switches
        self.nodes = nodes
        self.parent = ""
        self.height = -1


def read_switches(
    text: str, source: str, levels: tuple[str, ...] | None = None, labels: tuple[str, ...] = ()
) -> Topology:
    """Return the topology that the text of a topology.conf describes.

    The levels are named from the outermost to the innermost. By default the leaves are `switch`, and above them are
    `switch2`, `switch3` and so on (`block` where the file has blocks). TopologyError names the source and the line.
    """
    if len(text) > _LONGEST:
        raise TopologyError(f"{source}: {len(text)} characters, at most {_LONGEST} are read")
    switches, blocks = _lines(text, source)
    _connect(switches, source)
    order = _by_height(switches, source)
    height = max((switches[name].height for name in order), default=-1) + 1
    if levels is None:
        levels = (
            ("block",) if blocks else tuple(f"switch{up + 1}" if up else "switch" for up in reversed(range(height)))
        )
    if len(levels) < height:
        raise TopologyError(
            f"{source}: the tree of switches is {height} levels high, but {len(levels)} levels are named"
        )
    paths: dict[str, Path] = {}
    owners: dict[str, str] = {}
    for name, switch in switches.items():
        if not switch.nodes:
            continue
        path: list[str | None] = [None] * len(levels)
        above = name
        while above:
            path[len(levels) - 1 - switches[above].height] = above
            above = switches[above].parent
        for node in switch.nodes:
            if node in owners:
                raise TopologyError(
                    f"{source}: line {switch.line}: node {node} is in {name}, but line {switches[owners[node]].line}"
                    f" has it in {owners[node]}"
                )
            owners[node] = name
            paths[node] = filled(path)
    return Topology(levels=levels, labels=labels, paths=paths, source=source)


def _lines(text: str, source: str) -> tuple[dict[str, _Switch], bool]:
    switches: dict[str, _Switch] = {}
    kinds: dict[str, int] = {}
    kept, first = "", 0
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.split("#", 1)[0].rstrip()
        first = first if kept else number
        if line.endswith("\\"):
            kept += line[:-1] + " "
            continue
        line, kept = kept + line, ""
        where = f"{source}: line {first}"
        fields = _fields(line, where)
        if not fields or set(fields) == {"blocksizes"}:
            continue
        kind = "blockname" if "blockname" in fields else "switchname"
        if kind not in fields:
            raise TopologyError(f"{where}: neither SwitchName nor BlockName")
        kinds.setdefault(kind, first)
        if len(kinds) > 1:
            raise TopologyError(f"{where}: switches and blocks in one file")
        names, children = _hosts(fields[kind], where), _hosts(fields.get("switches", ""), where)
        nodes = _hosts(fields.get("nodes", ""), where)
        if len(names) != 1:
            raise TopologyError(f"{where}: {len(names)} names, expected one switch a line")
        if bool(children) == bool(nodes):
            raise TopologyError(f"{where}: {names[0]} has {'both' if nodes else 'neither'} Nodes and Switches")
        if names[0] in switches:
            raise TopologyError(f"{where}: {names[0]} is also in line {switches[names[0]].line}")
        switches[names[0]] = _Switch(first, children, nodes)
    if kept:
        raise TopologyError(f"{source}: line {first}: the last line goes on behind its end")
    return switches, "blockname" in kinds


def _fields(line: str, where: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for word in line.split():
        key, sign, value = word.partition("=")
        key = key.lower()
        if not sign or key not in _KEYS:
            raise TopologyError(f"{where}: {word[:60]!a} is none of SwitchName, Switches, Nodes, LinkSpeed, BlockName")
        if key in fields:
            raise TopologyError(f"{where}: {word.partition('=')[0][:60]} is there twice")
        fields[key] = value
    return fields


def _hosts(text: str, where: str) -> list[str]:
    """Return the names, each once."""
    try:
        return [check_name(name, where) for name in dict.fromkeys(expand(text))]
    except HostlistError as error:
        raise TopologyError(f"{where}: {error}") from None


def _connect(switches: dict[str, _Switch], source: str) -> None:
    for name, switch in switches.items():
        for child in switch.switches:
            below = switches.get(child)
            if below is None:
                raise TopologyError(
                    f"{source}: line {switch.line}: {name} has the switch {child}, which no line describes"
                )
            if below.parent:
                raise TopologyError(
                    f"{source}: line {switch.line}: the switch {child} is in {name} and, by line"
                    f" {switches[below.parent].line}, in {below.parent}"
                )
            below.parent = name


def _by_height(switches: dict[str, _Switch], source: str) -> list[str]:
    """Set the height of each switch, leaves first, and return the names in that order; refuse cycles."""
    waiting = {name: len(switch.switches) for name, switch in switches.items()}
    order = [name for name, children in waiting.items() if not children]
    for name in order:
        switch = switches[name]
        switch.height = 1 + max((switches[child].height for child in switch.switches), default=-1)
        if switch.parent:
            waiting[switch.parent] -= 1
            if not waiting[switch.parent]:
                order.append(switch.parent)
    if len(order) < len(switches):
        name = next(name for name, children in waiting.items() if children)
        raise TopologyError(f"{source}: line {switches[name].line}: the switch {name} is below itself or a cycle")
    return order
