# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps the kubelet's configuration: the file by the record, a restart by digest, and the kubelet's own word for it.

PRIVATE to the collection.
"""

from __future__ import annotations

import http.client
import json
import os
import time
import typing as t

from ..._record.model.items import Desired, EditItem, UnitItem
from ..._record.request.contents import Contents
from ..._record.request.desired import resolve
from ..._record.run.report import diff_of
from ..._record.run.session import Session
from ..errors import KubeError
from . import yaml_edit

JSON = t.Dict[str, t.Any]
ROLE = "kubelet_config"
HEALTH_PORT = 10248


class Wanted(t.NamedTuple):
    """All that one call says."""

    path: str
    config: t.Mapping[str, t.Any]
    unit: str
    restart_on: t.Tuple[str, ...]


def keep(session: Session, wanted: Wanted, *, timeout: float, check: bool) -> JSON:
    """Keep the fields in the file, and a kubelet that runs with them if it runs."""
    if not os.path.exists(wanted.path) or not os.path.getsize(wanted.path):
        return _promise(wanted, check=check)
    _spare_static_pods(wanted)
    edits = (EditItem(path=wanted.path, edit=_editor(wanted), spec=json.dumps(wanted.config, sort_keys=True)),)
    unit = UnitItem(wanted.unit, restart_on=(wanted.path, *wanted.restart_on))
    desired = resolve(session.host, Desired(role=ROLE, edits=edits, units=(unit,)))
    outcome = session.converge(desired, Contents(), check=check, show=True)
    if outcome.restarted:
        await_healthy(wanted.path, unit=wanted.unit, timeout=timeout)
    return {"changed": outcome.changed, "steps": outcome.steps, "diff": diff_of(outcome.changes)}


def _spare_static_pods(wanted: Wanted) -> None:
    """Refuse another directory of static pods: a kubelet has one, and would end those of the site without a word."""
    with open(wanted.path, encoding="utf-8") as file:
        old = str(yaml_edit.read(wanted.path, file.read(), ["staticPodPath"]) or "")
    new = str(wanted.config.get("staticPodPath") or old)
    if os.path.normpath(old) == os.path.normpath(new) or not os.path.isdir(old):
        return
    manifests = sorted(name for name in os.listdir(old) if not name.startswith("."))
    if manifests:
        of_jobs = any(name.startswith("lease-") for name in manifests)
        advice = (
            "drain the node in the batch system, and run again when its jobs have ended"
            if of_jobs
            else "move them, or keep the kubelet's directory and let placeholders stand in it"
        )
        raise KubeError(
            f"{wanted.path}: staticPodPath is {old}, which holds {', '.join(manifests[:3])}: with {new} these pods "
            f"would end; {advice}"
        )


def take_back(session: Session, *, check: bool) -> JSON:
    """Put everything back as it was, except what the site has changed since."""
    report = session.restore(ROLE, check=check)
    diff = diff_of(report.changes)
    return {
        "changed": bool(report.steps),
        "steps": report.steps,
        "site": report.site,
        "left": report.left,
        "diff": diff,
    }


def await_healthy(path: str, *, unit: str, timeout: float) -> None:
    """Wait for the kubelet's own answer: one that refuses its configuration starts again and again."""
    with open(path, encoding="utf-8") as file:
        port = yaml_edit.read(path, file.read(), ["healthzPort"])
    port = HEALTH_PORT if port is None else int(port)
    if port == 0:
        return
    deadline = time.monotonic() + timeout
    while not _healthy(port):
        if time.monotonic() > deadline:
            raise KubeError(
                f"{unit}: is not healthy {timeout:g} s after its restart with {path}: see journalctl -u {unit}, "
                "correct the configuration and run again"
            )
        time.sleep(0.2)


def _healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _editor(wanted: Wanted) -> t.Callable[[bytes], bytes]:
    def edit(data: bytes) -> bytes:
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise KubeError(f"{wanted.path}: is not UTF-8 text") from error
        return yaml_edit.edit(wanted.path, text, wanted.config).encode("utf-8")

    return edit


def _promise(wanted: Wanted, *, check: bool) -> JSON:
    """Return what there is to say before the node has joined."""
    if not check:
        raise KubeError(
            f"{wanted.path}: does not exist, or is empty: join the node first, or name the kubelet's configuration file"
        )
    names = [".".join(leaf[0]) for leaf in yaml_edit.leaves(wanted.config)]
    steps = [f"set {', '.join(names)} in {wanted.path}, which joining makes"] if names else []
    return {"changed": bool(steps), "steps": steps, "diff": []}
