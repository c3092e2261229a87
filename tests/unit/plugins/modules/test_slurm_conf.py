# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""slurm_conf: what it leaves in the files, which commands it gives, and that all of it can be taken back."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.converged.hpc.plugins.modules import slurm_conf

Result = t.Dict[str, t.Any]

SITE = """\
# the site's own
ClusterName=alpha
Prolog=/site/prolog   # theirs
PrologFlags=X11
Include more.conf
"""
MORE = "MessageTimeout=20\n"
OURS = [
    {"key": "Prolog", "value": "/ours/wrapper"},
    {"key": "PrologFlags", "value": "Alloc,DeferBatch", "action": "merge"},
    {"key": "EpilogSlurmctld", "value": "/ours/end", "action": "add"},
    {"key": "MessageTimeout", "value": "30"},
]
CHANGED = """\
# the site's own
ClusterName=alpha
Prolog=/ours/wrapper   # theirs
PrologFlags=X11,Alloc,DeferBatch
Include more.conf
EpilogSlurmctld=/ours/end
"""
MORE_CHANGED = "MessageTimeout=30\n"

VERSION = {"argv": ["scontrol", "--version"], "out": "slurm-wlm 22.05.8\n"}
JUDGE = {"argv": ["scontrol", "show", "hostnames", "localhost"], "out": "localhost\n"}
REFUSE = {**JUDGE, "rc": 1, "out": "", "err": "scontrol: fatal: PrologFlags invalid\n"}
RECONFIGURE = {"argv": ["scontrol", "reconfigure"]}


def running(**values: str) -> Result:
    shown = {"Prolog": "(null)", "PrologFlags": "(null)", "SLURM_VERSION": "22.05.8", **values}
    lines = "".join(f"{key} = {value}\n" for key, value in shown.items())
    text = f"Configuration data as of now\n{lines}\nSlurmctld(primary) at ctl is UP\n"
    return {"argv": ["scontrol", "show", "config"], "out": text}


FOLLOWED = {
    "Prolog": "/ours/wrapper",
    "PrologFlags": "Alloc,Contain,DeferBatch,X11",
    "EpilogSlurmctld": "/ours/end",
    "MessageTimeout": "30 sec",
}


class Site:
    """A folder with a site's configuration, and the module run on it."""

    def __init__(self, folder: Path, converse: t.Callable[..., Result]) -> None:
        self.folder = folder / "slurm"
        self.folder.mkdir()
        self.main = self.folder / "slurm.conf"
        self.more = self.folder / "more.conf"
        self.main.write_text(SITE)
        self.more.write_text(MORE)
        self._record = folder / "record"
        self.converse = converse

    def run(self, *calls: Result, check: bool = False, **options: t.Any) -> Result:
        given = {"path": str(self.main), "record_dir": str(self._record), **options}
        asked = [VERSION, *calls] if "settings" in options or calls else []
        case = {"input": given, "calls": asked, "check_mode": check}
        return self.converse(slurm_conf, case)

    def files(self) -> tuple[str, str]:
        return self.main.read_text(), self.more.read_text()


@pytest.fixture
def site(tmp_path: Path, converse: t.Callable[..., Result]) -> Site:
    return Site(tmp_path, converse)


def test_settings_are_planned_made_and_then_stay(site: Site) -> None:
    planned = site.run(JUDGE, check=True, settings=OURS)
    assert (planned["changed"], site.files()) == (True, (SITE, MORE))
    made = site.run(JUDGE, settings=OURS)
    assert (made["changed"], site.files()) == (True, (CHANGED, MORE_CHANGED))
    assert made["diff"] == planned["diff"]
    assert not site.run(check=True, settings=OURS)["changed"]
    assert not site.run(settings=OURS)["changed"]


def test_the_result_names_each_line_and_the_diff_shows_no_other(site: Site) -> None:
    found = site.run(JUDGE, settings=[OURS[3]])
    assert found["edits"] == [
        {"path": str(site.more), "line": 1, "before": ["MessageTimeout=20\n"], "after": ["MessageTimeout=30\n"]}
    ]
    assert "alpha" not in str(found["diff"])
    assert set(found["digests"]) == {str(site.main), str(site.more)}


def test_everything_is_taken_back_byte_for_byte(site: Site) -> None:
    site.run(JUDGE, settings=OURS)
    assert site.run(check=True, state="restored")["changed"]
    assert site.files() == (CHANGED, MORE_CHANGED)
    back = site.run(state="restored")
    assert (back["changed"], back["left"], site.files()) == (True, [], (SITE, MORE))
    assert not site.run(state="restored")["changed"]


def test_the_way_back_needs_neither_a_daemon_nor_a_readable_file(site: Site) -> None:
    site.run(JUDGE, settings=OURS)
    site.main.write_text(CHANGED + "what is this\n")
    back = site.run(state="restored")
    assert (back["left"], site.files()) == ([], (SITE + "what is this\n", MORE))


def test_the_controller_is_told_of_the_way_back(site: Site) -> None:
    site.run(JUDGE, settings=OURS)
    before = running(**FOLLOWED)
    after = running(Prolog="/site/prolog", PrologFlags="Alloc,Contain,X11", MessageTimeout="20 sec")
    back = site.run(before, RECONFIGURE, after, state="restored", reconfigure=True)
    assert back["pending"] == ["EpilogSlurmctld", "Prolog", "PrologFlags"]
    assert not site.run(after, state="restored", reconfigure=True)["changed"]


def test_the_way_back_stops_where_slurm_goes_on_calling_scripts_that_another_host_has_named(site: Site) -> None:
    site.main.write_text(SITE + "Epilog=/etc/converged/slurm/epilog\n")
    assert not site.run(state="restored")["changed"]
    back: Result = {"state": "restored", "reconfigure": True}
    assert "failed" not in site.run(running(Epilog="/etc/converged/slurm/epilog"), check=True, **back)
    given = {"path": str(site.main), "record_dir": str(site.folder), **back}
    failed = site.converse(slurm_conf, {"input": given, "calls": [VERSION]})
    assert failed["msg"] == (
        f"{site.main} goes on naming scripts of converged.hpc, as the record of this host does not have these settings:"
        " Epilog=/etc/converged/slurm/epilog. Take them out, and run this again"
    )


def test_what_the_site_changed_since_survives_the_way_back(site: Site) -> None:
    site.run(JUDGE, settings=OURS)
    site.main.write_text(site.main.read_text().replace("alpha", "beta") + "DebugFlags=Power\n")
    back = site.run(state="restored")
    assert site.main.read_text() == SITE.replace("alpha", "beta") + "DebugFlags=Power\n"
    assert str(site.main) in back["site"][0]


def test_a_setting_that_is_no_longer_named_goes_back(site: Site) -> None:
    site.run(JUDGE, settings=OURS)
    assert site.run(settings=OURS[1:])["changed"]
    assert site.files() == (CHANGED.replace("/ours/wrapper", "/site/prolog"), MORE_CHANGED)
    site.run(settings=OURS[1:3])
    assert site.more.read_text() == MORE


def test_what_slurms_parser_refuses_is_not_written(site: Site) -> None:
    failed = site.run(REFUSE, JUDGE, settings=OURS)
    assert failed["msg"] == (
        f"{site.main} with the change: Slurm would refuse it: scontrol: fatal: PrologFlags invalid"
    )
    assert site.files() == (SITE, MORE)


def test_a_file_that_slurms_parser_refuses_as_it_is_is_left_and_said(site: Site) -> None:
    failed = site.run(REFUSE, REFUSE, settings=OURS)
    assert f"{site.main} is refused as it is, before any change" in failed["msg"]
    assert site.files() == (SITE, MORE)


def test_an_odd_file_is_named_with_its_line_even_when_slurms_programs_say_nothing(site: Site) -> None:
    site.main.write_text(SITE + "what is this\n")
    silent = {**VERSION, "rc": 1, "out": "", "err": "scontrol: fatal: Unable to process configuration file\n"}
    case: Result = {"input": {"path": str(site.main), "settings": OURS}, "calls": [silent]}
    failed = site.converse(slurm_conf, case)
    assert failed["msg"] == f"{site.main} line 6: 'what is this' is not Key=Value, and Slurm would refuse it"
    assert site.main.read_text() == SITE + "what is this\n"


def test_flags_that_exclude_each_other_stop_the_run(site: Site) -> None:
    failed = site.run(settings=[{"key": "PrologFlags", "value": "NoHold", "action": "merge"}])
    assert failed["msg"] == "PrologFlags: NoHold and X11 exclude each other (X11,NoHold)"
    assert site.files() == (SITE, MORE)


def test_the_controller_reads_the_files_again_only_where_it_does_not_follow_them(site: Site) -> None:
    before, after = running(Prolog="/site/prolog", MessageTimeout="20 sec"), running(**FOLLOWED)
    made = site.run(JUDGE, before, RECONFIGURE, before, after, settings=OURS, reconfigure=True)
    assert made["pending"] == ["EpilogSlurmctld", "MessageTimeout", "Prolog", "PrologFlags"]
    assert made["restart_needed"] == []
    assert not site.run(after, settings=OURS, reconfigure=True)["changed"]


def test_a_run_that_was_killed_before_the_controller_was_told_is_made_good(site: Site) -> None:
    site.run(JUDGE, settings=OURS)
    before, after = running(Prolog="/site/prolog"), running(**FOLLOWED)
    made = site.run(before, RECONFIGURE, after, settings=OURS, reconfigure=True)
    assert (made["changed"], made["steps"]) == (True, [])


def test_the_controller_is_told_of_the_sites_script_that_comes_back_where_slurm_takes_several(site: Site) -> None:
    """An upgrade past 24.05: the wrapper's line had taken the place of the site's, and now stands beside it."""
    site.run(JUDGE, settings=OURS[:1])
    upgraded = {**VERSION, "out": "slurm-wlm 24.11.5\n"}
    one, two = running(Prolog="/ours/wrapper", PrologFlags="X11"), running(PrologFlags="X11")
    two["out"] = two["out"].replace("Prolog = (null)", "Prolog[0] = /site/prolog\nProlog[1] = /ours/wrapper")
    given = {"path": str(site.main), "record_dir": str(site.main.parent.parent / "record"), "reconfigure": True}
    case: Result = {"input": {**given, "settings": [{**OURS[0], "action": "add"}]}}

    made = site.converse(slurm_conf, {**case, "calls": [upgraded, one, RECONFIGURE, two]})

    assert site.main.read_text() == SITE.replace("# theirs\n", "# theirs\nProlog=/ours/wrapper\n")
    assert (made["pending"], made["restart_needed"]) == (["Prolog"], [])
    assert site.converse(slurm_conf, {**case, "calls": [upgraded, two]})["digests"] == made["digests"]


def test_check_mode_tells_the_controller_nothing(site: Site) -> None:
    found = site.run(JUDGE, running(), check=True, settings=OURS, reconfigure=True)
    assert "Prolog" in found["pending"]


def test_the_controller_is_asked_where_its_file_is(site: Site) -> None:
    found = site.run(running(SLURM_CONF=str(site.main)), JUDGE, settings=OURS, path=None)
    assert found["conf_path"] == str(site.main)
    failed = site.run(running(SLURM_CONF="/run/slurm/conf/slurm.conf"), settings=OURS, path=None)
    assert "is a copy that slurmctld sent (configless)" in failed["msg"]
    failed = site.run(running(SLURM_CONF="(null)"), settings=OURS, path=None)
    assert "say the path of slurm.conf" in failed["msg"]


def test_a_folder_behind_a_link_stays_a_link(site: Site, tmp_path: Path) -> None:
    link = tmp_path / "etc"
    link.symlink_to(site.folder)
    site.run(JUDGE, settings=OURS, path=str(link / "slurm.conf"))
    assert link.is_symlink()
    assert site.files() == (CHANGED, MORE_CHANGED)


@pytest.mark.parametrize("name", ["nowhere/slurm.conf", "slurm"])
def test_a_path_that_is_no_file_is_named(site: Site, tmp_path: Path, name: str) -> None:
    failed = site.run(settings=OURS, path=str(tmp_path / name))
    assert failed["msg"].startswith(str(tmp_path / name))
