# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's verdicts: a clean site, what is no fault, and how findings are put together."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._preflight import report
from ansible_collections.converged.hpc.plugins.module_utils._preflight.model import (
    CLUSTER,
    CONTROLLER,
    LEFT_OUT,
    SCRIPTS,
    SHARED,
)
from ansible_collections.converged.hpc.plugins.module_utils._preflight.verdicts import Cluster, verdicts
from ansible_collections.converged.hpc.plugins.module_utils._slurm import ours
from unit.plugins.module_utils._preflight.spoiled_site import (
    POWER,
    SYCRI,
    Site,
    a_third,
    setting,
    settled,
    several,
    unread,
)


def test_a_clean_site_is_fit_without_a_finding() -> None:
    judged = Site().judge()
    assert {host: verdict.findings for host, verdict in judged.items()} == dict.fromkeys(
        (CLUSTER, "n1", "n2", "ctl"), ()
    )
    assert [judged[host].word for host in ("n1", "n2", "ctl")] == [SHARED, SHARED, CONTROLLER]


def test_a_silent_api_is_named_and_hides_no_other_finding() -> None:
    site = Site()
    site.kube = {"error": "connection refused"}
    site.n1["swap"] = ["/swap"]
    judged = site.judge()
    assert [str(one) for one in judged[CLUSTER].refusals if one.code == "kube_api"]
    assert [one.code for one in judged["n1"].refusals] == ["swap"]


SSH = "Task failed: Failed to connect to the host via ssh: ssh: Could not resolve hostname ctl"
UNREADABLE = 'kubectl: exit status 1: error: error loading config file "/etc/kubernetes/admin.conf": permission denied'


@pytest.mark.parametrize(
    ("slurm", "kube", "code", "advice"),
    [
        (SSH, "", "slurm", "see that Ansible reaches the first host of converged_controllers by ssh and becomes root"),
        ("sudo: a password is required", "", "slurm", "reaches the first host of converged_controllers by ssh and"),
        ("scontrol: timed out", "", "slurm", "start slurmctld first"),
        ("", SSH, "kube_api", "see that Ansible reaches the host in converged_kube"),
        ("", UNREADABLE, "kube_api", "the user of this run can read there, or set ansible_become: true for the host"),
        ("", "sudo: a password is required", "kube_api", "leave out ansible_become for the host in converged_kube"),
        ("", "Missing sudo password", "kube_api", "leave out ansible_become for the host in converged_kube"),
        ("", "dial tcp: connection refused", "kube_api", "correct converged_kubeconfig, or see to the API"),
    ],
)
def test_a_cluster_that_does_not_answer_is_told_with_what_helps(slurm: str, kube: str, code: str, advice: str) -> None:
    site = Site()
    site.slurm_error = slurm
    if kube:
        site.kube = {"error": kube}
    (finding,) = (one for one in site.judge()[CLUSTER].refusals if one.code == code)
    assert advice in finding.advice


def test_a_host_that_cannot_tell_the_api_what_may_be_done_is_refused_before_anything_is_planned() -> None:
    site = Site()
    site.kube["python_client"] = False
    assert [one.code for one in site.judge()[CLUSTER].refusals] == ["python_client"]
    site.kube["python_client"] = True
    assert site.judge()[CLUSTER].refusals == ()


@pytest.mark.parametrize(
    ("ranges", "refused"),
    [
        (("10.244.1.0/24", "10.244.1.0/24"), {"n1", "n2"}),
        (("10.244.0.0/16", "10.244.7.0/24"), {"n1", "n2"}),
        (("10.244.1.0/24", "10.244.2.0/24"), set()),
        (("fd00::/64", "10.244.2.0/24"), set()),
        (("", ""), set()),
    ],
)
def test_two_nodes_do_not_give_their_pods_the_same_addresses(ranges: tuple[str, str], refused: set[str]) -> None:
    site = Site()
    for host, text in zip(("n1", "n2"), ranges, strict=True):
        site.nodes[host]["wanted"]["pod_cidr"] = text
    judged = site.judge()
    assert {host for host in ("n1", "n2") if [one.code for one in judged[host].refusals] == ["pod_cidr"]} == refused
    assert not [one for host in ("n1", "n2") for one in judged[host].findings if host not in refused]


@pytest.mark.parametrize(
    "spoil",
    [
        several(POWER, setting("config", "SuspendExcNodes", "n[1-2]")),
        several(POWER, setting("config", "SuspendExcParts", "batch")),
        setting("config", "SuspendTime", "300 sec"),
        several(POWER, setting("partition", "suspend_time", "INFINITE")),
        setting("partition", "oversubscribe", "FORCE:4"),
        setting("config", "PreemptMode", "GANG"),
        several(
            setting("found", "addresses", {"eth0": ["10.0.0.1"], "ib0": ["10.1.0.1"]}),
            setting("wanted", "node_ip", "10.1.0.1"),
        ),
        several(SYCRI, setting("kube", "version", "v1.25.16")),
        settled(kubelet="1.33.0"),
        setting("host", "offset", [-2.5, 2.5]),
        setting("slurm_node", "hostname", "n1.example.org"),
        several(a_third, settled(excepted=("n3",))),
    ],
)
def test_what_is_right_is_no_finding(spoil: t.Callable[[Site], None]) -> None:
    site = Site()
    spoil(site)
    assert not [finding for verdict in site.judge().values() for finding in verdict.findings]


def test_a_refusal_that_the_site_accepts_is_a_warning_and_still_said() -> None:
    site = Site()
    site.n1["swap"] = ["/dev/sda2"]
    refused = site.judge()["n1"]
    site.settings = site.settings._replace(accepted=("swap",))
    accepted = site.judge()["n1"]
    assert (refused.word, accepted.word) == ("refused", "fit to be shared")
    assert [one._replace(level="refuse") for one in accepted.findings] == list(refused.findings)


def test_refusals_come_first() -> None:
    site = Site()
    site.n1.update(swap=["/dev/sda2"], selinux="1", munge="no")
    site.slurm_nodes[0]["flags"] = ["DRAIN"]
    assert [one.level for one in site.judge()["n1"].findings] == ["refuse", "refuse", "warn", "note"]


def test_a_fault_of_one_node_is_not_held_against_another() -> None:
    site = Site()
    unread(site)
    judged = site.judge()
    assert not judged["n2"].findings
    assert not judged["ctl"].findings


def test_without_a_controller_the_first_host_is_the_measure() -> None:
    site = Site()
    del site.nodes["ctl"]
    site.nodes["n2"]["offset"] = [100.0, 100.5]
    assert [one.text for one in site.judge()["n2"].refusals] == ["its clock is at least 100 s off that of n1"]


def test_a_site_with_pbs_is_judged_by_pbs_and_needs_neither_slurm_nor_munge() -> None:
    site = Site()
    for one in site.nodes.values():
        one["found"]["munge"] = "not installed"
        one["found"]["slurm"] = {"conf": "", "error": "", "digest": "", "scripts": [], "missing": []}
    nodes = [{"name": name, "host": name, "states": ["free"], "comment": ""} for name in ("n1", "n2", "n3")]
    pbs = {"nodes": nodes, "hooks": []}
    judged = verdicts(
        site.nodes, Cluster({"error": "it was not asked"}, site.kube, pbs), site.settings._replace(wlm="pbs")
    )
    assert {name: [finding.code for finding in one.findings] for name, one in judged.items()} == {
        CLUSTER: [],
        "n1": [],
        "n2": [],
        "ctl": [],
        "n3": ["not_in_inventory"],
    }


def kept_to_jobs(site: Site) -> None:
    """n2 is not to be shared."""
    site.nodes["n2"]["wanted"]["is_shared"] = False


def called(site: Site) -> None:
    """Slurm calls our scripts already."""
    site.config.update({key: [f"{ours.FOLDER}/{name}"] for key, name in ours.FILES.items()})


def test_a_node_that_is_not_to_be_shared_is_judged_for_the_scripts_of_slurm_alone() -> None:
    site = Site()
    kept_to_jobs(site)
    found = site.nodes["n2"]["found"]
    found.update(
        swap=["/swap"], ports={"10250": "x"}, munge="no", addresses={"eth0": ["10.0.0.2"], "ib0": ["10.1.0.2"]}
    )
    found["disks"]["/var/lib/kubelet"]["free"] = 0
    site.nodes["n2"]["offset"] = [900.0, 900.5]
    judged = site.judge()["n2"]
    assert (judged.findings, judged.word) == ((), SCRIPTS)

    found["slurm"]["digest"] = "other"
    assert [one.code for one in site.judge()["n2"].refusals] == ["slurm_conf"]
    found["disks"]["/etc"]["type"] = "tmpfs"
    assert [one.code for one in site.judge()["n2"].refusals] == ["slurm_conf", "stateless"]


def test_a_cloud_node_that_is_not_to_be_shared_is_told_what_its_image_has_to_hold() -> None:
    site = Site()
    kept_to_jobs(site)
    site.slurm_nodes[1]["flags"] = ["CLOUD", "POWERED_DOWN"]
    (finding,) = site.judge()["n2"].findings
    assert (finding.level, finding.code) == ("warn", "cloud")
    assert "/etc/converged/slurm" in finding.advice


def test_a_node_that_was_converted_and_is_taken_out_of_the_group_is_named() -> None:
    site = Site()
    kept_to_jobs(site)
    site.nodes["n2"]["found"]["enabled"] = True
    assert [(one.level, one.code) for one in site.judge()["n2"].findings] == [("warn", "still_shared")]


@pytest.mark.parametrize(
    ("spoil", "level"),
    [
        (unread, "refuse"),
        (several(called, unread), "warn"),
        (several(setting("slurm_node", "state", "DOWN"), unread), "warn"),
        (several(setting("slurm_node", "flags", ["NOT_RESPONDING"]), unread), "warn"),
        (several(setting("slurm_node", "flags", ["DRAIN"]), unread), "refuse"),
    ],
)
def test_a_node_that_nobody_reaches_ends_a_run_only_where_jobs_would_miss_our_scripts(
    spoil: t.Callable[[Site], None], level: str
) -> None:
    site = Site()
    spoil(site)
    judged = site.judge()["n1"]
    assert [(one.level, one.code) for one in judged.findings] == [(level, "unreachable")]
    assert judged.word == (LEFT_OUT if level == "warn" else "refused")


def test_a_controller_that_nobody_reaches_ends_every_run() -> None:
    site = Site()
    called(site)
    site.nodes["ctl"] = {"wanted": site.nodes["ctl"]["wanted"], "error": "no route to host"}
    assert [one.code for one in site.judge()["ctl"].refusals] == ["unreachable"]


LOST = "https://127.0.0.1:6443: Connection refused"


@pytest.mark.parametrize(("host", "role"), [("n1", "node_kubelet"), ("ctl", "drain_access")])
def test_a_host_comes_to_the_api_before_it_is_converted_and_may_lose_it_afterwards(host: str, role: str) -> None:
    site = Site()
    site.nodes[host]["found"]["api_unreached"] = LOST
    (finding,) = site.judge()[host].refusals
    assert finding.code == "api_reach"
    assert f"does not reach the Kubernetes API at {LOST}" in finding.text
    assert "converged_api_server" in finding.advice

    site.nodes[host]["found"]["record"] = [role]
    judged = site.judge()[host]
    assert [one.level for one in judged.findings if one.code == "api_reach"] == ["warn"]
    assert not judged.refusals


def test_a_controller_that_is_a_node_of_jobs_alone_comes_to_the_api() -> None:
    site = Site()
    kept_to_jobs(site)
    site.nodes["n2"]["found"]["api_unreached"] = LOST
    assert [one.code for one in site.judge()["n2"].refusals] == ["api_reach"]


@pytest.mark.parametrize("host", ["n1", "ctl"])
def test_a_host_on_which_sudo_wants_a_password_is_told_with_the_option_that_asks_for_it(host: str) -> None:
    site = Site()
    error = "Task failed: Premature end of stream waiting for become success. sudo: a password is required"
    site.nodes[host] = {"wanted": site.nodes[host]["wanted"], "error": error}
    (finding,) = site.judge()[host].refusals
    assert "(-K asks for the password of sudo)" in finding.advice


@pytest.mark.parametrize(("kind", "codes"), [("auth/slurm", []), ("auth/munge", ["munge"]), (None, ["munge"])])
def test_munge_is_needed_only_where_slurm_authenticates_by_it(kind: t.Optional[str], codes: list[str]) -> None:
    site = Site()
    site.config["AuthType"] = kind
    for host in ("n1", "ctl"):
        site.nodes[host]["found"]["munge"] = "not installed"
    assert [one.code for one in site.judge()["n1"].refusals] == codes
    assert [one.code for one in site.judge()["ctl"].refusals] == codes


def test_a_run_for_some_nodes_needs_a_cluster_that_is_prepared() -> None:
    site = Site()
    del site.nodes["n2"]
    site.settings = site.settings._replace(aside=("n2",))
    assert [one.code for one in site.judge()[CLUSTER].refusals] == ["not_prepared"]
    called(site)
    judged = site.judge()
    assert "n2" not in judged, "it is in the inventory"
    assert not judged[CLUSTER].refusals


def test_nodes_of_a_partition_that_the_inventory_lacks_are_named_with_what_to_do() -> None:
    site = Site()
    for name in ("g1", "g2"):
        site.slurm_nodes.append({**site.slurm_nodes[0], "name": name, "hostname": name, "partitions": ["gpu"]})
    lines = [line for _level, line in report.lines({host: one.findings for host, one in site.judge().items()})]
    (line,) = lines
    assert line.startswith(
        "refuse [not_in_inventory] g[1-2]: Slurm has this node in partition gpu, and converged_nodes does not"
    )
    assert "add it to converged_nodes, which shares nothing (converged_shared does)" in line
