# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nodeshare beside a MoM: leases by the hook, repair of what was missed, and the controller's view of the cluster."""

from __future__ import annotations

import subprocess
import typing as t
from pathlib import Path

import pytest
from nodeshare.controller import decide
from nodeshare.controller.batch import pbs as cluster_pbs
from nodeshare.model import answer
from nodeshare.store import lock
from pbs.converged_on_pbs import PROGRAM, Shared
from pbs_double.cluster import HOSTS, Cluster, until
from pbs_double.faults import Fault, Faulty

BOTH = ("-l", "select=2:ncpus=1:mem=100mb", "-l", "place=scatter", "--", "/bin/sleep", "300")


@pytest.fixture(scope="module")
def shared(history: Cluster, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Shared]:
    hook = Shared(history, tmp_path_factory.mktemp("shared"), PROGRAM)
    hook.start()
    hook.tell_of_jobs()
    yield hook
    hook.remove("converged")


@pytest.fixture
def hook(shared: Shared) -> t.Iterator[Shared]:
    yield shared
    shared.set(enabled=True)
    shared.end_jobs()
    for host in HOSTS:
        until(lambda host=host: shared.repair(host) and not shared.leases(host))


def test_a_lease_lives_as_long_as_its_job_is_on_the_host(hook: Shared) -> None:
    job = hook.submit(*BOTH)
    for host in HOSTS:
        until(lambda host=host: hook.leases(host) == [f"{job} of 1: 1 104857600"])
    hook.until_runs(job)
    assert hook.pbs.call("qdel", job).rc == 0
    for host in HOSTS:
        until(lambda host=host: hook.leases(host) == [])


def test_b6_two_jobs_of_one_name_are_two_and_the_end_of_one_leaves_the_other(hook: Shared) -> None:
    first, second = (hook.submit("-N", "STDIN", *BOTH) for _number in range(2))
    for host in HOSTS:
        until(lambda host=host: len(hook.leases(host)) == 2)
    assert hook.pbs.call("qdel", first).rc == 0
    for host in HOSTS:
        until(lambda host=host: hook.leases(host) == [f"{second} of 1: 1 104857600"])


def test_a_begin_whose_hook_met_its_alarm_holds_no_node_for_ever(hook: Shared) -> None:
    """nodeshare lives on; PBS, which runs no end there, has the job run elsewhere."""
    hook.repair("pbs-n1")
    hook.set(enabled=True, timeout_seconds=600)
    hook.set_alarm("converged", 15)
    with lock.Lock(str(hook.folder / "pbs-n1" / "work"), seconds=120):
        job = hook.submit("--", "/bin/sleep", "300")
        until(lambda: hook.job(job).get("exec_vnode") == "(pbs-n2:ncpus=1)" and hook.job(job)["substate"] == 42)
        until(lambda: hook.leases("pbs-n1") == [f"{job} of 1: 1 None"])
    hook.set_alarm("converged", 300)
    assert hook.pbs.call("pbsnodes", "-r", "-C", "", "pbs-n1").rc == 0
    until(lambda: hook.repair("pbs-n1") and not hook.leases("pbs-n1"))
    assert hook.leases("pbs-n2") == [f"{job} of 2: 1 None"]


def test_repair_drops_a_lease_whose_end_was_missed_and_no_other(hook: Shared) -> None:
    gone, stays = hook.submit(*BOTH), hook.submit(*BOTH)
    hook.until_runs(stays)
    hook.set(enabled=False)
    assert hook.pbs.call("qdel", gone).rc == 0
    until(lambda: hook.job(gone)["job_state"] == "F")
    for host in HOSTS:
        assert len(hook.leases(host)) == 2
        until(lambda host=host: hook.repair(host) and len(hook.leases(host)) == 1)
        assert hook.leases(host) == [f"{stays} of 1: 1 104857600"]


def test_repair_drops_earlier_runs_of_a_job_that_runs_again(hook: Shared) -> None:
    job = hook.submit(*BOTH)
    hook.until_runs(job)
    hook.set(enabled=False)
    assert hook.pbs.call("qrerun", job).rc == 0
    hook.until_runs(job, count=2)
    hook.set(enabled=True)
    hook.on("pbs-n1", "begin", "--wlm=pbs", f"'--job={job}'", "--run=2", "--cpus=1")
    until(lambda: hook.repair("pbs-n1") and len(hook.leases("pbs-n1")) == 1)
    assert hook.leases("pbs-n1") == [f"{job} of 2: 1 None"]


def test_a_begin_that_was_missed_is_made_up_for_while_its_job_runs_and_not_once_it_has_ended(hook: Shared) -> None:
    hook.set(enabled=False)
    job, ended = hook.submit(*BOTH), hook.submit(*BOTH)
    for each in (job, ended):
        hook.until_runs(each)
    assert [hook.leases(host) for host in HOSTS] == [[], []]
    assert hook.pbs.call("qdel", ended).rc == 0
    until(lambda: hook.job(ended)["job_state"] == "F")
    hook.set(enabled=True)
    hook.make_often("often", "converged")
    for host in HOSTS:
        until(lambda host=host: hook.leases(host) == [f"{job} of 1: 1 104857600"])
    hook.remove("often")
    for host in HOSTS:
        # A hook that has looked before the end, and says so late.
        until(lambda host=host: hook.pbs.on(host, f"test ! -e $PBS_HOME/mom_priv/jobs/{ended}.JB").rc == 0)
        line = hook.said(host, "repair", "--wlm=pbs", f"'{job}/1 --cpus=1'", f"'{ended}/1 --cpus=1'")
        assert line.startswith("nodeshare: event=repair "), line
        assert "new=" not in line, "there was a lease for a job that is over"
        assert hook.leases(host) == [f"{job} of 1: 1 104857600"]
    assert hook.pbs.call("qdel", job).rc == 0
    for host in HOSTS:
        until(lambda host=host: hook.leases(host) == [])


def test_repair_keeps_a_lease_while_pbs_gives_no_answer(hook: Shared) -> None:
    hook.on("pbs-n1", "begin", "--wlm=pbs", "--job=999999.pbs-srv", "--run=1", "--cpus=1")
    path = hook.folder / "pbs-n1.qstat"
    good = path.read_text()
    for bad in ("exit 255", "exec sleep 60", "echo '{\"timestamp\": 1}'", "echo '{\"timestamp\"'; exit 153"):
        path.write_text(f"#!/bin/sh\n{bad}\n")
        assert hook.repair("pbs-n1")
        assert len(hook.leases("pbs-n1")) == 1, bad
    path.write_text(good)
    until(lambda: hook.repair("pbs-n1") and not hook.leases("pbs-n1"))


class Asked:
    """The controller's questions to this cluster."""

    def __init__(self, pbs: Cluster, host: str = "pbs-srv", *, patience: float = 300) -> None:
        self.patience = patience
        self.remarks: list[str] = []
        self.batch = cluster_pbs.PbsBatch(
            run=self._run,
            qstat=str(pbs.bin_dir / "qstat"),
            pbsnodes=str(pbs.bin_dir / "pbsnodes"),
            host=host,
            names={"pbs-n2": "kube-2"},
            remark=self.remarks.append,
        )

    def _run(self, argv: tuple[str, ...]) -> answer.Answer:
        try:
            done = subprocess.run(argv, capture_output=True, timeout=self.patience, check=False)
        except subprocess.TimeoutExpired as error:
            raise OSError(str(error)) from error
        return answer.Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_the_controller_sees_who_holds_what_and_what_is_closed(hook: Shared) -> None:
    batch = Asked(hook.pbs).batch
    assert (batch.in_control(), batch.jobs()) == (True, decide.Jobs({}))
    assert Asked(hook.pbs, "pbs-srv2").batch.in_control() is False, "the other one of two servers"
    array = hook.submit("-J", "1-2", "-l", "select=1:ncpus=1:host=pbs-n1", "--", "/bin/sleep", "300")
    job = hook.submit("-l", "select=1:ncpus=1:host=pbs-n2", "--", "/bin/sleep", "300")
    waits = hook.submit("-h", *BOTH)
    parts = [f"pbs/{array.replace('[]', f'[{index}]')}/1" for index in (1, 2)]
    held = {**dict.fromkeys(parts, frozenset(["pbs-n1"])), f"pbs/{job}/1": frozenset(["kube-2"])}
    until(lambda: batch.jobs() == decide.Jobs(held))
    assert hook.pbs.call("qdel", waits).rc == 0
    hook.until_runs(job)
    assert hook.pbs.call("qsig", "-s", "suspend", job).rc == 0
    until(lambda: hook.job(job)["job_state"] == "S")
    assert batch.jobs() == decide.Jobs(held)
    assert batch.states() == {"pbs-n1": "", "kube-2": ""}
    assert hook.pbs.call("pbsnodes", "-o", "-C", "new disk", "pbs-n2").rc == 0
    assert batch.states() == {"pbs-n1": "", "kube-2": "offline: new disk"}
    assert hook.pbs.call("pbsnodes", "-r", "-C", "", "pbs-n2").rc == 0


@pytest.mark.parametrize("fault", [Fault(status=255), Fault(cut=60), Fault(hang=600)], ids=["fails", "cut", "hangs"])
def test_r6_no_bad_answer_is_an_empty_list(hook: Shared, tmp_path: Path, fault: Fault) -> None:
    """One bad reply killed the predecessor's scheduler."""
    faulty = Faulty(hook.pbs, tmp_path)
    asked = Asked(faulty.cluster, patience=10)
    for program in ("qstat", "pbsnodes"):
        faulty.set(program, fault)
    assert (asked.batch.in_control(), asked.batch.jobs(), asked.batch.states()) == (None, None, None)
    assert asked.remarks
