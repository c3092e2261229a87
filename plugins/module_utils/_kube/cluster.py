# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodes need of a cluster: a short-lived token to join, their labels, and how they fare. Pure.

PRIVATE to the collection.
"""

from __future__ import annotations

import re
import time
import typing as t
from urllib.parse import urlsplit

from .certificates.certificate import check_pin
from .errors import KubeError

JSON = t.Dict[str, t.Any]
Nodes = t.Mapping[str, JSON]

TOKEN_NAMESPACE = "kube-system"
NO_SCHEDULE = "NoSchedule"
_TOKEN_GROUP = "system:bootstrappers:kubeadm:default-node-token"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class Token(t.NamedTuple):
    """A bootstrap token; its text is a secret."""

    id: str
    secret: str

    @property
    def text(self) -> str:
        return f"{self.id}.{self.secret}"

    @property
    def object_name(self) -> str:
        return f"bootstrap-token-{self.id}"


def token_secret(token: Token, *, now: float, ttl: int) -> JSON:
    """Return the object that makes a token valid until `now + ttl`; the cluster itself deletes it then."""
    expires = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + ttl))
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "bootstrap.kubernetes.io/token",
        "metadata": {
            "name": token.object_name,
            "namespace": TOKEN_NAMESPACE,
            "labels": {"app.kubernetes.io/managed-by": "converged.hpc"},
        },
        "stringData": {
            "description": "For the nodes that converged.hpc joins; deleted when they have.",
            "token-id": token.id,
            "token-secret": token.secret,
            "expiration": expires,
            "usage-bootstrap-authentication": "true",
            "usage-bootstrap-signing": "true",
            "auth-extra-groups": _TOKEN_GROUP,
        },
    }


def check_names(names: t.Sequence[str]) -> t.List[str]:
    """Return names of Node objects, each once."""
    for name in names:
        if not _NAME.fullmatch(name):
            raise KubeError(f"node {name!r}: Kubernetes takes lower-case letters, digits, '-' and '.' only")
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise KubeError(f"node {twice[0]}: two hosts of the inventory have this name")
    return list(names)


def endpoint(server: str) -> str:
    """Return host:port of an API's address, as kubeadm wants it."""
    try:
        parts = urlsplit(server if "://" in server else f"https://{server}")
        host, port = parts.hostname, parts.port or 443
    except ValueError as error:
        raise KubeError(f"API server {server!r}: {error}") from error
    if parts.scheme != "https" or not host or parts.path not in ("", "/"):
        raise KubeError(f"API server {server!r}: expected https://host:port")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def agreed_pins(wanted: t.Sequence[str], found: t.Sequence[str], *, name: str) -> t.List[str]:
    """Return the authorities that nodes will trust: those asked for, which the administrator's access must know too."""
    for pin in wanted:
        check_pin(pin)
    if wanted and not set(wanted) & set(found):
        raise KubeError(
            f"CA hash {wanted[0]} is not that of the cluster: {name} trusts {', '.join(found)}. "
            "Correct the hash, or find out who answers at that address"
        )
    return list(wanted) or list(found)


def relabelled(nodes: Nodes, wanted: t.Mapping[str, t.Mapping[str, str]]) -> t.Dict[str, t.Dict[str, str]]:
    """Return for each node the labels that are not yet as wanted."""
    found: t.Dict[str, t.Dict[str, str]] = {}
    for name, labels in wanted.items():
        has = (nodes.get(name) or {"metadata": {}})["metadata"].get("labels") or {}
        missing = {key: str(value) for key, value in labels.items() if has.get(key) != str(value)}
        if missing:
            found[name] = missing
    return found


def tainted(nodes: Nodes, names: t.Iterable[str], keys: t.Iterable[str]) -> t.Dict[str, t.List[str]]:
    """Return for each of these keys the nodes that have such a taint."""
    has = {
        name: {taint["key"] for taint in nodes[name].get("spec", {}).get("taints") or []}
        for name in names
        if name in nodes
    }
    found = {key: [name for name, those in has.items() if key in those] for key in keys}
    return {key: there for key, there in found.items() if there}


def without(nodes: Nodes, names: t.Iterable[str], key: str) -> t.List[str]:
    """Return nodes without this taint, which lets no new pod onto a node; one that is not there yet has none."""
    return [
        name
        for name in names
        if not any(
            (taint["key"], taint["effect"]) == (key, NO_SCHEDULE)
            for taint in (nodes.get(name) or {}).get("spec", {}).get("taints") or []
        )
    ]


class Ours(t.NamedTuple):
    """Keys of what this collection wrote on a Node object."""

    labels: t.List[str]
    annotations: t.List[str]
    taints: t.List[str]


def ours(nodes: Nodes, names: t.Iterable[str]) -> t.Dict[str, Ours]:
    """Return the nodes on which something of ours is, with its keys."""
    found = {}
    for name in names:
        if name in nodes:
            meta = nodes[name]["metadata"]
            taints = [taint["key"] for taint in nodes[name].get("spec", {}).get("taints") or []]
            keys = Ours(*(_of_us(part) for part in (meta.get("labels"), meta.get("annotations"), taints)))
            if any(keys):
                found[name] = keys
    return found


def _of_us(keys: t.Optional[t.Iterable[str]]) -> t.List[str]:
    return sorted(key for key in keys or () if key.startswith("converged.hpc/") or "/converged-" in key)


def groups(changes: t.Mapping[str, t.Mapping[str, str]]) -> t.List[t.Tuple[t.Dict[str, str], t.List[str]]]:
    """Group nodes that get the same labels."""
    found: t.Dict[t.Tuple[t.Tuple[str, str], ...], t.List[str]] = {}
    for name, labels in changes.items():
        found.setdefault(tuple(sorted(labels.items())), []).append(name)
    return [(dict(labels), names) for labels, names in found.items()]


def not_ready(nodes: Nodes, names: t.Iterable[str]) -> t.Dict[str, str]:
    """Return nodes on which no pod can start, and what the cluster says of each."""
    found = {}
    for name in names:
        if name not in nodes:
            found[name] = "has no Node object"
            continue
        conditions = {one["type"]: one for one in nodes[name].get("status", {}).get("conditions", [])}
        ready = conditions.get("Ready")
        if ready is None:
            found[name] = "has not reported yet"
        elif ready["status"] != "True":
            found[name] = " ".join(str(ready.get("message") or ready.get("reason") or "is not ready").split())
    return found
