# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ends a conversion before it begins, on a real site: a wrong inventory, hosts out of reach, a second operator."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from e2e.playing import play
from e2e.site_of import ConvertedSite, kill
from testbed import api

pytestmark = pytest.mark.seconds(120)

BED = f"site-{os.getpid()}"
CONF = "/etc/slurm/slurm.conf"
HOSTS = ("ctl", "n1", "n2")


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConvertedSite]:
    """Two plain nodes with Slurm 22.05, and a control plane; CONVERGED_KEEP_BED=1 leaves the bed up."""
    name = request.config.getoption("--bed")
    yield ConvertedSite(api.find(name) if name else api.bring_up(BED), tmp_path_factory.mktemp("site"))
    if not name and os.environ.get("CONVERGED_KEEP_BED") != "1":
        api.take_down(BED)


# By what is set where, and what is said then. The preflight's own tests have the others.
WRONG: dict[str, tuple[dict[str, dict[str, Any]], tuple[str, ...]]] = {
    "names and a share mode that there are not": (
        {"n1": {"converged_share_mode": "borrow"}, "n2": {"converged_wlm_node": "n77"}},
        ("[share_mode]", "[unknown_to_slurm]"),
    ),
    "hosts that nobody reaches or may not change": (
        {"n1": {"ansible_become_user": "nobody-like-this"}, "n2": {"ansible_host": "192.0.2.1", "ansible_timeout": 2}},
        ("n1: refused", "n2: refused", "[unreachable]"),
    ),
    "a hash of another authority": (
        {"all": {"node_kubelet_ca_hashes": ["sha256:" + "0" * 64]}},
        ("is not that of the cluster",),
    ),
    "no kubeconfig": ({"all": {"converged_kubeconfig": "/etc/no.conf"}}, ("/etc/no.conf",)),
}


@pytest.mark.parametrize("case", sorted(WRONG))
def test_what_is_wrong_is_said_before_anything_is_touched(site: ConvertedSite, case: str) -> None:
    variables, messages = WRONG[case]
    kept = json.dumps(site.hosts)
    for where, values in variables.items():
        site.set(where, **values)
    try:
        said = site.play("site", check=False)
    finally:
        site.hosts = json.loads(kept)
    assert said.rc != 0
    assert [message for message in messages if message not in said.out] == [], said.out
    assert_untouched(site)


def assert_untouched(site: ConvertedSite) -> None:
    for host in HOSTS:
        assert site.node(host, "ls -d /etc/converged /var/lib/converged /etc/containerd 2>/dev/null || true") == ""
        assert "converged" not in site.node(host, f"cat {CONF}")
    assert site.kubectl("get", "nodes,clusterroles", "--output=name").count("converged") == 0


def test_two_operators_do_not_convert_at_once(site: ConvertedSite) -> None:
    waiting = site.folder / "waiting.yml"
    steps = [{"converged.hpc.share_lock": {}}, {"ansible.builtin.pause": {"minutes": 30}}]
    waiting.write_text(yaml.safe_dump([play("converged_controllers", *steps)]), encoding="utf-8")
    with site.started(waiting) as first:
        site.until("ctl", "grep -q token /run/converged.hpc.lock")
        said = site.play("site", check=False)
        assert said.rc != 0
        assert f"changes this site (process {first.pid} on " in said.out
        kill(first)
