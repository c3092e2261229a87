# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The example play that adds the sharing of nodes to a site's own playbook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

EXAMPLE = Path(__file__).parents[2] / "docs/examples/site"


@pytest.fixture(scope="module")
def converted(rehearsals: Any) -> Any:
    """Return a run of the example for two nodes, of which the second has a job."""
    done = rehearsals().play(yaml.safe_load((EXAMPLE / "sharing.yml").read_text(encoding="utf-8")))
    assert done.passed, done.said
    return done


def place(done: Any, host: str, name: str) -> int:
    """Return where in the run a call of this name was made for a host, the first one."""
    return next(at for at, call in enumerate(done.calls) if call.host == host and call.name == name)


def test_the_sites_playbook_gets_one_more_line() -> None:
    plays = yaml.safe_load((EXAMPLE / "site.yml").read_text(encoding="utf-8"))
    assert [play["ansible.builtin.import_playbook"] for play in plays] == ["slurm.yml", "sharing.yml"]


def test_every_host_is_judged_before_anything_is_changed(converted: Any) -> None:
    changing = {"node_state", "slurm_conf", "kube_join", "k8s", "kube_client_config"}
    first = min(at for at, call in enumerate(converted.calls) if call.module in changing)
    judged = max(at for at, call in enumerate(converted.calls) if call.module in ("share_node_info", "share_verdict"))
    assert judged < first


def test_every_host_has_the_scripts_before_slurm_conf_names_them(converted: Any) -> None:
    scripts = [place(converted, host, "Put the scripts on the host, inert") for host in ("n1", "n2", "ctl")]
    named = place(converted, "ctl", "Change slurm.conf on the controller and have it followed")
    assert max(scripts) < named


def test_a_node_records_its_jobs_before_and_after_the_join_and_takes_pods_last(converted: Any) -> None:
    names = [call.name for call in converted.calls if call.host == "n2"]
    steps = [
        "Put nodeshare on the node",
        "Have leases for the jobs that run here already",
        "Put the container runtime on the node",
        "Join the node",
        "Let the scripts on this host act",
    ]
    assert [names.index(step) for step in steps] == sorted(names.index(step) for step in steps)
    again = len(names) - 1 - names[::-1].index("Have leases for the jobs that run here already")
    assert names.index("Let the scripts on this host act") < again
    assert again < names.index("Let pods onto the nodes")


def test_the_first_node_is_done_before_the_second_is_begun(converted: Any) -> None:
    last = max(at for at, call in enumerate(converted.calls) if call.host == "n1")
    assert last < place(converted, "n2", "Put nodeshare on the node")
