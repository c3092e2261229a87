# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site whose first node is to run through the bridge: what its nodes have before a conversion."""

from __future__ import annotations

from pathlib import Path

from e2e.cri import real
from e2e.cri.stand_in import UNPACK, programs
from e2e.cri.wheels import wheels
from e2e.handover.sharing import Sharing
from e2e.wheel_folders import as_folder
from testbed.api import RunningBed

NODE, OTHER = "n1", "n2"
TIMES = {
    "node_share_linger": 2,
    "node_share_deadline": 4,
    "node_share_repair_interval": 5,
    "node_share_controller_period": 2,
}
# What a node that is a container of the test bed needs of the role; all else are its defaults.
IN_CONTAINERS = {
    "singularity_cri_packages": ["containernetworking-plugins", "python3-venv"],
    "singularity_cri_v1_wheels": "/opt/wheels",
    "singularity_cri_kernel_modules": [],
    "singularity_cri_sysctls": {"net.ipv4.ip_forward": "1"},
    "share_preflight_accept": ["cri_cgroup"],
}

# The engine takes each folder there for a controller of cgroup v1. Containers have empty ones, and machines have none.
ONLY_CONTROLLERS = """\
set -e
mount -o remount,rw /sys/fs/cgroup
for path in /sys/fs/cgroup/*; do
  test -L "$path" || mountpoint -q "$path" || rmdir "$path"
done
find /sys/fs/cgroup -xdev -maxdepth 1 -xtype l -delete
mount -o remount,ro /sys/fs/cgroup
"""


def prepared(bed: RunningBed, folder: Path) -> Sharing:
    """Give every node an engine and wheels, as a site has them, and n1 the variable; n2 keeps containerd."""
    site = Sharing(bed, folder)
    site.set("all", **TIMES)
    itself = real.found()
    given = itself or programs(site.folder)
    site.set("converged_nodes", singularity_cri_folder=str(given), **IN_CONTAINERS)
    site.set(NODE, converged_runtime="singularity_cri")  # for tests that begin in the middle, with --bed
    packed = as_folder(wheels(python="3.11"))
    for node in site.nodes:
        bed.exec(node, ["sh", "-c", "mkdir -p /opt/wheels; tar -xC /opt/wheels"], input=packed)
        if itself:
            bed.exec(node, ["tar", "-xC", "/"], input=real.packed(itself))
            site.node(node, ONLY_CONTROLLERS)
            continue
        site.node(node, UNPACK)
        engine = (given / "singularity").read_text(encoding="utf-8")
        site.node(node, "cat > /usr/local/bin/singularity; chmod 755 /usr/local/bin/singularity", input=engine)
    if itself:
        site.set("converged_nodes", singularity_cri_engine_folder=real.PREFIX)
    return site
