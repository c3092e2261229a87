# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole site as a proof of the way back compares it: hosts, packet filters, links, the batch system and the API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from e2e import listing
from e2e.site_of import ConvertedSite

CONF = "/etc/slurm/slurm.conf"
# systemd keeps a target that was reached; the text of slurm.conf is compared by those who change it.
NOT_COMPARED = {"unit network-online.target", CONF}
KINDS = "nodes,clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings"
# Of the packet filter everything but counters: tables and chains that are empty count too.
NETWORK = r"ip -o link && printf '\0' && { iptables-legacy-save; ip6tables-legacy-save; nft --stateless list ruleset; }"
# Each with owner, mode, time of its content and the content itself; a folder's own time tells what came and went.
TORQUE_SCRIPTS = (
    "cd /var/spool/torque/mom_priv && stat --format='%U %G %a %F' . && stat --format='%n %U %G %a %Y %F' *logue* config"
    " && sha256sum $(find . -maxdepth 1 -type f -name '*logue*') config"
)
OURS = "app.kubernetes.io/managed-by=converged.hpc"


def look(site: ConvertedSite, *, without: tuple[str, ...] = ()) -> dict[str, dict[str, object]]:
    """Everything on every host but those that nobody reaches, and what the batch system and the API have of us."""
    nodes = [node for node in site.nodes if node not in without]
    found: dict[str, dict[str, object]] = {host: site.listing(host) for host in (*site.controllers, *nodes)}
    for host in nodes:
        links, saved = site.node(host, NETWORK).split("\0")
        found[host]["links"] = sorted(re.findall(r"^\d+: ([^:@]+)", links, re.MULTILINE))
        found[host]["filter"] = [line for line in saved.splitlines() if not line.startswith("#")]
    # Requests of kubelets that have joined are the cluster's own: it deletes them after an hour.
    names = site.kubectl("get", KINDS, "--output=name") + site.kubectl("get", "csr", f"-l{OURS}", "--output=name")
    found["api"] = dict.fromkeys(names.split(), "is there")
    found["batch"] = batch_system(site)
    return found


def batch_system(site: ConvertedSite) -> dict[str, object]:
    """Slurm's scripts; of PBS and Torque everything that can be set, and the scripts of Torque's MoMs."""
    if site.bed.bed.wlm == "pbs":
        questions = ("print server", "list hook", "print node @default")
        return {words: site.ctl(f"qmgr -c '{words}'") for words in questions}
    if site.bed.bed.wlm == "torque":
        scripts = {f"scripts of {node}": site.node(node, TORQUE_SCRIPTS) for node in site.nodes}
        return {"print server": site.ctl("qmgr -c 'print server'"), **scripts}
    config = site.ctl("scontrol show config").splitlines()
    return {"scripts": [line for line in config if re.match(r"(Pro|Epi)log", line)]}


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """By host and name; empty where all is as it was."""
    found = {host: listing.difference(before[host], after[host]) for host in before}
    rest = {host: {name: x for name, x in one.items() if name not in NOT_COMPARED} for host, one in found.items()}
    return {host: one for host, one in rest.items() if one}
