# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversions and ways back that are killed anywhere leave nothing behind, and cost no job.

`make soak` kills at every point. Every run of test_site_life.py is killed at one point on each way.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from e2e.beds import own_bed
from e2e.site_of import ConvertedSite
from e2e.whole_site import CONF, differences, look
from payloads import seeds

pytestmark = [pytest.mark.soak, pytest.mark.repeated]

BED = f"killed-{os.getpid()}"
# Where a run may be killed: before any node is converted, and while it is.
BEFORE_NODES = [
    ("Give the batch controllers", "Say what the batch controllers may do"),
    ("Give the batch controllers", "Have the requests signed"),
    ("Give the batch controllers", "Put the certificate beside its key"),
    ("Have Slurm call our scripts", "Put the scripts on the host"),
    ("Have Slurm call our scripts", "Change the copies of slurm.conf"),
    ("Have Slurm call our scripts", "Start slurmctld anew"),
    ("Convert the batch controllers", "Run nodeshare controller"),
    ("Convert the batch controllers", "Let the scripts on this host act"),
]
AT_NODES = [
    ("Convert the nodes", task)
    for task in (
        *("Put nodeshare on the node", "Put the container runtime", "Put kubelet and kubeadm", "Ask the cluster how"),
        *(
            "Join the node]",
            "Delete the token",
            "Configure the kubelet",
            "Label the nodes",
            "Let the scripts on this host",
        ),
    )
]
JOINED = ("Convert the nodes", "Label the nodes")
LEFT = ("Take the nodes out of Kubernetes", "Take the kubelet away again")
# And the way back from there.
BACK = [
    ("Take the nodes out of Kubernetes", "Take nodeshare away again"),
    ("Take the nodes out of Kubernetes", "End the pods and leave the cluster"),
    LEFT,
    ("Take the service of the batch controllers", "Take nodeshare controller away again"),
    ("Take back what is left", "Put back what was there before"),
]


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConvertedSite]:
    """Two plain nodes with Slurm 22.05, and a control plane."""
    with own_bed(request, BED) as bed:
        yield ConvertedSite(bed, tmp_path_factory.mktemp("killed"))


@pytest.fixture(scope="module")
def before(site: ConvertedSite) -> Mapping[str, Mapping[str, object]]:
    """Return everything on the whole site before any run."""
    return look(site)


@pytest.fixture(scope="module")
def conf(site: ConvertedSite) -> str:
    """Return slurm.conf before any run."""
    return site.ctl(f"cat {CONF}")


# Every point, each with one way back. Five seeds in a row have all pairs.
PAIRS = [(point, BACK[(number + seeds.first()) % len(BACK)]) for number, point in enumerate(BEFORE_NODES + AT_NODES)]


@pytest.mark.parametrize(
    ("there", "back"),
    [
        pytest.param(JOINED, LEFT, id="between nodes and the cluster's books"),
        *(pytest.param(*pair, id=f"{pair[0][1]}, {pair[1][1]}") for pair in PAIRS),
    ],
)
def test_a_conversion_and_a_way_back_that_are_killed_anywhere_leave_nothing(
    site: ConvertedSite,
    before: Mapping[str, Any],
    conf: str,
    there: tuple[str, str],
    back: tuple[str, str],
) -> None:
    site.killed_at("site", *there)
    site.srun("-N2", "true")
    site.killed_at("restore", *back)
    site.srun("-N2", "true")
    site.play("restore")
    where = f"killed at {there} and, on the way back, at {back}"
    assert differences(before, look(site)) == {}, where
    assert site.ctl(f"cat {CONF}") == conf, where
