# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's verdicts about Slurm: one thing wrong at a time."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._preflight.model import CLUSTER
from unit.plugins.module_utils._preflight.spoiled_site import POWER, Site, said, setting, settled, several, silent

CASES = [
    (
        "flags to merge",
        setting("config", "PrologFlags", "X11"),
        CLUSTER,
        "note",
        "prolog_flags",
        "X11 will be X11,Alloc,",
    ),
    ("NoHold", setting("config", "PrologFlags", "NoHold"), CLUSTER, "refuse", "prolog_flags", "has NoHold"),
    (
        "flags that exclude each other",
        setting("config", "PrologFlags", "NoHold,Contain"),
        CLUSTER,
        "refuse",
        "prolog_flags",
        "exclude each other",
    ),
    (
        "RunInJob",
        setting("config", "PrologFlags", "Alloc,DeferBatch,RunInJob"),
        CLUSTER,
        "refuse",
        "prolog_flags",
        "RunInJob, so that Prolog has the job's own limits",
    ),
    ("Serial", setting("config", "PrologFlags", "Serial"), CLUSTER, "warn", "prolog_flags", "wait for each other"),
    ("a short MessageTimeout", setting("config", "MessageTimeout", "10 sec"), CLUSTER, "warn", "timeouts", "is 10 s"),
    (
        "a short start",
        setting("config", "BatchStartTimeout", "10 sec"),
        CLUSTER,
        "warn",
        "timeouts",
        "requeues the job as missing",
    ),
    (
        "a short Prolog",
        setting("config", "PrologEpilogTimeout", "60"),
        CLUSTER,
        "refuse",
        "timeouts",
        "PrologEpilogTimeout is 60 s",
    ),
    ("power saving", POWER, "n1", "refuse", "power_saving", "does not keep n1 on"),
    (
        "power saving after a day",
        several(POWER, setting("config", "SuspendTime", "86400 sec")),
        "n1",
        "refuse",
        "power_saving",
        "is 86400 s",
    ),
    (
        "power saving in one partition",
        several(POWER, setting("config", "SuspendTime", "INFINITE"), setting("partition", "suspend_time", "600")),
        "n1",
        "refuse",
        "power_saving",
        "SuspendTime is 600 s",
    ),
    (
        "power saving with an odd list",
        several(POWER, setting("config", "SuspendExcNodes", "n[1-9999999]")),
        "n1",
        "refuse",
        "power_saving",
        "SuspendExcNodes: ",
    ),
    (
        "power saving elsewhere",
        several(POWER, setting("config", "SuspendExcNodes", "n[2-4]")),
        "n1",
        "refuse",
        "power_saving",
        "does not keep n1 on",
    ),
    (
        "power saving that keeps some on",
        several(POWER, setting("config", "SuspendExcNodes", "n[1-2]:1")),
        "n1",
        "refuse",
        "power_saving",
        "does not keep n1 on",
    ),
    (
        "forced sharing of cores",
        several(setting("wanted", "share_mode", "placeholder"), setting("partition", "oversubscribe", "FORCE:4")),
        "n1",
        "refuse",
        "oversubscribe",
        "OverSubscribe=FORCE in partition batch",
    ),
    (
        "gang scheduling",
        several(setting("wanted", "share_mode", "backed"), setting("config", "PreemptMode", "GANG,SUSPEND")),
        "n1",
        "refuse",
        "oversubscribe",
        "GANG",
    ),
    ("a cloud node", setting("slurm_node", "flags", ["CLOUD"]), "n1", "refuse", "cloud", "a CLOUD node"),
    ("a node that is down", setting("slurm_node", "state", "DOWN"), "n1", "warn", "state", "Slurm says DOWN"),
    ("a drained node", setting("slurm_node", "flags", ["DRAIN"]), "n1", "note", "state", "is drained"),
    ("another slurm.conf", setting("slurm", "digest", "d2"), "n1", "refuse", "slurm_conf", "than that of ctl"),
    (
        "a slurm.conf that a killed run has changed here and not there",
        several(setting("slurm", "digest", "d2"), setting("found", "record", ["slurm_conf"])),
        "n1",
        "note",
        "slurm_conf",
        "this one goes on",
    ),
    ("an odd slurm.conf", setting("slurm", "error", "line 3: odd"), "n1", "refuse", "slurm_conf", "line 3: odd"),
    ("no slurm.conf", setting("slurm", "conf", ""), "n1", "refuse", "slurm_conf", "no slurm.conf"),
    ("a node without squeue", setting("slurm", "squeue", False), "n1", "warn", "programs", "no squeue in /usr/bin"),
    ("a slurm.conf of two kinds", setting("slurm", "kept", "shared"), CLUSTER, "refuse", "slurm_conf", "shared on n1"),
    ("a missing script", setting("slurm", "missing", ["/p.sh"]), "n1", "refuse", "script_missing", "/p.sh"),
    (
        "a forgotten controller",
        setting("config", "SlurmctldHost", ["ctl", "ctl2"]),
        CLUSTER,
        "refuse",
        "controllers",
        "ctl2, which is not in converged_controllers",
    ),
    ("a silent Slurm", silent, CLUSTER, "refuse", "slurm", "scontrol: timed out"),
    ("another batch system", settled(wlm="lsf"), CLUSTER, "refuse", "wlm", "'lsf'"),
]


@pytest.mark.parametrize(
    ("spoil", "where", "level", "code", "words"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_what_is_wrong_with_slurm_is_named(
    spoil: t.Callable[[Site], None], where: str, level: str, code: str, words: str
) -> None:
    assert (level, code) in said(spoil, where, words)


@pytest.mark.parametrize("hosts", [["n1"], ["ctl", "n1", "n2"]])
def test_a_host_without_slurm_conf_is_refused_by_itself_and_is_no_other_way_to_keep_the_file(
    hosts: t.List[str],
) -> None:
    def spoil(site: Site) -> None:
        for host in hosts:
            site.nodes[host]["found"]["slurm"].update(conf="", kept="none")

    assert ("refuse", "slurm_conf") in said(spoil, hosts[0], "no slurm.conf")
    assert said(spoil, CLUSTER, "more than one way") == []
