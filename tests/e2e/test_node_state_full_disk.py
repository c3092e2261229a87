# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node whose disk is really full: one clear error and nothing half made; with room again the same call converges."""

from __future__ import annotations

import re
from typing import Any

import pytest
from e2e.record_node import RecordNode
from testbed import api

BIG = "0123456789abcde\n" * 4096
FILL = "head -c 1M /dev/zero > {}/filler 2>/dev/null || true"
# Where a small file system is mounted, how it is filled, what the error says.
FULL = {
    "no bytes for a file": ("/srv/small", "true", "/srv/small: 65536 bytes are needed, 32768 are free: make room"),
    "no inodes for files": (
        "/srv/small",
        "for name in 1 2 3 4 5 6; do : > /srv/small/filler$name; done",
        "/srv/small: 3 inodes are needed, 1 are free: make room",
    ),
    "no room for the record": (
        "/var/lib/converged",
        FILL.format("/var/lib/converged"),
        "/var/lib/converged/record.*no space left",
    ),
    "no room for a copy of what was there": (
        "/var/lib/converged",
        "head -c 12K /dev/zero > /var/lib/converged/filler",
        "record /var/lib/converged/record: cannot keep a copy of /etc/site/big.conf: no space left",
    ),
}


@pytest.fixture(scope="module")
def node(bed: api.RunningBed) -> RecordNode:
    return RecordNode(bed, "n2")


def wanted(case: str) -> dict[str, Any]:
    texts = {"bytes": [BIG], "inodes": ["a", "b", "c"]}.get(case.split()[1], [])
    files = [{"path": "/etc/site/big.conf", "text": "ours\n"}]
    files += [{"path": f"/srv/small/{at}", "text": text} for at, text in enumerate(texts)]
    return {"role": "full", "directories": [{"path": "/srv/ours"}], "files": files}


@pytest.mark.parametrize("case", FULL)
def test_a_full_disk_is_named_and_nothing_is_half_made(node: RecordNode, case: str) -> None:
    place, fill, says = FULL[case]
    node.prepare()
    node.sh(f"head -c 40K /dev/zero > /etc/site/big.conf; mkdir -p {place}")
    node.sh(f"mount -t tmpfs -o size=32k,nr_inodes=8 tmpfs {place}")
    try:
        node.sh(fill)
        refused = node.history([{"converge": wanted(case)}])
        assert refused["difference"] == {}
        error = refused["answers"][0]["error"]
        assert "\n" not in error
        assert re.search(says, error), error

        node.sh(f"rm -f {place}/filler*; mount -o remount,size=1m,nr_inodes=99 {place}")
        found = node.history([{"converge": wanted(case)}, {"converge": wanted(case)}, {"restore": ""}])
        done, again, back = found["answers"]
        assert done["changed"]
        assert again == {"changed": False, "steps": []}
        assert back["left"] == []
        assert found["difference"] == {}
    finally:
        node.sh(f"umount {place}; rmdir {place}")
