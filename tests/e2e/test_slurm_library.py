# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules, filters and inventory of Slurm against the real one."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._shared.hostlist import expand, fold
from ansible_collections.converged.hpc.plugins.module_utils._slurm import version
from ansible_collections.converged.hpc.plugins.module_utils._slurm.conf.model import load
from ansible_collections.converged.hpc.plugins.module_utils._slurm.errors import ConfError
from e2e import playing
from testbed import api, keys
from testbed.recipe import ADMINISTRATOR

CONF = "/etc/slurm/slurm.conf"
SETTINGS = [
    {"key": "PrologFlags", "value": "Alloc,DeferBatch", "action": "merge"},
    {"key": "PrologSlurmctld", "value": "/bin/true", "action": "add"},
]
# Asks scontrol for each list on its input: as many processes, but one way into the host.
ASK = """
import json, subprocess, sys
def ask(*words):
    return subprocess.run(["scontrol", "show", *words], stdout=subprocess.PIPE, text=True, timeout=240).stdout.split()
lists = json.load(sys.stdin)
names = [ask("hostnames", text) for text in lists]
print(json.dumps([names, [ask("hostlist", ",".join(found))[0] for found in names]]))
"""

# Whether Slurm's own parser takes each text as its configuration; x.conf lies beside it.
JUDGE = """
import json, os, subprocess, sys, tempfile
folder = tempfile.mkdtemp()
path = os.path.join(folder, "slurm.conf")
open(os.path.join(folder, "x.conf"), "w").write("EpilogSlurmctld=/i\\n")
def taken(text):
    open(path, "w", newline="").write(text)
    words = ["env", "SLURM_CONF=" + path, "scontrol", "show", "hostnames", "localhost"]
    return subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=240).returncode == 0
print(json.dumps([taken(text) for text in json.load(sys.stdin)]))
"""
SOUND = "ClusterName=t\nSlurmctldHost=localhost\nNodeName=n1\nPartitionName=a Nodes=n1\n"
LINES = [
    "Prolog=/a\n",
    "Prolog=/a b\n",
    'Prolog="/a b"\n',
    "Prolog=\n",
    "Prolog=\\\n/a\n",
    "Prolog=/a\\ b\n",
    'Prolog=""\n',
    'Prolog="a"b\n',
    "Epilog=/a#b\n",
    "Epilog=/a \\# x\n",
    'Epilog="a b" "\n',
    "Epilog=/a\\\\\n",
    "Epilog=/a\r\n",
    "Epilog=/a",
    " MessageTimeout = 10 # x\n",
    "MessageTimeout=10 \\\n# c\n",
    "NodeName=n2 CPUs=1\\\n RealMemory=1\n",
    'NodeName=n4 Feature="a b" CPUs=2\n',
    "NodeName=n3 CPUs\n",
    "# foo \\\n",
    "\\\n",
    "\\\\\n",
    '"\n',
    "words\n",
    "\v\n",
    "Include=x\n",
]
INCLUDES = ["", "", "include x.conf\n", " include x.conf\n", "Include x.conf y\n", "INCLUDE\tx.conf # x\n"]


def written_lists(count: int, chosen: random.Random) -> Iterator[str]:
    """Host lists as people write them, and odd ones."""

    def piece() -> str:
        low, width = chosen.randrange(120), chosen.choice([1, 1, 2, 3])
        return f"{low:0{width}d}" + chosen.choice(["", f"-{low + chosen.randrange(6):0{chosen.choice([1, width])}d}"])

    def token() -> str:
        brackets = (f"[{','.join(piece() for _ in range(chosen.randint(1, 3)))}]" for _ in range(chosen.randint(1, 3)))
        spread = "".join(chosen.choice(["n", "rack", "a-", "b.", "x0", ""]) + bracket for bracket in brackets)
        return chosen.choice([spread, spread, chosen.choice(["n1", "n01", "login", "n-2"])])

    for _ in range(count):
        yield ",".join(token() for _ in range(chosen.randint(1, 3)))


@pytest.mark.drawn
def test_host_lists_expand_and_fold_as_slurms_own(bed: api.RunningBed, chosen: random.Random) -> None:
    lists = list(written_lists(100, chosen))
    answer = bed.exec("ctl", ["python3", "-c", ASK], input=json.dumps(lists), timeout=300).out
    names, folded = json.loads(answer)
    assert [expand(text) for text in lists] == names
    assert [fold(found) for found in names] == folded


@pytest.mark.drawn
def test_a_configuration_is_read_exactly_when_slurms_own_parser_takes_it(
    bed: api.RunningBed, chosen: random.Random
) -> None:
    texts = [
        SOUND + chosen.choice(INCLUDES) + "".join(chosen.choice(LINES) for _ in range(chosen.randint(1, 3)))
        for _ in range(150)
    ]
    taken = json.loads(bed.exec("ctl", ["python3", "-c", JUDGE], input=json.dumps(texts), timeout=300).out)
    release = version.parse(bed.exec("ctl", ["scontrol", "--version"]).out)

    def readable(text: str) -> bool:
        files = {"/x/slurm.conf": text.encode(), "/x/x.conf": b"EpilogSlurmctld=/i\n"}
        try:
            load("/x/slurm.conf", release=release, read=files.__getitem__)
        except ConfError:
            return False
        return True

    wrong = [text for text, sound in zip(texts, taken, strict=True) if readable(text) != sound]
    assert not wrong


@pytest.fixture
def site(bed: api.RunningBed, tmp_path: Path) -> playing.Site:
    return playing.Site(bed, tmp_path)


def test_slurm_info_tells_what_runs_whatever_a_job_is_called(site: playing.Site) -> None:
    name = "x\n   JobState=COMPLETED NodeList=n9 $(reboot) 'q' \"r\""
    job = site.bed.ssh(
        "ctl", ["sbatch", "--parsable", "--nodes=2", "--job-name", name, "--wrap", "sleep 300"]
    ).out.strip()
    try:
        site.until("ctl", f"squeue -h -j {job} -t R | grep -q .")
        found = site.module("ctl", "slurm_info", {})
    finally:
        site.bed.ssh("ctl", ["scancel", job])
    assert not found["failed"], found
    mine = next(seen for seen in found["jobs"] if seen["id"] == int(job))
    assert (mine["state"], mine["nodes"], mine["run"], mine["user"]) == ("RUNNING", ["n1", "n2"], 0, ADMINISTRATOR)
    assert [node["name"] for node in found["nodes"]] == ["n1", "n2"]
    assert {node["state"] for node in found["nodes"]} <= {"MIXED", "ALLOCATED"}
    assert found["config"]["SLURM_CONF"] == CONF
    assert all(partition["nodes"] for partition in found["partitions"])


def test_slurm_conf_is_changed_followed_and_put_back_byte_for_byte(site: playing.Site) -> None:
    before = site.ctl(f"cat {CONF}")
    change = {"converged.hpc.slurm_conf": {"settings": SETTINGS, "reconfigure": True}}
    read, ask = {"ansible.builtin.command": f"cat {CONF}"}, {"ansible.builtin.command": "scontrol show config"}
    absent = {"converged.hpc.slurm_conf": {"state": "restored", "reconfigure": True}}
    plan = {**change, "check_mode": True}
    planned, still, made, foreseen, again, shown, back, after, shown_after = site.results(
        "ctl", plan, read, change, plan, change, ask, absent, read, ask
    )
    # A command leaves the last newline out.
    assert (planned["changed"], f"{still['stdout']}\n") == (True, before)
    assert (made["changed"], made["restart_needed"]) == (True, [])
    assert (foreseen["changed"], again["changed"]) == (False, False)
    assert "DeferBatch" in shown["stdout"]
    assert (back["changed"], back["left"], back["restart_needed"]) == (True, [], [])
    assert (f"{after['stdout']}\n", site.ctl(f"cat {CONF}")) == (before, before)
    assert "DeferBatch" not in shown_after["stdout"]


def test_what_slurm_refuses_is_not_written(site: playing.Site) -> None:
    before = site.ctl(f"cat {CONF}")
    failed = site.module("ctl", "slurm_conf", {"settings": [{"key": "MessageTimeout", "value": "soon"}]})
    assert failed["failed"]
    assert 'MessageTimeout value "soon" is not a valid number' in failed["msg"]
    assert site.ctl(f"cat {CONF}") == before


def test_only_our_drain_is_given_back(site: playing.Site) -> None:
    nodes = {"names": ["n[1-2]"]}
    site.ctl("scontrol update nodename=n2 state=drain reason='disk is full'")
    drain = {"converged.hpc.slurm_node": {**nodes, "state": "drained", "reason": "conversion"}}
    other = {"converged.hpc.slurm_node": {**nodes, "state": "drained", "reason": "again"}}
    give_back = {"converged.hpc.slurm_node": {**nodes, "state": "restored"}}
    try:
        drained, again, back, info = site.results(
            "ctl", drain, other, give_back, {"converged.hpc.slurm_info": {"gather": ["nodes"]}}
        )
    finally:
        site.ctl("scontrol update nodename=n[1-2] state=undrain", check=False)
    assert (drained["drained"], drained["others"]) == (["n1"], {"n2": "disk is full"})
    assert not again["changed"]
    assert (back["given_back"], back["others"]) == (["n1"], {"n2": "disk is full"})
    assert [node["name"] for node in info["nodes"] if "DRAIN" in node["flags"]] == ["n2"]
    assert info["nodes"][1]["reason"] == "disk is full"


def test_the_inventory_is_read_through_ssh(bed: api.RunningBed, tmp_path: Path) -> None:
    source = tmp_path / "slurm.yml"
    prefix = keys.ssh_command(bed.bed, bed.bed.host("ctl"), user=ADMINISTRATOR)
    source.write_text(json.dumps({"plugin": "converged.hpc.slurm", "command_prefix": prefix}), encoding="utf-8")
    argv = [str(Path(sys.executable).with_name("ansible-inventory")), "-i", str(source), "--list"]
    listed = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=True)
    found = json.loads(listed.stdout)
    assert found["slurm_nodes"]["hosts"] == ["n1", "n2"]
    assert found["slurm_controllers"]["hosts"] == ["ctl"]
    assert found["slurm_partition_batch"]["hosts"] == ["n1", "n2"]
