# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules and nodeshare's adapters on a Torque cluster: each change is found to be there afterwards."""

from __future__ import annotations

import json
import types
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.converged.hpc.plugins.inventory import torque as inventory
from ansible_collections.converged.hpc.plugins.module_utils._torque.client import Torque
from ansible_collections.converged.hpc.plugins.modules import torque_info, torque_node, torque_server
from nodeshare.batch import torque as batch_torque
from nodeshare.controller.batch.torque import TorqueBatch
from nodeshare.controller.decide import Jobs
from nodeshare.model.actions import GONE, LIVE
from nodeshare.model.answer import Answer
from nodeshare.model.jobs.job_key import JobKey
from nodeshare.model.jobs.lease import Lease
from torque_double.cluster import CORES, HOSTS, SERVER, Cluster, until
from torque_double.site import Site

Call = t.Callable[..., dict[str, t.Any]]
ONCE = [True, True, False, False]
FOREVER = "sleep 600"


@pytest.fixture
def call(site: Site, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs a module and returns its result."""

    def run(module: types.ModuleType, *, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
        values = {"bin_dir": str(site.cluster.bin_dir), "_ansible_check_mode": check, "_ansible_diff": True, **options}
        with patch_module_args(values), pytest.raises(SystemExit):
            module.main()
        result: dict[str, t.Any] = json.loads(capsys.readouterr().out)
        assert not result.get("failed"), result
        return result

    return run


def changes(call: Call, module: types.ModuleType, **options: t.Any) -> list[bool]:
    """In check mode, for real, in check mode again, for real again."""
    return [call(module, check=check, **options)["changed"] for check in (True, False, True, False)]


def test_nodes_go_offline_and_come_back_with_the_note_that_they_had(call: Call, site: Site) -> None:
    assert site.cluster.call("pbsnodes", "-N", "slow <fan> & old", HOSTS[1]).rc == 0
    wish = {"names": HOSTS, "reason": "conversion"}
    assert changes(call, torque_node, state="drained", **wish) == ONCE
    assert set(site.states().values()) == {"offline"}
    assert site.nodes()[HOSTS[1]]["note"] == "converged.hpc: conversion (before: slow <fan> & old)"
    assert changes(call, torque_node, names=HOSTS, state="restored") == ONCE
    assert set(site.states().values()) == {"free"}
    assert [node.get("note", "") for node in site.nodes().values()] == ["", "slow <fan> & old"]


def test_attributes_of_the_server_are_kept_and_given_back(call: Call, site: Site) -> None:
    try:
        attributes = {"query_other_jobs": True, "submit_hosts": [SERVER, HOSTS[0]]}
        assert changes(call, torque_server, attributes=attributes) == ONCE
        assert call(torque_info, gather=["server"])["settings"]["query_other_jobs"] == ["True"]
    finally:
        back = {"query_other_jobs": None, "submit_hosts": [SERVER]}
        assert changes(call, torque_server, attributes=back) == ONCE


def test_everything_that_runs_is_read(call: Call, site: Site) -> None:
    job = site.submit(FOREVER, "-l", f"nodes={HOSTS[1]}:ppn=2+{HOSTS[0]}", "-N", "a<b", "-A", "x\n</Job>\x07")
    site.until_state(job, "R")
    array = site.submit(FOREVER, "-t", "1-2", "-h")
    found = call(torque_info)
    assert found["server"]["name"].partition(".")[0] == SERVER
    assert [queue["name"] for queue in found["queues"]] == ["batch"]
    jobs = {each["id"]: each for each in found["jobs"]}
    assert jobs[job]["hosts"] == [{"host": HOSTS[1], "slots": 2}, {"host": HOSTS[0], "slots": 1}]
    assert (jobs[job]["user"], jobs[job]["state"], jobs[job]["run"]) == ("alice", "R", 1)
    first = array.replace("[]", "[1]")
    assert (jobs[first]["array_id"], jobs[first]["array_index"], array in jobs) == (array, 1, False)
    nodes = {each["name"]: each for each in found["nodes"]}
    assert {name: (node["slots"], node["used"], node["jobs"]) for name, node in nodes.items()} == {
        HOSTS[0]: (4, 1, [job]),
        HOSTS[1]: (4, 2, [job]),
    }


def batch_on(cluster: Cluster, host: str = SERVER) -> tuple[TorqueBatch, list[str]]:
    """The controller's adapter, and its remarks."""
    remarks: list[str] = []
    programs = {name: str(cluster.bin_dir / name) for name in ("qstat", "pbsnodes")}
    return TorqueBatch(
        run=ran(cluster), host=host, names={HOSTS[1]: "kube-2"}, remark=remarks.append, **programs
    ), remarks


def ran(cluster: Cluster) -> t.Callable[[tuple[str, ...]], Answer]:
    """Run a command on the host of the server."""

    def run(argv: tuple[str, ...]) -> Answer:
        return Answer(*cluster.call(argv[0].rpartition("/")[2], *argv[1:]))

    return run


def test_the_controller_follows_jobs_and_nodes(site: Site) -> None:
    batch, remarks = batch_on(site.cluster)
    assert (batch.in_control(), batch.jobs(), batch.states()) == (True, Jobs({}), {HOSTS[0]: "", "kube-2": ""}), remarks
    job = site.submit(FOREVER, "-l", "nodes=2")
    site.until_state(job, "R")
    held = Jobs({f"torque/{job}/1": frozenset([HOSTS[0], "kube-2"])})
    assert batch.jobs() == held, remarks
    assert site.cluster.call("qsig", "-s", "suspend", job).rc == 0
    until(lambda: all("jobs" not in node for node in site.nodes().values()))
    assert batch.jobs() == held, remarks
    assert site.cluster.call("qdel", "-p", job).rc == 0
    assert batch.jobs() == Jobs({}), remarks
    assert site.cluster.call("pbsnodes", "-o", "-N", "new disk", HOSTS[1]).rc == 0
    batch.jobs()
    assert batch.states() == {HOSTS[0]: "", "kube-2": "offline: new disk"}, remarks


@pytest.fixture
def home(tmp_path: Path) -> str:
    """A folder with the name of the server that a host's own has."""
    (tmp_path / "server_name").write_text(f"{SERVER}\n", encoding="ascii")
    return str(tmp_path)


def test_a_repair_learns_which_jobs_live_here(site: Site, home: str) -> None:
    job = site.submit(FOREVER, "-l", f"nodes={HOSTS[0]}")
    site.until_state(job, "R")
    names = [job, f"999999.{SERVER}"]
    leases = tuple(Lease(JobKey("torque", name, 1), "boot", 0.0) for name in names)
    ask = {"qstat": "/x/qstat", "run": ran(site.cluster), "home": home}
    answers = {host: batch_torque.ask(leases, here=host, **ask) for host in HOSTS}  # type: ignore[arg-type]
    assert answers == {
        HOSTS[0]: {f"torque/{names[0]}/1": LIVE, f"torque/{names[1]}/1": GONE},
        HOSTS[1]: dict.fromkeys([f"torque/{name}/1" for name in names], GONE),
    }
    until(lambda: site.on(HOSTS[0], f"test -e $PBS_HOME/mom_priv/jobs/{job}.JB").rc == 0)
    site.cluster.call("qdel", job)
    site.until_state(job, "C")
    until(lambda: site.on(HOSTS[0], f"test -e $PBS_HOME/mom_priv/jobs/{job}.JB").rc == 1)
    assert set(batch_torque.ask(leases, here=HOSTS[0], **ask).values()) == {GONE}  # type: ignore[arg-type]


def test_nothing_is_known_of_a_job_of_another_server(site: Site, home: str) -> None:
    """Torque says of such a job that it knows none, as of its own that are over; so its lease stays as it is."""
    ask = {"qstat": "/x/qstat", "run": ran(site.cluster), "home": home}
    for name, verdict in ((f"999999.{SERVER}", [GONE]), ("5.other-srv", [])):
        assert site.cluster.call("qstat", "-x", name).rc == batch_torque.UNKNOWN_JOB
        lease = Lease(JobKey("torque", name, 1), "boot", 0.0)
        found = batch_torque.ask((lease,), here=HOSTS[0], **ask)  # type: ignore[arg-type]
        assert list(found.values()) == verdict


def test_the_inventory_has_the_nodes_and_the_server(site: Site) -> None:
    torque = Torque(bin_dir=str(site.cluster.bin_dir))
    found = {host.name: host for host in inventory.node_hosts(torque.nodes())}
    assert {name: (host.groups, host.variables["torque_slots"]) for name, host in found.items()} == {
        host: (["torque_nodes"], CORES) for host in HOSTS
    }
    assert inventory.server_host(torque.server_host()).name == SERVER


def test_a_server_that_is_away_is_no_empty_list(site: Site) -> None:
    batch, remarks = batch_on(site.cluster)
    assert site.cluster.call("qterm", "-t", "quick").rc == 0
    try:
        until(lambda: site.cluster.call("qstat").rc == 111)
        assert (batch.in_control(), batch.jobs(), batch.states()) == (None, None, None)
        assert remarks
    finally:
        site.cluster.call("pbs_server")
        until(lambda: site.cluster.call("qstat").rc == 0)
