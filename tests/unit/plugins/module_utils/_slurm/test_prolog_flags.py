# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Comma lists: merged without loss, and what Slurm refuses is named."""

from __future__ import annotations

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._slurm.conf.prolog_flags import effective, merge, united
from ansible_collections.converged.hpc.plugins.module_utils._slurm.errors import ConfError


@pytest.mark.parametrize(
    ("present", "wanted", "merged"),
    [
        ("", "Alloc,DeferBatch", "Alloc,DeferBatch"),
        ("X11", "Alloc,DeferBatch", "X11,Alloc,DeferBatch"),
        ("ALLOC,Contain", "Alloc,DeferBatch", "ALLOC,Contain,DeferBatch"),
        ("NoHold", "Alloc,DeferBatch", "NoHold,Alloc,DeferBatch"),
        ("Alloc,Alloc,DeferBatch", "deferbatch", "Alloc,Alloc,DeferBatch"),
        ("SomethingNew", "Alloc", "SomethingNew,Alloc"),
    ],
)
def test_our_flags_join_those_of_the_site(present: str, wanted: str, merged: str) -> None:
    assert merge(present, wanted) == merged


@pytest.mark.parametrize(
    ("present", "wanted", "names"),
    [
        ("NoHold", "Contain", "NoHold and Contain"),
        ("x11,alloc", "nohold", "nohold and x11"),
        ("RunInJob", "NoHold", "NoHold and RunInJob"),
        ("Serial", "RunInJob", "Serial and RunInJob"),
        ("NoHold,Contain", "Alloc", "NoHold and Contain"),
    ],
)
def test_flags_that_slurm_refuses_together_are_named(present: str, wanted: str, names: str) -> None:
    with pytest.raises(ConfError, match=f"{names} exclude each other"):
        merge(present, wanted)


def test_other_lists_have_no_conflicts() -> None:
    assert united("a,NoHold", "Contain") == "a,NoHold,Contain"


def test_flags_bring_others_along() -> None:
    assert effective("X11,DeferBatch") == {"x11", "contain", "alloc", "deferbatch"}
    assert effective("") == frozenset()
