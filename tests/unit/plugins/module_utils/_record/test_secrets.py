# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one role calls a secret is shown by no role and no restore, whoever came first."""

from __future__ import annotations

import os
import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._record.model.errors import RecordError
from ansible_collections.converged.hpc.plugins.module_utils._record.request.desired import _edit
from unit.plugins.module_utils._record.fake_node import FakeNode, World
from unit.plugins.module_utils._record.site_node import RECORD, call, restore, world_in_a_folder

PATH = "/etc/site.conf"
SECRET = {"role": "first", "lines": [{"path": PATH, "line": "hush 1", "secret": True}]}
PLAIN = {"role": "second", "lines": [{"path": PATH, "line": "plain 2"}]}


@pytest.fixture
def world() -> t.Iterator[World]:
    with world_in_a_folder() as made:
        yield made


def test_a_file_that_is_called_secret_later_is_not_shown_when_it_goes_back(world: World) -> None:
    for text, secret in (("plain\n", False), ("hush\n", True)):
        call(world, FakeNode(world), {"role": "main", "files": [{"path": "/etc/key", "text": text, "secret": secret}]})
    assert "hush" not in str(restore(FakeNode(world)))


def test_a_file_that_is_no_secret_any_more_does_not_show_what_it_held(world: World) -> None:
    for text, secret in (("hush\n", True), ("plain\n", False)):
        asked = {"role": "main", "files": [{"path": "/etc/key", "text": text, "secret": secret}]}
        assert "hush" not in str(call(world, FakeNode(world), asked))


def test_what_the_site_made_of_a_secret_is_kept_for_root_alone_and_named(world: World) -> None:
    asked = {"role": "main", "files": [{"path": "/etc/key", "text": "hush\n", "secret": True, "mode": "0644"}]}
    call(world, FakeNode(world), asked)
    world.write("/etc/key", "hush of the site\n", mode=0o644)
    foretold = call(world, FakeNode(world), asked, check=True)
    outcome = call(world, FakeNode(world), asked)
    world.write("/etc/key", "other hush of the site\n", mode=0o644)
    report = restore(FakeNode(world))
    assert "keep your version of /etc/key aside" in foretold.steps
    assert len(outcome.kept) == 1
    assert len(report.kept) == 2
    assert outcome.kept[0] in report.kept
    assert "hush" not in f"{foretold} {outcome} {report}"
    assert [os.stat(world.at(path)).st_mode & 0o7777 for path in report.kept] == [0o600, 0o600]
    folders = {os.path.dirname(path) for path in report.kept} | {f"{RECORD}/kept", RECORD}
    assert {os.stat(world.at(path)).st_mode & 0o7777 for path in folders} == {0o700}
    assert sorted(world.text(path) for path in report.kept) == ["hush of the site\n", "other hush of the site\n"]


@pytest.mark.parametrize("check", [False, True])
def test_a_role_that_edits_the_file_of_a_secret_line_does_not_show_it(world: World, check: bool) -> None:
    call(world, FakeNode(world), SECRET)
    assert "hush" not in str(call(world, FakeNode(world), PLAIN, check=check))
    assert "hush" not in str(restore(FakeNode(world), "second"))


def test_a_secret_line_that_comes_second_is_not_shown_when_the_file_goes_back(world: World) -> None:
    call(world, FakeNode(world), PLAIN)
    call(world, FakeNode(world), SECRET)
    assert "hush" not in str(restore(FakeNode(world)))


def test_a_secret_line_that_the_site_changed_is_not_in_the_report(world: World) -> None:
    call(world, FakeNode(world), PLAIN)
    call(world, FakeNode(world), SECRET)
    world.write(PATH, world.text(PATH).replace("hush 1", "mine"))
    report = restore(FakeNode(world))
    assert f"{PATH}: a line of ours was changed since (secret)" in report.site
    assert "hush" not in str(report)


def test_a_secret_line_that_another_role_would_undo_is_not_in_the_refusal(world: World) -> None:
    call(world, FakeNode(world), SECRET)
    asked = {"role": "second", "lines": [{"path": PATH, "line": "plain", "regexp": "^hush"}]}
    with pytest.raises(RecordError, match=r"would undo a line of role first: \(secret\)"):
        call(world, FakeNode(world), asked)


def test_a_file_made_for_a_secret_line_is_for_its_owner_alone(world: World) -> None:
    asked = {"role": "main", "lines": [{"path": "/etc/fresh", "line": "hush", "secret": True, "create": True}]}
    call(world, FakeNode(world), asked)
    assert os.stat(world.at("/etc/fresh")).st_mode & 0o777 == 0o600


def test_a_secret_line_that_is_no_line_is_refused_without_being_shown() -> None:
    with pytest.raises(RecordError, match=r"line \(secret\): expected one line") as refused:
        _edit("/etc/site.conf", [{"line": "hush\nhush", "secret": True}])
    assert "hush" not in str(refused.value)
