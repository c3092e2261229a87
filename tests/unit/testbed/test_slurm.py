# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The site's Slurm configuration: valid where it must be, and untidy where sites are."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from testbed import slurm
from testbed.cgroups import Way
from testbed.state import Bed

Beds = Callable[..., Bed]


def settings(text: str) -> dict[str, str]:
    """Keys in lower case, as Slurm compares them, without comments."""
    lines = (line.split("#")[0].strip() for line in text.splitlines())
    pairs = (re.split(r"\s*=\s*", line, maxsplit=1) for line in lines if "=" in line)
    return {key.lower(): value for key, value in pairs}


def test_the_configuration_looks_as_if_people_had_written_it(paper_bed: Beds) -> None:
    text = slurm.slurm_conf(paper_bed())["slurm.conf"]
    assert re.search(r"^#", text, re.M)
    assert re.search(r"^\S+ +=", text, re.M)
    assert re.search(r"^[a-z]+=", text, re.M)
    assert re.search(r"^[A-Z]+=", text, re.M)
    assert re.findall(r"^include\s+(\S+)", text, re.M | re.I) == ["nodes.conf", "partitions.conf"]
    assert re.search(r"=\S+\s+#", text)


def test_site_scripts_are_named_and_exist(paper_bed: Beds) -> None:
    conf = settings(slurm.slurm_conf(paper_bed())["slurm.conf"])
    assert conf["prolog"] == "/etc/slurm/prolog.sh"
    assert conf["epilog"] == "/etc/slurm/epilog.sh"
    assert set(slurm.scripts()) == {"prolog.sh", "epilog.sh"}


@pytest.mark.parametrize(
    ("nodes", "ranges", "newer"),
    [(1, ["n1"], "n1"), (2, ["n1", "n2"], "n2"), (3, ["n[1-2]", "n3"], "n3"), (8, ["n[1-4]", "n[5-8]"], "n[5-8]")],
)
def test_nodes_are_given_as_ranges_and_every_node_once(
    paper_bed: Beds, nodes: int, ranges: list[str], newer: str
) -> None:
    conf = slurm.slurm_conf(paper_bed(nodes=nodes))
    found = re.findall(r"^nodename=(\S+)", conf["nodes.conf"], re.M | re.I)
    assert found == ["DEFAULT", *ranges]
    partitions = re.findall(r"^partitionname=(\S+)\s+nodes=(\S+)", conf["partitions.conf"], re.M | re.I)
    assert partitions == [
        ("batch", slurm.hostlist(1, nodes)),
        ("short", slurm.hostlist(1, nodes)),
        ("rack2", newer),
    ]


@pytest.mark.parametrize(
    ("way", "plugin", "proctrack", "constrained"),
    [
        (Way.V1, "cgroup/v1", "proctrack/cgroup", True),
        (Way.V2, "cgroup/v2", "proctrack/cgroup", True),
        (Way.PRIVATE_V2, "cgroup/v1", "proctrack/linuxproc", False),
    ],
)
def test_jobs_have_limits_wherever_the_machine_has_them(
    paper_bed: Beds, way: Way, plugin: str, proctrack: str, constrained: bool
) -> None:
    conf = slurm.slurm_conf(paper_bed(way=way))
    assert settings(conf["slurm.conf"])["proctracktype"] == proctrack
    assert settings(conf["cgroup.conf"])["cgroupplugin"] == plugin
    assert ("constrainramspace" in settings(conf["cgroup.conf"])) is constrained


@pytest.mark.parametrize(
    ("where", "host", "has_conf"),
    [
        ("local", "ctl", True),
        ("local", "n1", True),
        ("shared", "ctl", False),
        ("shared", "n1", False),
        ("configless", "ctl", True),
        ("configless", "n1", False),
    ],
)
def test_slurm_conf_lies_where_the_site_keeps_it(paper_bed: Beds, where: str, host: str, has_conf: bool) -> None:
    bed = paper_bed(slurm_conf=where)
    paths = {file.path for file in slurm.files(bed, bed.host(host), munge_key=b"k")}
    assert ("/etc/slurm/slurm.conf" in paths) is has_conf
    assert ("/etc/slurm/prolog.sh" in paths) is (where != "shared")
    assert "/etc/munge/munge.key" in paths


def test_only_the_batch_system_gets_its_secret_and_services(paper_bed: Beds) -> None:
    bed = paper_bed()
    assert slurm.files(bed, bed.host("kube"), munge_key=b"k") == []
    plain = paper_bed(wlm="none")
    assert slurm.files(plain, plain.host("n1"), munge_key=b"k") == []


def test_slurmctld_waits_for_its_database(paper_bed: Beds) -> None:
    bed = paper_bed(slurmdbd=True)
    links = {file.path.rsplit("/", 1)[-1] for file in slurm.files(bed, bed.host("ctl"), munge_key=b"k") if file.target}
    assert links == {"munge.service", "mariadb.service"}
    assert settings(slurm.slurm_conf(bed)["slurm.conf"])["accountingstoragetype"] == "accounting_storage/slurmdbd"


@pytest.mark.parametrize(("controllers", "hosts"), [(1, ["ctl"]), (2, ["ctl", "ctl2"])])
def test_backup_controllers_are_named_in_their_order_and_asked_by_nodes(
    paper_bed: Beds, controllers: int, hosts: list[str]
) -> None:
    bed = paper_bed(controllers=controllers, slurm_conf="configless")
    text = slurm.slurm_conf(bed)["slurm.conf"]
    assert re.findall(r"^slurmctldhost = (\S+)$", text, re.M) == hosts
    options = {file.path: file.content for file in slurm.files(bed, bed.host("n1"), munge_key=b"k")}
    assert f"--conf-server {','.join(hosts)}" in str(options["/etc/default/slurmd"])


def test_a_cluster_name_has_no_hyphen(paper_bed: Beds) -> None:
    assert slurm.cluster_name(paper_bed(name="a-b-c")) == "a_b_c"
