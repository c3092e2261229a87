# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Single roles that go back alone leave nothing, also from a node that a job holds."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from e2e.beds import own_bed
from e2e.playing import play
from e2e.site_of import ConvertedSite
from e2e.whole_site import differences, look

pytestmark = pytest.mark.soak
BED = f"parts-{os.getpid()}"
BATCH = "converged.hpc/batch"
OURS = ("converged.hpc/leases", "converged.hpc/held-by")
# What a node has of node_share, wherever it is.
OF_NODE_SHARE = ("nodeshare", "/usr/local/lib/converged", "/var/lib/converged/nodeshare")


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConvertedSite]:
    """One plain node with Slurm 22.05, and a control plane."""
    with own_bed(request, BED, "--nodes", "1") as bed:
        yield ConvertedSite(bed, tmp_path_factory.mktemp("parts"))


@pytest.fixture(scope="module", autouse=True)
def before(site: ConvertedSite) -> Mapping[str, Mapping[str, object]]:
    """The whole site before us. That it was looked at changes nothing: no automount is mounted by a look."""
    first = look(site)
    assert differences(first, look(site)) == {}
    points = [name for name, mounts in first["n1"].items() if name.startswith("mount ") and "autofs" in str(mounts)]
    assert points == ["mount /proc/sys/fs/binfmt_misc"], "the control: there is one that a look could trigger"
    return first


def annotations(site: ConvertedSite) -> dict[str, str]:
    found: dict[str, str] = site.objects("nodes")["n1"]["metadata"]["annotations"]
    return {name: text for name, text in found.items() if name in OURS}


def test_a_runtime_that_no_kubelet_has_used_goes_back_alone(site: ConvertedSite, before: Mapping[str, Any]) -> None:
    site.run([play("converged_nodes", "node_runtime")])
    assert site.node("n1", "ctr --namespace k8s.io images list --quiet"), "the runtime holds nothing"
    site.play("restore", converged_restore_role="node_runtime")
    assert differences(before, look(site)) == {}


# In every change molecule, scenario share, takes the role back after its job. Under a job only this test does.
def test_nodeshare_goes_back_alone_from_a_node_that_a_job_holds(site: ConvertedSite) -> None:
    """The controllers' service stays, and keeps pods away until the job ends; then it opens the node."""
    site.play("site")
    words = ["sbatch", "--parsable", "--nodelist=n1", "--output=/dev/null", "--wrap", "sleep 3600"]
    job = site.bed.ssh("ctl", words).out.strip()
    site.until("ctl", f"squeue -h -j {job} -t R -o %N | grep -qx n1")
    # Slurm says that the job runs as soon as its Prolog does.
    site.until("kube", "kubectl get node n1 -o json | grep -q converged.hpc/leases")
    assert annotations(site) == {
        "converged.hpc/leases": f'["slurm/{job}/0"]',
        "converged.hpc/held-by": f"slurm/{job}/0",
    }

    site.play("restore", converged_restore_role="node_share")

    assert site.ctl("squeue -h -t R -o '%A %N'") == f"{job} n1\n", "the job was lost"
    assert [name for name in site.listing("n1") if any(part in name for part in OF_NODE_SHARE)] == []
    assert site.node("n1", "ls -d /run/converged || true") == ""
    assert "converged.hpc/leases" not in annotations(site)
    assert BATCH in site.taints()["n1"], "pods would come beside the job"
    site.ctl("scancel --user=ops")
    site.quiet()
    site.until("kube", f"! kubectl get node n1 -o json | grep -q {BATCH}")
    assert annotations(site) == {}


def test_the_rest_goes_back_too_and_the_site_is_as_it_was(site: ConvertedSite, before: Mapping[str, Any]) -> None:
    site.play("restore")
    assert differences(before, look(site)) == {}
    assert site.node("ctl", "ls -d /run/converged || true") == ""
