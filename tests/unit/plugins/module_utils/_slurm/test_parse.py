# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Slurm prints becomes records; what is not whole becomes an error, and never an empty list."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._slurm import parse
from ansible_collections.converged.hpc.plugins.module_utils._slurm.conf.model import SCRIPT_KEYS
from ansible_collections.converged.hpc.plugins.module_utils._slurm.errors import NoAnswerError

NODE = "NodeName=n1 CPUTot=2 RealMemory=1000 State=IDLE "
PARTITION = "PartitionName=a Default=NO Nodes=n[1-2] State=UP "
JOB = "4^1^1^N/A^2^RUNNING^alice^1001^batch^1795262657^1795262658^3^n[1,3-4]^"
CONFIG = """Configuration data as of 2026-11-21T12:04:19
Prolog                  = (null)
SLURM_VERSION           = 22.05.8

Slurmctld(primary) at vm is UP
"""

STATES = {
    "IDLE": ("IDLE", []),
    "MIXED+DRAIN": ("MIXED", ["DRAIN"]),
    "IDLE+DRAIN+NOT_RESPONDING+PLANNED": ("IDLE", ["DRAIN", "NOT_RESPONDING", "PLANNED"]),
    "IDLE+MAINTENANCE+RESERVED": ("IDLE", ["MAINTENANCE", "RESERVED"]),
    "MIXED+DRAIN+REBOOT_REQUESTED": ("MIXED", ["DRAIN", "REBOOT_REQUESTED"]),
    "DOWN*+DRAIN": ("DOWN", ["DRAIN", "NOT_RESPONDING"]),
    "IDLE~": ("IDLE", ["POWERED_DOWN"]),
    "IDLE+CLOUD+POWERED_DOWN": ("IDLE", ["CLOUD", "POWERED_DOWN"]),
    "ALLOCATED$": ("ALLOCATED", ["MAINTENANCE"]),
    "UNKNOWN+NOT_RESPONDING": ("UNKNOWN", ["NOT_RESPONDING"]),
}

REASONS = {
    "": ("", "", ""),
    "Reason=disk [root@2026-11-21T12:04:19]": ("disk", "root", "2026-11-21T12:04:19"),
    "Reason=a = b [c] [x] [slurm@2026-11-21T12:04:19]": ("a = b [c] [x]", "slurm", "2026-11-21T12:04:19"),
    "Reason=Not responding [slurm@Unknown] Comment=State=DOWN [x@y]": ("Not responding", "slurm", "Unknown"),
    "Reason=from slurm.conf": ("from slurm.conf", "", ""),
}


@pytest.mark.parametrize(("printed", "state"), STATES.items())
def test_a_state_is_one_word_and_flags(printed: str, state: tuple[str, list[str]]) -> None:
    found, flags = parse.node_state(printed)
    assert (found, sorted(flags)) == state


@pytest.mark.parametrize("printed", ["", "+DRAIN", "IDLE+", "*"])
def test_a_state_without_a_word_is_no_answer(printed: str) -> None:
    with pytest.raises(NoAnswerError, match="is no state of a node"):
        parse.node_state(printed)


@pytest.mark.parametrize(("printed", "reason"), REASONS.items())
def test_a_reason_comes_with_who_and_when(printed: str, reason: tuple[str, str, str]) -> None:
    (node,) = parse.nodes(f"{NODE}{printed}\n")
    assert (node.reason, node.reason_user, node.reason_since) == reason


def test_free_text_behind_the_state_does_not_change_it() -> None:
    (node,) = parse.nodes(f"{NODE}Reason=State=DOWN NodeName=n2 CPUTot=0 [root@now]\n")
    assert (node.name, node.state, node.cpus) == ("n1", "IDLE", 2)


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (parse.nodes, "", "the answer is empty"),
        (parse.nodes, NODE, "the answer is cut off"),
        (parse.nodes, "NodeName=n1 CPUTot=2\n", "shows 'n1' without State="),
        (parse.nodes, NODE.replace("1000", "N/A") + "\n", "'N/A' stands where a number"),
        (parse.nodes, "slurm_load_node error\n", "expected NodeName="),
        (parse.nodes, "Node=n1\n", "expected NodeName="),
        (parse.partitions, "", "the answer is empty"),
        (parse.partitions, PARTITION.replace("n[1-2]", "n[1-9999999]") + "\n", "longer than 65536"),
        (parse.partitions, "PartitionName=a State=UP\n", "without Nodes="),
        (parse.jobs, JOB, "cut off"),
        (parse.jobs, JOB[:-1] + "\n", "expected 13 fields"),
        (parse.jobs, f"{JOB}\n{JOB[:20]}\n", "expected 13 fields"),
        (parse.jobs, JOB.replace("4^", "x^", 1) + "\n", "'x' stands where a number"),
        (parse.jobs, "slurm_load_jobs error\n", "expected 13 fields"),
        (parse.config, "", "not whole"),
        (parse.config, CONFIG[: CONFIG.index("Slurmctld")], "not whole"),
        (parse.config, CONFIG.replace("SLURM_VERSION", "SLURM"), "not whole"),
        (parse.config, "Configuration data as of x\nwhat\n", "expected Key = value"),
    ],
)
def test_an_answer_that_is_not_whole_is_an_error(read: t.Callable[[str], object], text: str, message: str) -> None:
    with pytest.raises(NoAnswerError, match=message):
        read(text)


def test_no_jobs_and_no_partitions_are_answers() -> None:
    assert parse.jobs("") == []
    assert parse.partitions("No partitions in the system\n") == []


def test_an_unset_script_is_an_empty_list() -> None:
    scripts: dict[str, parse.Setting] = {key: [] for key in SCRIPT_KEYS}
    assert parse.config(CONFIG) == {**scripts, "SLURM_VERSION": "22.05.8"}


def test_a_partition_without_nodes_has_none() -> None:
    (partition,) = parse.partitions(PARTITION.replace("n[1-2]", "(null)") + "\n")
    assert partition.nodes == ()
    assert not partition.default
