# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings are good as a whole, or refused with file, line and what is wrong."""

import pytest
from placement.app.cli import main
from placement.app.settings.settings import Settings, SettingsError, changed_fixed, is_policy, read_settings

POLICY = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n'


def read(tmp_path, text: str) -> Settings:
    path = tmp_path / "settings.yml"
    path.write_text(text)
    return read_settings(path)


def test_an_empty_file_is_the_defaults(tmp_path):
    assert read(tmp_path, "# nothing\n") == Settings()


def test_what_is_said_counts_and_the_rest_stays(tmp_path):
    found = read(tmp_path, "scheduler_name: gangs\nbinders: 8\nlease_duration: 20\nleader_election: no\nlisten: ''\n")
    assert (found.scheduler_name, found.binders, found.lease_duration) == ("gangs", 8, 20.0)
    assert (found.leader_election, found.address()) == (False, None)


def test_the_policy_is_a_file_beside_it(tmp_path):
    (tmp_path / "policy.yml").write_text(POLICY)
    assert read(tmp_path, "policy: policy.yml\n").configuration.actions == ("allocate",)
    assert is_policy(tmp_path / "policy.yml")


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("binders: 8\nbindres: 8\n", 2, "unknown key 'bindres'"),
        ("binders: 8\nbinders: 8\n", 2, "stands twice"),
        ("\nbinders: many\n", 2, "not an integer"),
        ("binders: 1.5\n", 1, "not an integer"),
        ("binders: 0\n", 1, "not 1 to 512"),
        ("binders: true\n", 1, "not an integer"),
        ("binders: .nan\n", 1, "not an integer"),
        ("slice_milliseconds: .inf\n", 1, "not 0.5 to 100"),
        ("half_gang_seconds: 0\n", 1, "not 1 to 86400"),
        ("reserve_after_seconds: 0\n", 1, "not 1 to 604800"),
        ("pbs_lost_seconds: 9\n", 1, "not 10 to 604800"),
        ("leader_election: perhaps\n", 1, "neither true nor false"),
        ("listen: nowhere\n", 1, "HOST:PORT"),
        ("listen: 127.0.0.1:99999\n", 1, "HOST:PORT"),
        ("scheduler_name: 'a b'\n", 1, "letters"),
        ("log_level: loud\n", 1, "debug, info"),
        ("pbs_queue: 'namespace.['\n", 1, "JMESPath"),
        ("pbs_queue: pods\n", 1, """pods: there are namespace.name, namespace.labels."LABEL" and queue; words"""),
        ("pbs_account: namespace.labls.team\n", 1, "namespace.labls.team: there are"),
        ("pbs_account: namespace.labels.a || namespaces.name\n", 1, "there are"),
        ("pbs_project: namespace\n", 1, "there are"),
        ("pbs_place: scatter -l select=9\n", 1, "a placement of PBS"),
        ("pbs_chunk: converged\n", 1, "RESOURCE=VALUE"),
        ("pbs_chunk: a=b+2\n", 1, "RESOURCE=VALUE"),
        ("pbs_cores: some\n", 1, "round_up or pack"),
        ("pbs_resources: nvidia.com/gpu\n", 1, "NAME=RESOURCE"),
        ("pbs_labels: zone=a:b\n", 1, "NAME=RESOURCE"),
        ("pbs_timeout: 0\n", 1, "1 to 600"),
        ("socket: [a]\n", 1, "single value"),
        ("binders: 8\nrenew_deadline: 15\n", 2, "must be more than renew_deadline"),
        ("- a\n", 1, "keys and values"),
        ("a: [\n", 2, "expected"),
        ("actions: allocate\n", 1, "name its file"),
        ("policy: missing.yml\n", 1, "No such file"),
    ],
)
def test_what_cannot_be_is_refused_by_line(tmp_path, text, line, problem):
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, text)
    assert problem in str(caught.value)
    if "missing" not in text:
        assert f"settings.yml:{line}:" in str(caught.value)


def test_settings_can_be_checked_before_their_policy_is_there(tmp_path):
    (tmp_path / "settings.yml").write_text("policy: missing.yml\n")
    assert read_settings(tmp_path / "settings.yml", with_policy=False).policy == "missing.yml"


def test_some_changes_need_a_restart(tmp_path):
    assert changed_fixed(Settings(), Settings(binders=3, events_per_second=9.0)) == ["binders"]


@pytest.mark.parametrize("words", [("run", "--settings"), ("check",)])
def test_a_file_that_is_not_there_is_named_with_what_to_do(tmp_path, capsys, words):
    path = tmp_path / "none.yml"
    assert main([*words, str(path)]) == 1
    assert capsys.readouterr().err.startswith(f"placement: {path}: no such file; name another, or write it")
