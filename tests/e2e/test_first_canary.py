# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guide "Your first canary", followed as it is written: its inventory, its commands, and what each should say.

Slurm's programs are in /opt/slurm, where no daemon of Slurm is beside them; pods have a bridge; the second node is in a
partition that stays unshared. Only names of hosts are changed, and what a test bed lacks of a site is added.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from e2e import listing
from e2e.beds import own_bed
from e2e.guide import Guide, as_written, take_inventory
from e2e.playing import Said, until
from e2e.site_of import IMAGE, ConvertedSite
from e2e.whole_site import NOT_COMPARED

BED = f"canary-{os.getpid()}"
NAMES = {"node[001:600]": "n[1:2]", "node001": "n1", "slurmctl": "ctl", "kubectl-host": "kube", "USER": "ops"}
HOSTS = ("ctl", "n1", "n2")
BIN_DIR = "/opt/slurm/bin"
PROGRAMS = "sacct sacctmgr salloc sattach sbatch sbcast scancel scontrol sinfo squeue srun sstat"
CONF = "/etc/slurm/slurm.conf"
# It runs for a moment now and then.
AT_TIMES = {"unit converged-nodeshare-repair.service"}
OF_CONTAINERS = (
    "cd /var/lib/containerd && { find io.containerd.grpc.v1.cri -mindepth 2 -maxdepth 2;"
    " find io.containerd.snapshotter.v1.overlayfs/snapshots -mindepth 1 -maxdepth 1; } 2>/dev/null | sort"
)
GUIDE = Guide("first-canary.md", NAMES)


class Canary(ConvertedSite):
    """An administrator with the guide's inventory."""

    def __init__(self, bed: Any, folder: Path) -> None:
        super().__init__(bed, folder)
        self.written = take_inventory(self, GUIDE, GROUPS)

    def user(self, words: str) -> Said:
        """Run a command on the batch controller, as a user with Slurm's programs on the search path."""
        done = self.bed.ssh("ctl", ["env", f"PATH={BIN_DIR}:/usr/bin:/bin", *shlex.split(words)], check=False)
        return Said(done.rc, done.out, done.err)


GROUPS = {"ctl": "converged_controllers", "n1": "converged_nodes", "n2": "converged_nodes"}


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Canary]:
    """Two nodes, of which the second is in a partition of its own as well."""
    with own_bed(request, BED, "--nodes", "2") as bed:
        found = Canary(bed, tmp_path_factory.mktemp("canary"))
        for host in HOSTS:
            found.node(host, f"mkdir -p {BIN_DIR} && cd /usr/bin && mv {PROGRAMS} {BIN_DIR}/")
        yield found


@pytest.fixture(scope="module", autouse=True)
def before(site: Canary) -> Mapping[str, Mapping[str, object]]:
    return {host: site.listing(host) for host in HOSTS}


@pytest.fixture(scope="module")
def job(site: Canary) -> str:
    """A job on the node that stays unshared; it outlives everything here."""
    return site.user("sbatch --parsable --partition=rack2 --output=/dev/null --wrap 'sleep 3600'").out.strip()


def refusals(said: Said) -> list[str]:
    return [line for line in said.out.splitlines() if line.startswith("refuse [")]


def test_without_the_one_variable_the_plan_says_what_to_set(site: Canary, job: str) -> None:
    site.hosts["all"]["vars"].pop("slurm_bin_dir")
    said = as_written(site, GUIDE.runs("site")[0])
    site.set("all", slurm_bin_dir=site.written["slurm_bin_dir"])
    assert said.rc != 0
    assert len(refusals(said)) == 1, said.out
    (line,) = refusals(said)
    assert "Slurm does not answer: scontrol: command not found" in line
    assert f"set slurm_bin_dir to their folder, such as {BIN_DIR}" in line
    assert "put it into group_vars/all.yml" in line


# In every change: the demo (its plan is typed, and hosts are compared behind it) and test_share_verdict_preflight.
@pytest.mark.soak
def test_the_plan_changes_nothing_and_shows_what_comes_into_slurm_conf(
    site: Canary, before: Mapping[str, Mapping[str, object]]
) -> None:
    words = GUIDE.runs("site")[0]
    assert words.endswith("--check --diff")
    said = as_written(site, words)
    assert said.rc == 0, said.out
    assert "fit to be shared: n1" in said.out
    assert "fit for scripts that do nothing: n2" in said.out
    assert re.search(r"^\+.*Prolog", said.out, re.MULTILINE)
    assert [host for host in HOSTS if listing.difference(before[host], site.listing(host))] == []


def test_the_canary_is_converted_and_every_look_at_it_says_what_the_guide_says(site: Canary, job: str) -> None:
    said = as_written(site, GUIDE.runs("site")[1])
    assert said.rc == 0, said.out
    assert list(site.objects("nodes")) == ["n1"]
    assert site.user("squeue -h -t R -o '%A %N'").out == f"{job} n2\n"

    ready, shown, run, taint, status = GUIDE.looks()
    assert ready.words() == [site.kubectl(*shlex.split(ready.commands[0])[1:]).split()[6]]
    said_there = site.node("n1", shown.commands[0])
    assert all(word in said_there for word in shown.words()), said_there
    srun, show = run.commands
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(site.user, srun)
        (held,) = run.words()
        until(lambda: held in site.node("n1", show), "the job has the node")
        assert "leases: 1" in site.node("n1", show)
        assert site.tainted() == {"n1"}
        site.user("scancel --user=ops --nodelist=n1")
        running.result()
    until(lambda: site.tainted() == set(), taint.says)
    said = as_written(site, status.commands[0].partition("hosts.yml ")[2])
    for word in status.words():
        assert word in said.out


# In every change: `verify` in the demo, and with the guide's variable on Torque (test_torque_site).
@pytest.mark.soak
def test_a_pod_and_a_job_prove_it(site: Canary) -> None:
    (words,) = GUIDE.runs("verify")
    there = site.node("n1", OF_CONTAINERS)
    pod = {
        "converged_verify_image": IMAGE,
        "converged_verify_command": ["sleep", "100000"],
        "converged_verify_wait": 300,
    }
    said = as_written(site, words, **pod)
    assert '"proved"' in said.out, said.out
    # The kubelet removes a dead pod's containers when it cleans up, once a minute: too late for the next comparison.
    until(lambda: site.node("n1", OF_CONTAINERS) == there, "the kubelet has removed what the pod left", seconds=150)


# In every change: the same playbook by its modules in unit/plugins/action/test_share_diff.py and on paper in
# test_conversion.py. That a check touches nothing: `node_state` in test_node_state, plans in the demo.
@pytest.mark.soak
def test_the_plan_of_the_way_back_prints_each_difference_once_and_changes_nothing(site: Canary) -> None:
    # It ends by itself, a while after the kubelet's start.
    fence = "systemctl is-active converged-nodeshare-fence.service || true"
    until(lambda: site.node("n1", fence).strip() == "inactive", "the fence behind the kubelet's start is drawn")
    there = {host: site.listing(host) for host in HOSTS}
    said = as_written(site, "-f 50 converged.hpc.restore --check --diff")
    assert said.rc == 0, said.out
    printed = re.findall(r"^on (\S+), \d+ hosts?: (.+)$", said.out, re.MULTILINE)
    assert [hosts for hosts, things in printed if things == CONF] == ["ctl,n[1-2]"], printed
    assert len(printed) == len(set(printed)), printed
    assert not re.search(r"^--- before", said.out, re.MULTILINE), said.out
    assert "things are as they were" not in said.out, "nothing was done, so there is nothing to prove"
    for host in HOSTS:
        assert set(listing.difference(there[host], site.listing(host))) - NOT_COMPARED - AT_TIMES == set()


def test_the_way_back_leaves_nothing(site: Canary, before: Mapping[str, Mapping[str, object]], job: str) -> None:
    said = as_written(site, "-f 50 converged.hpc.restore")
    assert said.rc == 0, said.out
    for host in HOSTS:
        assert set(listing.difference(before[host], site.listing(host))) - NOT_COMPARED == set()
    assert "converged" not in site.node("ctl", f"cat {CONF}")
    assert site.user("squeue -h -t R -o '%A %N'").out == f"{job} n2\n"
