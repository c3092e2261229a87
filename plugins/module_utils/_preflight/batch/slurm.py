# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of Slurm's own settings: what a hand-over needs of them, and what would work against it. Pure.

PRIVATE to the collection.
"""

from __future__ import annotations

import re
import typing as t

from ... import _share_mode
from ..._shared import hostlist
from ..._slurm import ours
from ..._slurm.conf import kept
from ..._slurm.conf import prolog_flags as slurm_flags
from ..._slurm.errors import SlurmError
from ..model import JSON, Findings, note, refuse, shown, warn

WANTED_FLAGS = "Alloc,DeferBatch"
# What the record calls our settings in slurm.conf.
EDITS = "slurm_conf"
# Slurm's own numbers for "not set" and "no limit", in 16 and in 32 bits.
_UNLIMITED = {0xFFFE, 0xFFFF, 0xFFFFFFFE, 0xFFFFFFFF}
_SPARE = 10


def seconds(value: object) -> t.Optional[int]:
    """Read a time as `scontrol` prints it; None where there is none or no limit."""
    match = re.match(r"(\d+)(?: sec)?$", str(value or ""))
    number = int(match.group(1)) if match else 0
    return number if number and number not in _UNLIMITED else None


def uses_munge(config: JSON) -> bool:
    """Return whether Slurm's daemons know each other by munge: Slurm's default, to which 23.11 added auth/slurm."""
    return str(config.get("AuthType") or "auth/munge") == "auth/munge"


def prolog_flags(config: JSON) -> Findings:
    """Judge PrologFlags: ours are added to the site's, unless those forbid it."""
    present = str(config.get("PrologFlags") or "")
    flags = {word.lower() for word in slurm_flags.words(present)}
    try:
        merged = slurm_flags.merge(present, WANTED_FLAGS)
    except SlurmError as error:
        yield refuse("prolog_flags", str(error), "take one of them out of slurm.conf")
        return
    if merged != present:
        yield note("prolog_flags", f"PrologFlags={present or '(none)'} will be {merged}")
    if "nohold" in flags:
        text = "PrologFlags has NoHold, so that tasks start before Prolog has freed the node"
        yield refuse("prolog_flags", text, "take it out of slurm.conf")
    if "runinjob" in flags:
        text = "PrologFlags has RunInJob, so that Prolog has the job's own limits: a job of 10 MB drains its node"
        yield refuse("prolog_flags", text, "take it out of slurm.conf")
    if "serial" in flags:
        yield warn(
            "prolog_flags",
            "PrologFlags has Serial: the Prologs of jobs on one node wait for each other, and for each other's pods",
            "take it out where the site's scripts allow it",
        )


def timeouts(config: JSON, limit: int) -> Findings:
    """Judge time limits: a Prolog may take as long as pods that the controller has not sent away before."""
    whole = seconds(config.get("PrologEpilogTimeout")) or seconds(config.get("PrologTimeout"))
    if whole is not None and whole < limit + _SPARE:
        yield refuse(
            "timeouts",
            f"PrologEpilogTimeout is {whole} s, for the site's scripts and ours together, and ours may take {limit} s:"
            " the node would be drained",
            f"set it to {limit + _SPARE} or more, or node_share_limit to {max(whole - _SPARE, 1)} or less",
        )
    for key in ("MessageTimeout", "BatchStartTimeout"):
        found = seconds(config.get(key))
        if found is not None and found < limit:
            text = f"{key} is {found} s, and a Prolog that has to wait for pods by itself may take {limit} s"
            if key == "BatchStartTimeout":
                text += ": Slurm requeues the job as missing if its node registers meanwhile"
            yield warn("timeouts", text, f"raise {key}, or lower node_share_limit")


def suspend_time(config: JSON, node: JSON, partitions: t.Sequence[JSON]) -> t.Optional[int]:
    """Return seconds of idleness after which Slurm switches a node off: its partitions' highest, else the cluster's."""
    of_partitions = [
        str(one["suspend_time"])
        for one in partitions
        if node["name"] in one["nodes"] and one.get("suspend_time") not in (None, "", "GLOBAL")
    ]
    if not config.get("SuspendProgram") or any(seconds(time) is None for time in of_partitions):
        return None
    return max((seconds(time) or 0 for time in of_partitions), default=seconds(config.get("SuspendTime")))


def power_saving(config: JSON, node: JSON, partitions: t.Sequence[JSON]) -> Findings:
    """Judge power saving: it would switch an idle node off, which is one that pods use."""
    after = suspend_time(config, node, partitions)
    excepted = slurm_flags.words(str(config.get("SuspendExcParts") or ""))
    if after is None or set(node["partitions"]) & set(excepted):
        return
    listed = str(config.get("SuspendExcNodes") or "")
    written = re.sub(r":\d+(?=,|$)", "", listed)
    try:
        excluded = set(hostlist.expand(written))
    except hostlist.HostlistError as error:
        yield refuse("power_saving", f"SuspendExcNodes: {error}", "correct it")
        return
    # With ":N" only so many of the listed nodes stay on, and nothing tells which.
    if node["name"] not in excluded or written != listed:
        yield refuse(
            "power_saving",
            f"SuspendTime is {after} s and SuspendExcNodes does not keep {node['name']} on: it would be switched off"
            " while pods run",
            f"add {node['name']} to SuspendExcNodes",
        )


def oversubscription(config: JSON, node: JSON, partitions: t.Sequence[JSON], share_mode: object) -> Findings:
    """Judge oversubscription: where one core may have two jobs, no core can be said to be free of jobs."""
    if share_mode not in _share_mode.BESIDE:
        return
    mine = [one for one in partitions if node["name"] in one["nodes"]]
    forced = [one["name"] for one in mine if str(one["oversubscribe"]).upper().startswith("FORCE")]
    gang = any(
        "GANG" in str(mode).upper() for mode in (config.get("PreemptMode"), *(one["preempt_mode"] for one in mine))
    )
    causes = [f"OverSubscribe=FORCE in partition {shown(forced)}"] if forced else []
    causes += ["PreemptMode=GANG"] if gang else []
    for cause in causes:
        text = f"{cause} gives one core to several jobs, and share mode {share_mode} counts cores"
        yield refuse("oversubscribe", text, "use share mode handover there, or change the partition")


def state(node: JSON) -> Findings:
    """Judge the state that the node has in Slurm just now."""
    flags = set(node["flags"])
    if node["state"] in ("DOWN", "UNKNOWN") or "NOT_RESPONDING" in flags:
        words = ", ".join([node["state"], *sorted(flags)])
        advice = "see to slurmd first; the node gets no pods while Slurm says so"
        yield warn("state", f"Slurm says {words}: {node['reason'] or 'without a reason'}", advice)
    elif "DRAIN" in flags:
        yield note("state", f"is drained ({node['reason']}) and gets no pods while it is")


def cloud(node: JSON, *, shared: bool) -> Findings:
    """Judge a node that Slurm creates when jobs need it: what is put on it now goes with it."""
    if "CLOUD" in node["flags"]:
        text = "is a CLOUD node, which Slurm creates anew from its image"
        image = f"have the image hold {ours.FOLDER}, as a node without the Prolog is drained at its next job"
        if shared:
            yield refuse(
                "cloud", f"{text}: pods would be lost with it", f"take it out of converged_shared, and {image}"
            )
        else:
            yield warn("cloud", f"{text}: Slurm's scripts are put on this instance alone", image)


def local(found: JSON, *, host: str, digest: str, edited: bool = False, is_node: bool = True) -> Findings:
    """Judge slurm.conf and the scripts as the host itself sees them. Only nodes run scripts.

    ``digest`` is that of ``host``, and ``edited`` says whether our settings are in its copy. A run that was killed
    leaves some copies with them and some without. The next run makes all copies the same.
    """
    slurm = found["slurm"]
    if slurm["error"]:
        yield refuse("slurm_conf", slurm["error"], "repair it; it is left as it is")
    elif not slurm["conf"]:
        yield refuse("slurm_conf", "no slurm.conf in any usual place", "say where it is in share_preflight_slurm_conf")
    elif digest and slurm["digest"] != digest and edited != (EDITS in found["record"]):
        text = f"an earlier run has not come to change {slurm['conf']} here and on {host}: this one goes on"
        yield note("slurm_conf", text)
    elif digest and slurm["digest"] != digest:
        yield refuse(
            "slurm_conf",
            f"{slurm['conf']} says something else than that of {host}",
            "make the copies the same: what is changed in one must mean the same in all",
        )
    if is_node and not slurm.get("squeue", True):
        where = slurm["bin_dir"] or "any usual folder, nor beside slurmd"
        text = f"no squeue in {where}: a repair on this node cannot ask Slurm about a job that has no process here"
        yield warn("programs", text, "set slurm_bin_dir to the folder of Slurm's programs, such as /opt/slurm/bin")
    for script in slurm["missing"] if is_node else ():
        text = f"slurm.conf names {script}, which is not on this node: it would be drained at the next job"
        yield refuse("script_missing", text, "put it there, or take it out of slurm.conf")


def conf_mode(found: t.Mapping[str, JSON], controllers: t.Container[str]) -> Findings:
    """Refuse a site that keeps slurm.conf in several ways, because then it is not clear which copies to change.

    A host without slurm.conf is refused by itself and shows no way.
    """
    ways = {host: str(one["kept"]) for host, one in found.items() if one.get("kept", kept.NONE) != kept.NONE}
    if not ways:
        return
    try:
        kept.mode(ways, controllers)
    except SlurmError as error:
        yield refuse("slurm_conf", str(error), "that says what is changed where")


def controllers(config: JSON, hosts: t.Sequence[str]) -> Findings:
    """Judge the controllers: each SlurmctldHost runs PrologSlurmctld when its turn comes."""
    named = [re.sub(r"\(.*", "", name) for name in config.get("SlurmctldHost") or []]
    known = {name.partition(".")[0].lower() for name in hosts}
    missing = [name for name in named if name.partition(".")[0].lower() not in known]
    if missing:
        text = (
            f"SlurmctldHost names {shown(missing)}, which is not in converged_controllers: after a failover pods stay"
        )
        yield refuse("controllers", text, "add it to the group")
