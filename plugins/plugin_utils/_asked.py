# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge what a run of a playbook was asked for: its options, its inventory's groups, where variables stand. Pure.

PRIVATE to the collection.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.converged.hpc.plugins.module_utils._preflight.model import Finding, Findings, refuse, shown
from ansible_collections.converged.hpc.plugins.plugin_utils._values import ONLY_BY_E

GUIDE = "see docs/guides/inventory.md"
_ROLES = (
    *("share_preflight", "node_share", "node_runtime", "singularity_cri", "node_kubelet"),
    *("slurm_share", "pbs_share", "torque_share", "drain_access"),
)


class Playbook(t.NamedTuple):
    """What a playbook can do with less than the whole, and of which roles it reads the values.

    `limit` and `tags` are what to say where it cannot, "" where it can. With `values` a wrong value stops it: `roles`
    gives the entry points that it plays, none for all of them; with `unknown` a variable that no role has does, too.
    """

    limit: str = ""
    tags: str = ""
    values: bool = False
    roles: t.Mapping[str, t.Tuple[str, ...]] = {}
    unknown: bool = False


PLAYBOOKS = {
    "site": Playbook(
        limit=(
            "leave it out: checks, lock and slurm.conf need hosts that it would hide. Which nodes are shared says the"
            " group converged_shared; a run for some of them is -e converged_convert=PATTERN"
        ),
        tags=(
            "leave it out: each step needs the checks and steps before it, and what is done is skipped by itself."
            " For one role alone write a playbook of your own"
        ),
        values=True,
        roles=dict.fromkeys(_ROLES, ()),
        unknown=True,
    ),
    # The way back must not wait for values that it does not read.
    "restore": Playbook(
        tags="leave it out: one role alone goes back with -e converged_restore_role=ROLE, some hosts with --limit",
        values=True,
        roles={
            **dict.fromkeys(_ROLES[1:], ("restore", "controller_restore", "leave", "forget", "unjoin")),
            "slurm_share": ("disable", "give_back", "unconfigure", "remove", "restore"),
            "pbs_share": ("disable", "give_back", "unconfigure", "restore"),
            "torque_share": ("disable", "remove", "give_back", "restore"),
            "singularity_cri": ("restore", "policy"),
        },
    ),
    "verify": Playbook(
        limit="""leave it out: nodes of the proof are named by -e '{"converged_verify_nodes": ["node01"]}'""",
        tags="leave it out: a proof is made as a whole",
        values=True,
    ),
    # A wrong value must not keep the kill switch from working.
    "status": Playbook(),
    "off": Playbook(),
    "on": Playbook(),
}


# Molecule skips these in each play, and no task of ours has them.
OF_MOLECULE = ("molecule-notest", "notest")
# Groups that an inventory may lack.
_OURS = ("nodes", "shared", "controllers", "kube", "excepted")
_ALWAYS = ("all", "localhost", "127.0.0.1", "::1")
# What makes a word of a pattern more than a name: wildcards, a regular expression, a range, a file.
_NO_NAME = re.compile(r"[*?\[\]~@{]")


class Asked(t.NamedTuple):
    """A run: the options of the command line, its hosts, and what `-e` has set.

    `hosts` are those that the playbook goes to, `left` those that `--limit` leaves, `named` what the pattern was.
    `words` are those of the pattern and of `--limit`, `known` all names of hosts and groups.
    """

    playbook: str
    limit: str = ""
    tags: t.Tuple[str, ...] = ()
    skip_tags: t.Tuple[str, ...] = ()
    hosts: t.Tuple[str, ...] = ()
    left: t.Tuple[str, ...] = ()
    named: str = ""
    extra: t.FrozenSet[str] = frozenset()
    words: t.Tuple[str, ...] = ()
    known: t.FrozenSet[str] = frozenset()


class Inventory(t.NamedTuple):
    """The groups by name, and of each host the variables that are judged here."""

    groups: t.Mapping[str, t.Sequence[str]]
    variables: t.Mapping[str, t.Mapping[str, t.Any]]

    def group(self, name: str) -> t.Sequence[str]:
        """Return the hosts of a group; none if there is no such group."""
        return self.groups.get(f"converged_{name}") or ()


def options(asked: Asked) -> Findings:
    """Yield what is wrong with the options of a run."""
    playbook = PLAYBOOKS[asked.playbook]
    if asked.limit and playbook.limit:
        yield refuse("limit", f"--limit {asked.limit} does not go with {asked.playbook}", playbook.limit)
    given = [f"--tags {','.join(asked.tags)}"] if set(asked.tags) - {"all"} else []
    skipped = [tag for tag in asked.skip_tags if tag not in OF_MOLECULE]
    given += [f"--skip-tags {','.join(skipped)}"] if skipped else []
    if given and playbook.tags:
        yield refuse("tags", f"{' '.join(given)} does not go with {asked.playbook}", playbook.tags)
    # Ansible warns of such a name and goes on, as if the host had been done.
    names = {word.lstrip("!&") for word in asked.words if not _NO_NAME.search(word)}
    unknown = names - asked.known - {f"converged_{name}" for name in _OURS} - set(_ALWAYS)
    if unknown and set(asked.hosts) & set(asked.left):
        text = f"{shown(sorted(unknown))}: the inventory has no such host or group"
        yield refuse("unknown_host", text, "correct the name, or leave it out; nothing was done on any host")
    if asked.playbook == "site":
        return
    if asked.named and not asked.hosts:
        text = f"no host of the inventory is in {asked.named}"
        other = "" if asked.playbook == "verify" else ", or other hosts in converged_hosts"
        yield refuse("hosts", text, f"name the inventory with -i{other}")
    elif asked.named and asked.limit and not set(asked.hosts) & set(asked.left):
        text = f"no host that --limit {asked.limit} leaves is in {asked.named}"
        yield refuse("hosts", text, "correct the limit: there is nothing that this run would do")


def site(asked: Asked, inventory: Inventory) -> Findings:
    """Yield what is wrong with the inventory of a conversion."""
    excepted = inventory.group("excepted")
    nodes, controllers, kube = (inventory.group(name) for name in ("nodes", "controllers", "kube"))
    if not nodes or not controllers or len(kube) != 1 or {controllers[0], kube[0]} & set(excepted):
        yield refuse(
            "groups",
            "the inventory must name hosts in converged_nodes and converged_controllers, and exactly one in"
            " converged_kube; that one and the first controller cannot be in converged_excepted",
            GUIDE,
        )
        return
    yield from _shared(inventory, asked)
    yield from _needed(inventory)


def way_back(asked: Asked, inventory: Inventory) -> Findings:
    """Yield what is wrong with the inventory of a way back: with no controller left it goes as far as it can."""
    controllers, excepted = inventory.group("controllers"), inventory.group("excepted")
    left = [host for host in controllers if host not in excepted]
    if left and left[0] != controllers[0] and controllers[0] not in asked.hosts:
        yield refuse(
            "groups",
            f"{controllers[0]}, the first of converged_controllers, is in converged_excepted, and the site is locked"
            " and the batch system asked from the first",
            f"put {left[0]} first, or take {controllers[0]} out of converged_excepted when it is well",
        )


def _shared(inventory: Inventory, asked: Asked) -> Findings:
    nodes, shared = inventory.group("nodes"), inventory.group("shared")
    beside = [host for host in shared if host not in nodes]
    if beside:
        text = f"{shown(beside)}: in converged_shared, and not in converged_nodes"
        yield refuse("shared", text, "put them into both: converged_nodes are all nodes of the batch system")
    elif not shared:
        yield refuse(
            "shared",
            "no host is in the group converged_shared, so there is no node to convert",
            f"put one node there, the canary ({nodes[0]}, for example): other nodes stay as they are, but for scripts"
            " that do nothing, which Slurm needs on all of them",
        )
    elif asked.named and not asked.hosts:
        text = f"converged_convert is {asked.named}, which names no host of the inventory"
        yield refuse("convert", text, "name hosts of the group converged_shared")
    elif asked.named and not set(asked.hosts) <= set(shared):
        outside = [host for host in asked.hosts if host not in shared]
        text = f"converged_convert names {shown(outside)}, which the group converged_shared has not"
        yield refuse("convert", text, "put them into the group, or name others")


def _needed(inventory: Inventory) -> Findings:
    names = [*inventory.group("nodes"), *inventory.group("controllers")]
    hosts = [host for host in dict.fromkeys(names) if host not in inventory.group("excepted")]
    for name in ("converged_wlm", "converged_kubeconfig"):
        if any(name not in inventory.variables[host] for host in hosts):
            yield refuse(
                "needed",
                "all hosts need converged_wlm (slurm, pbs or torque) and converged_kubeconfig, as in"
                " group_vars/all.yml",
                GUIDE,
            )
            return
    systems = sorted({str(inventory.variables[host]["converged_wlm"]) for host in hosts})
    if len(systems) > 1:
        text = f"converged_wlm differs between hosts ({shown(systems)})"
        yield refuse("needed", text, "one run is for one batch system: write an inventory for each")


def misplaced(asked: Asked, names: t.Iterable[str]) -> t.Iterator[Finding]:
    """Yield variables that work with -e alone and stand in the inventory."""
    found = [name for name in ONLY_BY_E if name in set(names) - asked.extra]
    if found:
        text = f"{', '.join(found)}: in the inventory, from where {asked.playbook} does not read it"
        yield refuse("only_by_e", text, "give it on the command line with -e")
