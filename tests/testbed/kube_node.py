# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plain node is given to become a Kubernetes node, as text: runtime, pod network and kubelet.

This is the conversion by hand, as an administrator would do it from the documentation of each part.
"""

from __future__ import annotations

import json
from ipaddress import IPv4Network

from testbed.archive import NodeFile
from testbed.cgroups import Way
from testbed.errors import BedError
from testbed.kube_config import BIN, POD_SUBNET
from testbed.state import Bed, Host

PACKAGES = ("containerd", "runc", "containernetworking-plugins")
IMAGES = ("pause.tar", "busybox.tar")
RUNTIME_SOCKET = "unix:///run/containerd/containerd.sock"

CONTAINERD = """\
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:local"
  restrict_oom_score_adj = true
  disable_apparmor = true
  disable_cgroup = {disable_cgroup}
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
        BinaryName = "runc"
"""

KUBELET_UNIT = f"""\
[Unit]
Description=kubelet: The Kubernetes Node Agent
Wants=network-online.target
After=network-online.target containerd.service

[Service]
ExecStart={BIN}/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
Restart=always
RestartSec=2
StartLimitIntervalSec=0

[Install]
WantedBy=multi-user.target
"""

KUBELET_DROP_IN = """\
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf \
--kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
"""


def pod_range(bed: Bed, host: Host) -> IPv4Network:
    """The /24 of a node's pods, fixed by the node's place in the bed."""
    ranges = list(IPv4Network(POD_SUBNET).subnets(new_prefix=24))[1:]
    place = bed.nodes.index(host)
    if place >= len(ranges):
        raise BedError(f"{host.name} is node number {place + 1}, but {POD_SUBNET} has pod addresses for {len(ranges)}")
    return ranges[place]


def pod_network(pods: IPv4Network) -> str:
    """A bridge per node. No masquerading: routes lead to every pod, and MPI ranks see each other's true address."""
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "hairpinMode": True,
        "ipMasq": False,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": str(pods)}]], "routes": [{"dst": "0.0.0.0/0"}]},
    }
    plugins = [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}]
    return json.dumps({"cniVersion": "0.4.0", "name": "testbed", "plugins": plugins}, indent=1) + "\n"


def node_files(*, pods: IPv4Network, way: Way) -> tuple[NodeFile, ...]:
    """Everything that is put on the node before the packages are installed."""
    texts = {
        "/etc/containerd/config.toml": CONTAINERD.format(disable_cgroup="false" if way.has_limits else "true"),
        "/etc/cni/net.d/10-testbed.conflist": pod_network(pods),
        "/etc/systemd/system/kubelet.service": KUBELET_UNIT,
        "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf": KUBELET_DROP_IN,
        "/etc/sysctl.d/60-kubernetes.conf": "net.ipv4.ip_forward = 1\n",
    }
    links = {f"/usr/local/bin/{name}": f"{BIN}/{name}" for name in ("kubelet", "kubeadm")}
    return (
        *(NodeFile(path, content=text) for path, text in texts.items()),
        *(NodeFile(path, target=target) for path, target in links.items()),
        NodeFile("/etc/kubernetes/manifests", mode=0o755),
    )


def install_command() -> list[str]:
    """Keep our containerd configuration, so that the package starts the service with it at once."""
    options = ["-o", "Dpkg::Options::=--force-confold", "-o", "Dpkg::Options::=--force-confdef"]
    return ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-qq", "-y", "--no-install-recommends",
            *options, *PACKAGES]  # fmt: skip


def join_command(*, endpoint: str, token: str, ca_hash: str, name: str) -> list[str]:
    """kubeadm's own join. Its system check refuses cgroup v1 whatever the kubelet is told, so that one is left out."""
    return ["env", "NO_PROXY=*", "no_proxy=*", f"{BIN}/kubeadm", "join", endpoint,
            "--token", token, "--discovery-token-ca-cert-hash", ca_hash, "--cri-socket", RUNTIME_SOCKET,
            "--node-name", name, "--ignore-preflight-errors=SystemVerification"]  # fmt: skip
