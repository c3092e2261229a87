# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site that is converted in steps: a canary that fails, a node that is skipped, one that is waited for, one that goes
back alone. Every test takes the next step on one bed, where all hosts mount one slurm.conf.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from e2e.beds import own_bed
from e2e.playing import until
from e2e.site_of import SITE_SECONDS, ConvertedSite, kill
from e2e.whole_site import CONF, OURS, differences, look

BED = f"rolling-{os.getpid()}"
# The inventory's order, which is neither that of names nor Slurm's.
CANARY, SECOND = "n2", "n1"
SECRETS = ("--namespace=kube-system", "secrets", "--field-selector=type=bootstrap.kubernetes.io/token")
RECORD = "/var/lib/converged/record"
# What stays on a host that has gone back alone.
SCRIPTS = re.compile(r"/etc/converged(/slurm(/(prolog|epilog))?)?|/var/lib/converged(/record(/.*)?)?")


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConvertedSite]:
    """Two plain nodes with Slurm 22.05, and a control plane."""
    with own_bed(request, BED, "--slurm-conf", "shared") as bed:
        found = ConvertedSite(bed, tmp_path_factory.mktemp("rolling"))
        found.set("all", slurm_share_conf="shared")
        nodes = found.hosts["all"]["children"]["converged_nodes"]
        nodes["hosts"] = {name: nodes["hosts"][name] for name in (CANARY, SECOND)}
        yield found


@pytest.fixture(scope="module", autouse=True)
def before(site: ConvertedSite) -> Mapping[str, Mapping[str, object]]:
    """The whole site before us."""
    return look(site)


@pytest.fixture(scope="module", autouse=True)
def conf(site: ConvertedSite) -> str:
    return site.ctl(f"cat {CONF}")


@pytest.fixture(scope="module")
def job(site: ConvertedSite) -> str:
    """A long job on the second node, before it is converted."""
    words = ["sbatch", "--parsable", f"--nodelist={SECOND}", "--output=/dev/null", "--wrap", "sleep 3600"]
    found = site.bed.ssh("ctl", words).out.strip()
    until(lambda: running(site) == [f"{found} {SECOND}"], "the job runs")
    return found


def running(site: ConvertedSite) -> list[str]:
    return site.ctl("squeue -h -t R -o '%A %N'").splitlines()


def slurm_says(site: ConvertedSite, node: str) -> str:
    """State and reason."""
    return site.ctl(f"scontrol --oneliner show node {node}")


def tokens(site: ConvertedSite) -> set[str]:
    """What nodes may join with just now; the cluster itself has one."""
    return set(site.kubectl("get", *SECRETS, "--output=name").split())


def has_runtime(site: ConvertedSite, node: str) -> bool:
    """Return whether the node's conversion has put its runtime there; the join comes later."""
    return site.node(node, "ls -d /etc/containerd || true") != ""


# In every change: test_conversion.py (no token is left, no node behind the canary is touched), and a
# join that kubeadm fails and that is taken back in test_node_kubelet.
@pytest.mark.soak
def test_a_canary_that_fails_stops_the_run(site: ConvertedSite, job: str) -> None:
    """Its token has expired by the time it reaches the API."""
    others = tokens(site)
    # kubeadm tries an expired token again and again until its time is over.
    with site.started("site", node_kubelet_timeout=45) as run:
        until(lambda: has_runtime(site, CANARY), "the canary has its runtime", SITE_SECONDS)
        # A firewall between the canary and the API; one that was there before would be refused by preflight.
        site.close(CANARY, "output", 6443)
        until(lambda: tokens(site) > others, "a token is there", SITE_SECONDS)
        (token,) = tokens(site) - others
        expired = {"stringData": {"expiration": "2020-01-01T00:00:00Z"}}
        site.kubectl("patch", token, SECRETS[0], "--type=merge", "--patch", json.dumps(expired))
        site.open(CANARY)
        said, _errors = run.communicate(timeout=SITE_SECONDS)
    assert run.returncode != 0
    assert f"{CANARY} is not converted: Join the node: {CANARY}: kubeadm join failed and was taken back: " in said, said
    assert f"{SECOND} is not converted" not in said
    assert site.objects("nodes") == {}
    assert tokens(site) == others
    assert site.node(SECOND, "ls -d /etc/containerd /usr/local/sbin/nodeshare || true") == ""
    assert running(site) == [f"{job} {SECOND}"]
    site.srun("-N1", f"--nodelist={CANARY}", "true")


def test_a_run_stops_behind_its_first_node_and_says_how_to_go_on(site: ConvertedSite, job: str) -> None:
    said = site.run("converged.hpc.site", timeout=SITE_SECONDS)
    words = " ".join(said.out.split())
    assert f"{CANARY} is the first node of this site that is converted; waiting are: {SECOND}" in words
    assert list(site.objects("nodes")) == [CANARY]
    assert site.node(SECOND, "ls -d /etc/containerd /usr/local/sbin/nodeshare || true") == ""
    # The scripts and slurm.conf, unless an earlier run has put them there; what was planned beside them is no change.
    assert said.changed()[SECOND] <= 2, said.out
    assert running(site) == [f"{job} {SECOND}"]


def test_a_node_whose_jobs_go_on_is_skipped_and_named(site: ConvertedSite, job: str) -> None:
    said = site.play(
        "site",
        converged_serial=[1, 1],
        converged_drain="always",
        converged_drain_timeout="00:00:03",
        slurm_share_drain_delay=1,
    )
    assert f"skipped, as jobs still ran there after 00:00:03: {SECOND}" in said.out
    assert list(site.objects("nodes")) == [CANARY]
    assert running(site) == [f"{job} {SECOND}"]
    assert "DRAIN" not in slurm_says(site, SECOND) + slurm_says(site, CANARY)


def test_a_node_is_drained_and_its_job_waited_for(site: ConvertedSite, job: str) -> None:
    asked = {"converged_convert": SECOND, "converged_drain": "always", "converged_drain_timeout": "10m"}
    with site.started("site", **asked, slurm_share_drain_delay=1) as run:
        drained = "Reason=converged.hpc: conversion"
        until(lambda: run.poll() is not None or drained in slurm_says(site, SECOND), drained, SITE_SECONDS)
        assert run.poll() is None, run.communicate()[0]
        assert running(site) == [f"{job} {SECOND}"]
        kill(run)
    site.let_hosts_end()
    assert "DRAIN" in slurm_says(site, SECOND)
    with site.started("site", **asked, slurm_share_drain_delay=1) as run:
        site.until("ctl", f"grep -q '\"pid\": {run.pid}' /run/converged.hpc.lock", 300)
        site.ctl(f"scancel {job}")
        said, _errors = run.communicate(timeout=SITE_SECONDS)
    assert run.returncode == 0, said
    assert sorted(site.objects("nodes")) == sorted([CANARY, SECOND])
    assert "DRAIN" not in slurm_says(site, SECOND)
    site.srun("-N2", "true")


def test_the_one_file_is_changed_once(site: ConvertedSite, conf: str) -> None:
    """Only the host that has changed it can take that back."""
    changed = site.node(SECOND, f"cat {CONF}")
    assert changed != conf
    assert changed.count("/etc/converged/slurm/prolog\n") == 1
    held = {host for host in (*site.controllers, *site.nodes) if site.node(host, f"grep -rlsF {CONF} {RECORD} || true")}
    assert held == set(site.controllers)


def test_one_node_goes_back_alone(site: ConvertedSite, before: Mapping[str, Any]) -> None:
    site.play("restore", "--limit", SECOND)
    assert list(site.objects("nodes")) == [CANARY]
    left = differences(before, look(site))[SECOND]
    assert [name for name in left if not SCRIPTS.fullmatch(name)] == []
    site.srun("-N2", "true")
    site.node(CANARY, "systemctl is-active kubelet && test -e /etc/converged/enabled")


def test_the_scripts_of_slurm_go_back_alone(site: ConvertedSite, conf: str) -> None:
    """And the service that they call stays, as does the kubelet."""
    site.play("restore", converged_restore_role="slurm_share")
    assert site.ctl(f"cat {CONF}") == conf
    assert "converged" not in site.ctl("scontrol show config")
    for host in ("ctl", CANARY):
        assert site.node(host, "ls /etc/converged/slurm /etc/converged/enabled || true") == ""
    site.node(CANARY, "systemctl is-active kubelet && nodeshare show")
    site.srun("-N2", "true")


def test_the_way_back_without_the_api_names_what_is_left(
    site: ConvertedSite, before: Mapping[str, Any], conf: str
) -> None:
    kube = site.hosts["all"]["children"].pop("converged_kube")
    said = site.play("restore", check=False)
    site.hosts["all"]["children"]["converged_kube"] = kube
    assert said.rc != 0
    assert f"{CANARY}: not everything could be put back: the Node object (delete it by hand" in said.out, said.out
    assert "the controllers' rights at the API: no host in converged_kube" in said.out
    assert site.ctl(f"cat {CONF}") == conf
    # As the guide says.
    site.kubectl("delete", "node", CANARY)
    kinds = "clusterrole,clusterrolebinding,validatingadmissionpolicy,validatingadmissionpolicybinding,csr"
    site.kubectl("delete", kinds, f"--selector={OURS}")
    assert differences(before, look(site)) == {}
    site.srun("-N2", "true")
