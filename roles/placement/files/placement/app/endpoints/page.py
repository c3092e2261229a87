# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tree of nodes as one HTML page: no script, no other file, nothing of the network. Pure.

Names of nodes, domains and taints are their owners' text. All of it is escaped, and no attribute but titles has any.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import Any, Final

from placement.graph.topology import CLUSTER, NODE
from placement.graph.views.picture import BATCH, CLOSED_NODE, CORDONED, HOLDERS, LOST, OTHERS, OURS, SYSTEM, TAINTED
from placement.graph.views.show import amount_used
from placement.model.amounts.quantity import CPU, EPHEMERAL_STORAGE, PODS

Json = dict[str, Any]
# Up to so many nodes are lines with a bar for each resource, up to so many others cells; of more only sums are drawn.
MOST_LINES: Final = 400
MOST_CELLS: Final = 10_000
# Resources that have no bar: they are seldom what is short.
_UNDRAWN: Final = (PODS, EPHEMERAL_STORAGE)
_LONGEST_NAME: Final = 60
# Batch is orange and Kubernetes is blue, as in the chart of `make demo`.
COLOURS: Final = {OURS: "#1f5fa8", OTHERS: "#6fa8e0", SYSTEM: "#7d8b99", BATCH: "#e07b00"}
_LEGEND: Final = {
    OURS: "pods of this scheduler",
    OTHERS: "pods of other schedulers",
    SYSTEM: "DaemonSets and static pods",
    BATCH: "batch jobs",
}
_MARKS: Final = {
    BATCH: "closed for batch jobs",
    CORDONED: "cordoned, or closed by a taint",
    LOST: "lost: not ready or unreachable",
}
# The colour that a mark has in the page, the gravest first.
_LOOKS: Final = {LOST: LOST, BATCH: BATCH, CORDONED: CORDONED, TAINTED: CORDONED, CLOSED_NODE: CORDONED}

_HEAD: Final = (
    """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>The tree of nodes</title>
<style>
:root { """
    + " ".join(f"--{kind}: {colour};" for kind, colour in COLOURS.items())
    + """ --free: #e9edf1; --lost: #b3261e; --cordoned: #6b6b6b; }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; color: #222;
  margin: 1.5em auto; padding: 0 1.5em; max-width: 1400px; }
h1 { font-size: 1.6em; margin: 0 0 .2em; }
.key { display: flex; flex-wrap: wrap; gap: .2em 1.4em; margin: .6em 0 1.2em; padding: 0; list-style: none; }
.key i { display: inline-block; width: 1em; height: 1em; vertical-align: -.12em; margin-right: .4em;
  border-radius: 2px; }
section { border: 1px solid #c4ccd4; border-radius: 6px; padding: .6em .8em .8em; margin: 0 0 1em; background: #fff; }
.in { display: grid; gap: .8em; margin-top: .6em;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 21em), 1fr)); }
.in > section { margin: 0; }
.in > .deep { grid-column: 1 / -1; background: #fafbfc; }
h2 { font-size: 1em; margin: 0 0 .3em; display: flex; flex-wrap: wrap; gap: 0 .6em; align-items: baseline; }
h2 small { font-weight: normal; color: #555; }
.use { display: grid; grid-template-columns: minmax(11.5em, max-content) 1fr; gap: .15em .7em; align-items: center;
  font-size: .85em; }
.use, .n { font-variant-numeric: tabular-nums; }
.bar { display: flex; height: .8em; background: var(--free); border-radius: 2px; overflow: hidden; }
.bar s { display: block; height: 100%; }
"""
    + " ".join(f".{kind} {{ background: var(--{kind}); }}" for kind in HOLDERS)
    + """
.ns { margin: .7em 0 0; display: grid; gap: .45em; }
.n { display: grid; grid-template-columns: minmax(5em, 9em) 1fr 5.5em; gap: 0 .6em; align-items: center;
  font-size: .85em; }
.n b { font-weight: normal; overflow-wrap: anywhere; }
.n .bars { display: grid; gap: 2px; }
.n .bar { height: .5em; }
.n .bar:only-child { height: .9em; }
.n em { font-style: normal; text-align: right; }
.n q { grid-column: 2 / -1; quotes: none; font-size: .92em; line-height: 1.25; }
.m-lost b, .m-lost q { color: var(--lost); font-weight: bold; }
.m-cordoned b, .m-cordoned q { color: var(--cordoned); }
.m-batch q { color: #9a5200; }
.m-lost .bar, i.m-lost { background: repeating-linear-gradient(45deg, #f3c4c0 0 4px, #fff 4px 8px); }
.m-cordoned .bar, i.m-cordoned { background: repeating-linear-gradient(45deg, #c9c9c9 0 4px, #fff 4px 8px); }
.m-batch .bar, i.m-batch { background: repeating-linear-gradient(45deg, var(--batch) 0 3px, #fbe6cc 3px 8px); }
.cs { display: flex; flex-wrap: wrap; gap: 3px; margin-top: .6em; }
.cs u { width: 14px; height: 18px; border: 1px solid #9aa5b1; border-radius: 2px; text-decoration: none; }
.cs u.m-lost, .cell i.m-lost { background: none; border: 2px solid var(--lost); }
.cs u.m-cordoned, .cell i.m-cordoned { background: none; border: 2px dashed var(--cordoned); }
.cs u.m-batch, .cell i.m-batch { background: none; border: 2px solid var(--batch); }
.sum { margin: .4em 0 0; font-size: .85em; }
.sum .m-lost { color: var(--lost); font-weight: bold; }
@media (max-width: 30em) { body { padding: 0 .6em; } section { padding: .5em; }
  .n { grid-template-columns: 7em 1fr 4.5em; } }
</style>
</head>
<body>
"""
)


class _Domain:
    """A domain with what is in it, and the sums over its nodes."""

    def __init__(self, level: str, name: str, resources: int) -> None:
        self.level = level
        self.name = name
        self.domains: list[_Domain] = []
        self.nodes: list[Json] = []
        self.has = [0] * resources
        self.held = {kind: [0] * resources for kind in HOLDERS}
        self.number = 0
        self.marked: dict[str, int] = {}

    def add(self, node: Json) -> None:
        """Add a node of this domain, or of one within it, to the sums."""
        self.number += 1
        self.has = [sum(pair) for pair in zip(self.has, node["has"], strict=True)]
        for kind, amounts in node["held"].items():
            self.held[kind] = [sum(pair) for pair in zip(self.held[kind], amounts, strict=True)]
        look = _look(node["marks"])
        if look:
            self.marked[look] = self.marked.get(look, 0) + 1


def page(picture: Json, *, when: str) -> Iterator[str]:
    """Yield the pieces of the page; `when` says when the picture was taken."""
    resources: list[str] = picture["resources"]
    root = _tree(picture["items"], len(resources))
    drawn = [
        index
        for index, name in enumerate(resources)
        if name not in _UNDRAWN and (root.has[index] or any(held[index] for held in root.held.values()))
    ]
    yield _HEAD
    yield "<h1>The tree of nodes and what is in use</h1>\n"
    nodes: Callable[[_Draw, Sequence[Json]], Iterator[str]]
    if root.number > MOST_CELLS:
        nodes, caption = (
            _sums_only,
            f"More than {MOST_CELLS:,} nodes are not drawn one by one: <code>--nodes</code> lists them.",
        )
    elif root.number > MOST_LINES:
        nodes, caption = _cells, "Each cell is a node. It is filled by the resource of which the node has least left."
    else:
        names = ", ".join(escape(_short(resources[index])) for index in drawn)
        nodes, caption = _lines, f"The bars of a node are in this order: {names}. The figure beside them is its cpu."
    number = _counted(root.number, "node")
    yield f"<p>{number}, {escape(when)}. A full bar has nothing free. {caption if drawn else ''}</p>\n"
    yield _key(root, cells=nodes is _cells)
    yield from _Draw(resources, drawn, nodes).domain(root)
    yield "</body>\n</html>\n"


def _tree(items: Sequence[Json], resources: int) -> _Domain:
    above: list[_Domain] = [_Domain(CLUSTER, CLUSTER, resources)]
    for item in items:
        if item["level"] == CLUSTER:
            continue
        del above[item["depth"] :]
        if item["level"] == NODE:
            above[-1].nodes.append(item)
            for domain in above:
                domain.add(item)
        else:
            above.append(_Domain(item["level"], item["name"], resources))
            above[-2].domains.append(above[-1])
    return above[0]


def _look(marks: Iterable[Sequence[str]]) -> str:
    kinds = {kind for kind, _words in marks}
    return next((look for kind, look in _LOOKS.items() if kind in kinds), "")


def _key(root: _Domain, *, cells: bool) -> str:
    kinds = [kind for kind in HOLDERS if any(root.held[kind])]
    shown = [f'<li><i class="{kind}"></i>{_LEGEND[kind]}</li>' for kind in kinds]
    shown.append('<li><i style="background:var(--free)"></i>free</li>')
    shown += [f'<li><i class="m-{look}"></i>{words}</li>' for look, words in _MARKS.items() if look in root.marked]
    return f'<ul class="key{" cell" if cells else ""}">{"".join(shown)}</ul>\n'


class _Draw:
    """Draws domains; how nodes are drawn depends on how many there are."""

    def __init__(
        self,
        resources: Sequence[str],
        drawn: Sequence[int],
        nodes: Callable[["_Draw", Sequence[Json]], Iterator[str]],
    ) -> None:
        self.resources = resources
        self.drawn = drawn
        self.nodes = nodes

    def domain(self, domain: _Domain) -> Iterator[str]:
        """Yield a box for the domain, with the boxes and nodes in it."""
        deep = ' class="deep"' if domain.domains else ""
        title = CLUSTER if domain.level == CLUSTER else f"{domain.level} {_short(domain.name)}"
        yield f"<section{deep}>\n<h2>{escape(title)}<small>{_counted(domain.number, 'node')}</small></h2>\n"
        if domain.number:
            yield f'<div class="use">{"".join(self._rows(domain))}</div>\n'
        if domain.marked:
            told = [
                f'<span class="m-{look}">{domain.marked[look]} {_SAID[look]}</span>'
                for look in _MARKS
                if look in domain.marked
            ]
            yield f'<p class="sum">{", ".join(told)}</p>\n'
        if domain.nodes:
            yield from self.nodes(self, domain.nodes)
        if domain.domains:
            yield '<div class="in">\n'
            for inner in domain.domains:
                yield from self.domain(inner)
            yield "</div>\n"
        yield "</section>\n"

    def _rows(self, domain: _Domain) -> Iterator[str]:
        for index in self.drawn:
            if domain.has[index] or any(held[index] for held in domain.held.values()):
                yield f"<span>{self.amount(index, domain.has, domain.held)}</span>"
                yield self.drawn_bar(index, domain.has, domain.held)

    def amount(self, index: int, has: Sequence[int], held: Json) -> str:
        """Return how much of a resource is in use, as HTML."""
        used = sum(amounts[index] for amounts in held.values())
        return escape(amount_used(self.resources[index], used, has[index]))

    def drawn_bar(self, index: int, has: Sequence[int], held: Json) -> str:
        """Return the bar of a resource; what is overfull is drawn as full."""
        parts = [
            f'<s class="{kind}" style="width:{end - begin:.3g}%"></s>'
            for kind, begin, end in shares(index, has, held)
            if end > begin
        ]
        return f'<div class="bar">{"".join(parts)}</div>'

    def title(self, node: Json) -> str:
        """Return everything about a node in one line, as HTML."""
        amounts = [self.amount(index, node["has"], node["held"]) for index in self.drawn if node["has"][index]]
        return ", ".join(
            [
                escape(f"node {_short(node['name'])}"),
                *amounts,
                *(escape(_short(words)) for _kind, words in node["marks"]),
            ]
        )


_SAID: Final = {BATCH: "closed for batch jobs", CORDONED: "cordoned or tainted", LOST: "lost"}


def shares(index: int, has: Sequence[int], held: Json) -> Iterator[tuple[str, float, float]]:
    """Yield where each kind of holder begins and ends in a bar, in percent of what there is."""
    used = sum(amounts[index] for amounts in held.values())
    whole, begin = max(has[index], used, 1), 0.0
    for kind in HOLDERS:
        if kind in held:
            end = begin + 100 * held[kind][index] / whole
            yield kind, begin, end
            begin = end


def _lines(draw: _Draw, nodes: Sequence[Json]) -> Iterator[str]:
    yield '<div class="ns">\n'
    for node in nodes:
        look = _look(node["marks"])
        bars = "".join(draw.drawn_bar(index, node["has"], node["held"]) for index in draw.drawn if node["has"][index])
        words = ", ".join(escape(_short(words)) for _kind, words in node["marks"])
        yield (
            f'<div class="n{f" m-{look}" if look else ""}" title="{draw.title(node)}">'
            f"<b>{escape(_short(node['name']))}</b>"
            f'<div class="bars">{bars}</div><em>{_cores(draw, node)}</em>{f"<q>{words}</q>" if words else ""}</div>\n'
        )
    yield "</div>\n"


def _cores(draw: _Draw, node: Json) -> str:
    index = draw.resources.index(CPU)
    used = sum(amounts[index] for amounts in node["held"].values())
    return f"{used / 1000:g}/{node['has'][index] / 1000:g}"


def _cells(draw: _Draw, nodes: Sequence[Json]) -> Iterator[str]:
    """Draw each node as a cell that is filled as far as the resource of which it has least left."""
    yield '<div class="cs">\n'
    for node in nodes:
        fullest = max(draw.drawn, key=lambda index: _full(index, node), default=0)
        stops = [
            f"var(--{kind}) {begin:.3g}% {end:.3g}%"
            for kind, begin, end in shares(fullest, node["has"], node["held"])
            if end > begin
        ]
        used = stops[-1].rpartition(" ")[2] if stops else "0%"
        stops.append(f"var(--free) {used}")
        look = _look(node["marks"])
        yield (
            f'<u{f" class=m-{look}" if look else ""} title="{draw.title(node)}"'
            f' style="background:linear-gradient(to top,{",".join(stops)})"></u>\n'
        )
    yield "</div>\n"


def _full(index: int, node: Json) -> float:
    used = sum(amounts[index] for amounts in node["held"].values())
    return float(used) / max(node["has"][index], 1) if node["has"][index] else 0.0


def _sums_only(_draw: _Draw, _nodes: Sequence[Json]) -> Iterator[str]:
    yield from ()


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' if number != 1 else ''}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"
