# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a conversion goes, to which hosts, and what counts as a change."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.converged.hpc.plugins.filter import nodeshare_settings, share_canary
from ansible_collections.converged.hpc.plugins.plugin_utils import _planned

NODES = {"converged_nodes": ["n1", "n2", "n3"], "converged_shared": ["n1", "n2"]}


@pytest.mark.parametrize(
    ("groups", "batches", "stops"),
    [
        ({}, [1], False),
        ({"converged_converted": ["n1"]}, [1], True),
        ({"converged_skipped": ["n1"]}, [1], False),
        ({"converged_done": ["n3"], "converged_converted": ["n1"]}, [1, 5], False),
        ({"converged_renewed": ["n1"], "converged_converted": ["n1"]}, [1, 5], False),
    ],
)
def test_a_run_stops_behind_the_first_node_that_was_ever_converted(
    groups: dict[str, list[str]], batches: list[int], stops: bool
) -> None:
    assert share_canary.share_batches(groups, [1, 5], "stop") == batches
    assert share_canary.share_stops(groups, "stop") == stops
    assert share_canary.share_batches(groups, ["100%"], "go_on") == ["100%"]
    assert not share_canary.share_stops(groups, "go_on")


def test_a_word_that_there_is_not_is_an_error() -> None:
    with pytest.raises(AnsibleFilterError, match="converged_after_canary is 'halt': expected stop or go_on"):
        share_canary.share_batches({}, [1], "halt")


@pytest.mark.parametrize(
    ("groups", "nothing"),
    [
        ({"converged_skipped": ["n1"]}, True),
        ({"converged_skipped": ["n1"], "converged_converted": ["n2"]}, False),
        ({"converged_skipped": ["n1"], "converged_done": ["n2"]}, False),
        ({}, False),
    ],
)
def test_nodes_that_were_skipped_prove_nothing(groups: dict[str, list[str]], nothing: bool) -> None:
    assert share_canary.share_proves_nothing(groups) == nothing


def test_the_nodes_behind_a_canary_wait() -> None:
    groups = {"converged_pending": ["n1", "n2", "n3"], "converged_converted": ["n1"], "converged_skipped": ["n2"]}
    assert share_canary.share_waiting(groups) == ["n3"]


@pytest.mark.parametrize(
    ("groups", "named", "pattern"),
    [
        ({}, ["n1", "n2", "n3", "ctl"], "converged_shared"),
        ({}, ["n2"], "n2"),
        ({}, ["n3"], "converged_shared:!converged_shared"),
        (
            {"converged_excepted": ["n9"], "converged_left_out": []},
            ["n1", "n2"],
            "converged_shared:!converged_excepted",
        ),
        ({"converged_left_out": ["n2"]}, ["n1"], "n1:!converged_left_out"),
    ],
)
def test_a_run_goes_to_the_hosts_of_a_group_that_it_is_asked_for(
    groups: dict[str, list[str]], named: list[str], pattern: str
) -> None:
    assert share_canary.share_hosts({**NODES, **groups}, "converged_shared", named) == pattern


@pytest.mark.parametrize("tag", ["always", "tagged"])
def test_a_run_that_skips_its_checks_has_no_hosts(tag: str) -> None:
    assert share_canary.share_checked("n1:!n2", "off", ["x", "alway", "untagged"]) == "n1:!n2"
    with pytest.raises(AnsibleFilterError, match=f"--skip-tags {tag} does not go with off, as it would skip"):
        share_canary.share_checked("n1:!n2", "off", ["x", tag])


ENABLED = {"inventory_hostname_short": "n1", "__share_preflight_host": {"found": {"enabled": True}}}


@pytest.mark.parametrize(
    ("known", "pending", "group"),
    [
        (ENABLED, False, "converged_done"),
        (ENABLED, True, "converged_renewed"),
        ({"inventory_hostname_short": "n1"}, True, "converged_new"),
        # A run was killed behind the flag: no pod may come yet.
        ({**ENABLED, "__node_kubelet_admitted": {"untainted": ["n1"]}}, True, "converged_new"),
        ({**ENABLED, "__node_kubelet_join": {"changed": False, "would_change": True}}, True, "converged_new"),
    ],
)
def test_a_node_with_something_to_do_is_new_until_a_conversion_has_ended_there(
    known: dict[str, Any], pending: bool, group: str
) -> None:
    found = share_canary.share_sorted(known, pending)
    assert found["key"] == group
    assert found["parents"] == (["converged_pending"] if pending else ["all"])


def test_what_was_only_planned_is_no_change() -> None:
    result = {"changed": True, "msg": "x"}
    assert _planned.as_planned(result, only_planned=False) == result
    planned = _planned.as_planned(result, only_planned=True)
    assert planned == {"changed": False, "would_change": True, "msg": "x"}
    assert _planned.would_change(planned)
    assert not _planned.would_change(_planned.as_planned({"changed": False}, only_planned=True))


def test_settings_are_judged_by_the_program_that_reads_them() -> None:
    right = {"node": "n1", "mode": "handover", "deadline": 60}
    assert nodeshare_settings.nodeshare_settings(right) == right
    for wrong, said in (
        ({"mode": "handover"}, "/etc/converged/nodeshare.json: node is missing"),
        ({**right, "deadline": 7200}, "deadline is 7200: must be seconds from 0 to 3600"),
        ({**right, "handover": "quiece"}, "handover is 'quiece': must be one of quiesce, stop"),
        ({**right, "deadlin": 1}, "unknown key 'deadlin'"),
        ({**right, "fence": "split"}, "pod_cpus is missing"),
    ):
        with pytest.raises(AnsibleFilterError, match=said):
            nodeshare_settings.nodeshare_settings(wrong)
    with pytest.raises(AnsibleFilterError, match="controller.json: period is 'x': must be seconds"):
        nodeshare_settings.nodeshare_settings({"host": "ctl", "period": "x"}, "controller.settings")
