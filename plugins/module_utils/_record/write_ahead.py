# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must be on disk before the first step of a plan: baselines of all keys, contents, and what will be written."""

from __future__ import annotations

import typing as t

from .draft import Plan
from .errors import RecordError
from .model import JSON, PathState, UnitState, key
from .observe import Found
from .store import Store
from .view import View


def write_ahead(store: Store, view: View, role: str, found: Found, plan: Plan) -> None:
    """Records a plan; what the record holds already is not written again."""
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
        store.add_baselines(view, [(this, _baseline(store, found, this), this in plan.secrets) for this in new])
        store.append(view, events)
    except RecordError:
        if not existed:  # nothing was changed: half a record is of no use
            store.remove()
        raise


def expect_packages(store: Store, view: View, role: str, coming: t.Sequence[str]) -> None:
    """Packages that are about to be installed, those among them that nobody named."""
    names = [key("package", name) for name in coming]
    store.add_baselines(view, [(this, "", False) for this in names if this not in view.entries])
    claim = {"event": "claim", "role": role, "keys": dict.fromkeys(names, "package")}
    store.append(view, [claim, {"event": "write", "values": [[this, "installed"] for this in names]}])


def started(name: str, role: str, digest: str) -> JSON:
    """A unit runs with these inputs; without a digest it is about to be started."""
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
    """A thing's state for the record, its content on disk first."""
    state = found.state(this)
    if isinstance(state, PathState) and state.sha256 and not store.has_blob(state.sha256):
        path = this.partition(":")[2]
        if store.put_blob(path) != state.sha256:
            raise RecordError(f"{path}: changed while it was read: run again")
    return state.to_json() if isinstance(state, (PathState, UnitState)) else state
