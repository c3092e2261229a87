# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters of the playbook verify: what it refuses, why a proof failed, and which job it may have left."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.converged.hpc.plugins.module_utils._preflight.model import shown

_NODES = """-e '{"converged_verify_nodes": ["node01"]}'"""
_OPTIONS = """-e '{"converged_verify_options": ["--account=NAME"]}'"""
_PODS = "kubectl -n converged-verify describe pods"
# What scancel, qdel of PBS and qdel of Torque say of a job that has ended.
_ENDED = re.compile(r"No active jobs match|Unknown Job|has finished|invalid state for job .*\bCOMPLETE\b")

# What ansible-core 2.19 puts before the words of a module, and in their place where a wait ran out.
_OF_ANSIBLE = re.compile(r"^Task failed: (?:(?:Action|Module) failed: )?(?:Unknown error\.?$)?")


def proof_refusals(nodes: t.Any, groups: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """Return why these nodes cannot be proved with these groups of the inventory, in one sentence each."""
    kube = groups.get("converged_kube") or ()
    found = []
    if len(kube) > 1:
        found.append(f"converged_kube has {len(kube)} hosts ({shown(kube)}), and one asks the API: leave one in it")
    if not groups.get("converged_controllers"):
        found.append("converged_controllers has no host to submit a job on: put the batch controllers into it")
    if isinstance(nodes, str):
        return [*found, f"converged_verify_nodes is '{nodes}': expected a list, as in {_NODES}"]
    if not nodes:
        found.append(
            "There is no node to prove: converged_verify_nodes is empty, or converged_excepted has each host of"
            f" converged_shared: name a node, as in {_NODES}"
        )
    twice = sorted({node for node in nodes if nodes.count(node) > 1})
    if twice:
        found.append(f"converged_verify_nodes names {shown(twice)} more than once: name each node once")
    known = groups.get("converged_nodes") or ()
    unknown = [node for node in dict.fromkeys(nodes) if node not in known]
    if unknown:
        found.append(
            f"converged_verify_nodes names {shown(unknown)}, which converged_nodes has not: name hosts of that group"
        )
    return found


def proof_failure(
    result: t.Mapping[str, t.Any], task: str, missing: t.Sequence[str], srun: t.Mapping[str, t.Any]
) -> str:
    """Return why a proof failed.

    `result` is of the task that failed, `missing` the nodes without a ready pod, `srun` the state of its async job.
    """
    words, ended = _words(result), bool(srun.get("finished"))
    sentences = [f"not proved: {task}: {words}"]
    if missing:
        sentences.append(
            f"No pod of the proof is ready on {shown(missing)}: run the proof again, and look meanwhile with {_PODS}"
        )
    if ended and _said(srun) != words:
        sentences.append(f"srun has ended: {_said(srun) or 'it said nothing'}")
    if ended or str((result.get("cmd") or [""])[0]).endswith("/qsub"):
        sentences.append(f"If the job needs other options, give them as in {_OPTIONS}")
    return ". ".join(sentences)


def proof_left(ended: t.Mapping[str, t.Any], job: str, command: t.Sequence[str]) -> list[str]:
    """Return a sentence if the job of a proof may be left, judged by the result of the command that ends it."""
    done = not ended or ended.get("skipped") or ended.get("rc") == 0 or _ENDED.search(ended.get("stderr") or "")
    return [] if done else [f"job {job} of this proof may be left: {_words(ended)}; {' '.join(command)}"]


def _words(result: t.Mapping[str, t.Any]) -> str:
    """Return what a program or module said, on one line; of a loop, for each item that failed."""
    if "results" in result:
        return "; ".join(f"{part['item']}: {_words(part)}" for part in result["results"] if part.get("failed"))
    return _said(result) or f"not so after {result.get('attempts', 1)} looks"


def _said(result: t.Mapping[str, t.Any]) -> str:
    """Return the words of a program or a module, without those that Ansible puts there itself."""
    return " ".join(_OF_ANSIBLE.sub("", str(result.get("stderr") or result.get("msg") or "")).split())


class FilterModule:
    """The filters of this file by their names in templates."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"proof_failure": proof_failure, "proof_left": proof_left, "proof_refusals": proof_refusals}
