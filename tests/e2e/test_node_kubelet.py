# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles that put Kubernetes on nodes: plain batch nodes become nodes that run pods, and are plain again.

Real playbooks over ssh, on a bed of their own. The first tests refuse and take back on a plain node; then every node is
converted with programs from another source, looked at, and taken back once. What stands behind them wants plain nodes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e import listing, playing, workload
from e2e.beds import own_bed
from e2e.playing import until
from testbed import api, binaries, kube_node
from testbed.kube_config import BIN

BED = f"kubelet-{os.getpid()}"
NODES = ("n1", "n2", "n3")
NODE_SECONDS = 300.0
PORT = 8099
SERVE = ("systemd-run", "--unit=programs", "python3", "-m", "http.server", str(PORT), "--directory=/opt/testbed/bin")
CORES = "cd /sys/fs/cgroup; cat cpuset/kubepods/cpuset.cpus || cat kubepods/cpuset.cpus.effective"
MODE = "node-restriction.kubernetes.io/converged-share-mode"
VARIABLES = {
    "node_kubelet_config": {"maxPods": 50, "authentication": {"webhook": {"cacheTTL": "10s"}}},
    "node_kubelet_labels": {"example.org/rack": "7"},
}
CONVERT = ("node_runtime", "node_kubelet")
OWN_RUNTIME = "n3"
UNITS = ("containerd", "kubelet")
RESTORE = ("node_kubelet/restore", "node_runtime/restore")
# systemd keeps a target that was reached; the kubelet's unit wants it.
NOT_RESTORED = {"unit network-online.target"}


class Site(playing.Site):
    """The bed as an administrator's site: an inventory, and playbooks that call the roles."""

    def __init__(self, bed: api.RunningBed, folder: Path) -> None:
        super().__init__(bed, folder)
        self.set("converged_nodes", **playing.IN_CONTAINERS, **VARIABLES)

    def play(
        self, *options: str, steps: tuple[str, ...] = CONVERT, check: bool = True, **variables: Any
    ) -> playing.Said:
        """Convert, or take back, with variables as on the command line.

        The node whose programs come from a server is the last: what is done once must not depend on the first node.
        """
        plays = [playing.play("converged_nodes", *steps, order="reverse_inventory")]
        return self.run(plays, *options, check=check, **variables)

    def tokens(self) -> list[str]:
        """Return the bootstrap tokens that the roles made and have left."""
        words = ("get", "secrets", "--namespace=kube-system", "--selector=app.kubernetes.io/managed-by=converged.hpc")
        return self.kubectl(*words, "--output=name").split()

    def run_pods(self, *nodes: str) -> None:
        """Run a pod with a port of the host on each node, which is what leaves most behind."""
        self.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=280s")
        for node in nodes:
            pod = workload.pod(f"on-{node}", nodeName=node, command=["sleep", "100000"])
            pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8088}]
            workload.apply(self, pod)
        self.kubectl("wait", "--for=condition=Ready", *(f"pod/on-{node}" for node in nodes), "--timeout=280s")

    def assert_plain(self, before: dict[str, dict[str, object]]) -> None:
        """Compare these nodes with what they were before Kubernetes."""
        for name in before:
            found = listing.difference(before[name], self.listing(name))
            if name == OWN_RUNTIME:  # and so are the images that it has had
                assert self.is_active(name, "containerd")
                found = {path: states for path, states in found.items() if not path.startswith("/var/lib/containerd")}
            assert set(found) <= NOT_RESTORED, found
            assert "cni0" not in self.ask(name, "ip", "-o", "link")
            assert not re.search(r"KUBE-|CNI-", self.ask(name, "iptables-save"))
            assert "/kubepods" not in self.node(name, "cat /proc/[0-9]*/cgroup; true")
            assert self.node(name, "find /sys/fs/cgroup -maxdepth 2 -name 'kubepods*'") == ""
        assert set(self.objects("nodes")) & set(before) == set()


def ours(nodes: Iterable[str]) -> list[str]:
    """Return those whose runtime is ours: what pods leave is taken away with it."""
    return [name for name in nodes if name != OWN_RUNTIME]


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Three plain nodes and a control plane."""
    with own_bed(request, BED, "--wlm", "none", "--nodes", "3") as bed:
        yield Site(bed, tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def before(site: Site) -> dict[str, dict[str, object]]:
    """What is on the plain nodes, of which one has a repository of the site and another one its runtime."""
    site.bed.exec("n2", ["sh", "-c", REPOSITORY], timeout=NODE_SECONDS)
    site.play("--limit", OWN_RUNTIME, steps=("node_runtime",))
    # The record gone, the runtime is as if the site had put it there; nor may its copy come back.
    site.ask(OWN_RUNTIME, "rm", "-r", "/var/lib/converged")
    site.set(OWN_RUNTIME, node_runtime_manage=False, converged_record_copy_dir=str(site.folder / "own"))
    return {name: site.listing(name) for name in NODES}


@pytest.fixture(scope="module")
def from_a_server(site: Site) -> Iterator[dict[str, Any]]:
    """The variables of a site that keeps the programs on a web server."""
    server = site.bed.bed.host("kube")
    site.ask("kube", *SERVE)
    said = site.ask("n1", "sha256sum", "/opt/testbed/bin/kubelet", "/opt/testbed/bin/kubeadm")
    sums = {Path(path).name: digest for digest, path in map(str.split, said.splitlines())}
    yield {
        "node_kubelet_source": "url",
        "node_kubelet_url": f"http://{server.ip}:{PORT}",
        "node_kubelet_checksums": sums,
        "node_kubelet_cache": str(site.folder / "cache"),
    }
    site.node("kube", "systemctl stop programs 2>/dev/null; true")


@pytest.fixture(scope="module")
def converted(site: Site, before: object, from_a_server: dict[str, Any]) -> Site:
    """Nodes whose programs come from a server, from packages and from the controller."""
    site.set("n1", **from_a_server)
    site.set("n2", node_kubelet_source="packages")
    site.set("n3", node_kubelet_source="controller", node_kubelet_folder=str(binaries.build_binaries()))
    made = site.play("-v")
    assert "(token)" not in made.out
    assert not re.search(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b", made.out), "a bootstrap token was shown"
    return site


@pytest.fixture
def plain(site: Site) -> Iterator[Site]:
    """However a test ends, the next one begins with plain nodes."""
    yield site
    # What is restored whole leaves no record.
    if any(site.node(name, "ls -d /var/lib/converged 2>/dev/null; true") for name in NODES):
        site.play(steps=("node_share/restore", *RESTORE), check=False)
    # A pod outlives its Node until the garbage collector comes by, and its name is taken that long.
    site.kubectl("delete", "pods", "--all", "--force", "--grace-period=0", "--ignore-not-found")


# A site's own repository on the node: the built programs in packages like those of Kubernetes.
REPOSITORY = """
set -e
test ! -e /srv/debs || exit 0
mkdir /srv/debs; cd /srv/debs
for name in kubelet kubeadm; do
  mkdir -p $name/DEBIAN $name/usr/bin
  cp /opt/testbed/bin/$name $name/usr/bin/
  printf 'Package: %s\\nVersion: 1.36.3-1\\nArchitecture: '$(dpkg --print-architecture) $name > $name/DEBIAN/control
  printf '\\nMaintainer: site <root@localhost>\\nDescription: of Kubernetes\\n' >> $name/DEBIAN/control
done
units=kubelet/usr/lib/systemd/system
mkdir -p $units/kubelet.service.d
cat > $units/kubelet.service <<'END'
{unit}
END
cat > $units/kubelet.service.d/10-kubeadm.conf <<'END'
{drop_in}
END
for name in kubelet kubeadm; do
  dpkg-deb -Znone --build $name $name.deb
  rm -r $name
  dpkg-deb --field $name.deb >> Packages
  echo "Filename: ./$name.deb" >> Packages
  echo "Size: $(stat -c %s $name.deb)" >> Packages
  echo "SHA256: $(sha256sum $name.deb | cut -d' ' -f1)" >> Packages
  echo >> Packages
done
echo 'deb [trusted=yes] file:/srv/debs ./' > /etc/apt/sources.list.d/site.list
apt-get -qq update
""".format(unit=kube_node.KUBELET_UNIT.replace(BIN, "/usr/bin"), drop_in=kube_node.KUBELET_DROP_IN)


def assert_joined_nothing(site: Site, failed: playing.Said, message: str) -> None:
    """One line says why."""
    assert failed.rc != 0
    assert message in failed.out, failed.out
    assert site.tokens() == []
    assert site.objects("nodes") == {}
    left = site.node("n1", "ls /var/lib/kubelet /etc/kubernetes/*.conf 2>/dev/null", check=False)
    assert left in ("", "/var/lib/kubelet:\n")


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"node_kubelet_ca_hashes": ["sha256:" + "0" * 64]}, "is not that of the cluster"),
        ({"converged_kubeconfig": "/etc/kubernetes/none.conf"}, "/etc/kubernetes/none.conf"),
        ({"converged_api_server": "http://kube:6443"}, "expected https://host:port"),
        ({"converged_kube_node": "Node_1"}, "lower-case letters"),
    ],
)
def test_wrong_input_is_said_in_one_line_and_joins_nothing(site: Site, variables: dict[str, Any], message: str) -> None:
    only_join = ("--limit", "n1", "--tags", "node_kubelet_join")
    assert_joined_nothing(site, site.play(*only_join, check=False, **variables), message)


def test_programs_with_another_checksum_are_refused_and_leave_nothing(
    site: Site, before: dict[str, dict[str, object]], from_a_server: dict[str, Any]
) -> None:
    sums = {**from_a_server["node_kubelet_checksums"], "kubeadm": "0" * 64}
    refused = site.play(
        "--limit", "n1", steps=("node_kubelet",), check=False, **{**from_a_server, "node_kubelet_checksums": sums}
    )
    assert refused.rc != 0
    assert "did not match" in refused.out, refused.out
    assert listing.difference(before["n1"], site.listing("n1")) == {}


def test_a_conversion_that_ended_before_or_in_the_join_is_taken_back_as_well(
    site: Site, before: dict[str, dict[str, object]]
) -> None:
    for variables, message in (
        ({"node_kubelet_socket": "unix:///run/none.sock"}, "/run/none.sock: does not exist"),
        # kubeadm tries for as long as it is given.
        (
            {"converged_api_server": "https://kube:1", "node_kubelet_timeout": 10},
            "kubeadm join failed and was taken back",
        ),
    ):
        assert_joined_nothing(site, site.play("--limit", "n1", check=False, **variables), message)
        assert site.is_active("n1", "containerd")

    leftover = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    site.kubectl("create", "--filename=-", input=json.dumps(leftover))
    assert "two machines of one name, or a leftover" in site.play("--limit", "n1", check=False).out
    site.kubectl("delete", "node", "n1")

    site.play("--limit", "n1", steps=RESTORE)
    site.assert_plain({"n1": before["n1"]})


def test_programs_come_from_a_server_from_packages_or_from_the_controller_and_pods_run(converted: Site) -> None:
    assert converted.tokens() == []
    for name, node in converted.objects("nodes").items():
        labels = node["metadata"]["labels"]
        assert (name, labels[MODE], labels["example.org/rack"]) == (name, "handover", "7")
    until(lambda: converted.ready() == {*NODES}, "all nodes are ready")
    converted.run_pods(*ours(NODES))
    sums = converted.hosts["all"]["children"]["converged_nodes"]["hosts"]["n1"]["node_kubelet_checksums"]
    assert converted.ask("n1", "sha256sum", "/usr/local/bin/kubelet").split()[0] == sums["kubelet"]


def test_a_second_run_changes_nothing_and_asks_no_server(converted: Site) -> None:
    converted.ask("kube", "systemctl", "stop", "programs")
    again = converted.play()
    assert again.changed() == dict.fromkeys(NODES, 0), again.out


def test_a_site_keeps_its_fields_and_a_changed_one_restarts_the_kubelet(converted: Site) -> None:
    path, line = "/var/lib/kubelet/config.yaml", "podPidsLimit: 4096 # the site"
    converted.node("n1", f"echo '{line}' >> {path}")
    started = converted.started_at("n1")

    converted.play("--limit", "n1", node_kubelet_config={"maxPods": 60})

    text = converted.node("n1", f"cat {path}")
    assert ("maxPods: 60\n" in text, f"{line}\n" in text) == (True, True)
    assert "cacheTTL: 0s" in text, "a field that is no longer named goes back"
    assert converted.started_at("n1") > started
    until(
        lambda: converted.objects("nodes")["n1"]["status"]["capacity"]["pods"] == "60", "the kubelet says so of itself"
    )

    converted.ask("n1", "systemctl", "stop", "kubelet")
    stopped = converted.play("--limit", "n1", node_kubelet_config={"maxPods": 60})
    assert stopped.changed() == {"n1": 0}
    assert not converted.is_active("n1")
    converted.node("n1", f"sed -i '/^{line}$/d' {path}")


def test_a_node_of_another_cluster_is_refused(converted: Site) -> None:
    options = {"node": "n1", "api_server": "https://kube:6443", "ca_hashes": [f"sha256:{'0' * 64}"]}
    assert "joined to another cluster" in converted.module("n1", "kube_join", options)["msg"]


def test_all_nodes_are_plain_again(converted: Site, before: dict[str, dict[str, object]]) -> None:
    converted.play(steps=RESTORE)
    converted.assert_plain(before)


# In every change the tests above go there and back; a plan that touches nothing, and each role's own variables, are the
# demo's and molecule's (kubelet).
@pytest.mark.soak
def test_a_plain_node_is_planned_converted_left_alone_and_plain_again(
    plain: Site, before: dict[str, dict[str, object]]
) -> None:
    now = {name: plain.listing(name) for name in NODES}
    planned = plain.play("--check", "--diff")
    assert {name: plain.listing(name) for name in NODES} == now
    for part in (
        "/etc/containerd/config.toml",
        "kubelet.service",
        "containernetworking-plugins",
        "10-converged.conflist",
        MODE,
    ):
        assert part in planned.out
    plain.ask("kube", *SERVE)
    plain.play()
    plain.run_pods(*ours(NODES))
    assert plain.play().changed() == dict.fromkeys(NODES, 0)
    plain.play(steps=RESTORE)
    plain.assert_plain(before)


# In every change a node above has a runtime of the site's own, and test_handover services that a job has stopped.
@pytest.mark.soak
def test_a_runtime_of_the_site_comes_back_although_a_job_has_stopped_it(
    plain: Site, before: dict[str, dict[str, object]]
) -> None:
    only, roles = ("--limit", OWN_RUNTIME), ("node_share", *CONVERT)
    plain.play(*only, steps=roles, node_share_handover="stop")
    until(lambda: plain.ready() == {OWN_RUNTIME}, "the node is ready")
    assert plain.play(*only, steps=roles, node_share_handover="stop").changed() == {OWN_RUNTIME: 0}

    cores = plain.node(OWN_RUNTIME, CORES)
    plain.node(OWN_RUNTIME, "nodeshare begin --wlm slurm --job 1")
    assert {plain.unit_state(OWN_RUNTIME, unit) for unit in UNITS} == {"inactive"}
    assert plain.node(OWN_RUNTIME, CORES) == "0\n"
    plain.play(*only, steps=("node_share/restore",))
    # A kubelet that was quicker than its runtime starts once more.
    until(lambda: all(plain.is_active(OWN_RUNTIME, unit) for unit in UNITS), "both run again")
    assert plain.node(OWN_RUNTIME, CORES) == cores != "0\n"

    plain.play(*only, steps=RESTORE)
    plain.assert_plain({OWN_RUNTIME: before[OWN_RUNTIME]})
