# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of CRI's definitions that cri_bridge ships is the one of the published definitions."""

from __future__ import annotations

import pytest
from cri_bridge.wire import messages
from cri_bridge.wire.definitions import MESSAGES
from cri_kit import definitions
from cri_kit.definitions import V1, V1ALPHA2, message_class


def test_the_shipped_part_is_what_the_command_writes() -> None:
    assert definitions.WRITTEN.read_text(encoding="utf-8") == definitions.wanted()


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_a_shipped_field_has_the_same_number_and_type_in_both_versions(name: str) -> None:
    shipped = messages.new(name).DESCRIPTOR
    for version in (V1, V1ALPHA2):
        if name not in {each.name for each in definitions.described(version).message_type}:
            continue  # added by v1
        published = message_class(version, name).DESCRIPTOR
        for field in shipped.fields:
            if field.name in published.fields_by_name:
                same = published.fields_by_name[field.name]
                assert (field.number, field.type, field.is_repeated) == (same.number, same.type, same.is_repeated)
                assert (field.enum_type and field.enum_type.name) == (same.enum_type and same.enum_type.name)
            else:
                assert version == V1ALPHA2
                assert field.number not in published.fields_by_number


def test_a_message_keeps_the_fields_that_are_not_shipped() -> None:
    before = message_class(V1, "PodSandbox")(id="a", runtime_handler="b", created_at=3, labels={"c": "d"})
    kept = messages.parse("PodSandbox", before.SerializeToString())
    kept.id = "other"
    after = message_class(V1, "PodSandbox").FromString(kept.SerializeToString())
    assert after == message_class(V1, "PodSandbox")(id="other", runtime_handler="b", created_at=3, labels={"c": "d"})
