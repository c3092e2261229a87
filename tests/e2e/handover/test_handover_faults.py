# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults while nodes are handed over: jobs start all the same, and each node is put right by its next repair."""

from __future__ import annotations

import base64
import datetime
import json
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from e2e import workload
from e2e.handover.sharing import UNTIL_TOLD, Sharing
from e2e.outage import without_api
from e2e.playing import until
from testbed.controlplane import kube_host
from testbed.down import podman_of

CONTROLLER_CONF = "/etc/converged/controller.kubeconfig"
EXPIRED = "/run/e2e-expired.conf"
FLAG = "/etc/converged/enabled"


def test_without_the_api_jobs_start_and_nodes_come_back_when_it_does(site: Sharing) -> None:
    workload.on_both_nodes(site)
    with without_api(site.bed):
        job = site.job("-N2", command="sleep 2")
        assert job.kubelets() == {"inactive"}, "without the API a lease is served by stop"
        second = site.job("-n1", "-w", "n1", command="sleep 1")
        assert job.pods() | second.pods() == set()
        assert site.pods_started("n1", since=job.began, until=second.ended) == set()
        site.let_repair("n1")
        assert not site.is_active("n1"), "the node does not come back before the API answers"
        site.ctl("salloc -N2 --no-shell")
    until(lambda: site.tainted() == {"n1", "n2"}, "the API has the taint of a job that was served without it")
    site.ctl("squeue --noheader --format=%A | xargs scancel")
    site.free()
    site.pods_return("web", 2)
    lifted = {node: at for at, node, on in site.taint_patches(since=job.began) if not on}
    for node in site.nodes:
        assert site.pods_started(node, since=job.began, until=lifted[node]) == set(), "no pod before the taint is right"


@pytest.mark.soak
def test_switched_off_without_the_api_a_node_is_batch_only_until_it_is_switched_on(site: Sharing) -> None:
    workload.on_both_nodes(site)
    workload.apply(site, workload.daemonset("agent"))
    until(lambda: len(workload.ready(site, "agent")) == 2, "the DaemonSet runs")
    with without_api(site.bed):
        site.node("n2", "nodeshare off")  # and says that it was done within its limit
        off = time.time()
        assert (site.running_on("n2"), site.is_active("n2")) == (set(), False)
        assert site.job("-w", "n2", command="true").pods() == set()
    site.let_repair("n2")
    assert not site.is_active("n2"), "the API alone brings nothing back"
    assert site.pods_started("n2", since=off, until=time.time()) == set()
    site.node("n2", "nodeshare on")
    site.free()
    site.pods_return("web", 2)


@pytest.mark.soak
def test_the_api_may_go_and_come_back_in_the_middle_of_a_job_and_be_down_at_its_end(site: Sharing) -> None:
    workload.on_both_nodes(site)
    with site.while_job("-N2", command=UNTIL_TOLD) as ended:
        with without_api(site.bed):
            joining = site.job("-n1", "-w", "n1", command="sleep 1")
            assert site.show("n1")["way"] == "quiesce", "nothing new can be bound here, so nothing is stopped"
        with without_api(site.bed):
            job = site.tell_to_end(ended)
            site.quiet()
            site.let_repair()
            assert {site.show(node)["phase"] for node in site.nodes} == {"held"}, "nobody to give it back to"
    assert job.pods() | joining.pods() == set()
    for node in ("n1", "n2"):
        assert site.pods_started(node, since=job.began, until=job.ended) == set()
    site.free()
    site.pods_return("web", 2)


def expired(site: Sharing, user: str, group: str) -> str:
    """A kubeconfig with a certificate of the cluster's CA that has ended an hour ago."""
    authority = site.node("kube", "cat /etc/kubernetes/pki/ca.crt /etc/kubernetes/pki/ca.key").encode()
    signer = x509.load_pem_x509_certificate(authority)
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    subject = [x509.NameAttribute(x509.oid.NameOID.ORGANIZATION_NAME, group)]
    subject.append(x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, user))
    builder = x509.CertificateBuilder(signer.subject, x509.Name(subject), key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(days=2))
    builder = builder.not_valid_after(now - datetime.timedelta(hours=1))
    private = load_pem_private_key(authority[authority.index(b"-----END CERTIFICATE-----") + 25 :].strip(), None)
    certificate = builder.sign(private, hashes.SHA256())  # type: ignore[arg-type]
    parts = {
        "client-certificate-data": certificate.public_bytes(Encoding.PEM),
        "client-key-data": key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()),
    }
    cluster = {
        "server": f"https://{kube_host(site.bed.bed).ip}:6443",
        "certificate-authority-data": base64.b64encode(signer.public_bytes(Encoding.PEM)).decode(),
    }
    conf = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {name: base64.b64encode(part).decode() for name, part in parts.items()}}],
    }
    return json.dumps(conf)


def test_with_expired_credentials_jobs_start_and_nodes_come_back_with_good_ones(site: Sharing) -> None:
    workload.on_both_nodes(site)
    site.ctl(f"cp -p {CONTROLLER_CONF} /run/e2e-kept.conf")
    site.ctl(f"cat > {CONTROLLER_CONF}", input=expired(site, "converged:controller:ctl", "converged:controllers"))
    site.ctl("systemctl restart converged-controller")
    for node in site.nodes:
        site.node(node, f"cat > {EXPIRED}", input=expired(site, f"system:node:{node}", "system:nodes"))
    site.settings(kubeconfig=EXPIRED)
    try:
        job = site.job("-N2", command="sleep 1")
        assert job.pods() == set()
        assert not site.tainted()
        site.let_repair("n1")
        assert not site.is_active("n1")
    finally:
        site.settings(kubeconfig="/etc/kubernetes/kubelet.conf")
        site.ctl(f"cp -p /run/e2e-kept.conf {CONTROLLER_CONF}; systemctl restart converged-controller")
    site.let_repair()
    site.free()
    site.pods_return("web", 2)


# In every change: a slurmctld that is killed beside a job, in test_site_kinds. What its silence means:
# payloads/test_returning and test_controller_service, and on a real answer's lack tests/pbs/test_nodeshare_on_pbs.
@pytest.mark.soak
def test_a_batch_controller_that_does_not_answer_is_no_reason_to_think_that_a_job_is_gone(site: Sharing) -> None:
    workload.on_both_nodes(site)
    began = time.time()
    site.ctl("salloc -N2 --no-shell")  # a job without a single process on its nodes
    until(lambda: len(site.leases("n1")) == len(site.leases("n2")) == 1, "the job has its nodes")
    held = time.time()
    site.until_saved()
    site.ctl("systemctl kill --signal=KILL slurmctld; systemctl stop slurmctld")
    try:
        site.let_repair()
        assert len(site.leases("n1")) == len(site.leases("n2")) == 1
        assert site.tainted() == {"n1", "n2"}
    finally:
        site.ctl("systemctl start slurmctld; until scontrol ping | grep -q UP; do sleep 0.2; done")
    site.let_repair()
    assert len(site.leases("n1")) == len(site.leases("n2")) == 1, "the job lives"
    assert site.pods_started("n1", since=held, until=time.time()) == set()
    assert [on for at, _node, on in site.taint_patches(since=began) if at > held] == []
    site.ctl("squeue --noheader --format=%A | xargs scancel")
    site.free()
    site.pods_return("web", 2)


@pytest.mark.soak
def test_a_batch_controller_that_is_killed_while_pods_leave_loses_no_node(site: Sharing) -> None:
    workload.apply(site, workload.budget("guarded"), workload.pod("guarded", node="n1"))
    until(lambda: bool(workload.ready(site, "guarded")), "the pod runs")
    with site.impatient():
        site.batch("-w", "n1")
        until(lambda: site.tainted() == {"n1"}, "the job is being configured")
        site.ctl("systemctl kill --signal=KILL slurmctld; sleep 1; systemctl restart slurmctld")
        site.ctl("until scontrol ping | grep -q UP; do sleep 0.2; done")
        until(lambda: site.running_on("n1") == set() or site.tainted() == set(), "the job has n1, or is lost")
        site.ctl("squeue --noheader --format=%A | xargs --no-run-if-empty scancel")
        site.free()


@pytest.mark.soak
@pytest.mark.parametrize("way", ["quiesce", "stop"])
def test_a_node_that_boots_under_a_job_comes_back_through_repair(site: Sharing, way: str) -> None:
    site.settings(handover=way)
    try:
        site.batch("-w", "n2", "--no-requeue")
        until(lambda: len(site.leases("n2")) == 1 and site.show("n2")["phase"] == "held", "the job has n2")
        boots = site.node("n2", "stat --format=%Y /proc/1")
        podman_of(site.bed.bed).call("restart", "--time", "10", site.bed.bed.host("n2").container, timeout=300)
        booted = ("running\n", "degraded\n")
        until(lambda: site.node("n2", "systemctl is-system-running", check=False) in booted, "n2 has booted")
        assert site.node("n2", "stat --format=%Y /proc/1") != boots
        until(lambda: not site.leases("n2"), "the lease of the earlier boot is dropped")
        # Slurm knows a boot by the machine's uptime, which a container shares: here it takes minutes to miss the job.
        site.ctl("squeue --noheader --format=%A | xargs --no-run-if-empty scancel")
        site.ctl("scontrol update nodename=n2 state=resume", check=False)
        site.free()
        assert site.job("-w", "n2", command="true").nodes == {"n2"}
    finally:
        site.settings(handover="quiesce")
        site.record_events()


def is_made_good(site: Sharing, node: str, *, began: str, over: str) -> None:
    """The first repair that looks once the run is over, and has an answer from Slurm, drops its lease.

    The first that ends since may have looked before: Slurm was still about to end the job.
    """
    until(lambda: any("dropped=" in line for line in site.repairs(node, since=began)), f"a repair on {node} drops it")
    assert not site.leases(node)
    since = site.repairs(node, since=over)
    kept = [line for line in since if 'reason="held by' in line and "did not say" not in line]
    assert len(kept) <= 1, since


def test_an_epilog_that_never_ran_is_made_good_by_the_next_repair(site: Sharing) -> None:
    began = {node: site.told(node) for node in site.nodes}
    try:
        with site.while_job("-N2", command=UNTIL_TOLD) as ended:
            site.let_repair()  # which sees the job's processes: from their end on each repair asks
            for host in ("ctl", "n1", "n2"):
                site.node(host, f"rm {FLAG}")
            site.tell_to_end(ended)
        site.quiet()
    finally:
        for host in ("ctl", "n1", "n2"):
            site.node(host, f"touch {FLAG}")
    for node in site.nodes:
        site.until(node, r"! pgrep -f '^slurmstepd: \['")
        is_made_good(site, node, began=began[node], over=site.told(node))
        said = "\n".join(site.said(node, since=began[node]))
        assert "the batch system says that this run is over" in said
        assert "event=end" not in said, "nobody has told"
    site.free()


@pytest.mark.soak
def test_scripts_run_twice_or_in_the_wrong_order_leave_the_node_as_it_should_be(site: Sharing) -> None:
    def script(which: str, job: str) -> None:
        site.node("n1", f"env -i SLURM_JOB_ID={job} SLURM_JOB_RESTART_COUNT=0 /etc/converged/slurm/{which}")

    job = site.batch("-w", "n1", "-n1")
    until(lambda: site.leases("n1") == {f"slurm.{job}.r0.lease"}, "its lease")
    script("prolog", job)
    assert site.leases("n1") == {f"slurm.{job}.r0.lease"}
    began = site.told("n1")
    site.ctl(f"scancel {job}")
    site.quiet()
    script("epilog", job)
    script("epilog", "999999")
    script("prolog", "999999")
    # A job beside pods is worse than a node held too long.
    over = site.told("n1")
    until(lambda: any("lease=doubtful" in line for line in site.said("n1", since=began)), "begin says so")
    is_made_good(site, "n1", began=began, over=over)
    site.free()
