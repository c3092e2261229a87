# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands to Slurm: exact words, and how a failure is told."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._command import CommandError, Completed
from ansible_collections.converged.hpc.plugins.module_utils._slurm.client import Slurm
from ansible_collections.converged.hpc.plugins.module_utils._slurm.errors import ConfError, NoAnswerError


class Answering:
    """A runner that notes what it was asked and answers the same each time."""

    def __init__(self, rc: int = 0, out: str = "", err: str = "") -> None:
        self.asked: list[tuple[str, ...]] = []
        self._answer = (rc, out, err)

    def __call__(self, argv: t.Sequence[str], *, timeout: float, ok: t.Container[int] = (0,)) -> Completed:
        self.asked.append(tuple(argv))
        rc, out, err = self._answer
        if rc not in ok:
            raise CommandError(f"{argv[0]}: exit status {rc}: {err}")
        return Completed(tuple(argv), rc, out, err)


def test_nodes_are_drained_and_undrained_in_one_call() -> None:
    run = Answering()
    slurm = Slurm(run=run)
    slurm.drain(["n1", "n2", "n3"], "ours; rm -rf $(x)")
    slurm.undrain(["n1"])
    assert run.asked == [
        ("scontrol", "update", "nodename=n[1-3]", "state=drain", "reason=ours; rm -rf $(x)"),
        ("scontrol", "update", "nodename=n1", "state=undrain"),
    ]


def test_a_node_without_scontrol_tells_its_release_by_slurmd() -> None:
    def run(argv: t.Sequence[str], *, timeout: float, ok: t.Container[int] = (0,)) -> Completed:
        if tuple(argv) != ("slurmd", "-V"):
            raise CommandError(f"{argv[0]}: command not found")
        return Completed(tuple(argv), 0, "slurm-wlm 22.05.8\n", "")

    assert Slurm(run=run).version() == (22, 5, 8)


def test_another_host_directory_and_configuration_are_part_of_the_words() -> None:
    run = Answering(out="slurm 24.11.5\n")
    slurm = Slurm(run=run, prefix=["ssh", "ctl"], bin_dir="/opt/slurm/bin", conf_path="/srv/slurm.conf")
    assert slurm.version() == (24, 11, 5)
    assert run.asked == [
        ("ssh", "ctl", "env", "SLURM_CONF=/srv/slurm.conf", "/opt/slurm/bin/scontrol", "--version"),
    ]


def test_the_words_for_reading_mean_nothing_to_a_shell() -> None:
    run = Answering(out="")
    slurm = Slurm(run=run)
    assert slurm.jobs() == []
    for read in (slurm.nodes, slurm.partitions, slurm.config):
        with pytest.raises(NoAnswerError):
            read()
    assert not set("".join(word for argv in run.asked for word in argv)) & set(" |;&<>()$`\\\"'*?[]#~\n")


@pytest.mark.parametrize("read", ["version", "config", "nodes", "partitions", "jobs"])
def test_a_command_that_fails_is_no_answer(read: str) -> None:
    slurm = Slurm(run=Answering(rc=1, err="Unable to contact slurm controller"))
    with pytest.raises(NoAnswerError, match="Unable to contact slurm controller"):
        getattr(slurm, read)()


def test_a_configuration_is_judged_by_slurms_own_parser() -> None:
    run = Answering()
    Slurm(run=run).check_conf("/tmp/candidate")
    assert run.asked == [("env", "SLURM_CONF=/tmp/candidate", "scontrol", "show", "hostnames", "localhost")]


def test_what_the_parser_objects_to_is_said_whole() -> None:
    run = Answering(
        rc=1, err="scontrol: error: Invalid PrologFlag: Bogus\nscontrol: fatal: PrologFlags invalid: Bogus\n"
    )
    with pytest.raises(ConfError) as caught:
        Slurm(run=run).check_conf("/tmp/candidate")
    assert str(caught.value) == (
        "Slurm would refuse it: scontrol: error: Invalid PrologFlag: Bogus; scontrol: fatal: PrologFlags invalid: Bogus"
    )
