# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ends a conversion before it begins, on a real site: a wrong inventory, odd files, hosts out of reach, a refusal
of the cluster, a second operator. Each is said in one line, and the whole site is as it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from _pytest.mark import ParameterSet
from e2e.playing import Said, play, until
from e2e.site_of import SITE_SECONDS, ConvertedSite, kill
from e2e.whole_site import CONF, OURS, differences, look
from testbed.api import RunningBed

HOSTS = ("ctl", "n1", "n2")
RUN = "/run/converged.hpc.lock"


@pytest.fixture(scope="module")
def site(bed: RunningBed, tmp_path_factory: pytest.TempPathFactory) -> ConvertedSite:
    """Two plain nodes with Slurm 22.05, and a control plane: they stay as they are for the site's life."""
    return ConvertedSite(bed, tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def before(site: ConvertedSite) -> Mapping[str, Mapping[str, object]]:
    """The whole site, to which no test here may have done anything."""
    return look(site)


# By what is set where, and what is said then. The preflight's own tests have the others.
WRONG: dict[str, tuple[dict[str, dict[str, Any]], tuple[str, ...]]] = {
    "names, a share mode and a host list that there are not": (
        {
            "all": {"slurm_share_excepted": ["n[1-9999999]"]},
            "n1": {"converged_share_mode": "borrow"},
            "n2": {"converged_wlm_node": "n77"},
        },
        ("[hostlist]", "[share_mode]", "[unknown_to_slurm]"),
    ),
    "another machine, and releases that do not go together": (
        {
            "all": {"share_preflight_kubelet_version": "1.28.0"},
            "n1": {"converged_wlm_node": "n2", "converged_kube_node": "n9"},
            "n2": {
                "converged_wlm_node": "N2",
                "node_runtime_manage": False,
                "node_kubelet_socket": "unix:///run/singularity.sock",
            },
        },
        ("[kubelet_version]", "[other_machine]", "[name_case]", "[cri]"),
    ),
    "a host that nobody reaches": (
        {"n2": {"ansible_host": "192.0.2.1", "ansible_timeout": 2}},
        ("fit to be shared: n1", "refused: n2", "[unreachable] n2: could not be read"),
    ),
    "no kubeconfig": ({"all": {"converged_kubeconfig": "/etc/no.conf"}}, ("/etc/no.conf",)),
    "a duration, a misspelled choice and an unknown name": (
        {
            "all": {"converged_drain_timeout": "a day", "node_share_handover": "quiece"},
            "n2": {"node_share_deadlin": 60},
        },
        (
            "converged_drain_timeout is 'a day': expected a duration",
            "node_share_handover is 'quiece': expected one of quiesce, stop",
            "[unknown_variable] n2: node_share_deadlin: no role has such a variable: write node_share_deadline",
        ),
    ),
}


# That a refusal touches nothing is seen where the preflight speaks, where Slurm's own files are odd and where a role
# refuses. What all others say is told by tests that need no cluster.
EVERY_TIME = {
    "names, a share mode and a host list that there are not",
    "a slurm.conf that is odd, and one that is not there",
    "a folder for scripts that cannot be written",
}


def cases(found: Mapping[str, object]) -> list[ParameterSet]:
    """Those that are not seen every time are for long runs."""
    return [pytest.param(case, marks=[] if case in EVERY_TIME else pytest.mark.soak) for case in sorted(found)]


@pytest.mark.parametrize("case", cases(WRONG))
def test_what_is_wrong_in_the_inventory_is_said(site: ConvertedSite, before: Mapping[str, Any], case: str) -> None:
    variables, messages = WRONG[case]
    kept = json.dumps(site.hosts)
    for where, values in variables.items():
        site.set(where, **values)
    try:
        said = site.play("site", check=False)
    finally:
        site.hosts = json.loads(kept)
    assert_refused(said, *messages)
    assert differences(before, look(site)) == {}


# On which hosts what is done and undone, and what is said then.
Fault = tuple[tuple[str, ...], str, str]
ODD: dict[str, tuple[list[Fault], tuple[str, ...]]] = {
    # slurmctld dies of it when it reads slurm.conf again, as it would behind our edit.
    "a slurm.conf of ten million nodes": (
        [
            (
                HOSTS,
                f"cp -p {CONF} /root/kept; echo 'NodeName=n[1-9999999] State=UNKNOWN' >> {CONF}",
                f"grep -q 9999999 {CONF}; cp -p /root/kept {CONF}; rm /root/kept",
            )
        ],
        (f"{CONF} line ", "range 1-9999999 in 'n[1-9999999]' is longer than 65536"),
    ),
    "a slurm.conf that is odd, and one that is not there": (
        [
            (
                ("n1",),
                f"cp -p {CONF} /root/kept; echo 'who wrote this' >> {CONF}",
                f"grep -q 'who wrote' {CONF}; cp -p /root/kept {CONF}; rm /root/kept",
            ),
            (
                ("n2",),
                f"mv {CONF} /root/kept; ln -s /nowhere {CONF}",
                f"test -L {CONF}; rm {CONF}; mv /root/kept {CONF}",
            ),
        ],
        ("'who wrote this' is not Key=Value", "refused: n[1-2]", "[slurm_conf] n2: no slurm.conf in any usual place"),
    ),
    "a folder for scripts that cannot be written": (
        [
            (
                ("n2",),
                "mkdir /etc/converged; mount -t tmpfs -o ro none /etc/converged",
                "umount /etc/converged; rmdir /etc/converged",
            )
        ],
        ("/etc/converged: the file system is mounted read-only: nothing was changed",),
    ),
    "no room for programs": (
        [
            (
                ("n1", "n2"),
                "mkdir /usr/local/lib/converged; mount -t tmpfs -o size=16k none /usr/local/lib/converged",
                "umount /usr/local/lib/converged; rmdir /usr/local/lib/converged",
            )
        ],
        ("/usr/local/lib/converged: ", " are free: make room; nothing was changed"),
    ),
    "sudo that is refused": (
        [(("n2",), "mv /etc/sudoers.d/ops /root/", "mv /root/ops /etc/sudoers.d/")],
        ("fit to be shared: n1", "refused: n2", "could not be read: Task failed: Missing sudo password"),
    ),
}


@pytest.mark.parametrize("case", cases(ODD))
def test_what_is_odd_on_a_host_is_said_and_kept(site: ConvertedSite, before: Mapping[str, Any], case: str) -> None:
    faults, messages = ODD[case]
    for hosts, do, _undo in faults:
        for host in hosts:
            site.node(host, f"set -e; {do}")
    try:
        said = site.play("site", check=False)
    finally:
        for hosts, _do, undo in faults:
            for host in hosts:
                site.node(host, f"set -e; {undo}")
    assert_refused(said, *messages)
    assert differences(before, look(site)) == {}
    assert site.ctl("scontrol ping").count("UP") == 1


def test_a_certificate_that_the_cluster_denies_leaves_nothing(site: ConvertedSite, before: Mapping[str, Any]) -> None:
    kept = json.dumps(site.hosts)
    site.set("all", drain_access_approve=False)

    def request() -> str:
        return site.kubectl("get", "csr", f"-l{OURS}", "--output=name").strip()

    try:
        with site.started("site") as running:
            until(lambda: bool(request()), "a request is there", SITE_SECONDS)
            site.kubectl("certificate", "deny", request())
            out, _errors = running.communicate(timeout=SITE_SECONDS)
    finally:
        site.hosts = json.loads(kept)
    assert_refused(
        Said(running.returncode, out, ""),
        "neither Slurm nor any node was touched: See that the requests are signed: ",
        "certificate request of converged:controller:ctl: denied by the cluster",
    )
    assert differences(before, look(site)) == {}


def test_two_operators_do_not_convert_at_once(site: ConvertedSite, before: Mapping[str, Any]) -> None:
    waiting = site.folder / "waiting.yml"
    steps = [{"converged.hpc.share_lock": {}}, {"ansible.builtin.pause": {"minutes": 30}}]
    waiting.write_text(yaml.safe_dump([play("converged_controllers", *steps)]), encoding="utf-8")
    with site.started(waiting) as first:
        site.until("ctl", f"grep -q token {RUN}")
        for playbook, options in (("site", ()), ("restore", ("--limit", "n1"))):
            assert_refused(site.play(playbook, *options, check=False), f"changes this site (process {first.pid} on ")
        kill(first)
    assert differences(before, look(site)) == {}


def assert_refused(said: Said, *messages: str) -> None:
    """It failed, and one line says why."""
    assert said.rc != 0
    assert [message for message in messages if message not in said.out] == [], said.out
