# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of Torque: its server, nodes, and the scripts that MoMs run, as far as sharing depends on them. Pure.

PRIVATE to the collection.
"""

from __future__ import annotations

import typing as t

from ... import _share_mode
from .. import names
from ..model import JSON, Findings, note, refuse, shown, warn

MARGIN = 5  # seconds before Torque's alarm at which a script of ours is done
SILENT = 150  # seconds without news from a MoM after which its server calls the node down (node_check_rate)
PLAIN = ("prologue", "prologue.parallel", "epilogue", "epilogue.parallel")


def cluster(torque: JSON) -> Findings:
    """Yield what is wrong with the server."""
    if "nodes" not in torque:
        text = f"Torque does not answer: {torque.get('error', '')}"
        yield refuse("torque", text, "start pbs_server and trqauthd first")


def node(name: str, torque: JSON) -> Findings:
    """Yield what the server says against a host, by its name in Torque."""
    known = {str(one["name"]): one for one in torque["nodes"]}
    yield from names.in_batch_system(name, known, "Torque")
    if name not in known:
        return
    states = sorted(known[name]["states"])
    said = str(known[name].get("message") or known[name].get("note") or "")
    if "down" in states:
        text = f"Torque says {', '.join(states)}" + (f" ({said})" if said else "")
        yield warn("state", text, "see to its MoM, or clear its message: momctl -q clearmsg")
    elif "offline" in states:
        yield note("state", f"is offline ({said})")


def mom(found: JSON, wanted: JSON) -> Findings:
    """Yield what is wrong with the scripts of the host's MoM, and with the time that it gives them."""
    for text in found["refused"]:
        yield refuse("torque_script", *_apart(text))
    if not found["present"]:
        return
    seconds, alarm = int(wanted.get("script_seconds") or 0), int(found["alarm"])
    if seconds + MARGIN > alarm:
        text = f"Torque ends a script after {alarm} s ($prologalarm less 10), and torque_share_timeout is {seconds} s"
        yield refuse(
            "prologalarm", text, f"raise $prologalarm to {seconds + MARGIN + 10}, or lower torque_share_timeout"
        )
    if seconds >= SILENT:
        text = f"torque_share_timeout is {seconds} s, in which the MoM of a job's other hosts tells nothing"
        yield warn("silent_mom", text, f"set it below {SILENT}, or the server may call that node down meanwhile")
    types = [one["name"] for one in found["scripts"] if one["name"] not in PLAIN]
    if types:
        text = f"users may have Torque run {shown(types)} in place of the plain script (qsub -T)"
        yield note("job_types", f"{text}: ours stand around these, too")


def outcomes(wanted: JSON) -> Findings:
    """Yield what Torque makes of a job that the site wants refused."""
    chosen = [name for name in ("on_failure", "after_deadline") if wanted.get(name) in ("requeue", "drain")]
    if chosen:
        words = " and ".join(f"node_share_{name} is {wanted[name]}" for name in chosen)
        text = f"{words}: Torque tries such a job again on its first host, and takes another host of it down"
        yield warn("refusals", text, "expect to run momctl -q clearmsg there, or let such jobs start")


def beside(wanted: JSON) -> Findings:
    """Yield what cannot be promised where pods run beside jobs."""
    if wanted.get("share_mode") not in _share_mode.BESIDE:
        return
    fence = wanted.get("fence")
    if fence == "cores":
        text = "Torque gives its jobs no cores of their own that could be read, so pods cannot be kept off them"
        yield refuse("cores", text, "set node_share_fence: split, or counts")
    elif fence == "counts":
        text = "pods and jobs are counted, and may run on the same core: node_share_fence is counts"
        yield warn("cores", text, "set node_share_fence: split where pods must not slow jobs down")
    text = "Torque tells only the first host of a job how many slots it has there: another host is taken as a whole,"
    yield note("sizes", f"{text} unless the request names it (nodes=n1:ppn=2+n2:ppn=2)")


def room(name: str, torque: JSON, cpus: int) -> Findings:
    """Yield where Torque gives more slots of a node than it has cores."""
    given = next((int(one.get("slots") or 0) for one in torque["nodes"] if one["name"] == name), 0)
    if given > cpus:
        text = f"Torque gives {given} slots of it, and it has {cpus} cores"
        yield warn("room", text, f"set np = {cpus} in Torque, or placeholders of jobs do not fit")


def left_out(known: t.Container[str], torque: JSON) -> t.Iterator[str]:
    """Yield the nodes in Torque that are in no inventory."""
    yield from sorted(str(one["name"]) for one in torque.get("nodes", ()) if one["name"] not in known)


def _apart(line: str) -> t.Tuple[str, str]:
    """Return what is wrong and what to do, which stand in one line of what was read."""
    text, _colon, advice = line.rpartition(": ")
    return (text, advice) if text else (line, "see to it first")
