# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Units start again when their inputs are not those of their last start, and only then."""

from __future__ import annotations

import contextlib
import typing as t

import pytest
from unit.plugins.module_utils._record.fake_node import FakeNode, Killed, Mortal, World
from unit.plugins.module_utils._record.site_node import call, restore, world_in_a_folder


@pytest.fixture
def world() -> t.Iterator[World]:
    with world_in_a_folder() as made:
        yield made


def asked(text: str = "one\n", **unit: t.Any) -> t.Dict[str, t.Any]:
    wanted = dict({"name": "site", "state": "started"}, **unit)
    return {"role": "main", "files": [{"path": "/etc/app/one.conf", "text": text}], "units": [wanted]}


def unit_actions(world: World) -> t.List[str]:
    found = [line for line in world.log if line.startswith("systemctl") and "daemon-reload" not in line]
    world.log.clear()
    return found


def test_a_running_unit_whose_inputs_did_not_change_is_adopted(world: World) -> None:
    assert not call(world, FakeNode(world), asked()).changed
    assert unit_actions(world) == []


def test_a_change_of_an_input_restarts_once(world: World) -> None:
    call(world, FakeNode(world), asked("two\n"))
    assert unit_actions(world) == ["systemctl restart -- site.service"]
    call(world, FakeNode(world), asked("two\n"))
    assert unit_actions(world) == []


def test_what_is_no_input_restarts_nothing(world: World) -> None:
    call(world, FakeNode(world), asked("two\n", restart_on=["/etc/elsewhere"]))
    assert unit_actions(world) == []


def test_the_unit_file_of_another_unit_is_no_input(world: World) -> None:
    wanted = asked()
    wanted["files"].append({"path": "/etc/systemd/system/other.service", "text": "[Service]\n"})
    call(world, FakeNode(world), wanted)
    assert unit_actions(world) == []


def test_a_unit_is_restarted_with_what_a_call_without_it_has_written(world: World) -> None:
    call(world, FakeNode(world), {"role": "main", "files": asked("two\n")["files"]})
    assert unit_actions(world) == []
    call(world, FakeNode(world), asked("two\n"))
    assert unit_actions(world) == ["systemctl restart -- site.service"]


def test_systemd_reads_unit_files_again_that_have_changed_since_before_a_unit_is_restarted(world: World) -> None:
    call(world, FakeNode(world), asked())
    world.write("/etc/systemd/system/site.service", "[Service]\nExecStart=/bin/site --more\n")
    call(world, FakeNode(world), asked("two\n"))
    found = [line for line in world.log if line.startswith("systemctl")]
    assert found == ["systemctl daemon-reload", "systemctl restart -- site.service"]


def test_a_site_that_changes_our_input_gets_it_back_with_a_restart(world: World) -> None:
    call(world, FakeNode(world), asked("two\n"))
    world.write("/etc/app/one.conf", "mine\n")
    unit_actions(world)
    call(world, FakeNode(world), asked("two\n"))
    assert unit_actions(world) == ["systemctl restart -- site.service"]


def test_a_run_killed_anywhere_loses_no_restart(world: World) -> None:
    for life in range(200):
        with world_in_a_folder() as fresh:
            with contextlib.suppress(Killed):
                call(fresh, Mortal(fresh, life), asked("two\n"))
                return
            call(fresh, FakeNode(fresh), asked("two\n"))
            assert "systemctl restart -- site.service" in unit_actions(fresh), life
    pytest.fail("the run never came to its end")


def test_a_unit_that_falls_over_is_an_error_and_is_started_again_next_time(world: World) -> None:
    class Falls(FakeNode):
        def _unit_restart(self, name: str) -> t.Tuple[int, str]:
            self.world.running.discard(name)
            self.world.failed.add(name)
            return 0, ""

    with pytest.raises(Exception, match="unit site.service: was started and is failed"):
        call(world, Falls(world), asked("two\n"))
    unit_actions(world)
    assert call(world, FakeNode(world), asked("two\n")).steps == ["start site.service"]


def test_a_unit_that_its_own_condition_keeps_stopped_is_left_to_whoever_lifts_it(world: World) -> None:
    class Held(FakeNode):
        def _systemd_analyze(self, words: t.Sequence[str]) -> t.Tuple[int, str]:
            return 1, "Conditions failed."

    world.running.discard("site.service")
    assert not call(world, Held(world), asked()).changed
    assert call(world, FakeNode(world), asked()).steps == ["start site.service"]


def test_restore_starts_a_unit_again_with_what_it_had_before(world: World) -> None:
    call(world, FakeNode(world), asked("two\n"))
    unit_actions(world)
    restore(FakeNode(world))
    assert unit_actions(world) == ["systemctl restart -- site.service"]
