# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Having the controller follow the files: a bounded wait, and what needs a restart is named."""

from __future__ import annotations

import typing as t

from ansible_collections.converged.hpc.plugins.module_utils._command import Completed
from ansible_collections.converged.hpc.plugins.module_utils._slurm import apply
from ansible_collections.converged.hpc.plugins.module_utils._slurm.client import Slurm
from ansible_collections.converged.hpc.plugins.module_utils._slurm.conf.model import load
from ansible_collections.converged.hpc.plugins.module_utils._slurm.version import Version

CONF = load("/c", release=Version(22, 5, 8), read=lambda path: b"SelectType=select/cons_tres\nMessageTimeout=20\n")


class Controller:
    """Follows MessageTimeout after a few looks, and SelectType never."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def __call__(self, argv: t.Sequence[str], *, timeout: float, ok: t.Container[int] = (0,)) -> Completed:
        self.words.append(argv[-1])
        seconds = 20 if len(self.words) > 3 else 10
        shown = f"MessageTimeout = {seconds} sec\nSelectType = select/linear\nSLURM_VERSION = 22.05.8\n"
        text = f"Configuration data as of now\n{shown}\nSlurmctld(primary) at ctl is UP\n"
        return Completed(tuple(argv), 0, text, "")


def test_what_is_followed_late_is_waited_for() -> None:
    controller, pauses = Controller(), list[float]()
    assert apply.follow(Slurm(run=controller), CONF, ["MessageTimeout"], pause=pauses.append) == []
    assert controller.words == ["reconfigure", "config", "config", "config"]
    assert len(pauses) == 2


def test_what_is_never_followed_needs_a_restart() -> None:
    pauses: list[float] = []
    late = apply.follow(Slurm(run=Controller()), CONF, ["MessageTimeout", "SelectType"], pause=pauses.append)
    assert late == ["SelectType"]
    assert sum(pauses) <= 10
