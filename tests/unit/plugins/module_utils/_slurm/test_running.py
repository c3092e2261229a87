# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs against what the files say."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._slurm.conf.model import load
from ansible_collections.converged.hpc.plugins.module_utils._slurm.running import pending
from ansible_collections.converged.hpc.plugins.module_utils._slurm.version import Version

CASES: list[tuple[str, str, t.Any, bool]] = [
    ("Prolog=/a", "Prolog", ["/a"], True),
    ("Prolog=/a", "Prolog", ["/b"], False),
    ("Prolog=/a\nProlog=/b", "Prolog", ["/a", "/b"], True),
    ("Prolog=/a\nProlog=/b", "Prolog", ["/b"], False),
    ("", "Prolog", [], True),
    ('Prolog=""', "Prolog", None, True),
    ("", "Prolog", ["/a"], False),
    ("MessageTimeout=20", "MessageTimeout", "20 sec", True),
    ("MessageTimeout=20", "MessageTimeout", "200 sec", False),
    ("SchedulerType=sched/Backfill", "schedulertype", "sched/backfill", True),
    ("SlurmctldParameters=b,a", "SlurmctldParameters", "a,b", True),
    ("SlurmctldParameters=b", "SlurmctldParameters", None, False),
    ("", "MessageTimeout", "10 sec", True),
    ("PrologFlags=DeferBatch,Alloc", "PrologFlags", "Alloc,DeferBatch", True),
    ("PrologFlags=X11", "PrologFlags", "Alloc,Contain,X11", True),
    ("PrologFlags=DeferBatch", "PrologFlags", "Alloc,DeferBatch", True),
    ("PrologFlags=DeferBatch", "PrologFlags", "DeferBatch", True),
    ("PrologFlags=NoHold", "PrologFlags", "Alloc,NoHold,Serial", False),
    ("", "PrologFlags", None, True),
    ("", "PrologFlags", "Alloc", False),
]


@pytest.mark.parametrize(("text", "key", "shown", "followed"), CASES)
def test_a_key_is_pending_until_it_runs(text: str, key: str, shown: t.Any, followed: bool) -> None:
    conf = load("/c", release=Version(24, 11, 5), read=lambda path: text.encode())
    assert pending(conf, {key.upper(): shown}, [key]) == ([] if followed else [key])
