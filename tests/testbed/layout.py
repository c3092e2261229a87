# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns a request into the layout of a bed: names, addresses and hosts. Pure; refuses what cannot work."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Network, NetmaskValueError

from testbed.cgroups import Way
from testbed.errors import BedError, UsageError
from testbed.machine_recipe import DEBIAN as MACHINE_DEBIAN
from testbed.machine_recipe import SECURITY
from testbed.recipe import DEFAULT_DEBIAN, SUITES, Recipe
from testbed.state import Bed, Host

DEFAULT_NAME = "bed"
WLMS = ("slurm", "pbs", "torque", "none")
SLURM_CONFS = ("local", "shared", "configless")
MAX_NODES = 64
MAX_CONTROLLERS = 3
# Each takes 3 GiB of memory and a processor of its own for minutes.
MAX_MACHINES = 4
# Container names are "NAME-nodeN", which podman takes; the limit leaves room in a Unix socket's path.
NAME = re.compile(r"[a-z][a-z0-9-]{0,18}[a-z0-9]|[a-z]")
CONTROLLER_OFFSET, KUBE_OFFSET, BACKUP_OFFSET, NODE_OFFSET = 2, 3, 4, 11
# What pods and services of the bed's own cluster use.
CLUSTER_NETWORKS = (IPv4Network("10.96.0.0/16"), IPv4Network("10.244.0.0/16"))
PRIVATE = (IPv4Network("10.0.0.0/8"), IPv4Network("172.16.0.0/12"), IPv4Network("192.168.0.0/16"))


@dataclass(frozen=True, slots=True)
class Request:
    """What a person asked `up` for."""

    name: str = DEFAULT_NAME
    nodes: int = 2
    controllers: int = 1
    wlm: str = "slurm"
    slurm_conf: str = "local"
    slurmdbd: bool = False
    kube: bool = True
    debian: int = DEFAULT_DEBIAN
    subnet: str | None = None
    pbs_exec: str = ""
    vm: bool = False
    security: str = ""


def check(request: Request) -> None:
    """Refuse a request that no machine could serve."""
    check_name(request.name)
    if not 1 <= request.nodes <= MAX_NODES:
        raise UsageError(f"--nodes {request.nodes}: give a number from 1 to {MAX_NODES}")
    if not 1 <= request.controllers <= MAX_CONTROLLERS:
        raise UsageError(f"--controllers {request.controllers}: give a number from 1 to {MAX_CONTROLLERS}")
    choices = (
        ("--wlm", request.wlm, WLMS),
        ("--slurm-conf", request.slurm_conf, SLURM_CONFS),
        ("--security", request.security, tuple(SECURITY)),
    )
    for option, value, known in choices:
        if value not in known:
            raise UsageError(f"{option} {value}: unknown; give one of {', '.join(filter(None, known))}")
    if request.debian not in SUITES:
        raise UsageError(f"--debian {request.debian}: unknown; give one of {', '.join(map(str, SUITES))}")
    if request.wlm == "torque" and request.controllers > 1:
        raise UsageError(f"--wlm torque needs --controllers 1, found --controllers {request.controllers}")
    if request.slurmdbd and request.wlm != "slurm":
        raise UsageError(f"--slurmdbd needs --wlm slurm, found --wlm {request.wlm}")
    if request.slurmdbd and request.controllers > 1:
        raise UsageError(f"--slurmdbd needs --controllers 1, found --controllers {request.controllers}")
    if request.vm:
        check_machines(request)
    elif request.security:
        raise UsageError(f"--security {request.security} needs --vm: containers have the kernel of this machine")


def check_machines(request: Request) -> None:
    """Refuse what nodes that are virtual machines cannot be given."""
    if request.debian != MACHINE_DEBIAN:
        raise UsageError(f"--vm needs --debian {MACHINE_DEBIAN}, found --debian {request.debian}")
    if request.slurm_conf == "shared":
        raise UsageError("--vm needs --slurm-conf local or configless, found --slurm-conf shared")
    if request.wlm == "torque":
        text = "hosts of its double share this machine's folders"
        raise UsageError(f"--vm needs --wlm slurm, pbs or none, found --wlm {request.wlm}: {text}")
    if request.wlm == "none" and not request.kube:
        raise UsageError("--vm needs --kube, or --wlm slurm or pbs: machines join the network of the bed's containers")
    if request.nodes > MAX_MACHINES:
        raise UsageError(f"--nodes {request.nodes}: with --vm give a number from 1 to {MAX_MACHINES}")


def check_name(name: str) -> None:
    """Names become host names, file names and network names."""
    if not NAME.fullmatch(name):
        raise UsageError(
            f"name {name!r}: give 1 to 20 lower-case letters, digits or '-', a letter first and no '-' at the end"
        )


def choose_subnet(wanted: str | None, taken: Iterable[tuple[IPv4Network, str]]) -> IPv4Network:
    """The subnet that was asked for, or the first free /24; `taken` says by whom each network is used."""
    used = [*taken, *((network, "the cluster of the bed") for network in CLUSTER_NETWORKS)]
    if wanted is None:
        for candidate in candidates():
            if not any(candidate.overlaps(network) for network, _ in used):
                return candidate
        raise BedError("no free /24 in 10.89.0.0/16, 172.16.0.0/12 or 192.168.0.0/16; give one with --subnet")
    try:
        subnet = IPv4Network(wanted)
    except (AddressValueError, NetmaskValueError, ValueError) as error:
        raise UsageError(f"--subnet {wanted}: {error}; give something like 10.89.5.0/24") from None
    if not any(subnet.subnet_of(block) for block in PRIVATE):
        raise UsageError(f"--subnet {wanted}: not private; give one within {', '.join(map(str, PRIVATE))}")
    if subnet.prefixlen > 24:
        raise UsageError(f"--subnet {wanted}: {subnet.num_addresses} addresses are too few; give a /24 or larger")
    for network, owner in used:
        if subnet.overlaps(network):
            raise BedError(f"--subnet {wanted}: taken, {network} is used by {owner}; give another, or leave it out")
    return subnet


def candidates() -> Iterable[IPv4Network]:
    """Where beds look for room, in this order."""
    for block in ("10.89.0.0/16", "172.16.0.0/12", "192.168.0.0/16"):
        yield from IPv4Network(block).subnets(new_prefix=24)


def layout(request: Request, *, subnet: IPv4Network, way: Way, uid: int) -> Bed:
    """All names and addresses of a bed."""
    first = subnet.network_address

    def host(name: str, role: str, offset: int) -> Host:
        machine = request.vm and role == "node"
        return Host(name=name, role=role, container=f"{request.name}-{name}", ip=str(first + offset), machine=machine)

    hosts = [host(f"n{number}", "node", NODE_OFFSET + number - 1) for number in range(1, request.nodes + 1)]
    if request.kube:
        hosts.insert(0, host("kube", "kube", KUBE_OFFSET))
    if request.wlm != "none":
        backups = range(2, request.controllers + 1)
        hosts[:0] = [
            host("ctl", "controller", CONTROLLER_OFFSET),
            *(host(f"ctl{number}", "controller", BACKUP_OFFSET + number - 2) for number in backups),
        ]
    return Bed(
        name=request.name,
        debian=request.debian,
        way=way,
        image=Recipe(request.debian).key,
        subnet=str(subnet),
        gateway=str(first + 1),
        hosts=tuple(hosts),
        wlm=request.wlm,
        slurm_conf=request.slurm_conf,
        slurmdbd=request.slurmdbd,
        kube=request.kube,
        uid=uid,
        pbs_exec=request.pbs_exec,
        vm=request.vm,
        security=request.security,
    )


def differences(bed: Bed, request: Request) -> Sequence[str]:
    """How a bed that exists differs from what is asked for, in words."""
    pairs = (
        ("nodes", len(bed.nodes), request.nodes),
        ("controllers", len(bed.controllers) or 1, request.controllers),
        ("wlm", bed.wlm, request.wlm),
        ("PBS", bed.pbs_exec or "its double", request.pbs_exec or "its double"),
        ("slurm-conf", bed.slurm_conf, request.slurm_conf),
        ("slurmdbd", bed.slurmdbd, request.slurmdbd),
        ("kube", bed.kube, request.kube),
        ("debian", bed.debian, request.debian),
        ("vm", bed.vm, request.vm),
        ("security", bed.security or "none", request.security or "none"),
        ("subnet", bed.subnet, request.subnet or bed.subnet),
    )
    return [f"{what} {have} (asked for {want})" for what, have, want in pairs if have != want]
