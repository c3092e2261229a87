# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables and chains of nftables, by name. Kubelets and container networks make them; their rules go with the pods."""

from __future__ import annotations

import json
import re
import typing as t
from dataclasses import dataclass

from ..host.host import Host
from ..model.errors import RecordError
from ..model.items import JSON
from . import kernel

RULESET = "ruleset"
# A table of this name is kube-proxy's in every family.
_KUBERNETES = "kube-proxy"
_MODULE = "nf_tables"
_NAME = re.compile(r"[A-Za-z0-9_./-]+")
_SECONDS = 60


@dataclass(frozen=True)
class Tables:
    """What is there: `ip filter` is a table, `ip filter INPUT` one of its chains. `used` holds more than the name."""

    names: t.Tuple[str, ...] = ()
    used: t.FrozenSet[str] = frozenset()

    @property
    def state(self) -> str:
        """What the record keeps."""
        return "\n".join(self.names)


def read(host: Host) -> t.Optional[Tables]:
    """Return the tables and chains of this node; None where nothing tells them.

    nft is not asked where the kernel has not loaded nf_tables: there are no tables then, and nft would load it.
    """
    if kernel.is_waiting(host, _MODULE):
        return Tables()
    try:
        return parse(host.ask(["nft", "--json", "list", "ruleset"], timeout=_SECONDS).out)
    except RecordError:
        return None


def parse(text: str) -> Tables:
    """Read what `nft --json list ruleset` prints. Raises RecordError for anything else."""
    try:
        items: t.List[JSON] = json.loads(text)["nftables"]
        return _tables([next(iter(item.items())) for item in items])
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        raise RecordError(f"nft: cannot read its list of rules: {error!r}") from error


def _tables(items: t.Sequence[t.Tuple[str, JSON]]) -> Tables:
    names: t.List[str] = []
    used: t.Set[str] = set()
    for kind, body in items:
        if kind == "metainfo":
            continue
        table = f"{body['family']} {body['name' if kind == 'table' else 'table']}"
        if kind == "table":
            names.append(table)
        elif kind == "chain":
            chain = f"{table} {body['name']}"
            names.append(chain)
            # A chain without a hook was made by name; a policy is a rule.
            if "hook" not in body or body.get("policy", "accept") != "accept":
                used.update((table, chain))
        else:
            used.update((table, f"{table} {body['chain']}" if kind == "rule" else table))
    return Tables(tuple(sorted(names)), frozenset(used))


def to_delete(now: Tables, was: str) -> t.Tuple[t.List[str], t.List[str]]:
    """Return what came since and holds nothing, and the tables that came since and are used."""
    before = was.split("\n")
    new = [name for name in now.names if name not in before]
    ours = [name for name in new if name.split()[1:] == [_KUBERNETES]]
    rest = [name for name in new if name.split()[1] != _KUBERNETES]
    going = [name for name in rest if name not in now.used and all(map(_NAME.fullmatch, name.split()))]
    staying = [name for name in rest if name not in going and not _is_chain(name)]
    return [*ours, *going], staying


def delete(host: Host, names: t.Sequence[str]) -> None:
    """Delete tables and chains in one transaction, which fails as a whole where a chain holds a rule by now."""
    chains = [f"delete chain {name}" for name in names if _is_chain(name)]
    tables = [f"delete table {name}" for name in names if not _is_chain(name)]
    host.run(["nft", "; ".join([*chains, *tables])], timeout=_SECONDS)


def _is_chain(name: str) -> bool:
    return name.count(" ") > 1
