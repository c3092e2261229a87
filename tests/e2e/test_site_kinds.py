# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm 24.11, configless, with a backup controller and a node that Slurm knows and nobody reaches: there and back.

Every test takes the next step. The nodes are Debian 13, which on a machine with cgroup v1 have no cgroup controllers:
pods have no cgroups there, and are told by the shims of their runtime.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from e2e import workload
from e2e.beds import own_bed
from e2e.handover.sharing import UNTIL_TOLD, Sharing
from e2e.playing import until
from e2e.whole_site import CONF, differences, look
from testbed.down import podman_of

BED = f"kinds-{os.getpid()}"
FIRST, BACKUP = "ctl", "ctl2"
REACHED, AWAY = ("n1", "n2"), "n3"
ON_BOTH = ("-N2", f"--nodelist={','.join(REACHED)}")
SITE_PROLOG = "/etc/slurm/prolog.sh"
OUR_PROLOG = "/etc/converged/slurm/prolog"
IDENTITY = "/etc/converged/controller.kubeconfig"
# What a second boot of a container changes: the engine writes two files anew, and some units are for the first one.
OF_A_BOOT = {
    *("/etc/hosts", "/etc/resolv.conf", "unit ldconfig.service"),
    *("unit systemd-journal-catalog-update.service", "unit systemd-sysusers.service"),
}
WITHOUT_CGROUPS = {
    "node_runtime_config": {"disable_cgroup": True},
    "node_kubelet_ignore_preflight_errors": ["SystemVerification"],
}
SHIMS = "pgrep -c containerd-shim"


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sharing]:
    """Two controllers; three nodes, of which one has lost its power."""
    options = ("--controllers", "2", "--nodes", "3", "--debian", "13", "--slurm-conf", "configless")
    with own_bed(request, BED, *options) as bed:
        found = Sharing(bed, tmp_path_factory.mktemp("kinds"))
        power(found, "kill", AWAY, check=request.config.getoption("--bed") is None)
        found.set("all", slurm_share_conf="configless")
        found.set("converged_nodes", **({} if bed.bed.way.has_limits else WITHOUT_CGROUPS))
        found.set(AWAY, ansible_timeout=2)
        yield found


@pytest.fixture(scope="module", autouse=True)
def before(site: Sharing) -> Mapping[str, Mapping[str, object]]:
    until(lambda: are_both_up(site), "both controllers are up")
    return look(site, without=(AWAY,))


@pytest.fixture(scope="module", autouse=True)
def confs(site: Sharing) -> Mapping[str, str]:
    """slurm.conf, which lies on the controllers alone."""
    return texts(site)


def texts(site: Sharing) -> dict[str, str]:
    return {host: site.node(host, f"cat {CONF}") for host in (FIRST, BACKUP)}


def are_both_up(site: Sharing) -> bool:
    return site.ctl("scontrol ping", check=False).count(" is UP") == 2


def is_standing_by(site: Sharing, host: str) -> bool:
    return "standing by" in site.node(host, "journalctl --unit=converged-controller --lines=1 --output=cat")


def power(site: Sharing, word: str, host: str, *, check: bool = True) -> None:
    """`kill` or `start` a machine."""
    podman_of(site.bed.bed).call(word, site.bed.bed.host(host).container, timeout=300, check=check)


def scripts(site: Sharing, host: str, conf: str) -> list[str]:
    return site.node(host, f"sed -n 's/^Prolog *= *//p' {conf}").split()


def has_job(site: Sharing, job: str) -> bool:
    return site.state(job).split() == ["RUNNING", "0"]


def running_job(site: Sharing) -> str:
    """The id of a job on both nodes that is saved as running."""
    job = site.batch(*ON_BOTH)
    until(lambda: has_job(site, job), "the job runs")
    site.until_saved()
    return job


def have_pods(site: Sharing) -> bool:
    return set(workload.ready(site, "web").values()) == set(REACHED)


def assert_a_job_has_its_nodes_to_itself(site: Sharing, *, thanks_to: str) -> None:
    """Pods leave before its first task, none is there or starts while it runs, and all return."""
    until(lambda: have_pods(site), "pods on both nodes")
    assert all(int(site.node(node, SHIMS)) for node in REACHED)
    asked_at = time.time()
    with site.while_job(*ON_BOTH, command=f"echo shims $({SHIMS}); {UNTIL_TOLD}; echo shims $({SHIMS})") as ended:
        assert site.tainted() == set(REACHED)
        assert site.is_active("n1"), "quiesce: the taint was there in time"
        job = site.tell_to_end(ended)
    assert job.nodes == set(REACHED)
    assert job.out.count("shims 0\n") == 2 * len(REACHED), job.out
    for node in REACHED:
        assert site.pods_started(node, since=job.began, until=job.ended) == set()
    site.free()
    site.pods_return("web", len(REACHED))
    assert have_pods(site)
    assert writers(site, since=asked_at) == {user_of(thanks_to)}


def writers(site: Sharing, *, since: float) -> set[str]:
    """Which batch controllers have set or lifted our taint."""
    patches = site.audit(since=since, verb="patch", resource="nodes")
    taints = [event.user for event in patches if event.code == 200 and "taints" in (event.body or {}).get("spec", {})]
    return {user for user in taints if user.startswith(user_of(""))}


def user_of(host: str) -> str:
    return f"converged:controller:{host}"


def test_a_node_that_is_down_is_drained_and_all_others_are_converted(site: Sharing) -> None:
    """No job starts there, so none can miss a script of ours; the drain stays until a run has reached it."""
    site.ctl(f"scontrol update nodename={AWAY} state=down reason=power")
    said = site.play("site", check=False)
    assert said.rc != 0
    assert f"[unreachable] {AWAY}: could not be read" in said.out, said.out
    assert f"left out of this run: {AWAY}" in said.out
    assert f"not reached, and left as they are: {AWAY}. All else is done" in said.out
    # From here on the inventory says it.
    site.hosts["all"]["children"]["converged_excepted"] = {"hosts": {AWAY: {}}}
    site.nodes.remove(AWAY)
    assert site.ctl("scontrol --version").split()[1] >= "24.11"
    assert set(site.objects("nodes")) == set(REACHED)
    away = site.ctl(f"scontrol show node {AWAY}")
    assert "DRAIN" in away
    assert "Reason=converged.hpc: not converted by converged.hpc" in away
    # Lines of their own, which every slurmd has from the controllers; no file is made on a node.
    for controller in (FIRST, BACKUP):
        assert scripts(site, controller, CONF) == [SITE_PROLOG, OUR_PROLOG]
        assert site.is_active(controller, "converged-controller")
        assert site.node(controller, f"stat --format='%U %a' {IDENTITY}") == "root 600\n"
        assert user_of(controller) in site.node(controller, f"cat {IDENTITY}")
    for node in REACHED:
        assert scripts(site, node, "/run/slurm/conf/slurm.conf") == [SITE_PROLOG, OUR_PROLOG]
        assert site.node(node, f"ls {CONF}", check=False) == ""


@pytest.mark.soak
def test_a_second_run_changes_nothing(site: Sharing) -> None:
    again = site.play("site")
    assert set(again.changed().values()) == {0}, again.out


def test_a_job_finds_its_nodes_free_and_only_the_first_controller_acts(site: Sharing) -> None:
    site.record_events()
    workload.apply(site, workload.one_on_each("web", len(REACHED)))
    assert_a_job_has_its_nodes_to_itself(site, thanks_to=FIRST)


@pytest.mark.soak
def test_a_prolog_of_the_site_that_fails_holds_the_job_and_leaves_no_lease(site: Sharing) -> None:
    site.node("n1", f"cp -a {SITE_PROLOG} /run/kept && printf '#!/bin/sh\\nexit 3\\n' > {SITE_PROLOG}")
    try:
        job = site.batch(*ON_BOTH)
        until(lambda: site.state(job).split() == ["PENDING", "1"], "the job is put back")
        site.until("ctl", "scontrol show node n1 | grep -q 'Prolog error'")
        until(lambda: not any(site.leases(node) for node in REACHED), "no lease is left")
    finally:
        site.node("n1", f"cp -a /run/kept {SITE_PROLOG}")
        site.ctl(f"scancel {job}; scontrol update nodename=n1 state=resume")
    site.free()


def test_a_backup_takes_over_a_job_that_runs_and_frees_nodes_for_the_next(site: Sharing) -> None:
    running = running_job(site)
    died_at = time.time()
    power(site, "kill", FIRST)
    site.controllers = tuple(reversed(site.controllers))
    # What an administrator types instead of waiting for SlurmctldTimeout.
    site.until(BACKUP, "scontrol takeover")
    until(lambda: has_job(site, running), "the backup has the job")
    assert site.tainted() == set(REACHED)
    assert all(site.node(node, SHIMS, check=False) == "0\n" for node in REACHED)
    for node in REACHED:
        assert site.pods_started(node, since=died_at, until=time.time()) == set()
    site.ctl(f"scancel {running}")
    site.free()
    assert_a_job_has_its_nodes_to_itself(site, thanks_to=BACKUP)


def test_the_first_controller_takes_its_place_again(site: Sharing) -> None:
    running = running_job(site)
    power(site, "start", FIRST)
    site.controllers = tuple(reversed(site.controllers))
    until(lambda: are_both_up(site) and has_job(site, running), "it is back, and has the job")
    until(lambda: site.is_active(FIRST, "converged-controller") and is_standing_by(site, BACKUP), "so is our service")
    assert site.tainted() == set(REACHED)
    asked_at = time.time()
    site.ctl(f"scancel {running}")
    site.free()
    assert writers(site, since=asked_at) == {user_of(FIRST)}


@pytest.mark.soak
def test_the_first_controller_frees_nodes_for_the_next_job_again(site: Sharing) -> None:
    assert_a_job_has_its_nodes_to_itself(site, thanks_to=FIRST)


def test_the_way_back_is_proved_without_the_node_that_is_away(
    site: Sharing, before: Mapping[str, Any], confs: Mapping[str, str]
) -> None:
    said = site.play("restore")
    assert said.out.count("things are as they were") == 4
    assert texts(site) == confs
    site.stop_recording()
    found = differences(before, look(site, without=(AWAY,)))
    assert set(found.pop(FIRST)) <= OF_A_BOOT
    assert found == {}
    assert "DRAIN" not in site.ctl(f"scontrol show node {AWAY}")
    for node in REACHED:
        assert scripts(site, node, "/run/slurm/conf/slurm.conf") == [SITE_PROLOG]
    site.srun(*ON_BOTH, "true")
