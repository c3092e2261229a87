# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns one plain batch node of a bed into a Kubernetes node, by hand.

The roles of the collection do this for sites; here it is done without them, for tests of what comes after the
conversion and as the measure for it. Slurm on the node is not touched.
"""

from __future__ import annotations

import hashlib
import time
from concurrent.futures import ThreadPoolExecutor

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from testbed import kube_node
from testbed.archive import pack
from testbed.controlplane import admin, join_token, kube_dir, kube_host
from testbed.errors import BedError
from testbed.kube_api import Api, ApiError, condition_is
from testbed.kube_config import API_PORT, BIN
from testbed.podman import Podman
from testbed.progress import step
from testbed.state import Bed, Host

INSTALL_SECONDS = 120.0
JOIN_SECONDS = 120.0
QUICK_SECONDS = 30.0


def ca_hash(certificate: bytes) -> str:
    """The hash of an authority's public key, as `kubeadm join` wants to have it."""
    public = x509.load_pem_x509_certificate(certificate).public_key()
    return "sha256:" + hashlib.sha256(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def join_node(bed: Bed, name: str, podman: Podman) -> None:
    """Make the node `name` a Ready node of the bed's cluster; a node that is one already stays as it is."""
    host = bed.host(name)
    if host.role != "node":
        raise BedError(f"{host.name} is the bed's {host.role} host; join one of {' '.join(n.name for n in bed.nodes)}")
    if host.machine:
        raise BedError(f"{host.name} is a virtual machine; `join` is for containers, convert it by the playbook `site`")
    api = admin(bed)
    try:
        if not is_member(api, host):
            with step(f"install the container runtime on {host.name}"):
                install(bed, host, podman)
            with step(f"kubeadm join of {host.name}"):
                join(bed, host, podman)
        await_node(api, host)
        connect(bed, [node for node in bed.nodes if is_member(api, node)], podman)
    finally:
        api.close()


def install(bed: Bed, host: Host, podman: Podman) -> None:
    """Configuration first, then packages and images, so that every service starts only once."""
    files = kube_node.node_files(pods=kube_node.pod_range(bed, host), way=bed.way)
    archive = pack(files, account=lambda owner: (0, 0), mtime=time.time())
    podman.exec(host.container, ["tar", "-x", "-C", "/"], timeout=QUICK_SECONDS, input=archive)
    podman.exec(host.container, kube_node.install_command(), timeout=INSTALL_SECONDS)
    for image in kube_node.IMAGES:
        argv = ["ctr", "-n", "k8s.io", "images", "import", f"/opt/testbed/images/{image}"]
        podman.exec(host.container, argv, timeout=INSTALL_SECONDS)
    argv = ["sysctl", "--quiet", "--load=/etc/sysctl.d/60-kubernetes.conf"]
    podman.exec(host.container, argv, timeout=QUICK_SECONDS)
    podman.exec(host.container, ["systemctl", "enable", "kubelet.service"], timeout=QUICK_SECONDS)


def join(bed: Bed, host: Host, podman: Podman) -> None:
    """`kubeadm join`, with the cluster's authority pinned. What an earlier, broken join left is taken away first."""
    leftover = podman.exec(
        host.container, ["test", "-e", "/etc/kubernetes/kubelet.conf"], timeout=QUICK_SECONDS, check=False
    )
    if leftover.rc == 0:
        podman.exec(host.container, [f"{BIN}/kubeadm", "reset", "--force"], timeout=JOIN_SECONDS)
    argv = kube_node.join_command(
        endpoint=f"{kube_host(bed).ip}:{API_PORT}",
        token=join_token(bed),
        ca_hash=ca_hash((kube_dir(bed) / "pki" / "ca.crt").read_bytes()),
        name=host.name,
    )
    done = podman.exec(host.container, argv, timeout=JOIN_SECONDS, check=False)
    if done.rc != 0:
        # The command line holds the token: never print it.
        reason = (done.err.strip() or done.out.strip() or "no message").splitlines()[-1]
        raise BedError(f"kubeadm join of {host.name} failed: {reason}; see: journalctl -u kubelet on {host.name}")


def await_node(api: Api, host: Host) -> None:
    api.wait_for(f"/api/v1/nodes/{host.name}", condition_is("Ready"), timeout=300, what=f"node {host.name} Ready")


def is_member(api: Api, host: Host) -> bool:
    """Whether the node has an object in the cluster."""
    try:
        api.get(f"/api/v1/nodes/{host.name}")
    except ApiError as error:
        if error.status == 404:
            return False
        raise
    return True


def connect(bed: Bed, members: list[Host], podman: Podman) -> None:
    """Lead every host of the bed to the pods of every joined node. Routes go with the container's network."""

    def lead(host: Host) -> None:
        for member in members:
            if member != host:
                pods = str(kube_node.pod_range(bed, member))
                argv = ["ip", "route", "replace", pods, "via", member.ip]
                podman.exec(host.container, argv, timeout=QUICK_SECONDS)

    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(lead, bed.hosts))
