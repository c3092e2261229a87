# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host of a bed with PBS gets before it boots."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pbs_double.cluster import PROGRAMS
from testbed import layout, pbs
from testbed.layout import Request
from testbed.state import Bed

Beds = Callable[..., Bed]


def test_every_command_of_the_double_is_installed(paper_bed: Beds) -> None:
    bed = paper_bed(wlm="pbs")
    paths = {file.path for file in pbs.files(bed, bed.host("n1"))}
    assert {f"{folder}/{name}" for folder in ("/opt/pbs/bin", "/usr/local/bin") for name in PROGRAMS} <= paths


def test_only_nodes_have_a_mom_and_only_the_controller_is_a_server(paper_bed: Beds) -> None:
    bed = paper_bed(wlm="pbs", nodes=3)
    paths = {host.name: {file.path: file for file in pbs.files(bed, host)} for host in bed.hosts}
    assert paths["kube"] == {}
    assert {name for name, found in paths.items() if "/opt/pbs/sbin/pbs_mom" in found} == {"n1", "n2", "n3"}
    assert all("/opt/pbs/bin/qsub" in paths[name] for name in ("ctl", "n1"))
    assert "PBS_START_SERVER=1" in str(paths["ctl"]["/etc/pbs.conf"].content)
    assert "PBS_START_SERVER=0" in str(paths["n2"]["/etc/pbs.conf"].content)
    assert "'ctl n1 n2 n3'" in str(paths["n1"]["/opt/pbs/bin/qsub"].content)


def test_a_bed_without_pbs_has_nothing_of_it(paper_bed: Beds) -> None:
    bed = paper_bed()
    assert all(pbs.files(bed, host) == [] and pbs.volumes(bed, host) == () for host in bed.hosts)


def test_the_state_is_one_folder_with_a_home_for_each_node(paper_bed: Beds) -> None:
    bed = paper_bed(wlm="pbs")
    bed.dir.mkdir(parents=True)
    pbs.make_folders(bed)
    cluster = bed.dir / "pbs"
    assert sorted(path.name for path in (cluster / "homes").iterdir()) == ["n1", "n2"]
    assert cluster.stat().st_mode & 0o777 == 0o777


def test_a_virtual_machine_mounts_nothing_and_borrows_the_state_from_the_first_controller(paper_bed: Beds) -> None:
    bed = paper_bed(wlm="pbs", vm=True)
    bed.dir.mkdir(parents=True)
    pbs.make_folders(bed)
    assert not (bed.dir / "pbs/homes").exists(), "the server would look for a MoM here"
    assert pbs.volumes(bed, bed.host("n1")) == ()
    found = {host.name: {file.path: file for file in pbs.files(bed, host)} for host in bed.hosts}
    lenders = {name for name, files in found.items() if "/opt/pbs/sbin/pbs_lender" in files}
    assert lenders == {"ctl"}
    for path in ("/opt/pbs/sbin/pbs_mom", "/opt/pbs/bin/qstat", "/var/spool/pbs-cluster/sbin/n1/pbs_python"):
        assert "'ctl:15010'" in str(found["n1"][path].content)
    assert "PBS_DOUBLE_LENDER\"] = ''" in str(found["ctl"]["/opt/pbs/bin/qstat"].content)
    ours = {path.removeprefix(pbs.OWN_LIBRARY) for path in found["n1"] if path.startswith(pbs.OWN_LIBRARY)}
    assert {"/pbs_double/mom.py", "/pbs_double/lender.py", "/pbs_double/lending.py", "/pbs_double/state.py"} <= ours


def test_openpbs_is_seen_where_it_is_installed_and_where_it_lies_as_a_rule(paper_bed: Beds) -> None:
    bed = paper_bed(wlm="pbs", pbs_exec="/srv/openpbs")
    found = {host.name: {file.path: file for file in pbs.files(bed, host)} for host in bed.hosts}
    assert found["kube"] == {}
    assert {found[name]["/opt/pbs"].target for name in ("ctl", "n1", "n2")} == {"/srv/openpbs"}
    assert "PBS_EXEC=/srv/openpbs\n" in str(found["n1"]["/etc/pbs.conf"].content)
    assert [volume.argument() for volume in pbs.volumes(bed, bed.host("n1"))] == ["/srv/openpbs:/srv/openpbs:ro"]
    starts = {name: str(found[name][pbs.START].content).splitlines()[-3:] for name in ("ctl", "n1")}
    assert starts["ctl"] == [f"/srv/openpbs/sbin/pbs_{daemon}" for daemon in ("comm", "server", "sched")]
    assert starts["n1"][1:] == ["fi", "/srv/openpbs/sbin/pbs_mom"]


def test_openpbs_where_it_lies_as_a_rule_needs_no_link(paper_bed: Beds) -> None:
    bed = paper_bed(wlm="pbs", pbs_exec="/opt/pbs")
    assert "/opt/pbs" not in {file.path for file in pbs.files(bed, bed.host("n1"))}


def test_a_bed_has_openpbs_where_it_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sbin").mkdir()
    (tmp_path / "sbin/pbs_server").touch()
    monkeypatch.setenv("PBS_EXEC", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    requests = (Request(wlm="pbs"), Request(), Request(wlm="pbs", controllers=2), Request(wlm="pbs", debian=13))
    assert [pbs.installed_for(request) for request in requests] == [str(tmp_path), "", "", ""]
    assert pbs.installed_for(Request(wlm="pbs", vm=True)) == ""
    monkeypatch.setenv("PBS_EXEC", "")
    assert pbs.installed_for(Request(wlm="pbs")) == ""


def test_a_bed_with_another_pbs_is_not_the_one_that_is_asked_for(paper_bed: Beds) -> None:
    bed = paper_bed(wlm="pbs")
    assert layout.differences(bed, Request(wlm="pbs", pbs_exec="/opt/pbs")) == ["PBS its double (asked for /opt/pbs)"]
