# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a site keeps slurm.conf, by what each of its hosts shows."""

from __future__ import annotations

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._slurm.conf import kept
from ansible_collections.converged.hpc.plugins.module_utils._slurm.errors import ConfError

MOUNTS = {"/": ("ext4", False), "/srv": ("nfs4", False), "/etc/slurm": ("lustre", False)}


@pytest.mark.parametrize(
    ("path", "real", "mounts", "expected"),
    [
        ("", "", MOUNTS, "none"),
        ("/etc/x/slurm.conf", "/etc/x/slurm.conf", MOUNTS, "local"),
        ("/etc/slurm/slurm.conf", "/etc/slurm/slurm.conf", MOUNTS, "shared"),
        ("/opt/slurm/etc/slurm.conf", "/srv/slurm/etc/slurm.conf", MOUNTS, "shared"),
        ("/run/slurm/conf/slurm.conf", "/var/spool/slurmd/conf-cache/slurm.conf", MOUNTS, "fetched"),
        ("/etc/slurm/slurm.conf", "/var/spool/slurmd/conf-cache/slurm.conf", MOUNTS, "fetched"),
        ("/etc/x/slurm.conf", "/etc/x/slurm.conf", {"/": ("nfs", False)}, "unknown"),
    ],
)
def test_a_host_shows_how_it_has_slurm_conf(
    path: str, real: str, mounts: dict[str, tuple[str, bool]], expected: str
) -> None:
    assert kept.kept(path, real, mounts) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"ctl": "local", "n1": "local", "n2": "local"}, "local"),
        ({"ctl": "shared", "n1": "shared"}, "shared"),
        ({"ctl": "local", "n1": "fetched", "n2": "fetched"}, "configless"),
        ({"ctl": "local", "backup": "fetched", "n1": "fetched"}, "configless"),
        ({"ctl": "shared", "backup": "shared", "n1": "fetched"}, "shared"),
        ({"ctl": "local"}, "local"),
    ],
)
def test_hosts_that_agree_show_how_the_site_keeps_it(found: dict[str, str], expected: str) -> None:
    assert kept.mode(found, ("ctl", "backup")) == expected


@pytest.mark.parametrize(
    "found",
    [
        {"ctl": "local", "n1": "shared"},
        {"ctl": "local", "n1": "fetched", "n2": "local"},
        {"ctl": "none", "n1": "fetched"},
        {"n1": "fetched"},
        {"ctl": "unknown", "n1": "unknown"},
        {},
    ],
)
def test_hosts_that_do_not_agree_leave_it_to_the_administrator(found: dict[str, str]) -> None:
    with pytest.raises(ConfError, match="set slurm_share_conf to local, shared or configless"):
        kept.mode(found, ("ctl", "backup"))


def test_slurm_conf_is_also_looked_for_where_slurmctld_has_it_and_beside_the_programs() -> None:
    assert kept.places("/cfg/slurm.conf", "/opt/slurm/bin") == [
        "/run/slurm/conf/slurm.conf",
        "/cfg/slurm.conf",
        "/etc/slurm/slurm.conf",
        "/etc/slurm-llnl/slurm.conf",
        "/opt/slurm/etc/slurm.conf",
    ]
