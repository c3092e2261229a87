# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a PBS server a way back may delete, and whom a conversion takes for a job of a host."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.converged.hpc.plugins.filter.pbs_share import pbs_jobs_on, pbs_share_memory, pbs_sharing
from ansible_collections.converged.hpc.plugins.module_utils._pbs import parse

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
    {"name": "n2[1]", "host": "n2"},
]


def job(number: str, state: str, *vnodes: str, run: int = 1) -> dict[str, Any]:
    chunks = [{"vnode": vnode, "resources": {}} for vnode in vnodes]
    return {"id": f"{number}.ctl", "run": run, "state": state, "chunks": chunks}


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


def hook() -> Any:
    """The hook itself, which PBS starts under another name."""
    file = Path(__file__).parents[4] / "roles/pbs_share/files/converged_hook.py"
    spec = importlib.util.spec_from_file_location("converged_hook", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("vnodes", "found"),
    [
        (["", "default_shared"], {}),
        (["force_excl", "ignore_excl"], {"n2": "force_excl"}),
        (["ignore_excl", "force_excl"], {"n2": "force_excl"}),
        (["default_excl", "default_exclhost"], {"n2": "default_exclhost"}),
        (["ignore_excl", "ignore_excl"], {"n2": "ignore_excl"}),
        (["ignore_excl", "default_shared"], {}),
    ],
)
def test_of_several_vnodes_the_strictest_speaks_for_its_host(vnodes: list[str], found: dict[str, str]) -> None:
    nodes = [{"name": f"v{number}", "host": "n2", "sharing": how} for number, how in enumerate(vnodes)]
    assert pbs_sharing([{"name": "n1", "host": "n1", "sharing": ""}, *nodes]) == found


def test_a_sharing_that_nobody_knows_is_refused_by_name() -> None:
    with pytest.raises(AnsibleFilterError, match="v0 has sharing 'free_for_all': known are ignore_excl"):
        pbs_sharing([{"name": "v0", "host": "n2", "sharing": "free_for_all"}])


def test_adoption_takes_the_strictest_vnode_too() -> None:
    nodes = [{"name": f"v{number}", "host": "n2", "sharing": how} for number, how in enumerate(("ignore_excl", ""))]
    job = {"id": "1.srv", "run": 1, "state": "R", "placement": "excl", "chunks": parse.chunks("(v0:ncpus=1)")}
    (told,) = pbs_jobs_on([job], nodes, "n2", SIZES)
    assert told.split()[1:3] == ["--cpus=1", "--exclusive"]


SIZES = {"default_mem": None, "devices": {"ngpus": "nvidia.com/gpu"}, "cgroup_prefix": "pbs_jobs"}


@pytest.mark.parametrize(
    ("exec_vnode", "place", "sharing", "more", "words"),
    [
        ("(n2:ncpus=2:mem=1gb)", "free", "default_shared", {}, ["--cpus=2", "--mem=1073741824"]),
        ("(n1:ncpus=4)+(n2:ncpus=2)", "scatter", "default_shared", {}, ["--cpus=2"]),
        ("(n2[0]:ncpus=2+n2[1]:ncpus=1:mem=1kb)", "free", "", {}, ["--cpus=3", "--mem=1024"]),
        ("(n2:ncpus=1:ngpus=2:color=red)", "free", "", {}, ["--cpus=1", "--device=nvidia.com/gpu=2"]),
        ("(n2:ncpus=1)", "free", "", {"default_mem": "2gb"}, ["--cpus=1", "--mem=2147483648"]),
        ("(n2:ncpus=1)", "pack:excl", "default_shared", {}, ["--cpus=1", "--exclusive"]),
        ("(n2:ncpus=1)", "pack:excl", "ignore_excl", {}, ["--cpus=1"]),
        ("(n2:ncpus=1)", "free", "default_exclhost", {}, ["--cpus=1", "--exclusive"]),
        ("(n2:ncpus=1)", "free:shared", "default_excl", {}, ["--cpus=1"]),
        ("(n2:ncpus=1)", "free:shared", "force_exclhost", {}, ["--cpus=1", "--exclusive"]),
        ("(n2:ncpus=1)", "free", "", {"cgroup_prefix": None}, ["--cpus=1"]),
        ("(n2:ncpus=1:mem=1.5gb)", "free", "", {}, ["--exclusive"]),
    ],
)
@pytest.mark.parametrize("state", ["R", "S"])
def test_a_job_that_runs_already_is_told_as_the_hook_would_tell_it(
    exec_vnode: str, place: str, sharing: str, more: dict[str, Any], words: list[str], state: str
) -> None:
    sizes = {**SIZES, **more}
    job = {"id": "15.srv", "run": 1, "state": state, "placement": place, "chunks": parse.chunks(exec_vnode)}
    (found,) = pbs_jobs_on([job], [dict(node, sharing=sharing) for node in NODES], "n2", sizes)
    name, *told = found.split(" ")
    assert name == "15.srv/1"
    if state == "R":
        assert [word for word in told if "--cgroup" not in word] == words
    theirs = hook()
    config = theirs.Config(nodeshare=("/nodeshare",), sharing={"n2": sharing}, **sizes)
    event = "begin" if state == "R" else "postsuspend"
    facts = theirs.Facts(event, "15.srv", 1, "workq", place, exec_vnode, "", frozenset(["n2"]))
    assert list(theirs.decide(facts, config)[5:]) == told
