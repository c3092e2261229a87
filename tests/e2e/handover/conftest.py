# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One converted site for all tests of the hand-over."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.beds import own_bed
from e2e.handover.sharing import LINGER, Sharing

BED = f"handover-{zlib.crc32(bytes(Path(__file__))):08x}"
# Short times where they pass in every test, and long ones where they only would on a machine that stands still.
TIMES = {
    "node_share_linger": LINGER,
    "node_share_deadline": 4,
    "node_share_limit": 90,
    "node_share_repair_interval": 5,
    "node_share_controller_period": 2,
    "node_share_controller_deadline": 75,
    "slurm_share_wait": 85,
}


def repair_on_time(site: Sharing) -> None:
    """What systemd spreads the repairs of many nodes by would only be waited for."""
    drop_in = "/etc/systemd/system/converged-nodeshare-repair.timer.d"
    for node in site.nodes:
        site.node(node, f"mkdir -p {drop_in}; printf '[Timer]\\nRandomizedDelaySec=0\\n' > {drop_in}/e2e.conf")
        site.node(node, "systemctl daemon-reload; systemctl restart converged-nodeshare-repair.timer")


@pytest.fixture(scope="session")
def converted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sharing]:
    """Two nodes of a Slurm cluster after `site.yml`; `--bed` takes a converted one."""
    with own_bed(request, BED) as bed:
        site = Sharing(bed, tmp_path_factory.mktemp("handover"))
        site.set("all", **TIMES)
        if not request.config.getoption("--bed"):
            site.play("site")
            repair_on_time(site)
        site.settings(api_timeout=30)  # a busy API server is not one that is away
        site.record_events()
        site.tidy()
        yield site


@pytest.fixture
def site(converted: Sharing) -> Iterator[Sharing]:
    """However a test ends, the next one begins with idle nodes without pods."""
    yield converted
    converted.tidy()
