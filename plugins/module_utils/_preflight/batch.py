# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of Slurm's own settings: what a hand-over needs of them, and what would work against it. Pure.

PRIVATE to the collection.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.converged.hpc.plugins.module_utils import _hostlist
from ansible_collections.converged.hpc.plugins.module_utils._preflight.model import (
    CORE_MODES,
    JSON,
    NOTE,
    REFUSE,
    WARN,
    Finding,
    shown,
)
from ansible_collections.converged.hpc.plugins.module_utils._slurm import prologflags
from ansible_collections.converged.hpc.plugins.module_utils._slurm.errors import SlurmError

Findings = t.Iterator[Finding]

WANTED_FLAGS = "Alloc,DeferBatch"
# Slurm's own numbers for "not set" and "no limit", in 16 and in 32 bits.
_UNLIMITED = {0xFFFE, 0xFFFF, 0xFFFFFFFE, 0xFFFFFFFF}
_SPARE = 10


def seconds(value: object) -> t.Optional[int]:
    """A time as `scontrol show config` prints it; None where there is none or no limit."""
    match = re.match(r"(\d+)(?: sec)?$", str(value or ""))
    number = int(match.group(1)) if match else 0
    return number if number and number not in _UNLIMITED else None


def prolog_flags(config: JSON) -> Findings:
    present = str(config.get("PrologFlags") or "")
    flags = {word.lower() for word in prologflags.words(present)}
    try:
        merged = prologflags.merge(present, WANTED_FLAGS)
    except SlurmError as error:
        yield Finding(REFUSE, "prolog_flags", str(error), "take one of them out of slurm.conf")
        return
    if merged != present:
        yield Finding(NOTE, "prolog_flags", f"PrologFlags={present or '(none)'} will be {merged}")
    if "nohold" in flags:
        yield Finding(
            REFUSE,
            "prolog_flags",
            "PrologFlags has NoHold, so that tasks start before Prolog has freed the node",
            "take it out of slurm.conf",
        )
    if "serial" in flags:
        yield Finding(
            WARN,
            "prolog_flags",
            "PrologFlags has Serial: the Prologs of jobs on one node wait for each other, and for each other's pods",
            "take it out where the site's scripts allow it",
        )


def timeouts(config: JSON, limit: int) -> Findings:
    """A Prolog may take as long as pods take to leave, where the controller has not sent them away before."""
    whole = seconds(config.get("PrologEpilogTimeout")) or seconds(config.get("PrologTimeout"))
    if whole is not None and whole < limit + _SPARE:
        yield Finding(
            REFUSE,
            "timeouts",
            f"PrologEpilogTimeout is {whole} s, for the site's scripts and ours together, and ours may take {limit} s:"
            " the node would be drained",
            f"set it to {limit + _SPARE} or more, or node_share_limit to {max(whole - _SPARE, 1)} or less",
        )
    for key in ("MessageTimeout", "BatchStartTimeout"):
        found = seconds(config.get(key))
        if found is not None and found < limit:
            yield Finding(
                WARN,
                "timeouts",
                f"{key} is {found} s, and a Prolog that has to wait for pods by itself may take {limit} s",
                f"raise {key}, or lower node_share_limit",
            )


def suspend_switched_on(config: JSON) -> bool:
    return seconds(config.get("SuspendTime")) is not None and bool(config.get("SuspendProgram"))


def power_saving(config: JSON, node: JSON) -> Findings:
    """An idle node is one that pods use: power saving would switch it off under them."""
    if not suspend_switched_on(config) or set(node["partitions"]) & set(_words(config.get("SuspendExcParts"))):
        return
    written = re.sub(r":\d+(?=,|$)", "", str(config.get("SuspendExcNodes") or ""))
    try:
        excluded = set(_hostlist.expand(written))
    except _hostlist.HostlistError as error:
        yield Finding(REFUSE, "power_saving", f"SuspendExcNodes: {error}", "correct it")
        return
    # With ":N" only so many of the listed nodes stay on, and nobody knows which.
    counted = written != str(config.get("SuspendExcNodes") or "")
    if node["name"] not in excluded or counted:
        yield Finding(
            REFUSE,
            "power_saving",
            f"SuspendTime is {config.get('SuspendTime')} and SuspendExcNodes does not keep {node['name']} on: it would"
            " be switched off while pods run",
            f"add {node['name']} to SuspendExcNodes",
        )


def oversubscription(config: JSON, node: JSON, partitions: t.Sequence[JSON], share_mode: object) -> Findings:
    """Where one core may have two jobs, no core can be said to be free of jobs."""
    if share_mode not in CORE_MODES:
        return
    forced = [
        one["name"]
        for one in partitions
        if node["name"] in one["nodes"] and str(one["oversubscribe"]).upper().startswith("FORCE")
    ]
    gang = "GANG" in str(config.get("PreemptMode")).upper() or any(
        "GANG" in str(one["preempt_mode"]).upper() for one in partitions if node["name"] in one["nodes"]
    )
    for so, what in ((forced, f"OverSubscribe=FORCE in partition {shown(forced)}"), (gang, "PreemptMode=GANG")):
        if so:
            yield Finding(
                REFUSE,
                "oversubscribe",
                f"{what} gives one core to several jobs, and share mode {share_mode} counts cores",
                "use share mode handover there, or change the partition",
            )


def state(node: JSON) -> Findings:
    flags = set(node["flags"])
    if node["state"] in ("DOWN", "UNKNOWN") or "NOT_RESPONDING" in flags:
        yield Finding(
            WARN,
            "state",
            f"Slurm says {', '.join([node['state'], *sorted(flags)])}: {node['reason'] or 'without a reason'}",
            "see to slurmd first; the node gets no pods while Slurm says so",
        )
    elif "DRAIN" in flags:
        yield Finding(NOTE, "state", f"is drained ({node['reason']}) and gets no pods while it is")


def local(found: JSON, *, host: str, digest: str, is_node: bool = True) -> Findings:
    """slurm.conf and the scripts as the host itself sees them; ``digest`` is that of ``host``. Only nodes run them."""
    slurm = found["slurm"]
    if slurm["error"]:
        yield Finding(REFUSE, "slurm_conf", slurm["error"], "repair it; it is left as it is")
    elif not slurm["conf"]:
        yield Finding(
            REFUSE, "slurm_conf", "no slurm.conf in any usual place", "say where it is in share_preflight_slurm_conf"
        )
    elif digest and slurm["digest"] != digest:
        yield Finding(
            REFUSE,
            "slurm_conf",
            f"{slurm['conf']} says something else than that of {host}",
            "make the copies the same: what is changed in one must mean the same in all",
        )
    for script in slurm["missing"] if is_node else ():
        yield Finding(
            REFUSE,
            "script_missing",
            f"slurm.conf names {script}, which is not on this node: it would be drained at the next job",
            "put it there, or take it out of slurm.conf",
        )


def controllers(config: JSON, hosts: t.Sequence[str]) -> Findings:
    """Each SlurmctldHost runs PrologSlurmctld when its turn comes."""
    named = [re.sub(r"\(.*", "", name) for name in config.get("SlurmctldHost") or []]
    known = {name.partition(".")[0].lower() for name in hosts}
    missing = [name for name in named if name.partition(".")[0].lower() not in known]
    if missing:
        yield Finding(
            REFUSE,
            "controllers",
            f"SlurmctldHost names {shown(missing)}, which is not in converged_controllers: after a failover pods stay",
            "add it to the group",
        )


def _words(value: object) -> t.List[str]:
    return prologflags.words(str(value or ""))
