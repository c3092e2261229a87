# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests and the runs of Ansible that they start spend no time on Python's search for cycles of objects."""

from __future__ import annotations

import gc
import os
import subprocess
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PLAY = "- hosts: localhost\n  gather_facts: false\n  tasks:\n    - debug: {msg: \"searches: {{ '' | searches }}\"}\n"
FILTER = (
    "import gc\nclass FilterModule:\n    def filters(self):\n        return {'searches': lambda _: gc.isenabled()}\n"
)


@pytest.mark.parametrize(("left_out", "searches"), [("", "False"), ("without_cyclic_gc", "True")])
def test_a_run_of_ansible_in_a_test_searches_for_no_cycles(tmp_path: Path, left_out: str, searches: str) -> None:
    (tmp_path / "filter_plugins").mkdir()
    (tmp_path / "filter_plugins/searches.py").write_text(FILTER)
    (tmp_path / "play.yml").write_text(PLAY)
    enabled = os.environ["ANSIBLE_CALLBACKS_ENABLED"].split(",")
    environ = {
        **os.environ,
        "ANSIBLE_HOME": str(tmp_path / "home"),
        "ANSIBLE_CALLBACKS_ENABLED": ",".join(name for name in enabled if name != left_out),
    }
    argv = ["ansible-playbook", "-i", "localhost,", "-c", "local", str(tmp_path / "play.yml")]

    done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=120, check=False)

    assert f"searches: {searches}" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("given", ["", "profile_tasks", "without_cyclic_gc", "profile_tasks,without_cyclic_gc"])
def test_the_callback_stands_once_in_the_list_also_where_the_list_has_it(
    monkeypatch: pytest.MonkeyPatch, given: str, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("ANSIBLE_CALLBACKS_ENABLED", given)
    begin = next(
        plugin.pytest_sessionstart
        for plugin in request.config.pluginmanager.get_plugins()
        if Path(getattr(plugin, "__file__", "") or "") == TESTS / "conftest.py"
    )
    for _unused in range(2):
        begin()
    found = [name for name in os.environ["ANSIBLE_CALLBACKS_ENABLED"].split(",") if name]
    assert found == [*(name for name in given.split(",") if name == "profile_tasks"), "without_cyclic_gc"]


def test_collected_tests_are_kept_from_the_collector() -> None:
    assert gc.get_freeze_count() > 10_000
