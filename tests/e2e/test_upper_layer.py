# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host listed from its upper layer is listed as it is: a listing that reads every file agrees.

That the image and the upper layer are put together rightly, tests/unit/e2e proves in every change; here they are those
of a kernel, an engine and a package manager.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e import listing, upper_layer
from e2e.record_node import CLEAN, RecordNode
from testbed import api

pytestmark = pytest.mark.soak

HOST = "n2"
PLACE = "/usr/share/doc"
# What a host may go through: do, undo, and something that is different meanwhile. Not all of it can be undone.
CHANGES = {
    "a file of the image is changed": ("echo more >> /etc/motd", "/etc/motd"),
    "a file of the image is as it was, and the upper layer's": (
        "cp -p /etc/issue /run/kept; echo more >> /etc/issue; cp -p /run/kept /etc/issue",
        "",
    ),
    "a file of the image is removed": ("rm /etc/debian_version", "/etc/debian_version"),
    "a directory of the image is removed": (f"rm -r {PLACE}/bash", f"{PLACE}/bash"),
    "a directory of the image is made anew": (
        f"rm -r {PLACE}/tar; mkdir {PLACE}/tar; echo a > {PLACE}/tar/copyright; echo b > {PLACE}/tar/new",
        f"{PLACE}/tar/new",
    ),
    "a directory of the image has another name": (f"mv {PLACE}/sed {PLACE}/said", f"{PLACE}/said"),
    "a directory is in the place of another": (f"rm -r {PLACE}/gzip; mv {PLACE}/grep {PLACE}/gzip", f"{PLACE}/grep"),
    "a file is in the place of a directory": (f"rm -r {PLACE}/dash; echo > {PLACE}/dash", f"{PLACE}/dash"),
    "modes, owners, attributes and links": (
        "chmod 700 /etc/skel; chown daemon /etc/shells; ln -sfn /nowhere /etc/localtime; mkfifo /srv/pipe",
        "/etc/skel",
    ),
    "a volume": ("mkdir /var/lib/kubelet/e2e; echo > /var/lib/kubelet/e2e/file", "/var/lib/kubelet/e2e/file"),
    "a file system is mounted": ("mount -t tmpfs -o size=1m none /etc/opt; echo > /etc/opt/file", "/etc/opt/file"),
    "packages, a service and a setting": (
        "apt-get install -qq -y probe > /dev/null; sysctl -qw net.ipv4.ip_nonlocal_bind=1",
        "package probe",
    ),
    "a unit is enabled": ("systemctl enable --quiet site-idle", "unit file site-idle.service"),
    "packages are gone again": ("dpkg --purge probe probe-library > /dev/null", "package probe"),
    "the file system is gone again": ("umount /etc/opt; rm -r /var/lib/kubelet/e2e", "/etc/opt/file"),
}


@pytest.fixture(scope="module")
def node(bed: api.RunningBed) -> Iterator[RecordNode]:
    found = RecordNode(bed, HOST)
    found.prepare()
    yield found
    found.sh(CLEAN)


def both(bed: api.RunningBed, host: str) -> dict[str, Any]:
    """Return the listing of a host once it is sure that both ways lead to it."""
    quick = upper_layer.everything(bed, host)
    done = bed.exec(host, ["python3", "-"], input=Path(listing.__file__).read_text(encoding="utf-8"))
    assert listing.difference(quick, json.loads(done.out)) == {}
    return quick


@pytest.mark.parametrize("host", ["ctl", "kube", "n1"])
def test_a_host_that_has_just_booted_is_listed_whole(bed: api.RunningBed, host: str) -> None:
    assert len(both(bed, host)) > 10_000


@pytest.mark.parametrize("case", CHANGES)
def test_whatever_changes_on_a_host_is_listed_as_if_all_had_been_read(
    bed: api.RunningBed, node: RecordNode, case: str
) -> None:
    change, different = CHANGES[case]
    before = both(bed, HOST)
    node.sh(f"set -e; {change}")
    changed = listing.difference(before, both(bed, HOST))
    assert different in changed if different else changed == {}
