# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's verdicts: a clean site, what is no fault, and how findings are put together."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._preflight.model import CLUSTER, Verdict
from ansible_collections.converged.hpc.plugins.module_utils._preflight.verdicts import Cluster, verdicts
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
    assert Site().judge() == {name: Verdict(()) for name in (CLUSTER, "n1", "n2", "ctl")}


def test_a_silent_api_is_named_and_hides_no_other_finding() -> None:
    site = Site()
    site.kube = {"error": "connection refused"}
    site.n1["swap"] = ["/swap"]
    judged = site.judge()
    assert [str(one) for one in judged[CLUSTER].refusals if one.code == "kube_api"]
    assert [one.code for one in judged["n1"].refusals] == ["swap"]


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
