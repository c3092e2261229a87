# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guide "Convert a Torque site", followed as it is written on a cluster with scripts of its own, beside a job.

Every test takes the next step of the guide: its inventory, its commands in their order, and what each should say.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from e2e import listing
from e2e.beds import own_bed
from e2e.guide import Guide, as_written, take_inventory
from e2e.playing import until
from e2e.site_of import IMAGE
from e2e.torque_site import LOG, SCRIPTS, USER, TorqueSite
from e2e.whole_site import TORQUE_SCRIPTS, differences, look

pytestmark = pytest.mark.soak

BED = f"torque-guide-{os.getpid()}"
NAMES = {"node[001:600]": "n[1:2]", "node001": "n1", "torque-server": "ctl", "kubectl-host": "kube", "USER": USER}
GUIDE = Guide("convert-torque.md", NAMES)
GROUPS = {"ctl": "converged_controllers", "n1": "converged_nodes", "n2": "converged_nodes"}
# What the beds' nodes can pull, and the patience that a busy machine asks for.
POD = {
    "converged_verify_image": IMAGE,
    "converged_verify_command": ["sleep", "100000"],
    "converged_verify_wait": 300,
}


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TorqueSite]:
    """Two plain nodes with a MoM, and the guide's inventory in place of all that tests say elsewhere."""
    with own_bed(request, BED, "--wlm", "torque", "--nodes", "2") as bed:
        found = TorqueSite(bed, tmp_path_factory.mktemp("torque-guide"))
        found.prepare()
        take_inventory(found, GUIDE, GROUPS)
        yield found


@pytest.fixture(scope="module")
def before(site: TorqueSite) -> Mapping[str, Mapping[str, object]]:
    return look(site)


@pytest.fixture(scope="module")
def job(site: TorqueSite) -> str:
    """A job on the node that comes second."""
    job = site.qsub("-l", "nodes=n2:ppn=1", script="sleep 7200")
    until(lambda: site.job_state(job) == "R", "it runs")
    return job


def test_what_the_guide_looks_at_before_is_there_and_the_plan_changes_nothing(
    site: TorqueSite, before: Mapping[str, Any], job: str
) -> None:
    commands = re.findall(r"^\| `((?:ls|pbsnodes) [^`]+)`", GUIDE.text, re.MULTILINE)
    scripts, nodes = commands
    listed = site.node("n1", scripts)
    assert all(name in listed for name in SCRIPTS), listed
    assert "<name>n1</name>" in site.ctl(nodes)

    plan = GUIDE.runs("site")[0]
    assert plan.endswith("--check --diff")
    said = as_written(site, plan)
    assert said.rc == 0, said.out
    assert "fit to be shared: n1" in said.out
    assert "/var/spool/torque/mom_priv/prologue" in said.out
    # The job has run its prologue.
    assert {path for parts in differences(before, look(site)).values() for path in parts} <= {LOG}
    assert site.job_state(job) == "R"


def test_the_first_node_is_converted_and_every_look_at_it_says_what_the_guide_says(
    site: TorqueSite, before: Mapping[str, Any], job: str
) -> None:
    said = as_written(site, GUIDE.runs("site")[1])
    assert said.rc == 0, said.out
    assert list(site.objects("nodes")) == ["n1"]
    assert site.job_state(job) == "R"
    assert set(listing.difference(before["n2"], {**before["n2"], **site.listing("n2")})) <= {LOG}
    assert site.node("n2", TORQUE_SCRIPTS) == before["batch"]["scripts of n2"]

    ready, shown, script, run, log, taint, status = GUIDE.looks()
    assert {one.on for one in (shown, script, log)} == {"n1"}
    assert ready.words() == [site.kubectl(*shlex.split(ready.commands[0])[1:]).split()[6]]
    for one in (shown, script):
        answer = site.node("n1", one.commands[0])
        assert all(word in answer for word in one.words()), answer

    submit, show = run.commands
    held, lease = run.words()
    job_here = site.ctl(shlex.join(["runuser", "-u", USER, "--", "sh", "-c", f"cd /tmp; {submit}"])).strip()
    until(lambda: held in site.node("n1", show), "the job has the node")
    assert lease.replace("JOB", job_here).replace("RUN", "1") in site.node("n1", show)
    until(lambda: site.tainted() == {"n1"}, "the service has tainted it")
    site.end(job_here, nodes=("n1",))
    assert log.says.startswith("nothing")
    assert "converged-torque" not in site.node("n1", log.commands[0])
    until(lambda: site.tainted() == set(), taint.says)
    told = as_written(site, status.commands[0].partition("hosts.yml ")[2])
    assert all(word in told.out for word in status.words()), told.out


def test_a_pod_and_a_job_prove_it(site: TorqueSite) -> None:
    (words,) = GUIDE.runs("verify")
    said = as_written(site, words, **POD)
    assert '"proved"' in said.out, said.out


def test_the_second_node_is_converted_beside_its_job(site: TorqueSite, job: str) -> None:
    pods = {"node_runtime_pod_cidr": "10.244.2.0/24"}
    site.hosts["all"]["children"]["converged_shared"]["hosts"]["n2"] = pods
    said = as_written(site, GUIDE.runs("site")[1])
    assert said.rc == 0, said.out
    assert set(site.objects("nodes")) == {"n1", "n2"}
    assert site.job_state(job) == "R"
    assert site.leases_of("n2") == {f"torque/{job}"}


def test_the_way_back_leaves_every_script_and_node_as_it_was(
    site: TorqueSite, before: Mapping[str, Any], job: str
) -> None:
    (words,) = GUIDE.runs("restore")
    said = as_written(site, words)
    assert said.rc == 0, said.out
    assert site.job_state(job) == "R"
    site.ctl(f"qdel {job}")
    until(lambda: site.job_state(job) == "C", "it has ended")
    found = differences(before, look(site))
    # The site's own scripts write there at every job.
    assert {path for parts in found.values() for path in parts} == {LOG}
