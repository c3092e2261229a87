# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host of a bed with Torque gets before it boots."""

from __future__ import annotations

from collections.abc import Callable

from testbed import torque
from testbed.state import Bed
from torque_double.cluster import PROGRAMS

Beds = Callable[..., Bed]


def test_every_command_of_the_double_is_installed_and_only_nodes_have_a_mom(paper_bed: Beds) -> None:
    bed = paper_bed(wlm="torque", nodes=3)
    found = {host.name: {file.path: file for file in torque.files(bed, host)} for host in bed.hosts}
    assert found["kube"] == {}
    assert all(f"/opt/torque/bin/{name}" in found[host] for name in PROGRAMS for host in ("ctl", "n1"))
    assert {host for host, files in found.items() if "/opt/torque/sbin/pbs_mom" in files} == {"n1", "n2", "n3"}
    assert "'ctl n1 n2 n3'" in str(found["n1"]["/opt/torque/bin/qsub"].content)
    assert "['TORQUE_DOUBLE_HOST'] = 'n2'" in str(found["n2"]["/opt/torque/bin/qsub"].content).replace('"', "'")


def test_a_node_mounts_its_moms_home_where_torque_has_it(paper_bed: Beds) -> None:
    bed = paper_bed(wlm="torque")
    bed.dir.mkdir(parents=True)
    torque.make_folders(bed)
    targets = [volume.argument().split(":")[1] for volume in torque.volumes(bed, bed.host("n1"))]
    assert targets == [f"{torque.LIBRARY}/{name}" for name in torque.LIBRARIES] + [torque.CLUSTER, torque.HOME]
    mom_priv = bed.dir / "torque/homes/n2/mom_priv"
    assert mom_priv.stat().st_mode & 0o777 == 0o751
    assert (mom_priv / "config").read_text() == torque.CONFIG


def test_a_bed_without_torque_has_nothing_of_it(paper_bed: Beds) -> None:
    bed = paper_bed()
    assert all(torque.files(bed, host) == [] and torque.volumes(bed, host) == () for host in bed.hosts)
