# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects are found by name, whatever has come late."""

import pytest
from placement.model.objects.volume import PersistentVolumeClaim
from placement.state.object_store import ObjectTable

OLD, NEW = (
    PersistentVolumeClaim(uid=uid, namespace="team", name="data", version=version)
    for uid, version in (("old", 1), ("new", 2))
)


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("order", [(OLD, NEW), (NEW, OLD)])
def test_of_two_namesakes_the_younger_has_the_name(order: tuple[PersistentVolumeClaim, ...], asked: bool) -> None:
    objects = ObjectTable()
    if asked:
        # From now on there is an index, which is kept.
        assert objects.find(PersistentVolumeClaim, "data", "team") is None
    for item in order:
        objects.put(item)
    assert objects.find(PersistentVolumeClaim, "data", "team") is NEW
    objects.drop(PersistentVolumeClaim, "old")
    assert objects.find(PersistentVolumeClaim, "data", "team") is NEW
    objects.drop(PersistentVolumeClaim, "new")
    assert objects.find(PersistentVolumeClaim, "data", "team") is None
