# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with several vnodes: what PBS says of it, and what the hook and the controller make of that."""

from __future__ import annotations

import json
import typing as t

import pytest
from pbs.converged_on_pbs import PROGRAM, Told, share
from pbs_double.cluster import Cluster, until

VNODES = """$configversion 2
pbs-n2: resources_available.ncpus = 0
pbs-n2: resources_available.mem = 0kb
pbs-n2[0]: resources_available.ncpus = 2
pbs-n2[0]: resources_available.mem = 1gb
pbs-n2[1]: resources_available.ncpus = 2
pbs-n2[1]: resources_available.mem = 1gb
"""
WHOLE = """$configversion 2
pbs-n2: resources_available.ncpus = 2
pbs-n2: resources_available.mem = 8gb
"""
SLEEP = ("--", "/bin/sleep", "300")


def nodes(pbs: Cluster) -> dict[str, t.Any]:
    found: dict[str, t.Any] = json.loads(pbs.call("pbsnodes", "-av", "-F", "json").out)["nodes"]
    return found


def define(hook: Told, text: str) -> None:
    """The vnodes of the second host, instead of those before."""
    (hook.folder / "vnodes").write_text(text)
    hook.pbs.on("pbs-n2", "pbs_mom -s remove split")
    insert = f"pbs_mom -s insert split {hook.folder}/vnodes"
    assert hook.pbs.on("pbs-n2", f"{insert} && kill -HUP $(cat $PBS_HOME/mom_priv/mom.lock)").rc == 0


@pytest.fixture(scope="module")
def hook(history: Cluster, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Told]:
    hook = Told(history, tmp_path_factory.mktemp("vnodes"), PROGRAM)
    hook.make("converged", 200)
    hook.start()
    define(hook, VNODES)
    until(lambda: [nodes(history).get(f"pbs-n2[{number}]", {}).get("state") for number in (0, 1)] == ["free", "free"])
    yield hook
    hook.end_jobs()
    hook.remove("converged")
    define(hook, WHOLE)
    for number in (0, 1):
        assert history.call("qmgr", "-c", f"delete node pbs-n2[{number}]").rc == 0
    until(lambda: nodes(history)["pbs-n2"]["resources_available"]["ncpus"] == 2)


def test_a_chunk_over_two_vnodes_is_one_share_of_their_host(hook: Told) -> None:
    job = hook.submit("-l", "select=1:ncpus=3:mem=1536mb:host=pbs-n2", *SLEEP)
    hook.until_called(job, f"begin@pbs-n2 of 1 {share(job, cpus=3, mem=1536 << 20)}")
    found = hook.job(job)
    assert found["exec_vnode"] == "(pbs-n2[0]:mem=1048576kb:ncpus=2+pbs-n2[1]:mem=524288kb:ncpus=1)"
    assert found["exec_host"] == "pbs-n2/0*0"
    seen = nodes(hook.pbs)
    assert {name: seen[name]["Mom"] for name in ("pbs-n2", "pbs-n2[0]", "pbs-n2[1]")} == dict.fromkeys(
        ("pbs-n2", "pbs-n2[0]", "pbs-n2[1]"), "pbs-n2"
    )
    assert seen["pbs-n2[1]"]["resources_available"]["host"] == "pbs-n2"
    assert seen["pbs-n2[0]"]["in_multivnode_host"] == 1
    hook.end_jobs()


def test_chunks_on_vnodes_of_one_host_and_another_are_each_hosts_own(hook: Told) -> None:
    words = "select=1:ncpus=1:host=pbs-n1+1:ncpus=1:mem=100mb:vnode=pbs-n2[1]+1:ncpus=1:mem=100mb:vnode=pbs-n2[0]"
    job = hook.submit("-l", words, *SLEEP)
    hook.until_called(
        job,
        f"begin@pbs-n1 of 1 {share(job, mem=None)}",
        f"begin@pbs-n2 of 1 {share(job, cpus=2, mem=200 << 20)}",
    )
    hook.end_jobs()
