# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role on two hosts: one takes Python packages from a folder of wheels, the other from a package index."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import yaml
from e2e import listing, playing
from e2e.placement import wheels
from e2e.placement.cluster import GROUP_NAME, KUBE_BATCH, Cluster, Namespace
from e2e.placement.role import ROLE
from e2e.playing import play, until
from testbed import binaries

HOSTS = ("n1", "n2")
UNIT = "converged-placement.service"
SCHEDULER = "deployed"
VENVS, FORMER_VENVS = "/usr/local/lib/converged-placement", "/usr/local/lib/converged/placement-venv"
FOLDER, INDEX = "/opt/wheels", "/opt/index"
INDEX_PORT = "8180"
SETTINGS = {"scheduler_name": SCHEDULER, "lease_name": SCHEDULER}


class Deployment(playing.Site):
    """An administrator's folder for two hosts of the daemon."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.bed, cluster.folder / "deployment")
        self.ask_kubernetes_from_here()
        self.hosts["all"]["children"]["converged_placement"] = {"hosts": {name: {} for name in HOSTS}}
        self.set("all", converged_kubectl=str(binaries.build_binaries() / "kubectl"))
        self.set("n1", placement_wheels=FOLDER)

    def prepare(self) -> None:
        """What a site has: wheels on one host, an index that the other reaches."""
        version = "import sys; print('%d.%d' % sys.version_info[:2])"
        found = wheels.wheels(python=self.bed.exec("n1", ["python3", "-c", version]).out.strip())
        for host, folder, packed in (("n1", FOLDER, wheels.as_folder(found)), ("n2", INDEX, wheels.as_index(found))):
            self.bed.exec(host, ["mkdir", "-p", folder])
            self.bed.exec(host, ["tar", "--extract", "--directory", folder], input=packed)
        server = ["python3", "-m", "http.server", INDEX_PORT, "--bind=127.0.0.1", f"--directory={INDEX}"]
        self.bed.exec("n2", ["systemctl", "stop", "index.service"], check=False)
        self.bed.exec("n2", ["systemd-run", "--quiet", "--collect", "--unit=index", *server])

    def role(self, step: str = "placement", *options: str, check: bool = True, **variables: Any) -> playing.Said:
        """The role with these variables beside those that every run has."""
        index = {"PIP_INDEX_URL": f"http://127.0.0.1:{INDEX_PORT}/simple/"}
        given = {"placement_settings": SETTINGS, "placement_ready_seconds": 300, **variables}
        return self.run([play("converged_placement", step, environment=index)], *options, check=check, **given)

    def show(self, host: str, *properties: str) -> list[str]:
        """Properties of the unit."""
        names = [f"--property={name}" for name in properties]
        return self.bed.exec(host, ["systemctl", "show", "--value", *names, UNIT]).out.split()

    def leads(self, host: str) -> bool:
        """Whether the host's daemon may write; one that just starts again does not answer."""
        said = self.bed.exec(host, ["/usr/local/sbin/placement", "status", "--json"], check=False)
        return said.rc == 0 and bool(json.loads(said.out)["leader"])


@pytest.fixture(scope="module")
def deployment(cluster: Cluster) -> Iterator[Deployment]:
    """Hosts that have not seen the role yet; the other tests' rights are those it takes away at the end."""
    (cluster.folder / "deployment").mkdir()
    site = Deployment(cluster)
    site.prepare()
    yield site
    cluster.grant()


@pytest.fixture(scope="module", autouse=True)
def before(deployment: Deployment) -> dict[str, dict[str, object]]:
    """What is on the hosts before the role."""
    return {host: deployment.listing(host) for host in HOSTS}


@pytest.mark.soak
def test_check_mode_says_what_it_would_do_on_hosts_that_have_nothing(
    deployment: Deployment, before: dict[str, dict[str, object]]
) -> None:
    said = deployment.role("placement", "--check", "--diff")
    assert "converged-placement.service" in said.out
    assert {host: deployment.listing(host) for host in HOSTS} == before


@pytest.fixture(scope="module")
def former(cluster: Cluster) -> dict[str, Any]:
    """Variables by which the role installs another version of the package, with the packages where they were then."""
    folder = cluster.folder / "former-package"
    shutil.copytree(ROLE / "files/placement", folder, ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "__init__.py").open("a", encoding="utf-8") as file:
        file.write("# Another version.\n")
    files = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))["_placement_program_files"]
    return {
        "_placement_program_files": [{**files[0], "src": str(folder)}, *files[1:]],
        "_placement_venvs": FORMER_VENVS,
        "_placement_former_venvs": "/usr/local/lib/none",
    }


def test_two_hosts_become_replicas_of_which_one_leads(
    deployment: Deployment, team: Namespace, former: dict[str, Any]
) -> None:
    deployment.role(**former)
    until(lambda: sum(deployment.leads(host) for host in HOSTS) == 1, "one of them leads")
    team.job("gang", replicas=3, scheduler=SCHEDULER)
    until(lambda: len(team.bound()) == 3, "the gang is bound")


def test_an_upgrade_takes_over_a_gang_that_is_bound_in_part(deployment: Deployment, team: Namespace) -> None:
    team.create(KUBE_BATCH, "PodGroup", "gang", {"minMember": 3})
    member = {"annotations": {GROUP_NAME: "gang"}, "scheduler": SCHEDULER}
    for number in range(2):
        team.pod(f"gang-{number}", nodeName=f"load-{number:05}", **member)
    before = {host: deployment.show(host, "MainPID") for host in HOSTS}
    for host, age in itertools.product(HOSTS, ("2001", "2002")):
        deployment.bed.exec(host, ["test", "-d", FORMER_VENVS])
        deployment.bed.exec(host, ["mkdir", "-p", f"{VENVS}/{age}"])
        deployment.bed.exec(host, ["touch", f"--date={age}-01-01", f"{VENVS}/{age}"])
    deployment.role()
    for host in HOSTS:
        assert deployment.show(host, "MainPID") != before[host]
        kept = deployment.bed.exec(host, ["ls", VENVS]).out.split()
        assert len(kept) == 2
        assert "2002" in kept
        assert deployment.bed.exec(host, ["test", "-e", FORMER_VENVS], check=False).rc == 1
    until(lambda: sum(deployment.leads(host) for host in HOSTS) == 1, "one of them leads")
    team.pod("gang-2", **member)
    until(lambda: team.bound() == {"gang-0", "gang-1", "gang-2"}, "the gang is whole")


# In every change the molecule scenario `placement` runs the role twice, on one host.
@pytest.mark.soak
def test_a_second_run_changes_nothing(deployment: Deployment) -> None:
    said = deployment.role()
    assert set(said.changed().values()) == {0}, said.out


def test_the_daemon_runs_as_a_user_without_rights_on_the_host(deployment: Deployment) -> None:
    for host in HOSTS:
        pid = deployment.show(host, "MainPID")[0]
        status = deployment.bed.exec(host, ["cat", f"/proc/{pid}/status"]).out
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert "0" not in fields["Uid"].split()
        assert int(fields["CapBnd"], 16) == 0
        assert fields["NoNewPrivs"] == "1"
        score = deployment.bed.exec(host, ["systemd-analyze", "security", "--threshold=25", "--no-pager", UNIT])
        assert score.rc == 0, score.out


BAD: dict[str, dict[str, Any]] = {
    "settings": {"placement_settings": {**SETTINGS, "binders": 0}},
    "policy": {"placement_policy": {"actions": "allocate, conquer", "tiers": [{"plugins": [{"name": "gang"}]}]}},
}


@pytest.mark.parametrize("bad", [pytest.param("settings", marks=pytest.mark.soak), "policy"])
def test_what_the_daemon_would_refuse_never_reaches_it(deployment: Deployment, bad: str) -> None:
    said = deployment.role(check=False, **BAD[bad])
    assert said.rc != 0
    assert ("conquer" if bad == "policy" else "binders") in said.out
    for host in HOSTS:
        deployment.bed.exec(host, ["/usr/local/sbin/placement", "check", "/etc/converged/placement.yml"])
        until(partial(deployment.is_active, host, UNIT), "its daemon goes on")


def test_a_daemon_that_does_not_become_ready_gives_way_to_the_one_before(
    deployment: Deployment, team: Namespace
) -> None:
    # `check` cannot know it: the file is there, the cluster it names is not.
    nowhere = {**SETTINGS, "kubeconfig": "/run/placement/nowhere"}
    said = deployment.role(check=False, placement_settings=nowhere, placement_ready_seconds=3)
    assert said.rc != 0
    assert "did not become ready" in said.out
    team.pod("pod", scheduler=SCHEDULER)
    until(lambda: team.bound() == {"pod"}, "the daemon before it places pods")


def test_it_asks_the_api_for_nothing_that_its_role_does_not_give(cluster: Cluster, deployment: Deployment) -> None:
    users = {f"converged:placement:{host}" for host in HOSTS}
    asked = [event for event in cluster.audit(users) if event.resource]
    assert {event.user for event in asked} == users
    assert {(event.verb, event.resource) for event in asked} <= cluster.allowed()
    assert not [event for event in asked if event.code == 403]


def test_its_requests_wait_behind_nobody_else_s(cluster: Cluster, deployment: Deployment, team: Namespace) -> None:
    levels = {"converged-placement": "workload-high", "converged-placement-lease": "leader-election"}

    def dispatched() -> dict[str, float]:
        lines = cluster.bed.kubectl("get", "--raw=/metrics").splitlines()
        wanted = {
            flow: f'apiserver_flowcontrol_dispatched_requests_total{{flow_schema="{flow}",priority_level="{level}"}} '
            for flow, level in levels.items()
        }
        return {
            flow: sum(float(line.removeprefix(start)) for line in lines if line.startswith(start))
            for flow, start in wanted.items()
        }

    before = dispatched()
    team.pod("pod", scheduler=SCHEDULER)
    until(lambda: team.bound() == {"pod"}, "the pod is bound")
    until(lambda: all(now > before[flow] for flow, now in dispatched().items()), "both levels have served it")


def difference(deployment: Deployment, before: dict[str, dict[str, object]], host: str) -> set[str]:
    """Return what differs on a host from what it was before the role."""
    # systemd knows no way back from having reached it.
    return set(listing.difference(before[host], deployment.listing(host))) - {"unit network-online.target"}


@pytest.mark.soak
def test_a_record_that_goes_back_as_a_whole_leaves_nothing_of_the_daemon_but_its_packages(
    deployment: Deployment, before: dict[str, dict[str, object]]
) -> None:
    """A site's way back ends with that; its playbook has removed the packages before."""
    said = deployment.module("n2", "node_state", {"state": "restored"})
    assert not said["failed"], said
    assert said["report"]["left"] == []
    left = difference(deployment, before, "n2")
    assert {name for name in left if name.startswith("/usr/local") and VENVS not in name} == set()
    assert VENVS in left
    until(lambda: deployment.leads("n1"), "the daemon on a host that is not of this run has its rights")


def test_restore_leaves_the_hosts_and_the_api_as_they_were(
    deployment: Deployment, cluster: Cluster, before: dict[str, dict[str, object]]
) -> None:
    deployment.role("placement/restore")
    for host in HOSTS:
        assert difference(deployment, before, host) == set()
    labelled = cluster.bed.kubectl(
        *(
            "get",
            "clusterroles,clusterrolebindings,roles,rolebindings,flowschemas",
            "--all-namespaces",
            "--output=name",
        ),
        "--selector=app.kubernetes.io/managed-by=converged.hpc",
    )
    assert labelled == ""
