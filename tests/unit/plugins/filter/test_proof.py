# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `verify` refuses, and what it says of a proof that failed."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.converged.hpc.plugins.filter.proof import proof_failure, proof_left, proof_refusals

GROUPS = {"converged_nodes": ["n1", "n2"], "converged_controllers": ["ctl"], "converged_kube": ["kube"]}


@pytest.mark.parametrize(
    ("nodes", "groups", "said"),
    [
        (["n2", "n1"], {}, []),
        ([], {}, ["There is no node to prove: converged_verify_nodes is empty, or converged_excepted has each host"]),
        (["n1", "n2", "n1"], {}, ["converged_verify_nodes names n1 more than once: name each node once"]),
        (["n1", "n7", "n8"], {}, ["converged_verify_nodes names n7, n8, which converged_nodes has not: name hosts of"]),
        ("n1", {}, ["converged_verify_nodes is 'n1': expected a list, as in -e '{"]),
        (
            ["n1"],
            {"converged_kube": ["a", "b"]},
            ["converged_kube has 2 hosts (a, b), and one asks the API: leave one"],
        ),
        (["n1"], {"converged_controllers": []}, ["converged_controllers has no host to submit a job on"]),
        (["n1"], {"converged_nodes": []}, ["names n1, which converged_nodes has not"]),
        (
            ["n7", "n7"],
            {"converged_kube": ["a", "b"]},
            ["converged_kube has 2 hosts", "names n7 more than once", "names n7, which"],
        ),
    ],
)
def test_nodes_and_groups_of_which_no_proof_can_be_made_are_each_named(
    nodes: Any, groups: dict[str, list[str]], said: list[str]
) -> None:
    found = proof_refusals(nodes, {**GROUPS, **groups})
    assert len(found) == len(said), found
    assert all(words in sentence for words, sentence in zip(said, found, strict=True)), found


REFUSED = "srun: error: Unable to allocate resources:\n  Invalid account or account/partition combination specified\n"
OPTIONS = """. If the job needs other options, give them as in -e '{"converged_verify_options": ["--account=NAME"]}'"""


@pytest.mark.parametrize(
    ("result", "missing", "srun", "said"),
    [
        ({"msg": "no kubeconfig", "attempts": 9}, [], {}, "no kubeconfig"),
        ({"msg": "Task failed: Module failed: no kubeconfig"}, [], {}, "no kubeconfig"),
        ({"msg": "Task failed: Action failed: Unknown error.", "attempts": 9}, [], {}, "not so after 9 looks"),
        ({"stderr": "a\n b\n", "msg": "non-zero return code"}, [], {}, "a b"),
        (
            {"attempts": 9, "resources": [{"kind": "Pod"}]},
            ["n1", "n2"],
            {"skipped": True},
            "not so after 9 looks. No pod of the proof is ready on n1, n2: run the proof again, and look meanwhile with"
            " kubectl -n converged-verify describe pods",
        ),
        (
            {"attempts": 9, "stderr": ""},
            [],
            {"finished": 1, "stderr": REFUSED},
            "not so after 9 looks. srun has ended: srun: error: Unable to allocate resources: Invalid account or"
            f" account/partition combination specified{OPTIONS}",
        ),
        ({"stderr": "srun: no"}, [], {"finished": 1, "stderr": "srun: no"}, f"srun: no{OPTIONS}"),
        ({"msg": "x"}, [], {"finished": 0}, "x"),
        ({"msg": "x"}, [], {"finished": 1, "stderr": ""}, f"x. srun has ended: it said nothing{OPTIONS}"),
        (
            {"cmd": ["/opt/pbs/bin/qsub", "-N"], "stderr": "qsub: Unknown queue"},
            [],
            {},
            f"qsub: Unknown queue{OPTIONS}",
        ),
        (
            {
                "msg": "One or more items failed",
                "results": [{"item": "n1", "failed": False}, {"item": "n2", "failed": True, "msg": "No such file"}],
            },
            [],
            {},
            "n2: No such file",
        ),
    ],
)
def test_a_proof_that_failed_says_what_the_programs_said(
    result: dict[str, Any], missing: list[str], srun: dict[str, Any], said: str
) -> None:
    assert proof_failure(result, "See it", missing, srun) == f"not proved: See it: {said}"


@pytest.mark.parametrize(
    ("ended", "left"),
    [
        ({}, None),
        ({"skipped": True}, None),
        ({"rc": 0, "stderr": ""}, None),
        ({"rc": 1, "stderr": "scancel: error: No active jobs match ALL job filters"}, None),
        ({"rc": 153, "stderr": "qdel: Unknown Job Id 7.pbs"}, None),
        ({"rc": 35, "stderr": "qdel: Job has finished 7.pbs"}, None),
        ({"rc": 170, "stderr": "qdel: Request invalid for state of job MSG=invalid state for job - COMPLETE 7"}, None),
        ({"rc": 170, "stderr": "qdel: Request invalid for state of job 7"}, "qdel: Request invalid for state of job 7"),
        ({"rc": 1, "stderr": "scancel: error: slurm_kill_jobs\n"}, "scancel: error: slurm_kill_jobs"),
        ({"unreachable": True, "msg": "Connection refused"}, "Connection refused"),
    ],
)
def test_a_job_that_could_not_be_ended_is_named_with_the_command_that_ends_it(
    ended: dict[str, Any], left: str | None
) -> None:
    said = [] if left is None else [f"job 7 of this proof may be left: {left}; qdel 7"]
    assert proof_left(ended, "7", ["qdel", "7"]) == said
