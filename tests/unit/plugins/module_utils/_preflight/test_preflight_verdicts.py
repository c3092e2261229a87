# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's verdicts: a clean site, and then one thing wrong at a time."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._preflight.model import CLUSTER, Verdict
from ansible_collections.converged.hpc.plugins.module_utils._preflight.verdicts import Cluster, Settings, verdicts

GIB = 1024**3


def host(name: str, *, is_node: bool = True) -> dict[str, t.Any]:
    """A machine on which there is nothing to find fault with."""
    disk = {"mount": "/", "type": "ext4", "read_only": False, "size": 100 * GIB, "free": 60 * GIB}
    return {
        "wanted": {
            "is_node": is_node,
            "wlm_node": name,
            "kube_node": name,
            "share_mode": "handover",
            "node_ip": "",
            "kubelet_config": {},
            "socket": "unix:///run/containerd/containerd.sock",
            "runtime_manage": True,
        },
        "offset": [-0.2, 0.1],
        "found": {
            "hostname": name,
            "kernel": "6.1.0-28-amd64",
            "container": "",
            "cgroup": "v2",
            "swap": [],
            "ports": {},
            "disks": {"/etc": disk, "/usr": dict(disk), "/var/lib/kubelet": dict(disk)},
            "addresses": {"eth0": ["10.0.0.1"]},
            "units": {"munge.service": "active"},
            "kubernetes": [],
            "kubelet": "",
            "runtimes": {},
            "cri_disabled": False,
            "socket": False,
            "munge": "",
            "selinux": "",
            "owners": [],
            "killing": [],
            "record": [],
            "slurm": {"conf": "/etc/slurm/slurm.conf", "error": "", "digest": "d1", "scripts": [], "missing": []},
        },
    }


def slurm_node(name: str) -> dict[str, t.Any]:
    return {"name": name, "hostname": name, "state": "IDLE", "flags": [], "partitions": ["batch"], "reason": ""}


class Site:
    """Two nodes and a controller, to be spoiled."""

    def __init__(self) -> None:
        self.nodes = {"n1": host("n1"), "n2": host("n2"), "ctl": host("ctl", is_node=False)}
        self.config: dict[str, t.Any] = {
            "PrologFlags": "Alloc,DeferBatch",
            "PrologEpilogTimeout": "65534",
            "MessageTimeout": "100 sec",
            "BatchStartTimeout": "100 sec",
            "SuspendTime": "INFINITE",
            "SuspendProgram": None,
            "SuspendExcNodes": None,
            "SuspendExcParts": None,
            "PreemptMode": "OFF",
            "SlurmctldHost": ["ctl(10.0.0.9)"],
        }
        self.partitions = [
            {
                "name": "batch",
                "nodes": ["n1", "n2"],
                "oversubscribe": "NO",
                "preempt_mode": "OFF",
                "suspend_time": "GLOBAL",
            }
        ]
        self.slurm_nodes = [slurm_node("n1"), slurm_node("n2")]
        self.kube: dict[str, t.Any] = {"version": "v1.36.3", "nodes": {}}
        self.slurm_error = ""
        self.settings = Settings(controllers=("ctl",))

    @property
    def n1(self) -> dict[str, t.Any]:
        """What was found on n1."""
        return t.cast("dict[str, t.Any]", self.nodes["n1"]["found"])

    @property
    def wanted(self) -> dict[str, t.Any]:
        """What the inventory wants of n1."""
        return t.cast("dict[str, t.Any]", self.nodes["n1"]["wanted"])

    def judge(self) -> dict[str, Verdict]:
        slurm = {"config": self.config, "nodes": self.slurm_nodes, "partitions": self.partitions, "version": "22.05.8"}
        return verdicts(
            copy.deepcopy(self.nodes),
            Cluster({"error": self.slurm_error} if self.slurm_error else slurm, self.kube, {}),
            self.settings,
        )


def setting(where: str, key: str, value: t.Any) -> t.Callable[[Site], None]:
    """Spoils one value of n1 (found, wanted), of Slurm's config, of its first node or of its partition."""

    def spoil(site: Site) -> None:
        places = {
            "found": site.n1,
            "wanted": site.wanted,
            "config": site.config,
            "slurm_node": site.slurm_nodes[0],
            "partition": site.partitions[0],
            "kube": site.kube,
            "host": site.nodes["n1"],
            "slurm": site.n1["slurm"],
            "disk": site.n1["disks"]["/var/lib/kubelet"],
        }
        places[where][key] = value

    return spoil


def several(*spoils: t.Callable[[Site], None]) -> t.Callable[[Site], None]:
    def spoil(site: Site) -> None:
        for one in spoils:
            one(site)

    return spoil


def settled(**values: t.Any) -> t.Callable[[Site], None]:
    def spoil(site: Site) -> None:
        site.settings = site.settings._replace(**values)

    return spoil


def renamed(name: str) -> t.Callable[[Site], None]:
    return setting("wanted", "wlm_node", name)


def unread(site: Site) -> None:
    site.nodes["n1"] = {"wanted": site.wanted, "error": "no route to host"}


def silent(site: Site) -> None:
    site.slurm_error = "scontrol: timed out"


def a_third(site: Site) -> None:
    site.slurm_nodes.append(slurm_node("n3"))


LINE = {"path": "/e.sh", "line": 7, "text": "pkill -u $U", "why": "kills all processes of a user", "anyone": False}
POWER = several(setting("config", "SuspendTime", "300 sec"), setting("config", "SuspendProgram", "/usr/sbin/off"))
OWN = several(setting("wanted", "runtime_manage", False), setting("found", "socket", True))
SYCRI = several(OWN, setting("wanted", "socket", "unix:///var/run/singularity.sock"))

CASES = [
    # names
    ("an upper-case name", renamed("N1"), "n1", "refuse", "name_case", "the inventory says N1, and Slurm n1"),
    ("an unknown name", renamed("x1"), "n1", "refuse", "unknown_to_slurm", "no node 'x1'"),
    ("a list for a name", renamed("n[1-9999999]"), "n1", "refuse", "unknown_to_slurm", "n[1-9999999]"),
    ("one name twice", renamed("n2"), "n1", "refuse", "name_twice", "as of n2"),
    ("another machine", setting("slurm_node", "hostname", "n7"), "n1", "refuse", "other_machine", "the machine n7"),
    ("no name for Kubernetes", setting("wanted", "kube_node", "N1"), "n1", "refuse", "kube_name", "lower-case"),
    (
        "a name that another machine has",
        setting("kube", "nodes", {"n1": {"addresses": ["10.0.0.77"]}}),
        "n1",
        "refuse",
        "kube_name",
        "10.0.0.77, which is another machine",
    ),
    ("not in the inventory", a_third, "n3", "refuse", "not_in_inventory", "Slurm has this node"),
    ("not reachable", unread, "n1", "refuse", "unreachable", "no route to host"),
    ("an excepted node", several(unread, settled(excepted=("n[1,9]",))), "n1", "note", "excepted", "will be drained"),
    ("a list that is a bomb", settled(excepted=("n[1-9999999]",)), CLUSTER, "refuse", "hostlist", "longer than 65536"),
    ("an unknown share mode", setting("wanted", "share_mode", "all"), "n1", "refuse", "share_mode", "'all' is none of"),
    (
        "a share mode to come",
        setting("wanted", "share_mode", "backed"),
        "n1",
        "refuse",
        "share_mode",
        "not served with slurm yet",
    ),
    (
        "another name of this machine",
        setting("kube", "nodes", {"n1.site.org": {"addresses": ["10.0.0.1"]}}),
        "n1",
        "warn",
        "kube_name",
        "this machine's address as node n1.site.org",
    ),
    # the machine
    (
        "a clock far off",
        setting("host", "offset", [60.0, 60.4]),
        "n1",
        "refuse",
        "time",
        "at least 60 s off that of ctl",
    ),
    ("a clock a little off", setting("host", "offset", [-9.4, -9.0]), "n1", "warn", "time", "at least 9 s off"),
    ("swap", setting("found", "swap", ["/dev/sda2"]), "n1", "refuse", "swap", "/dev/sda2"),
    (
        "swap that is allowed",
        several(setting("found", "swap", ["/dev/sda2"]), setting("wanted", "kubelet_config", {"failSwapOn": False})),
        "n1",
        "note",
        "swap",
        "failSwapOn: false",
    ),
    ("cgroup v1", setting("found", "cgroup", "v1"), "n1", "refuse", "cgroup", "kubelet 1.36.3 does not start"),
    (
        "cgroup v1 that is allowed",
        several(setting("found", "cgroup", "v1"), setting("wanted", "kubelet_config", {"failCgroupV1": False})),
        "n1",
        "warn",
        "cgroup",
        "no longer improves",
    ),
    (
        "cgroup v1 with an older kubelet",
        several(setting("found", "cgroup", "v1"), settled(kubelet="1.34.1")),
        "n1",
        "warn",
        "cgroup",
        "no longer improves",
    ),
    ("Singularity-CRI", SYCRI, "n1", "refuse", "cri", "only CRI v1alpha2"),
    (
        "Singularity-CRI by another name",
        several(
            OWN,
            setting("wanted", "socket", "unix:///run/cri.sock"),
            setting("found", "units", {"sycri.service": "active"}),
        ),
        "n1",
        "refuse",
        "cri",
        "Singularity-CRI speaks only CRI v1alpha2, and kubelet 1.36.3 only v1",
    ),
    (
        "an old CRI-O",
        several(
            OWN,
            setting("wanted", "socket", "unix:///run/crio/crio.sock"),
            setting("found", "runtimes", {"crio": "1.19.7"}),
        ),
        "n1",
        "refuse",
        "cri",
        "crio 1.19.7 does not speak CRI v1",
    ),
    (
        "no runtime",
        setting("wanted", "runtime_manage", False),
        "n1",
        "refuse",
        "runtime",
        "no container runtime listens",
    ),
    (
        "an old containerd",
        several(OWN, setting("found", "runtimes", {"containerd": "1.5.9"})),
        "n1",
        "refuse",
        "cri",
        "containerd 1.5.9 does not speak CRI v1",
    ),
    (
        "a containerd too old for 1.37",
        several(setting("kube", "version", "v1.37.0"), setting("found", "runtimes", {"containerd": "1.7.22"})),
        "n1",
        "refuse",
        "cri",
        "RuntimeConfig",
    ),
    (
        "Docker's containerd",
        several(OWN, setting("found", "cri_disabled", True)),
        "n1",
        "refuse",
        "cri",
        "disabled_plugins",
    ),
    ("a kubelet too new", settled(kubelet="1.37.0"), "n1", "refuse", "kubelet_version", "the API server v1.36.3"),
    (
        "a kubelet too old",
        setting("found", "kubelet", "1.32.1"),
        "n1",
        "refuse",
        "kubelet_version",
        "installed is 1.32.1",
    ),
    ("a port that is taken", setting("found", "ports", {"10250": "nc"}), "n1", "refuse", "port", "taken by nc"),
    ("a full disk", setting("disk", "free", GIB), "n1", "refuse", "disk", "/ has 1.0 GiB free, and /var/lib/kubelet"),
    (
        "a full disk of its own",
        several(setting("disk", "mount", "/var/lib/kubelet"), setting("disk", "free", GIB)),
        "n1",
        "refuse",
        "disk",
        "/var/lib/kubelet has 1.0 GiB free",
    ),
    (
        "a nearly full disk",
        several(setting("disk", "mount", "/var/lib/kubelet"), setting("disk", "free", 10 * GIB)),
        "n1",
        "warn",
        "disk",
        "90 % full",
    ),
    ("a read-only disk", setting("disk", "read_only", True), "n1", "refuse", "disk", "read-only"),
    ("a root in memory", setting("disk", "type", "tmpfs"), "n1", "refuse", "stateless", "does not outlive a reboot"),
    ("a root on NFS", setting("disk", "type", "nfs4"), "n1", "refuse", "stateless", "(nfs4)"),
    (
        "a container",
        several(setting("disk", "type", "overlay"), setting("found", "container", "podman")),
        "n1",
        "note",
        "stateless",
        "is a container (podman)",
    ),
    (
        "two networks",
        setting("found", "addresses", {"eth0": ["10.0.0.1"], "ib0": ["10.1.0.1"]}),
        "n1",
        "refuse",
        "node_ip",
        "eth0 10.0.0.1, ib0 10.1.0.1",
    ),
    ("an address it lacks", setting("wanted", "node_ip", "10.9.9.9"), "n1", "refuse", "node_ip", "10.9.9.9"),
    ("no address", setting("wanted", "node_ip", "eth0"), "n1", "refuse", "node_ip", "eth0, which is no address"),
    ("docker", setting("found", "units", {"docker.service": "active"}), "n1", "warn", "service", "docker runs"),
    ("Puppet", setting("found", "units", {"puppet.service": "active"}), "n1", "note", "owner", "puppet.service runs"),
    ("firewalld", setting("found", "units", {"firewalld.service": "active"}), "n1", "warn", "service", "firewalld"),
    ("k3s", setting("found", "units", {"k3s-agent.service": "active"}), "n1", "refuse", "kubernetes", "k3s runs here"),
    (
        "a kubelet",
        setting("found", "units", {"kubelet.service": "active"}),
        "n1",
        "refuse",
        "kubernetes",
        "not by this",
    ),
    (
        "a node of another hand",
        setting("found", "kubernetes", ["/etc/kubernetes/kubelet.conf"]),
        "n1",
        "refuse",
        "kubernetes",
        "/etc/kubernetes/kubelet.conf",
    ),
    (
        "a node of ours",
        several(
            setting("found", "kubernetes", ["/etc/kubernetes/kubelet.conf"]),
            setting("found", "record", ["node_kubelet"]),
            setting("found", "ports", {"10250": "kubelet"}),
        ),
        "n1",
        "note",
        "kubernetes",
        "was joined by this collection",
    ),
    ("munge", setting("found", "munge", "munge: not running"), "n1", "refuse", "munge", "munge: not running"),
    ("SELinux", setting("found", "selinux", "1"), "n1", "warn", "selinux", "enforcing"),
    ("an old kernel", setting("found", "kernel", "3.10.0-1160.el7"), "n1", "warn", "kernel", "3.10.0"),
    (
        "another owner",
        setting("found", "owners", [{"path": "/etc/slurm/slurm.conf", "line": 1, "owner": "Puppet"}]),
        "n1",
        "warn",
        "owner",
        "/etc/slurm/slurm.conf line 1 says that it is Puppet's",
    ),
    ("a line against one user", setting("found", "killing", [LINE]), "n1", "warn", "kills", "/e.sh line 7 kills all"),
    (
        "the same line beside jobs",
        several(setting("found", "killing", [LINE]), setting("wanted", "share_mode", "placeholder")),
        "n1",
        "refuse",
        "kills",
        "/e.sh line 7",
    ),
    (
        "a line against all",
        setting("found", "killing", [{**LINE, "anyone": True}]),
        "n1",
        "refuse",
        "kills",
        "/e.sh line 7",
    ),
    # Slurm
    (
        "flags to merge",
        setting("config", "PrologFlags", "X11"),
        CLUSTER,
        "note",
        "prolog_flags",
        "X11 will be X11,Alloc,",
    ),
    ("NoHold", setting("config", "PrologFlags", "NoHold"), CLUSTER, "refuse", "prolog_flags", "has NoHold"),
    (
        "flags that exclude each other",
        setting("config", "PrologFlags", "NoHold,Contain"),
        CLUSTER,
        "refuse",
        "prolog_flags",
        "exclude each other",
    ),
    ("Serial", setting("config", "PrologFlags", "Serial"), CLUSTER, "warn", "prolog_flags", "wait for each other"),
    ("a short MessageTimeout", setting("config", "MessageTimeout", "10 sec"), CLUSTER, "warn", "timeouts", "is 10 s"),
    (
        "a short start",
        setting("config", "BatchStartTimeout", "10 sec"),
        CLUSTER,
        "warn",
        "timeouts",
        "BatchStartTimeout",
    ),
    (
        "a short Prolog",
        setting("config", "PrologEpilogTimeout", "60"),
        CLUSTER,
        "refuse",
        "timeouts",
        "PrologEpilogTimeout is 60 s",
    ),
    ("power saving", POWER, "n1", "refuse", "power_saving", "does not keep n1 on"),
    (
        "power saving after a day",
        several(POWER, setting("config", "SuspendTime", "86400 sec")),
        "n1",
        "refuse",
        "power_saving",
        "is 86400 s",
    ),
    (
        "power saving in one partition",
        several(POWER, setting("config", "SuspendTime", "INFINITE"), setting("partition", "suspend_time", "600")),
        "n1",
        "refuse",
        "power_saving",
        "SuspendTime is 600 s",
    ),
    (
        "power saving with an odd list",
        several(POWER, setting("config", "SuspendExcNodes", "n[1-9999999]")),
        "n1",
        "refuse",
        "power_saving",
        "SuspendExcNodes: ",
    ),
    (
        "power saving elsewhere",
        several(POWER, setting("config", "SuspendExcNodes", "n[2-4]")),
        "n1",
        "refuse",
        "power_saving",
        "does not keep n1 on",
    ),
    (
        "power saving that keeps some on",
        several(POWER, setting("config", "SuspendExcNodes", "n[1-2]:1")),
        "n1",
        "refuse",
        "power_saving",
        "does not keep n1 on",
    ),
    (
        "forced sharing of cores",
        several(setting("wanted", "share_mode", "placeholder"), setting("partition", "oversubscribe", "FORCE:4")),
        "n1",
        "refuse",
        "oversubscribe",
        "OverSubscribe=FORCE in partition batch",
    ),
    (
        "gang scheduling",
        several(setting("wanted", "share_mode", "backed"), setting("config", "PreemptMode", "GANG,SUSPEND")),
        "n1",
        "refuse",
        "oversubscribe",
        "GANG",
    ),
    ("a node that is down", setting("slurm_node", "state", "DOWN"), "n1", "warn", "state", "Slurm says DOWN"),
    ("a drained node", setting("slurm_node", "flags", ["DRAIN"]), "n1", "note", "state", "is drained"),
    ("another slurm.conf", setting("slurm", "digest", "d2"), "n1", "refuse", "slurm_conf", "than that of ctl"),
    (
        "a slurm.conf that a killed run has changed here and not there",
        several(setting("slurm", "digest", "d2"), setting("found", "record", ["slurm_conf"])),
        "n1",
        "note",
        "slurm_conf",
        "this one goes on",
    ),
    ("an odd slurm.conf", setting("slurm", "error", "line 3: odd"), "n1", "refuse", "slurm_conf", "line 3: odd"),
    ("no slurm.conf", setting("slurm", "conf", ""), "n1", "refuse", "slurm_conf", "no slurm.conf"),
    ("a missing script", setting("slurm", "missing", ["/p.sh"]), "n1", "refuse", "script_missing", "/p.sh"),
    (
        "a forgotten controller",
        setting("config", "SlurmctldHost", ["ctl", "ctl2"]),
        CLUSTER,
        "refuse",
        "controllers",
        "ctl2, which is not in converged_controllers",
    ),
    ("a silent Slurm", silent, CLUSTER, "refuse", "slurm", "scontrol: timed out"),
    ("another batch system", settled(wlm="lsf"), CLUSTER, "refuse", "wlm", "'lsf'"),
]


def test_a_clean_site_is_fit_without_a_finding() -> None:
    assert Site().judge() == {name: Verdict(()) for name in (CLUSTER, "n1", "n2", "ctl")}


@pytest.mark.parametrize(
    ("spoil", "where", "level", "code", "words"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_what_is_wrong_is_named(spoil: t.Callable[[Site], None], where: str, level: str, code: str, words: str) -> None:
    site = Site()
    spoil(site)
    found = [(one.level, one.code) for one in site.judge()[where].findings if words in one.text]
    assert (level, code) in found


def test_a_silent_api_is_named_and_hides_no_other_finding() -> None:
    site = Site()
    site.kube = {"error": "connection refused"}
    site.n1["swap"] = ["/swap"]
    judged = site.judge()
    assert [str(one) for one in judged[CLUSTER].refusals if one.code == "kube_api"]
    assert [one.code for one in judged["n1"].refusals] == ["swap"]


@pytest.mark.parametrize(
    "spoil",
    [
        several(POWER, setting("config", "SuspendExcNodes", "n[1-2]")),
        several(POWER, setting("config", "SuspendExcParts", "batch")),
        setting("config", "SuspendTime", "300 sec"),
        several(POWER, setting("partition", "suspend_time", "INFINITE")),
        setting("partition", "oversubscribe", "FORCE:4"),
        setting("config", "PreemptMode", "GANG"),
        several(
            setting("found", "addresses", {"eth0": ["10.0.0.1"], "ib0": ["10.1.0.1"]}),
            setting("wanted", "node_ip", "10.1.0.1"),
        ),
        several(SYCRI, setting("kube", "version", "v1.25.16")),
        settled(kubelet="1.33.0"),
        setting("host", "offset", [-2.5, 2.5]),
        setting("slurm_node", "hostname", "n1.example.org"),
        several(a_third, settled(excepted=("n3",))),
    ],
)
def test_what_is_right_is_no_finding(spoil: t.Callable[[Site], None]) -> None:
    site = Site()
    spoil(site)
    assert not [finding for verdict in site.judge().values() for finding in verdict.findings]


def test_a_refusal_that_the_site_accepts_is_a_warning_and_still_said() -> None:
    site = Site()
    site.n1["swap"] = ["/dev/sda2"]
    refused = site.judge()["n1"]
    site.settings = site.settings._replace(accepted=("swap",))
    accepted = site.judge()["n1"]
    assert (refused.word, accepted.word) == ("refused", "fit to be shared")
    assert [one._replace(level="refuse") for one in accepted.findings] == list(refused.findings)


def test_refusals_come_first() -> None:
    site = Site()
    site.n1.update(swap=["/dev/sda2"], selinux="1", munge="no")
    site.slurm_nodes[0]["flags"] = ["DRAIN"]
    assert [one.level for one in site.judge()["n1"].findings] == ["refuse", "refuse", "warn", "note"]


def test_a_fault_of_one_node_is_not_held_against_another() -> None:
    site = Site()
    unread(site)
    judged = site.judge()
    assert not judged["n2"].findings
    assert not judged["ctl"].findings


def test_without_a_controller_the_first_host_is_the_measure() -> None:
    site = Site()
    del site.nodes["ctl"]
    site.nodes["n2"]["offset"] = [100.0, 100.5]
    assert [one.text for one in site.judge()["n2"].refusals] == ["its clock is at least 100 s off that of n1"]


def test_a_site_with_pbs_is_judged_by_pbs_and_needs_neither_slurm_nor_munge() -> None:
    site = Site()
    for one in site.nodes.values():
        one["found"]["munge"] = "not installed"
        one["found"]["slurm"] = {"conf": "", "error": "", "digest": "", "scripts": [], "missing": []}
    nodes = [{"name": name, "host": name, "states": ["free"], "comment": ""} for name in ("n1", "n2", "n3")]
    pbs = {"nodes": nodes, "hooks": []}
    judged = verdicts(
        site.nodes, Cluster({"error": "it was not asked"}, site.kube, pbs), site.settings._replace(wlm="pbs")
    )
    assert {name: [finding.code for finding in one.findings] for name, one in judged.items()} == {
        CLUSTER: [],
        "n1": [],
        "n2": [],
        "ctl": [],
        "n3": ["not_in_inventory"],
    }
