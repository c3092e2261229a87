# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module `node_state` answers on the node: arguments in, a result for Ansible out.

The action plugin sends digests first (`_sent`). An answer with `missing` or `wants_record` means: nothing was done,
send these contents, or the controller's copy of the record, and ask again.
"""

from __future__ import annotations

import typing as t

from ..host.host import Host
from ..model.errors import RecordError
from ..model.items import JSON, Change
from ..request import desired
from ..request.contents import Contents
from ..store import controller_copy
from .report import diff_of
from .session import Session

NOT_CHECKED = (
    "logs and journals",
    "caches",
    "histories of package managers",
    "times of directories",
    "what programs wrote while they ran",
)


def answer(params: JSON, *, check: bool, diff: bool) -> JSON:
    """Return the module's result of one call."""
    sent = params["_sent"]
    if "operator" not in sent:
        raise RecordError("node_state works only through its action plugin: call it as converged.hpc.node_state")
    session = Session(Host(), params["record_dir"], holder=sent["operator"])
    if sent.get("only_export"):
        session.store.load()
        return _with_record(session, sent, {"changed": False})
    if not check and sent.get("copy") and not session.store.exists():
        if not sent.get("record"):
            return {"changed": False, "wants_record": True}
        session.adopt(controller_copy.unpack(sent["record"]), even_unchanged=params["state"] == "restored")
    if params["state"] == "restored":
        return _restored(session, params, sent, check=check, diff=diff)
    return _present(session, params, sent, check=check, diff=diff)


def _present(session: Session, params: JSON, sent: JSON, *, check: bool, diff: bool) -> JSON:
    contents = Contents(bundle=sent.get("bundle", ""))
    lines = [
        dict(item, line=params["_lines"].get(str(at), item.get("line"))) for at, item in enumerate(params["lines"])
    ]
    arguments = dict(
        params, files=sent["files"], directories=[*params["directories"], *sent["directories"]], lines=lines
    )
    wanted = desired.resolve(session.host, desired.parse(arguments, inline=contents.inline))
    outcome = session.converge(wanted, contents, check=check, show=diff)
    result = {"changed": outcome.changed, "plan": outcome.steps, "restarted": outcome.restarted, "kept": outcome.kept}
    if diff:
        result["diff"] = _diff(outcome.changes)
    if outcome.missing:
        return dict(result, changed=False, missing=outcome.missing)
    return result if check else _with_record(session, sent, result)


def _restored(session: Session, params: JSON, sent: JSON, *, check: bool, diff: bool) -> JSON:
    role = desired.role_name(params["role"]) if params["role"] else ""
    report = session.restore(role, check=check)
    shown = {
        name: getattr(report, name) for name in ("proved", "shared", "site", "kept", "left", "found_record", "roles")
    }
    shown["not_checked"] = list(NOT_CHECKED)
    result = {"changed": bool(report.steps), "plan": report.steps, "report": shown}
    if diff:
        result["diff"] = _diff(report.changes)
    return result if check else _with_record(session, sent, result)


def _diff(changes: t.Sequence[Change]) -> t.List[JSON]:
    """Return the diff with the digests of contents that only the action plugin has."""
    return [dict(shown, sha256=change.sha256) for shown, change in zip(diff_of(changes), changes)]


def _with_record(session: Session, sent: JSON, result: JSON) -> JSON:
    """Say which record this is, and hand over what the controller's copy does not have."""
    store = session.store
    if not store.exists():
        return dict(result, record=None)
    parts = store.parts()
    if sent.get("export"):
        have = sent["have"] if sent["have_id"] == store.id else {}
        wanted = [name for name, size in parts.items() if name in ("journal", "format") or have.get(name) != size]
        controller_copy.pack(sent["export"], {name: store.part(name) for name in wanted})
    record = {
        "id": store.id,
        "fingerprint": controller_copy.fingerprint(store.id, parts),
        "exported": bool(sent.get("export")),
    }
    return dict(result, record=record)
