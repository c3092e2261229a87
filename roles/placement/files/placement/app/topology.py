# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resource graph of the running daemon: read from the settings, made at the first question, checked every minute.

All of it but reading the settings is done in the loop's thread, in steps.
"""

from collections import Counter
from pathlib import Path
from typing import Any, Final

from placement.app.settings.settings import Settings, SettingsError, read_levels
from placement.graph.formats.jgf import read_jgf, write_jgf
from placement.graph.formats.switches import read_switches
from placement.graph.topology import Topology, TopologyError
from placement.graph.tree.audit import audit
from placement.graph.tree.source import GraphSource
from placement.graph.tree.tree import Drift, Graph
from placement.graph.views.picture import picture
from placement.graph.views.show import show
from placement.model.slicing import Steps, paced
from placement.state.cluster import Cluster

Json = dict[str, Any]
# Rows that are compared in one go, and pieces of JGF or lines that are made in one go.
_ROWS: Final = 256
_PIECES: Final = 256


def read_topology(settings: Settings) -> Topology:
    """Return the topology that the settings name; SettingsError names the key, or the file and what is wrong there."""
    pairs = read_levels(settings.topology_levels)
    levels, labels = tuple(level for level, _label in pairs), tuple(label for _level, label in pairs)
    try:
        if not settings.topology_file:
            for level, label in pairs:
                if not label:
                    raise SettingsError(
                        f"topology_levels: the level {level} has no label, and no file says where nodes are"
                    )
            return Topology(levels=levels, labels=labels, source="topology_levels")
        text = Path(settings.topology_file).read_bytes()
        if text.lstrip().startswith(b"{"):
            return read_jgf(text, settings.topology_file, levels or None, labels).topology
        return read_switches(text.decode("utf-8"), settings.topology_file, levels or None, labels)
    except OSError as error:
        raise SettingsError(f"{settings.topology_file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{settings.topology_file}: not UTF-8: {error.reason} at byte {error.start}") from None
    except TopologyError as error:
        raise SettingsError(str(error)) from None


class TopologyView:
    """The graph over one cluster, and what is asked about it."""

    def __init__(self, cluster: Cluster, source: GraphSource) -> None:
        self.cluster = cluster
        self._source = source
        self._part = 0
        # How often something differed, by what it was.
        self.drifts: Counter[str] = Counter()

    def show(self, *, nodes: bool) -> Steps[list[str]]:
        """Return the tree as lines, and what does not agree about it."""
        graph = yield from self._source.obtain()
        yield
        lines: list[str] = []
        for line, pause in paced(show(graph, nodes=nodes), _PIECES):
            lines.append(line)
            if pause:
                yield
        for sentences, pause in paced(graph.findings(), _PIECES):
            lines += (f"note: {sentence}" for sentence in sentences)
            if pause:
                yield
        return lines

    def picture(self, scheduler: str) -> Steps[Json]:
        """Return the tree as data for a picture; `scheduler` is the name by which pods ask for this scheduler."""
        graph = yield from self._source.obtain()
        yield
        found = yield from picture(graph, self.cluster, scheduler)
        return found

    def dump(self) -> Steps[str]:
        """Return the tree as JGF."""
        graph = yield from self._source.obtain()
        pieces: list[str] = []
        for piece, pause in paced(write_jgf(graph), _PIECES):
            pieces.append(piece)
            if pause:
                yield
        return "".join(pieces)

    def check(self) -> Steps[list[Json]]:
        """Compare everything with the pods, heal the graph, and return what differed."""
        graph = yield from self._source.obtain()
        parts = len(self.cluster.columns.nodes) // _ROWS + 1
        found: list[Drift] = []
        for part in range(parts):
            yield
            found += self._audit(graph, part, parts)
        return [drift._asdict() for drift in found]

    def check_some(self) -> list[Drift]:
        """Do the same for the next few hundred nodes; nothing before the graph has been asked for."""
        if self._source.graph is None:
            return []
        parts = len(self.cluster.columns.nodes) // _ROWS + 1
        self._part = (self._part + 1) % parts
        return self._audit(self._source.graph, self._part, parts)

    def _audit(self, graph: Graph, part: int, parts: int) -> list[Drift]:
        found = audit(graph, self.cluster, part, parts)
        for drift in found:
            self.drifts[drift.what.partition(" ")[0].rstrip(":")] += 1
        return found
