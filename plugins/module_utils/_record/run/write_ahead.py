# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must be on disk before the first step of a plan: baselines of all keys, contents, and what will be written."""

from __future__ import annotations

import typing as t

from ..host.host import Host
from ..host.paths import parents
from ..kinds import path
from ..kinds.observe import Found
from ..kinds.package import OwnFile
from ..model.errors import RecordError
from ..model.items import ABSENT, FORM_SAVED, JSON, NOTHING, PathState, UnitState, key
from ..model.replay import View
from ..planning.builder import Plan
from ..store.store import Store


def write_ahead(store: Store, view: View, role: str, found: Found, plan: Plan) -> None:
    """Record a plan; what the record holds already is not written again."""
    new = [this for this in plan.claims if this not in view.entries]
    events = _events(view, role, plan)
    if not (new or events):
        return
    existed = store.exists()
    try:
        store.begin()
        for _this, pair in plan.edits:
            for sha256 in (pair.before, pair.ours, pair.without):
                store.put_text(plan.contents[sha256])
        before = {this: NOTHING.to_json() if this in plan.brought else _baseline(store, found, this) for this in new}
        store.add_baselines(view, [(this, before[this], this in plan.secrets) for this in new])
        store.append(view, events)
    except RecordError:
        if not existed:  # nothing was changed: half a record is of no use
            store.remove()
        raise


def expect_packages(store: Store, view: View, role: str, found: Found, coming: t.Sequence[str]) -> None:
    """Record packages that are about to be installed, also those that no role names."""
    names = [key("package", name) for name in coming]
    store.add_baselines(view, [(this, found.state(this), False) for this in names if this not in view.entries])
    claim = {"event": "claim", "role": role, "keys": dict.fromkeys(names, "package")}
    store.append(view, [claim, {"event": "write", "values": [[this, "installed"] for this in names]}])


def save_files(host: Host, store: Store, view: View, files: t.Sequence[OwnFile]) -> t.List[str]:
    """Record files of the site that go with a package, and their directories, so that an undo puts them back.

    Return the keys of which the record did not say so.
    """
    baselines: t.Dict[str, t.Any] = {}
    claims: t.Dict[str, t.Dict[str, str]] = {}
    writes: t.List[str] = []
    for file in files:
        owner = min(view.claims[key("package", file.package)])
        for place in (file.path, *parents(file.path)):
            this = key("path", place)
            if this not in view.entries and this not in baselines:
                found = Found(paths={place: path.read(host, place)})
                baselines[this] = _baseline(store, found, this)
            if not view.claims.get(this):
                claims.setdefault(owner, {})[this] = FORM_SAVED
            if ABSENT not in view.wrote.get(this, ()) and this not in writes:
                writes.append(this)
    store.add_baselines(view, [(this, state, True) for this, state in baselines.items()])
    events: t.List[JSON] = [{"event": "claim", "role": owner, "keys": keys} for owner, keys in claims.items()]
    events += [{"event": "write", "values": [[this, ABSENT] for this in writes]}] if writes else []
    store.append(view, events)
    return writes


def started(name: str, role: str, digest: str) -> JSON:
    """Return the event that a unit runs with these inputs; without a digest it is about to be started."""
    return {"event": "started", "key": key("unit", name), "role": role, "digest": digest}


def _events(view: View, role: str, plan: Plan) -> t.List[JSON]:
    claims = {this: form for this, form in plan.claims.items() if view.claims.get(this, {}).get(role) != form}
    secrets = sorted(plan.secrets - view.secrets)
    writes = [list(pair) for pair in plan.writes if pair[1] not in view.wrote.get(pair[0], [])]
    events: t.List[JSON] = [{"event": "claim", "role": role, "keys": claims}] if claims else []
    events += [{"event": "secret", "keys": secrets}] if secrets else []
    events += [{"event": "write", "values": writes}] if writes else []
    for this, pair in plan.edits:
        fields = {"before": pair.before, "ours": pair.ours, "without": pair.without, "spec": pair.spec}
        events.append({"event": "edit", "key": this, "role": role, **fields})
    events += [started(name, role, "") for name in plan.started if view.started.get((key("unit", name), role)) != ""]
    return events + [started(name, role, digest) for name, digest in plan.adopted.items()]


def _baseline(store: Store, found: Found, this: str) -> t.Any:
    """Return a thing's state for the record, and write its content to disk first."""
    state = found.state(this)
    if isinstance(state, PathState) and state.sha256 and not store.has_blob(state.sha256):
        name = this.partition(":")[2]
        if store.put_blob(name) != state.sha256:
            raise RecordError(f"{name}: changed while it was read: run again")
    return state.to_json() if isinstance(state, (PathState, UnitState)) else state
