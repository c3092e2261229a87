# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Membership of this node in a cluster: what its files say, and what kubeadm is told. Pure.

PRIVATE to the collection.
"""

from __future__ import annotations

import base64
import binascii
import re
import typing as t

from ..certificates.certificate import pins
from ..errors import KubeError

JSON = t.Dict[str, t.Any]

KUBELET_CONF = "/etc/kubernetes/kubelet.conf"
BOOTSTRAP_CONF = "/etc/kubernetes/bootstrap-kubelet.conf"
CA_CERTIFICATE = "/etc/kubernetes/pki/ca.crt"
# Before 1.31 kubeadm knows v1beta3 only.
_BETA4 = (1, 31)
_ERROR = re.compile(r"\[ERROR [^\]]+\]:? .*")


def cluster_of(kubeconfig: str, *, name: str = KUBELET_CONF) -> t.Tuple[str, t.List[str]]:
    """Return address and authorities in a kubeconfig that kubeadm wrote."""
    server = re.search(r"^\s*server:\s*(\S+)\s*$", kubeconfig, re.MULTILINE)
    data = re.search(r"^\s*certificate-authority-data:\s*(\S+)\s*$", kubeconfig, re.MULTILINE)
    if server is None or data is None:
        raise KubeError(
            f"{name}: names no server or no certificate authority: this node is joined in a way that is not kubeadm's"
        )
    try:
        pem = base64.b64decode(data.group(1), validate=True).decode("ascii")
    except (binascii.Error, ValueError) as error:
        raise KubeError(f"{name}: its certificate authority cannot be read") from error
    return server.group(1), pins(pem, name=name)


def same_cluster(kubeconfig: str, wanted: t.Sequence[str]) -> str:
    """Return the server if the node trusts the cluster's authority, which is what makes a cluster the same."""
    server, found = cluster_of(kubeconfig)
    if not set(found) & set(wanted):
        raise KubeError(
            f"{KUBELET_CONF}: this node is joined to another cluster, {server} (CA hash {', '.join(found)}; "
            f"wanted {', '.join(wanted)}): take it out of that one first, nothing was changed"
        )
    return server


def kubeadm_version(text: str) -> t.Tuple[int, int]:
    """Return the release from `kubeadm version -o short`."""
    found = re.match(r"v(\d+)\.(\d+)\.", text)
    if found is None:
        raise KubeError(f"kubeadm version: expected v1.N.N, found {text.strip()[:40]!r}")
    return int(found.group(1)), int(found.group(2))


def join_configuration(
    *,
    version: t.Tuple[int, int],
    node: str,
    endpoint: str,
    token: str,
    pinned: t.Sequence[str],
    socket: str,
    ignore: t.Sequence[str],
    taints: t.Sequence[JSON],
    timeout: int,
) -> JSON:
    """Return what `kubeadm join` is told, by file: a command line would show the token."""
    discovery: JSON = {
        "bootstrapToken": {
            "apiServerEndpoint": endpoint,
            "token": token,
            "caCertHashes": list(pinned),
            "unsafeSkipCAVerification": False,
        },
        "tlsBootstrapToken": token,
    }
    configuration: JSON = {
        "apiVersion": f"kubeadm.k8s.io/{'v1beta4' if version >= _BETA4 else 'v1beta3'}",
        "kind": "JoinConfiguration",
        "discovery": discovery,
        "nodeRegistration": {
            "name": node,
            "criSocket": socket,
            "ignorePreflightErrors": list(ignore),
            "taints": list(taints),
        },
    }
    if version >= _BETA4:
        configuration["timeouts"] = {"discovery": f"{timeout}s", "tlsBootstrap": f"{timeout}s"}
    else:
        discovery["timeout"] = f"{timeout}s"
    return configuration


def complaint(out: str, err: str, *, token: str) -> str:
    """Return why kubeadm failed, in one line and without the token."""
    found = [match.group(0).strip() for match in _ERROR.finditer(f"{out}\n{err}")]
    lines = [line.strip() for line in err.splitlines() if line.strip() and "--v=5" not in line]
    said = "; ".join(found) or (lines[-1] if lines else "it said nothing")
    if "none of the public keys" in f"{out}{err}" or "not pinned" in f"{out}{err}":
        said = f"the cluster's CA is not the one that is pinned. {said}"
    return said.replace(token, "(token)")
