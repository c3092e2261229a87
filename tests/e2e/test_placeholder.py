# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Share mode `placeholder` with a real kubelet: jobs show as pods of their size, and pods live beside them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator

import pytest
from e2e import listing, workload
from e2e.beds import own_bed
from e2e.outage import without_api
from e2e.placeholder_site import ALL, ROLES, Site
from e2e.playing import until
from testbed.down import podman_of

BED = f"placeholder-{os.getpid()}"
RESTORE = ("node_share/restore", "node_kubelet/restore", "node_runtime/restore")
SETTINGS = "/etc/converged/nodeshare.json"
NOT_RESTORED = {"unit network-online.target"}
# podman writes them when a container starts, as in soak.
OF_A_BOOT = {"/etc/hosts", "/etc/resolv.conf"}
PLACES = "/run/converged-placeholders"


@pytest.fixture(scope="module")
def plain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with own_bed(request, BED, "--wlm", "none", "--nodes", "1") as bed:
        yield Site(bed, tmp_path_factory.mktemp("placeholder"))


@pytest.fixture(scope="module")
def site(plain: Site) -> Iterator[Site]:
    """The plain node converted by the roles; and when all is done, plain again."""
    before, boot = plain.listing("n1"), booted(plain)
    plain.play(*ROLES)
    for value in (1, 9):
        classes = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
        plain.bed.kubectl(
            "apply", "--filename=-", input=json.dumps({**classes, "metadata": {"name": f"class-{value}"}})
        )
    yield plain
    plain.job("99.srv", "--cpus=1", "--mem=64MiB", cores="1")
    plain.run_pod("last", "100m", 1)
    plain.set("converged_nodes", _node_share_leave=["--leave", "kubelet.service"])  # as restore has it
    plain.play(RESTORE[0])
    assert plain.unit_state("n1") == "inactive"
    assert plain.processes_of_pods() == [], "none beside a job that nothing fences any more"
    plain.play(*RESTORE[1:])
    left = listing.difference(before, plain.listing("n1"))
    assert left.keys() <= (NOT_RESTORED if booted(plain) == boot else NOT_RESTORED | OF_A_BOOT), left
    for path in ("/run/converged", PLACES, "/etc/tmpfiles.d/90-converged-node-share.conf"):
        assert not plain.ask("n1", "ls", "-d", path, check=False), path


def booted(site: Site) -> str:
    """Return when the node has booted."""
    return site.ask("n1", "stat", "--format=%Y", "/proc/1")


def given_back(site: Site) -> None:
    """A cgroup that is made meanwhile may have its parent's cores of before, and its kubelet then takes it away."""
    until(lambda: site.cores_of_pods() == {ALL}, "pods have all cores again")
    until(lambda: not site.placeholders(), "the placeholder goes with its job")


def test_the_roles_change_nothing_twice_and_the_kubelet_has_a_directory_that_is_roots(site: Site) -> None:
    assert site.play(*ROLES).changed() == {"n1": 0}
    assert site.ask("n1", "stat", "--format=%a %U", PLACES).split() == ["700", "root"]


def test_jobs_show_as_pods_of_their_exact_size_and_pods_stay_off_their_cores(site: Site) -> None:
    memory, weight = site.limits()
    line = site.job(
        "15[1].pbs-srv", "--cpus=1", "--mem=102400kb", "--cgroup=pbs_jobs.service/jobid/15[1].pbs-srv", cores="1"
    )
    assert "outcome=accept lease=new placed=1" in line, line
    assert site.placeholders() == {"15[1].pbs-srv": {"cpu": "1", "memory": str(100 << 20)}}
    assert site.cores_of_pods() == {ALL - {1}}
    capped, lighter = site.limits()
    assert 0 <= capped - (memory - (100 << 20)) < 1 << 16, "but for whole pages"
    assert lighter == weight * (len(ALL) - 1) // len(ALL)
    site.run_pod("beside", "200m", 1)
    assert site.cores_of_pods() == {ALL - {1}}, "a pod that came later, too"
    site.end("15[1].pbs-srv")
    assert site.limits() == (memory, weight)
    given_back(site)
    site.bed.kubectl("delete", "pod", "beside", "--now")


def test_pods_make_room_by_priority_and_no_more_of_them_than_must(site: Site) -> None:
    for name, cpu, priority in (("low", "600m", 1), ("high", "400m", 9)):
        site.run_pod(name, cpu, priority)
    line = site.job("16.srv", "--cpus=1", "--mem=64MiB", cores="0")
    assert re.search(r"outcome=accept .*evicted=1 placed=1 ", line), line
    pods = site.objects("pods")
    assert pods["high"]["status"]["phase"] == "Running"
    assert "low" not in pods or "deletionTimestamp" in pods["low"]["metadata"]
    assert site.cores_of_pods() == {ALL - {0}}
    site.end("16.srv")
    given_back(site)
    site.bed.kubectl("delete", "pod", "high", "--now")


# In every change payloads/test_placing has the steps up to the kill, and handover/test_handover_pods a deaf pod whose
# containers are killed on a real node.
@pytest.mark.soak
def test_a_pod_that_hears_nothing_and_has_ten_minutes_is_killed_and_its_job_has_its_place(site: Site) -> None:
    site.run_pod("deaf", "1", 1, command=workload.DEAF, grace=600)
    line = site.job("21.srv", "--cpus=1", "--mem=64MiB", cores="1")
    assert re.search(r"outcome=accept .*deleted=1 .*killed=1 ", line), line
    assert site.placeholders() == {"21.srv": {"cpu": "1", "memory": str(64 << 20)}}
    until(lambda: "deaf" not in site.objects("pods"), "its kubelet has ended it")
    site.end("21.srv")
    given_back(site)


def test_a_pod_as_critical_as_a_placeholder_stays_and_the_job_has_what_it_leaves(site: Site) -> None:
    """In a namespace of users, too: the API server takes that class there."""
    site.run_pod("agent", "500m", "system-node-critical")
    line = site.job("22.srv", "--cpus=2", "--mem=64MiB", cores="0,1")
    assert re.search(r"outcome=accept .*placed=1 ", line), line
    assert not re.search(r"(evicted|deleted|killed)=", line), line
    assert site.placeholders() == {"22.srv": {"cpu": "1", "memory": str(64 << 20)}}
    agent = site.objects("pods")["agent"]
    assert (agent["status"]["phase"], "deletionTimestamp" in agent["metadata"]) == ("Running", False)
    site.end("22.srv")
    given_back(site)
    site.bed.kubectl("delete", "pod", "agent", "--now")


def test_a_pod_that_only_bears_the_label_of_placeholders_makes_room_as_any_other(site: Site) -> None:
    site.run_pod("forged", "1", 1)
    site.bed.kubectl("label", "pod", "forged", "converged.hpc/placeholder=true")
    line = site.job("22.srv", "--cpus=1", "--mem=64MiB", cores="1")
    assert re.search(r"outcome=accept .*evicted=1 placed=1 ", line), line
    until(lambda: "forged" not in site.objects("pods"), "it has left")
    site.end("22.srv")
    given_back(site)


def test_without_the_api_a_job_has_its_place_and_the_kubelet_itself_ends_the_pod_in_its_way(site: Site) -> None:
    site.run_pod("inway", "1", 1)
    with without_api(site.bed):
        line = site.job("17.srv", "--cpus=1", "--mem=64MiB", cores="1")
        assert re.search('outcome=accept .*reason="1 held by placeholders"', line), line
        assert site.cores_of_pods() == {ALL - {1}}
        site.end("17.srv")
        until(lambda: site.cores_of_pods() == {ALL}, "pods have all cores again")
    until(
        lambda: site.objects("pods")["inway"]["status"].get("reason") == "Preempting",
        "its kubelet says that it made room",
    )
    given_back(site)
    site.bed.kubectl("delete", "pod", "inway", "--now")


def test_with_a_split_pods_have_their_own_cores_always_and_of_jobs_only_memory_counts(site: Site) -> None:
    before = site.ask("n1", "cat", SETTINGS)
    split = json.dumps({**json.loads(before), "fence": "split", "pod_cpus": "0"})
    site.bed.exec("n1", ["tee", SETTINGS], input=split)
    try:
        site.job("20.srv", "--cpus=1", "--mem=64MiB", cores="1")
        assert site.placeholders() == {"20.srv": {"memory": str(64 << 20)}}
        assert site.cores_of_pods() == {frozenset({0})}
        site.end("20.srv")
        assert site.cores_of_pods() == {frozenset({0})}, "without a job, too"
    finally:
        site.bed.exec("n1", ["tee", SETTINGS], input=before)
    site.ask("n1", "nodeshare", "repair")
    given_back(site)


def test_a_kubelet_that_lets_nothing_in_is_reported_and_a_kill_switch_leaves_jobs_their_place(site: Site) -> None:
    site.ask("n1", "systemctl", "kill", "--signal=STOP", "kubelet")
    try:
        line = site.job("18.srv", "--cpus=1", "--mem=64MiB", cores="1")
    finally:
        site.ask("n1", "systemctl", "kill", "--signal=CONT", "kubelet")
    assert re.search(r'outcome=accept .*reason="the kubelet has not admitted lease-pbs-18-srv-', line), line
    assert site.cores_of_pods() == {ALL - {1}}
    site.ask("n1", "nodeshare", "repair")
    expected = {"18.srv": {"cpu": "1", "memory": str(64 << 20)}}
    until(lambda: site.placeholders() == expected, "the kubelet that goes on shows the job")
    site.ask("n1", "nodeshare", "off")
    assert site.unit_state("n1") == "inactive"
    site.ask("n1", "nodeshare", "on")

    until(
        lambda: "18.srv" in site.placeholders() and site.cores_of_pods() == {ALL - {1}}, "the job has its place again"
    )
    site.end("18.srv")
    given_back(site)


# What a container may run on, whenever that changes.
ALLOWED = """
while :; do
    now=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
    test "$now" = "$last" || echo "$now"
    last=$now
    sleep 0.1
done
"""


def allowed(site: Site) -> set[str]:
    """All that the pod `early` has ever said."""
    said = site.ask("n1", "sh", "-c", "cat /var/log/pods/default_early_*/main/0.log").splitlines()
    return {line.split()[-1] for line in said}


@pytest.mark.parametrize("how", [pytest.param("restarts", marks=pytest.mark.soak), "is killed"])
def test_pods_that_begin_as_the_kubelet_starts_again_never_have_a_job_s_core(site: Site, how: str) -> None:
    site.job("19.srv", "--cpus=1", "--mem=64MiB", cores="1")
    began = site.started_at("n1", "kubelet")
    if how == "restarts":
        site.ask("n1", "systemctl", "restart", "kubelet")
    else:
        site.ask("n1", "systemctl", "kill", "--signal=KILL", "kubelet")
    until(lambda: site.started_at("n1", "kubelet") > began, "it has started again")
    workload.apply(site.bed, workload.pod("early", node="n1", command=["sh", "-c", ALLOWED]))
    until(lambda: site.objects("pods")["early"].get("status", {}).get("phase") == "Running", "the pod runs")
    # A kubelet that runs pods has set up its cgroups.
    until(lambda: bool(allowed(site)), "the pod says what it may run on")
    assert site.started_at("n1", "converged-nodeshare-fence") > began, "this start of the kubelet is watched"
    assert allowed(site) == {"0"}
    assert site.cores_of_pods() == {ALL - {1}}
    site.bed.kubectl("delete", "pod", "early", "--now")
    site.end("19.srv")
    given_back(site)


# In every change a unit test has systemd-tmpfiles make the directory from the role's file.
@pytest.mark.soak
def test_after_a_boot_the_directory_is_there_before_the_kubelet_and_the_first_job_has_its_place(site: Site) -> None:
    boot = booted(site)
    podman_of(site.bed.bed).call("restart", "--time", "10", site.bed.bed.host("n1").container, timeout=300)
    ready = ("running\n", "degraded\n")
    until(lambda: site.ask("n1", "systemctl", "is-system-running", check=False) in ready, "the node has booted")
    assert booted(site) != boot
    until(lambda: site.started_at("n1", "kubelet") > 0, "the kubelet has started")
    assert site.started_at("n1", "systemd-tmpfiles-setup") < site.started_at("n1", "kubelet")
    assert site.ask("n1", "stat", "--format=%a %U", PLACES).split() == ["700", "root"]
    until(lambda: bool(site.cores_of_pods()), "the kubelet has set up its cgroups")
    line = site.job("23.srv", "--cpus=1", "--mem=64MiB", cores="1")
    assert re.search(r'outcome=accept .*reason="1 held by placeholders"', line), line
    until(lambda: "23.srv" in site.placeholders(), "the job shows")
    site.end("23.srv")
    given_back(site)
