# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read of a MoM: its scripts, what is wrong with each of them, and the time that Torque gives them."""

from __future__ import annotations

import stat
import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._preflight.gather import torque as gather_torque

if t.TYPE_CHECKING:
    from pathlib import Path

OURS = "#!/bin/sh\n#\n# converged.hpc: Torque runs this as its script `name`.\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "mom_priv").mkdir()
    (tmp_path / "etc/site").mkdir(parents=True)
    return tmp_path


def read(home: Path) -> t.Dict[str, t.Any]:
    return gather_torque.mom(str(home), str(home / "etc"))


def write(path: Path, text: str = "#!/bin/sh\n", mode: int = 0o755) -> None:
    path.write_text(text)
    path.chmod(mode)


@pytest.mark.parametrize(
    ("config", "seconds"),
    [("", 290), ("$prologalarm 15\n", 5), ("$prologalarm 10", 10), ("$pbsserver srv\n$prologalarm 60\n", 50)],
)
def test_the_alarm_is_what_torque_really_gives(home: Path, config: str, seconds: int) -> None:
    (home / "mom_priv/config").write_text(config)
    assert read(home)["alarm"] == seconds


def test_each_file_that_a_job_type_may_choose_is_a_script(home: Path) -> None:
    for name in ("prologue", "prologue.user", "prologue.gpu", "epilogue.bak", "prologues", "epilogue.d~", "config"):
        write(home / "mom_priv" / name)
    names = [one["name"] for one in read(home)["scripts"]]
    assert names == ["epilogue.bak", "epilogue.d~", "prologue", "prologue.gpu", "prologue.user"]


def test_a_link_is_named_with_where_it_leads(home: Path) -> None:
    (home / "mom_priv/prologue").symlink_to("/opt/site/it's")
    [line] = read(home)["refused"]
    assert line == f"""{home}/mom_priv/prologue is a link to "/opt/site/it's": put the script itself there"""


def test_a_program_a_folder_and_a_long_script_are_named(home: Path) -> None:
    (home / "mom_priv/epilogue").write_bytes(b"\x7fELF\xff")
    (home / "mom_priv/epilogue").chmod(0o755)
    (home / "mom_priv/prologue").mkdir()
    write(home / "mom_priv/prologue.big", "#" * (gather_torque.LONGEST + 1))
    said = "; ".join(read(home)["refused"])
    assert "prologue is no file" in said
    assert "prologue.big has 262145 bytes" in said
    assert "epilogue" in said


@pytest.mark.parametrize(
    ("uid", "mode", "users", "said"),
    [
        (0, 0o500, False, ""),
        (0, 0o755, True, ""),
        (0, 0o755, False, ""),
        (7, 0o755, False, "belongs to user 7"),
        (0, 0o775, False, "has mode 0775, so others than root may write it"),
        (0, 0o702, False, "has mode 0702, so others than root may write it"),
        (0, 0o644, False, "has mode 0644, with which Torque does not run it: chmod u+rx"),
        (0, 0o500, True, "has mode 0500, with which Torque does not run it: chmod a+rx"),
    ],
)
def test_an_owner_or_mode_with_which_torque_does_not_run_a_script_is_named(
    uid: int, mode: int, users: bool, said: str
) -> None:
    found = gather_torque.rights(uid, stat.S_IFREG | mode, users=users)
    assert found.startswith(said)
    assert bool(found) == bool(said)


def test_where_ours_stands_the_sites_is_the_one_that_is_kept(home: Path) -> None:
    write(home / "mom_priv/prologue", OURS)
    write(home / "mom_priv/epilogue", OURS)
    write(home / "etc/site/prologue", "#!/bin/sh\necho site\n", 0o500)
    kept = {one["name"]: one for one in read(home)["scripts"]}
    assert kept["prologue"] == {
        "name": "prologue",
        "ours": True,
        "content": "#!/bin/sh\necho site\n",
        "mode": "0500",
    }
    assert kept["epilogue"]["content"] is None


def test_a_script_that_the_site_has_put_over_ours_is_the_sites(home: Path) -> None:
    write(home / "mom_priv/prologue", "#!/bin/sh\necho newer\n", 0o700)
    write(home / "etc/site/prologue", "#!/bin/sh\necho older\n")
    [one] = read(home)["scripts"]
    assert (one["ours"], one["content"], one["mode"]) == (False, "#!/bin/sh\necho newer\n", "0700")


def test_a_host_without_a_mom_is_named(tmp_path: Path) -> None:
    found = gather_torque.mom(str(tmp_path / "none"))
    assert not found["present"]
    assert found["refused"] == [
        f"{tmp_path}/none/mom_priv is no folder: no MoM of Torque has been here, or torque_home is another"
    ]
