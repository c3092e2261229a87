# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the record says, in memory: baselines and journal replayed. Pure."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from .items import JSON, PathState, State, UnitState, split_key


@dataclass(frozen=True)
class Entry:
    """What one thing was like before we touched it."""

    key: str
    order: t.Tuple[int, int]
    state: State
    secret: bool

    @property
    def kind(self) -> str:
        """The part of the key before its colon."""
        return self.key.partition(":")[0]

    @property
    def name(self) -> str:
        """The part of the key after its colon."""
        return self.key.partition(":")[2]

    @staticmethod
    def from_json(data: JSON, segment: int) -> Entry:
        """Read a baseline; raise KeyError, TypeError or ValueError for what the store cannot have written."""
        kind = str(data["key"]).partition(":")[0]
        state = data["state"]
        if kind == "path":
            state = PathState.from_json(state)
        elif kind == "unit":
            state = UnitState.from_json(state)
        return Entry(str(data["key"]), (segment, int(data["at"])), state, bool(data["secret"]))


@dataclass(frozen=True)
class Pair:
    """One edit of a file by one role: `before` it, `ours` after it, and `without` all that this role did."""

    before: str
    ours: str
    without: str
    spec: str


@dataclass
class View:
    """The record of a node. Changed only by `add_baseline` and `replay`."""

    entries: t.Dict[str, Entry] = field(default_factory=dict)
    claims: t.Dict[str, t.Dict[str, str]] = field(default_factory=dict)  # key -> role -> form
    wrote: t.Dict[str, t.List[str]] = field(default_factory=dict)  # key -> what we were about to make of it
    pairs: t.Dict[t.Tuple[str, str], t.List[Pair]] = field(default_factory=dict)  # (key, role) -> edits
    undone: t.Dict[t.Tuple[str, str], t.List[str]] = field(default_factory=dict)  # (key, role) -> texts without it
    started: t.Dict[t.Tuple[str, str], str] = field(default_factory=dict)  # (key, role) -> digest of inputs
    secrets: t.Set[str] = field(default_factory=set)  # keys of which some role said that they hold a secret
    known: t.Set[str] = field(default_factory=set)  # every role that ever claimed something
    _later: t.Dict[str, t.List[Entry]] = field(default_factory=dict)

    def add_baseline(self, entry: Entry) -> None:
        """Add a baseline. A thing has one while it is ours; the journal closes it."""
        self.entries.setdefault(entry.key, entry)
        if self.entries[entry.key].order < entry.order:
            self._later.setdefault(entry.key, []).append(entry)
        elif entry.secret:
            self.secrets.add(entry.key)

    def replay(self, event: JSON) -> None:
        """Replay one event; raise KeyError or ValueError for an event that the store cannot have written."""
        name = event["event"]
        if name == "claim":
            self.known.add(event["role"])
            for key, form in event["keys"].items():
                self.claims.setdefault(key, {})[event["role"]] = form
        elif name == "secret":
            self.secrets.update(event["keys"])
        elif name == "unclaim":
            self._unclaim(event["role"], event["keys"])
        elif name == "write":
            for key, value in event["values"]:
                if value not in self.wrote.setdefault(key, []):
                    self.wrote[key].append(value)
        elif name == "edit":
            pair = Pair(event["before"], event["ours"], event["without"], event["spec"])
            self.pairs.setdefault((event["key"], event["role"]), []).append(pair)
        elif name == "undone":
            self.undone.setdefault((event["key"], event["role"]), []).append(event["text"])
        elif name == "started":
            self.started[event["key"], event["role"]] = event["digest"]
        elif name == "closed":
            self._close(event["keys"])
        else:
            raise ValueError(f"unknown event {name!r}")

    def _unclaim(self, role: str, keys: t.Iterable[str]) -> None:
        for key in keys:
            self.claims.get(key, {}).pop(role, None)
            self.pairs.pop((key, role), None)
            self.undone.pop((key, role), None)
            self.started.pop((key, role), None)

    def _close(self, keys: t.Mapping[str, t.Sequence[int]]) -> None:
        for key, order in keys.items():
            if self.entries[key].order != tuple(order):
                raise ValueError(f"{key} was closed out of order")
            del self.entries[key]
            self.claims.pop(key, None)
            self.wrote.pop(key, None)
            self.secrets.discard(key)
            for kept in (self.pairs, self.undone, self.started):
                for found in [pair for pair in kept if pair[0] == key]:
                    del kept[found]
            later = self._later.get(key)
            if later:
                self.add_baseline(later.pop(0))

    def held(self, role: str) -> t.List[Entry]:
        """Return the things that `role` claims, or all roles where it is empty."""
        return [entry for this, entry in self.entries.items() if not role or role in self.claims.get(this, {})]

    def packages(self) -> t.List[str]:
        """Return the packages that we installed."""
        return [name for kind, name in map(split_key, self.wrote) if kind == "package"]

    def doubled(self) -> t.List[str]:
        """Return things with a second baseline while the first is open: none, unless the record is damaged."""
        return sorted(key for key, later in self._later.items() if later)

    def edit_of(self, key: str, role: str, sha256: str) -> t.List[Pair]:
        """Return the edits of a role that a text with this digest may show: none if it is the text without them."""
        pairs = self.pairs.get((key, role), [])
        clean = sha256 in self.undone.get((key, role), []) or any(pair.without == sha256 for pair in pairs)
        return [] if clean and not any(pair.ours == sha256 for pair in pairs) else pairs

    def roles(self) -> t.List[str]:
        """Return the roles that claim something."""
        return sorted({role for owners in self.claims.values() for role in owners})
