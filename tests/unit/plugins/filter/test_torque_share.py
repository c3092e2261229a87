# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files make Torque call us, and what becomes of the site's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.converged.hpc.plugins.filter.torque_share import torque_jobs_on, torque_scripts
from ansible_collections.converged.hpc.plugins.module_utils._preflight.gather.torque import OURS

WRAPPER = (Path(__file__).parents[4] / "roles/torque_share/files/pelogue").read_text(encoding="utf-8")
FOLDER = "/etc/converged/torque"
VALUES = {"python": "/usr/bin/python3"}


def found(**scripts: str | None) -> dict[str, Any]:
    named = [
        {"name": name.replace("_", "."), "ours": text is None, "content": text, "mode": "0500"}
        for name, text in scripts.items()
    ]
    return {"home": "/var/spool/torque", "scripts": named}


def files(**scripts: str | None) -> dict[str, dict[str, Any]]:
    return {one["path"]: one for one in torque_scripts(found(**scripts), WRAPPER, FOLDER, VALUES)}


def test_a_site_without_scripts_gets_the_four_that_torque_runs_as_root() -> None:
    made = files()
    names = ("epilogue", "epilogue.parallel", "prologue", "prologue.parallel")
    assert sorted(made) == [f"/var/spool/torque/mom_priv/{name}" for name in names]
    assert {(one["owner"], one["mode"]) for one in made.values()} == {("root", "0755")}
    assert "\nname=epilogue.parallel\n" in made["/var/spool/torque/mom_priv/epilogue.parallel"]["content"]


def test_scripts_of_job_types_are_ours_too_and_the_sites_own_is_kept_with_its_mode_and_never_shown() -> None:
    made = files(prologue="#!/bin/sh\n", prologue_user="#!/bin/sh\n", prologue_parallel=None)
    assert f"{FOLDER}/site/prologue.parallel" not in made
    kept = made[f"{FOLDER}/site/prologue.user"]
    assert (kept["content"], kept["mode"], kept["secret"]) == ("#!/bin/sh\n", "0500", True)
    assert "\nname=prologue.user\n" in made["/var/spool/torque/mom_priv/prologue.user"]["content"]


def test_our_script_is_recognised_by_what_is_read_of_a_mom() -> None:
    assert OURS in WRAPPER.encode()


def test_a_value_without_a_line_of_its_own_is_an_error() -> None:
    with pytest.raises(AnsibleFilterError, match="0 lines begin with colour="):
        torque_scripts(found(), WRAPPER, FOLDER, {"colour": "red"})


def job(number: str, state: str, *hosts: str, run: int = 1) -> dict[str, Any]:
    return {"id": number, "state": state, "run": run, "hosts": [{"host": host, "slots": 2} for host in hosts]}


def test_jobs_on_a_host_are_those_that_have_slots_there_and_have_not_ended() -> None:
    jobs = [
        job("1.srv", "R", "n1", "n2", run=3),
        job("2.srv", "Q"),
        job("3.srv", "C", "n1"),
        job("4[1].srv", "S", "n1", run=0),
        job("5.srv", "R", "n2"),
        job("6.srv.big_one", "R", "n1"),
    ]
    expected = ["1.srv/3 --exclusive", "4[1].srv/1 --exclusive", "6.srv.big_one/1 --exclusive"]
    assert torque_jobs_on(jobs, "n1") == expected


@pytest.mark.parametrize("number", ["-rf", "1.srv;id", "1.srv x", "../1"])
def test_an_id_that_is_none_is_an_error_that_names_it(number: str) -> None:
    with pytest.raises(AnsibleFilterError, match="is no id of a job"):
        torque_jobs_on([job(number, "R", "n1")], "n1")
