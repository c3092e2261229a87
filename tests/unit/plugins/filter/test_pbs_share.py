# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a PBS server a way back may delete, and whom a conversion takes for a job of a host."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.converged.hpc.plugins.filter.pbs_share import pbs_jobs_on, pbs_share_memory

WISHED = {"hooks": ["converged"], "queues": ["pods"]}


def info(hooks: tuple[str, ...] = (), queues: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"hooks": [{"name": name} for name in hooks], "queues": [{"name": name} for name in queues]}


def test_what_is_to_be_made_is_ours_and_what_others_have_made_is_not() -> None:
    assert pbs_share_memory(info(("site",), ("workq",)), WISHED) == WISHED


@pytest.mark.parametrize(
    ("hooks", "queues", "name"), [(("converged",), (), "hook converged"), ((), ("pods",), "queue pods")]
)
def test_what_was_there_before_us_is_never_taken_for_ours(
    hooks: tuple[str, ...], queues: tuple[str, ...], name: str
) -> None:
    with pytest.raises(AnsibleFilterError, match=f"{name} already, which is not ours"):
        pbs_share_memory(info(hooks, queues), WISHED)


def test_what_an_earlier_run_has_made_stays_ours_while_it_is_there() -> None:
    remembered = {"hooks": ["converged", "gone"], "queues": ["older", "pods"]}
    found = pbs_share_memory(
        info(("converged",), ("pods", "older")), {"hooks": ["converged"], "queues": []}, remembered
    )
    assert found == {"hooks": ["converged"], "queues": ["older", "pods"]}


NODES = [
    {"name": "n1", "host": "n1"},
    {"name": "n2", "host": "n2"},
    {"name": "n2[0]", "host": "n2"},
]


def job(number: str, state: str, *vnodes: str, run: int = 1) -> dict[str, Any]:
    return {"id": f"{number}.ctl", "run": run, "state": state, "chunks": [{"vnode": vnode} for vnode in vnodes]}


@pytest.mark.parametrize(
    ("host", "jobs", "found"),
    [
        ("n1", [job("1", "R", "n1", "n2"), job("2", "Q")], ["1.ctl/1"]),
        ("n2", [job("1", "R", "n1"), job("2", "R", "n2[0]", run=3)], ["2.ctl/3"]),
        ("n2[0]", [job("1", "R", "n2"), job("2", "R", "n2[0]")], ["2.ctl/1"]),
        ("n1", [job("7[2]", "S", "n1"), job("8", "F", "n1"), job("9", "H")], ["7[2].ctl/1"]),
        ("n3", [job("1", "R", "n1")], []),
    ],
)
def test_a_job_holds_a_host_while_it_has_any_vnode_of_it(
    host: str, jobs: list[dict[str, Any]], found: list[str]
) -> None:
    assert pbs_jobs_on(jobs, NODES, host) == found
