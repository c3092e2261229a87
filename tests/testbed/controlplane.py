# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Kubernetes control plane of a bed: one container with etcd, API server, controller-manager and scheduler.

Certificates and kubeconfigs are made on the machine by kubeadm before the container boots, so that its systemd finds
all it needs and starts the four programs by itself; only what needs a serving API is done after. Every step may be
repeated: kubeadm keeps what is there, and so do we.
"""

from __future__ import annotations

import os
import re
import secrets
import string
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from testbed import kube_config
from testbed.archive import NodeFile
from testbed.binaries import wanted_versions
from testbed.errors import BedError
from testbed.kube_api import Api, ApiError, Json
from testbed.kube_kwok import kwok_yaml
from testbed.podman import Volume
from testbed.progress import step
from testbed.run import run
from testbed.state import Bed, Host

READY_SECONDS = 300.0
KUBEADM_SECONDS = 60.0
# The machine's proxy leads elsewhere; the API server is next door.
NO_PROXY = {"NO_PROXY": "*", "no_proxy": "*"}
TOKEN_LETTERS = string.ascii_lowercase + string.digits
TOKEN = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")
CLUSTER_ADMINS: Json = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "kubeadm:cluster-admins"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "kubeadm:cluster-admins"}],
}


def kube_host(bed: Bed) -> Host:
    """The host that runs the control plane."""
    for host in bed.hosts:
        if host.role == "kube":
            return host
    raise BedError(f"bed '{bed.name}' has no Kubernetes; bring it up without --no-kube")


def kube_dir(bed: Bed) -> Path:
    """What the control plane has as /etc/kubernetes: keys, certificates, kubeconfigs, the join token. Root only."""
    return bed.dir / "kube"


def kubeconfig(bed: Bed) -> Path:
    """The administrator's kubeconfig, for whoever asked for the bed."""
    return bed.dir / "kubeconfig"


def audit_log(bed: Bed) -> Path:
    """The API server's audit log, readable for whoever asked for the bed."""
    return bed.dir / "audit" / Path(kube_config.AUDIT_LOG).name


def admin(bed: Bed) -> Api:
    """A connection to the bed's API server as its administrator."""
    return Api.from_kubeconfig(kubeconfig(bed))


def control_plane_volumes(bed: Bed) -> tuple[Volume, ...]:
    """The folders that the container of the control plane needs, on top of what every host has."""
    return (
        Volume(kube_dir(bed), "/etc/kubernetes"),
        Volume(audit_log(bed).parent, str(Path(kube_config.AUDIT_LOG).parent)),
    )


def control_plane_files(bed: Bed) -> tuple[NodeFile, ...]:
    """What to put into the container before it boots."""
    units = "/etc/systemd/system"
    rendered = kube_config.units(ip=kube_host(bed).ip)
    files = [NodeFile(f"{units}/{name}.service", content=text) for name, text in rendered.items()]
    wanted = f"{units}/multi-user.target.wants"
    links = {f"{wanted}/{name}.service": f"{units}/{name}.service" for name in kube_config.UNITS}
    links |= {f"/usr/local/bin/{name}": f"{kube_config.BIN}/{name}" for name in ("kubectl", "kubeadm")}
    links["/root/.kube/config"] = "/etc/kubernetes/admin.conf"
    return (*files, *(NodeFile(path, target=target) for path, target in links.items()))


def prepare_control_plane(bed: Bed, *, binaries: Path) -> None:
    """Make keys, certificates, kubeconfigs and the audit policy; before the container is created."""
    folder = kube_dir(bed)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    config = folder / "kubeadm.yaml"
    write_private(config, kubeadm_yaml(bed, certificates=str(folder / "pki")))
    (folder / "audit-policy.json").write_text(kube_config.audit_policy(), encoding="utf-8")
    (folder / "kwok.yaml").write_text(kwok_yaml(), encoding="utf-8")
    kubeadm = [str(binaries / "kubeadm"), "init", "phase"]
    run([*kubeadm, "certs", "all", "--config", str(config)], timeout=KUBEADM_SECONDS)
    run(
        [*kubeadm, "kubeconfig", "all", "--config", str(config), "--kubeconfig-dir", str(folder)],
        timeout=KUBEADM_SECONDS,
    )
    # `all` has one for a kubelet on this host too, and there is none.
    (folder / "kubelet.conf").unlink(missing_ok=True)
    log = audit_log(bed)
    log.parent.mkdir(exist_ok=True)
    # The API server goes on writing to a file that is there, whoever owns it.
    log.touch(mode=0o600)
    os.chown(log, bed.uid, -1)
    write_private(kubeconfig(bed), (folder / "admin.conf").read_text(encoding="utf-8"))
    os.chown(kubeconfig(bed), bed.uid, -1)


def finish_control_plane(bed: Bed, *, binaries: Path) -> None:
    """Wait until the booted control plane serves, then upload what `kubeadm join` will ask for."""
    folder = kube_dir(bed)
    uploaded = folder / "kubeadm-upload.yaml"
    write_private(uploaded, kubeadm_yaml(bed, certificates=kube_config.PKI))
    rights = folder / "super-admin.conf"
    with step("wait for the API server"):
        api = Api.from_kubeconfig(rights)
        await_ready(api, timeout=READY_SECONDS)
    phases = (("upload-config", "all"), ("bootstrap-token", "--skip-token-print"))
    with step("upload kubeadm's configuration and the join token"), ThreadPoolExecutor() as pool:
        waiting = [
            pool.submit(
                run,
                [str(binaries / "kubeadm"), "init", "phase", *phase, f"--config={uploaded}", f"--kubeconfig={rights}"],
                timeout=KUBEADM_SECONDS,
                env=NO_PROXY,
            )
            for phase in phases
        ]
        bind_administrators(api)
        for upload in waiting:
            upload.result()
    # Without it no pod is admitted; the controller-manager makes it a moment after its start.
    api.wait_for(
        "/api/v1/namespaces/default/serviceaccounts/default",
        lambda found: True,
        timeout=READY_SECONDS,
        what="service account",
    )
    api.close()


def kubeadm_yaml(bed: Bed, *, certificates: str) -> str:
    return kube_config.kubeadm_yaml(
        ip=kube_host(bed).ip,
        token=join_token(bed),
        version=wanted_versions()["kubeadm"],
        way=bed.node_way,
        # systemd is alone in a machine, and has the cgroups.
        driver="systemd" if bed.vm else "cgroupfs",
        certificates=certificates,
    )


def join_token(bed: Bed) -> str:
    """The bed's bootstrap token; made at the first call."""
    path = kube_dir(bed) / "token"
    if not path.exists():
        write_private(path, f"{letters(6)}.{letters(16)}")
    token = path.read_text(encoding="utf-8")
    if not TOKEN.fullmatch(token):
        raise BedError(f"{path} holds no bootstrap token; bring bed '{bed.name}' down and up again")
    return token


def letters(count: int) -> str:
    return "".join(secrets.choice(TOKEN_LETTERS) for _ in range(count))


def write_private(path: Path, text: str) -> None:
    """Write a file that nobody else may read, at no moment."""
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    path.chmod(0o600)
    with path.open("w", encoding="utf-8") as stream:
        stream.write(text)


def await_ready(api: Api, *, timeout: float) -> None:
    """Ask /readyz until the answer is yes; before that the API server may refuse connections, or say what it lacks."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            api.get("/readyz")
            return
        except ApiError as error:
            if time.monotonic() >= deadline:
                raise BedError(f"the API server is not ready after {timeout:g} s: {error}") from None
        time.sleep(0.05)


def bind_administrators(api: Api) -> None:
    """Give kubeadm's administrators, who are not system:masters, their rights, as `kubeadm init` does."""
    try:
        api.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", CLUSTER_ADMINS)
    except ApiError as error:
        if error.status != 409:
            raise
