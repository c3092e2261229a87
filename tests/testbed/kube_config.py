# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the control plane of a bed is told, as text: kubeadm's configuration, the units, the audit policy.

kubeadm's own phases make the certificates and upload the configuration, so that `kubeadm join` finds here what it
finds in any cluster. The four programs run as units instead of static pods: there is no kubelet on this host.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from testbed.cgroups import Way

API_PORT = 6443
POD_SUBNET = "10.244.0.0/16"
SERVICE_SUBNET = "10.96.0.0/16"
PKI = "/etc/kubernetes/pki"
BIN = "/opt/testbed/bin"
AUDIT_LOG = "/var/log/kubernetes/audit.log"
FEATURE_GATES = "GenericWorkload=true,GangScheduling=true"
LOAD_LABEL = "converged.hpc/load"
"""On Node objects without a kubelet, that exist for load only."""
CONTROLLER_MANAGER_ENV = "controller-manager.env"
"""Below /etc/kubernetes; `EXTRA` in it is added to the controller-manager's command line."""
UNITS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""In the order of their start; each is ordered after the one before, so systemd stops them the other way round."""


def kubelet_configuration(way: Way, driver: str = "cgroupfs") -> dict[str, Any]:
    """The KubeletConfiguration that every joining node downloads."""
    limits: dict[str, Any] = {"cgroupsPerQOS": True}
    if not way.has_limits:
        # kubeadm drops an empty list and the default comes back; only the word says "nothing".
        limits = {"cgroupsPerQOS": False, "enforceNodeAllocatable": ["none"]}
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": driver,
        "failCgroupV1": False,
        "failSwapOn": False,
        "fileCheckFrequency": "1s",
        "staticPodPath": "/etc/kubernetes/manifests",
        **limits,
    }


def kubeadm_yaml(
    *, ip: str, token: str, version: str, way: Way, certificates: str = PKI, driver: str = "cgroupfs"
) -> str:
    """kubeadm's configuration; `certificates` is where the caller sees what lies in PKI on the host itself."""
    init = {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "InitConfiguration",
        "localAPIEndpoint": {"advertiseAddress": ip, "bindPort": API_PORT},
        "nodeRegistration": {"name": "kube", "criSocket": "unix:///run/containerd/containerd.sock"},
        "bootstrapTokens": [
            {
                "token": token,
                "ttl": "0s",
                "usages": ["signing", "authentication"],
                "groups": ["system:bootstrappers:kubeadm:default-node-token"],
            }
        ],
    }
    cluster = {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "ClusterConfiguration",
        "kubernetesVersion": f"v{version}",
        "clusterName": "testbed",
        "certificatesDir": certificates,
        "controlPlaneEndpoint": f"{ip}:{API_PORT}",
        # Making RSA keys would take longer than everything else that is done before the start.
        "encryptionAlgorithm": "ECDSA-P256",
        "networking": {"podSubnet": POD_SUBNET, "serviceSubnet": SERVICE_SUBNET},
        "etcd": {"external": {"endpoints": ["http://127.0.0.1:2379"]}},
        "apiServer": {"certSANs": ["kube", "localhost", "127.0.0.1"]},
    }
    return yaml.safe_dump_all([init, cluster, kubelet_configuration(way, driver)], sort_keys=False)


def audit_policy() -> str:
    """Who did what and when, for everything that changes something; with its content for pods and nodes.

    The audit log is the one clock for API timings: every line has requestReceivedTimestamp in microseconds.
    """
    changes = ["create", "update", "patch", "delete", "deletecollection"]
    rules: list[dict[str, Any]] = [
        {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*"]},
        {"level": "None", "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
        # Nodes for load: only they are made by this user.
        {"level": "None", "users": ["kubernetes-super-admin"], "resources": [{"group": "", "resources": ["nodes"]}]},
        {
            "level": "Request",
            "verbs": changes,
            "resources": [{"group": "", "resources": ["pods", "pods/binding", "pods/eviction", "nodes"]}],
        },
        # What kubelets, and who watches them, say of pods and nodes; not what kwok says of thousands.
        {
            "level": "Request",
            "userGroups": ["system:nodes", "system:serviceaccounts:kube-system"],
            "verbs": changes,
            "resources": [{"group": "", "resources": ["pods/status", "nodes/status"]}],
        },
        {"level": "Metadata"},
    ]
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules}
    return json.dumps(policy, indent=1) + "\n"


def etcd_flags() -> dict[str, str]:
    url, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
    return {
        "name": "kube",
        "data-dir": "/var/lib/etcd",
        # The data lives no longer than the bed, and syncing it would make the disk the clock of every test.
        "unsafe-no-fsync": "true",
        "listen-client-urls": url,
        "advertise-client-urls": url,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"kube={peer}",
    }


def apiserver_flags(*, ip: str) -> dict[str, str]:
    return {
        "etcd-servers": "http://127.0.0.1:2379",
        "secure-port": str(API_PORT),
        "advertise-address": ip,
        "tls-cert-file": f"{PKI}/apiserver.crt",
        "tls-private-key-file": f"{PKI}/apiserver.key",
        "client-ca-file": f"{PKI}/ca.crt",
        "kubelet-client-certificate": f"{PKI}/apiserver-kubelet-client.crt",
        "kubelet-client-key": f"{PKI}/apiserver-kubelet-client.key",
        "kubelet-preferred-address-types": "InternalIP,Hostname",
        "service-account-key-file": f"{PKI}/sa.pub",
        "service-account-signing-key-file": f"{PKI}/sa.key",
        "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
        "requestheader-client-ca-file": f"{PKI}/front-proxy-ca.crt",
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-username-headers": "X-Remote-User",
        "proxy-client-cert-file": f"{PKI}/front-proxy-client.crt",
        "proxy-client-key-file": f"{PKI}/front-proxy-client.key",
        "enable-bootstrap-token-auth": "true",
        "enable-admission-plugins": "NodeRestriction",
        # It taints every new node until the controller-manager sees it ready, which for 5,000 nodes for load takes
        # longer than making them. A real node that is not ready gets the same taint from the controller-manager.
        "disable-admission-plugins": "TaintNodesByCondition",
        "authorization-mode": "Node,RBAC",
        "service-cluster-ip-range": SERVICE_SUBNET,
        "allow-privileged": "true",
        "feature-gates": FEATURE_GATES,
        "runtime-config": "scheduling.k8s.io/v1alpha2=true",
        "audit-policy-file": "/etc/kubernetes/audit-policy.json",
        "audit-log-path": AUDIT_LOG,
        "audit-log-maxsize": "1000",
        "audit-log-maxbackup": "1",
        "delete-collection-workers": "16",
    }


def controller_manager_flags() -> dict[str, str]:
    kubeconfig = "/etc/kubernetes/controller-manager.conf"
    return {
        "kubeconfig": kubeconfig,
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "bind-address": "127.0.0.1",
        # The TTL controller writes to every node whenever their number passes a boundary, for kubelets' caches.
        "controllers": "*,bootstrapsigner,tokencleaner,-ttl-controller",
        "use-service-account-credentials": "true",
        "cluster-signing-cert-file": f"{PKI}/ca.crt",
        "cluster-signing-key-file": f"{PKI}/ca.key",
        "root-ca-file": f"{PKI}/ca.crt",
        "service-account-private-key-file": f"{PKI}/sa.key",
        # `join` gives every node a range of its own; 5,000 nodes for load would need more than there is.
        "allocate-node-cidrs": "false",
        "leader-elect": "false",
        # Its start is some 150 requests; with the default of 20 a second no pod is admitted for six seconds.
        "kube-api-qps": "200",
        "kube-api-burst": "400",
        "feature-gates": FEATURE_GATES,
    }


def scheduler_flags() -> dict[str, str]:
    kubeconfig = "/etc/kubernetes/scheduler.conf"
    return {
        "kubeconfig": kubeconfig,
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "bind-address": "127.0.0.1",
        "leader-elect": "false",
        "feature-gates": FEATURE_GATES,
    }


def kwok_flags() -> dict[str, str]:
    return {
        "kubeconfig": "/etc/kubernetes/admin.conf",
        "config": "/etc/kubernetes/kwok.yaml",
        "manage-nodes-with-label-selector": f"{LOAD_LABEL}=kwok",
        "node-lease-duration-seconds": "0",
    }


def unit(
    program: str, flags: Mapping[str, str], *, after: str = "", notifies: bool = False, environment: str = ""
) -> str:
    """A unit file for one program; `environment` is a file that may set EXTRA, more flags."""
    extra = f"EnvironmentFile=-{environment}\n" if environment else ""
    command = " \\\n  ".join([f"{BIN}/{program}", *(f"--{name}={value}" for name, value in flags.items())])
    order = f"After={after}.service\n" if after else ""
    return (
        f"[Unit]\nDescription={program} of the test bed\n{order}"
        # No limit on starts: a slow machine must not end up with a unit that nobody starts again.
        "StartLimitIntervalSec=0\n\n"
        f"[Service]\nType={'notify' if notifies else 'exec'}\n{extra}"
        # Memory is there, processors are not: Go collects its garbage a fourth as often.
        f"Environment=GOGC=400\nExecStart={command}{' $EXTRA' if extra else ''}\n"
        # An API server that is told to stop waits for its watchers, and kubelets do not let go.
        "Restart=on-failure\nRestartSec=200ms\nTimeoutStartSec=60\nTimeoutStopSec=5\nLimitNOFILE=20000\n\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )


def units(*, ip: str) -> dict[str, str]:
    """Unit name -> content; all but kwok start at boot. Both etcd and the API server tell systemd when they serve."""
    return {
        "etcd": unit("etcd", etcd_flags(), notifies=True),
        "kube-apiserver": unit("kube-apiserver", apiserver_flags(ip=ip), after="etcd", notifies=True),
        "kube-controller-manager": unit(
            "kube-controller-manager",
            controller_manager_flags(),
            after="kube-apiserver",
            environment=f"/etc/kubernetes/{CONTROLLER_MANAGER_ENV}",
        ),
        "kube-scheduler": unit("kube-scheduler", scheduler_flags(), after="kube-apiserver"),
        "kwok": unit("kwok", kwok_flags(), after="kube-apiserver"),
    }
