# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles that put Kubernetes on nodes: a plain batch node becomes a node that runs pods, and is plain again.

Real playbooks over ssh, on a bed of their own, because every test wants nodes on which nothing was before.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e import listing, playing
from e2e.beds import own_bed
from testbed import api, binaries, kube_node
from testbed.kube_config import BIN

pytestmark = pytest.mark.seconds(300)

BED = f"kubelet-{os.getpid()}"
NODES = ("n1", "n2")
NODE_SECONDS = 300.0
MODE = "node-restriction.kubernetes.io/converged-share-mode"
VARIABLES = {
    "node_kubelet_config": {"maxPods": 50, "authentication": {"webhook": {"cacheTTL": "10s"}}},
    "node_kubelet_labels": {"example.org/rack": "7"},
}
CONVERT = ("node_runtime", "node_kubelet")
RESTORE = ("node_kubelet/restore", "node_runtime/restore")
# systemd keeps a target that was reached; the kubelet's unit wants it.
NOT_RESTORED = {"unit network-online.target"}


@pytest.fixture(scope="module")
def plain(request: pytest.FixtureRequest) -> Iterator[api.RunningBed]:
    """Two plain nodes and a control plane."""
    with own_bed(request, BED, "--wlm", "none", "--nodes", "2") as bed:
        yield bed


class Site(playing.Site):
    """The bed as an administrator's site: an inventory, and playbooks that call the roles."""

    def __init__(self, bed: api.RunningBed, folder: Path) -> None:
        super().__init__(bed, folder)
        self.set("converged_nodes", **playing.IN_CONTAINERS, **VARIABLES)

    def play(self, *options: str, check: bool = True, restore: bool = False, **variables: Any) -> playing.Said:
        """The conversion, or the way back, with variables as on the command line."""
        steps = RESTORE if restore else CONVERT
        return self.run([playing.play("converged_nodes", *steps)], *options, check=check, **variables)

    def node(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.bed.kubectl("get", "node", name, "--output=json"))
        return found

    def holds(self, name: str) -> bool:
        """Whether something of ours is on a host: what is restored whole leaves no record."""
        return self.bed.exec(name, ["test", "-e", "/var/lib/converged"], check=False).rc == 0

    def tokens(self) -> list[str]:
        """Bootstrap tokens that the roles made and have left."""
        words = ("get", "secrets", "--namespace=kube-system", "--selector=app.kubernetes.io/managed-by=converged.hpc")
        return self.bed.kubectl(*words, "--output=name").split()


@pytest.fixture
def site(plain: api.RunningBed, tmp_path: Path) -> Iterator[Site]:
    """However a test ends, the next one begins with plain nodes."""
    found = Site(plain, tmp_path)
    yield found
    if any(found.holds(name) for name in NODES):
        found.play(restore=True, check=False)
    # A pod outlives its Node until the garbage collector comes by, and its name is taken that long.
    plain.kubectl("delete", "pods", "--all", "--force", "--grace-period=0", "--ignore-not-found")


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


def run_pod(bed: api.RunningBed, node: str) -> None:
    """A pod with a port of the host on one node, which is what leaves most behind."""
    container = {
        "name": "main",
        "image": "localhost/busybox:local",
        "imagePullPolicy": "Never",
        "command": ["sleep", "100000"],
        "ports": [{"containerPort": 80, "hostPort": 8088}],
    }
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 1, "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"on-{node}"}, "spec": spec}
    bed.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=280s")
    bed.kubectl("create", "--filename=-", input=json.dumps(pod))
    bed.kubectl("wait", "--for=condition=Ready", f"pod/on-{node}", "--timeout=280s")


def test_a_plain_node_is_planned_converted_left_alone_and_plain_again(site: Site) -> None:
    before = {name: site.listing(name) for name in NODES}

    planned = site.play("--check", "--diff")
    assert {name: listing.difference(before[name], site.listing(name)) for name in before} == {"n1": {}, "n2": {}}
    for part in (
        "/etc/containerd/config.toml",
        "kubelet.service",
        "containernetworking-plugins",
        "10-converged.conflist",
        MODE,
    ):
        assert part in planned.out

    made = site.play("-v")
    assert "(token)" not in made.out
    assert not re.search(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b", made.out), "a bootstrap token was shown"
    assert site.tokens() == []
    for name in before:
        labels = site.node(name)["metadata"]["labels"]
        assert (labels[MODE], labels["example.org/rack"]) == ("handover", "7")
        run_pod(site.bed, name)

    again = site.play()
    assert again.changed() == {"n1": 0, "n2": 0}, again.out

    site.play(restore=True)
    for name in before:
        found = listing.difference(before[name], site.listing(name))
        assert set(found) <= NOT_RESTORED, found
        assert "cni0" not in site.bed.exec(name, ["ip", "-o", "link"]).out
        assert not re.search(r"KUBE-|CNI-", site.bed.exec(name, ["iptables-save"]).out)
        assert "/kubepods" not in site.bed.exec(name, ["sh", "-c", "cat /proc/[0-9]*/cgroup; true"]).out
    assert site.bed.kubectl("get", "nodes", "--output=name") == ""


def test_a_site_keeps_its_fields_and_a_changed_one_restarts_the_kubelet(site: Site) -> None:
    site.play("--limit", "n1")
    path = "/var/lib/kubelet/config.yaml"
    site.bed.exec("n1", ["sh", "-c", f"echo 'podPidsLimit: 4096 # the site' >> {path}"])
    started = site.bed.exec("n1", ["systemctl", "show", "kubelet", "--property=ExecMainStartTimestampMonotonic"]).out

    site.play("--limit", "n1", node_kubelet_config={"maxPods": 60})

    text = site.bed.exec("n1", ["cat", path]).out
    assert ("maxPods: 60\n" in text, "podPidsLimit: 4096 # the site\n" in text) == (True, True)
    assert "cacheTTL: 0s" in text, "a field that is no longer named goes back"
    after = site.bed.exec("n1", ["systemctl", "show", "kubelet", "--property=ExecMainStartTimestampMonotonic"]).out
    assert after != started
    playing.until(lambda: site.node("n1")["status"]["capacity"]["pods"] == "60", "the kubelet says so of itself")

    site.bed.exec("n1", ["systemctl", "stop", "kubelet"])
    stopped = site.play("--limit", "n1", node_kubelet_config={"maxPods": 60})
    assert stopped.changed() == {"n1": 0}
    assert site.bed.exec("n1", ["systemctl", "is-active", "kubelet"], check=False).out == "inactive\n"


def test_programs_come_from_the_controller_or_from_packages_and_go_again(site: Site) -> None:
    site.set("n1", node_kubelet_source="controller", node_kubelet_folder=str(binaries.build_binaries()))
    site.set("n2", node_kubelet_source="packages")
    site.bed.exec("n2", ["sh", "-c", REPOSITORY], timeout=NODE_SECONDS)
    before = {name: site.listing(name) for name in NODES}

    site.play()
    for name in NODES:
        run_pod(site.bed, name)
    assert site.play().changed() == {"n1": 0, "n2": 0}

    site.play(restore=True)
    for name in NODES:
        found = listing.difference(before[name], site.listing(name))
        assert set(found) <= NOT_RESTORED, found


def assert_joined_nothing(site: Site, failed: playing.Said, message: str) -> None:
    """One line says why."""
    assert failed.rc != 0
    assert message in failed.out, failed.out
    assert site.tokens() == []
    assert site.bed.kubectl("get", "nodes", "--output=name") == ""
    left = site.bed.exec("n1", ["sh", "-c", "ls /var/lib/kubelet /etc/kubernetes/*.conf 2>/dev/null"], check=False)
    assert left.out in ("", "/var/lib/kubelet:\n")


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


def test_a_conversion_that_ended_before_or_in_the_join_is_taken_back_as_well(site: Site) -> None:
    before = site.listing("n1")
    for variables, message in (
        ({"node_kubelet_socket": "unix:///run/none.sock"}, "/run/none.sock: does not exist"),
        ({"converged_api_server": "https://kube:1"}, "kubeadm join failed and was taken back"),
    ):
        assert_joined_nothing(site, site.play("--limit", "n1", check=False, **variables), message)
        site.bed.exec("n1", ["systemctl", "is-active", "containerd"])

    site.play("--limit", "n1", restore=True)
    found = listing.difference(before, site.listing("n1"))
    assert set(found) <= NOT_RESTORED, found


def test_a_node_of_another_cluster_and_a_leftover_node_object_are_refused(site: Site) -> None:
    site.bed.kubectl(
        "create", "--filename=-", input=json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    )
    failed = site.play("--limit", "n1", check=False)
    assert "two machines of one name, or a leftover" in failed.out
    site.bed.kubectl("delete", "node", "n1")

    site.play("--limit", "n1")
    options = {"node": "n1", "api_server": "https://kube:6443", "ca_hashes": [f"sha256:{'0' * 64}"]}
    assert "joined to another cluster" in site.module("n1", "kube_join", options)["msg"]
