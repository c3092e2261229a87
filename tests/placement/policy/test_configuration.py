# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration file: kube-batch's is accepted as it is, and what is not known is refused with its line."""

import pytest
from placement.policy.plugins.configuration import ACTIONS, ARGUMENTS, DEFAULT, ConfigurationError, load
from placement.policy.plugins.plugin_set import PLUGINS, PluginSet

KUBE_BATCH = """\
actions: "reclaim, allocate, backfill, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
    enableJobOrder: false
  - name: conformance
- plugins:
  - name: drf
  - name: predicates
    arguments:
      predicate.MemoryPressureEnable: true
  - name: proportion
  - name: nodeorder
    arguments:
      leastrequested.weight: 2
      mostrequested.weight: "0"
"""


def test_the_file_of_kube_batch_is_accepted_and_reported_on() -> None:
    configuration = load(KUBE_BATCH, "conf.yaml")
    assert configuration.actions == ("reclaim", "allocate", "backfill", "preempt")
    assert [choice.name for choice in configuration.plugins()] == [
        "priority", "gang", "conformance", "drf", "predicates", "proportion", "nodeorder",
    ]  # fmt: skip
    chosen = {choice.name: choice for choice in configuration.plugins()}
    assert not chosen["gang"].on("job_order")
    assert chosen["gang"].on("job_ready")
    assert chosen["nodeorder"].arguments["leastrequested.weight"] == 2
    assert chosen["nodeorder"].arguments["balancedresource.weight"] == 1
    assert chosen["predicates"].arguments["predicate.MemoryPressureEnable"] is True
    assert any(line.startswith("predicates: pressure") for line in configuration.report)
    PluginSet(configuration)


def test_the_default_is_that_of_kube_batch() -> None:
    assert DEFAULT.actions == ("allocate", "backfill")
    assert [[choice.name for choice in tier] for tier in DEFAULT.tiers] == [
        ["priority", "gang"],
        ["drf", "predicates", "proportion", "nodeorder"],
    ]


def test_every_plugin_that_can_be_named_exists() -> None:
    assert ARGUMENTS.keys() == PLUGINS.keys()
    for name in ARGUMENTS:
        PluginSet(load(f'actions: "{", ".join(ACTIONS)}"\ntiers:\n- plugins:\n  - name: {name}\n', "x"))


@pytest.mark.parametrize(
    ("plugin", "key"),
    [
        ("predicates", "enablePredicate"),
        ("gang", "enableJobPipelined"),
        ("gang", "enablePreemptable"),
        ("gang", "enableReclaimable"),
        ("conformance", "enablePreemptable"),
        ("conformance", "enableReclaimable"),
    ],
)
def test_options_without_effect_are_reported_where_they_are_off(plugin: str, key: str) -> None:
    for value in ("true", "false"):
        text = f'actions: "allocate"\ntiers:\n- plugins:\n  - name: {plugin}\n    {key}: {value}\n'
        told = [line for line in load(text, "x").report if line.startswith(f"{plugin}: {key}: false has no effect")]
        assert len(told) == (value == "false")


def test_what_tiers_mean_here_is_reported_where_pods_may_have_to_leave() -> None:
    report = load(KUBE_BATCH, "x").report
    for begin in (
        "tiers: only their order counts",
        "preempt: priority and drf",
        "drf: takes room",
        "reclaim: proportion",
    ):
        assert any(line.startswith(begin) for line in report), begin
    assert not any("tiers" in line for line in DEFAULT.report)


def test_a_file_without_tiers_has_no_plugins() -> None:
    configuration = load('actions: "allocate"\n', "x")
    assert configuration.tiers == ()
    assert any(line.startswith("gang: not in the file") for line in configuration.report)
    assert any(line.startswith("backfill: not among the actions") for line in configuration.report)
    PluginSet(configuration)


def test_a_plugin_in_two_tiers_has_the_last_arguments_and_an_action_may_come_again() -> None:
    weight = "    arguments:\n      leastrequested.weight: "
    tiers = f"- plugins:\n  - name: nodeorder\n{weight}2\n- plugins:\n  - name: nodeorder\n{weight}3\n"
    configuration = load(f'actions: "allocate, backfill, allocate"\ntiers:\n{tiers}', "x")
    assert [choice.arguments["leastrequested.weight"] for choice in configuration.plugins()] == [3, 3]
    assert configuration.actions == ("allocate", "backfill", "allocate")
    PluginSet(configuration)


PLUGIN = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: nodeorder\n'


@pytest.mark.parametrize(
    "text",
    [
        'actions: "allocate"\ntiers:\n',
        'actions: "allocate"\ntiers:\n- plugins:\n',
        f"{PLUGIN}    arguments:\n#      leastrequested.weight: 2\n",
        f"{PLUGIN}    arguments:\n      leastrequested.weight:\n      nodeaffinity.weight: ''\n",
        f"{PLUGIN}    enableNodeOrder:\n    enableJobOrder: ~\n",
        f"{PLUGIN}    enableNodeOrder: Yes\n    enableJobOrder: on\n",
    ],
)
def test_a_key_without_a_value_is_as_if_it_were_not_there(text: str) -> None:
    configuration = load(text, "x")
    for choice in configuration.plugins():
        assert (dict(choice.arguments), choice.off) == (ARGUMENTS["nodeorder"], frozenset())
    PluginSet(configuration)


def test_an_option_may_be_off_in_all_words_that_yaml_has_for_it() -> None:
    for word in ("no", "off", "No", "OFF", "false", "False", "n"):
        (choice,) = load(f"{PLUGIN}    enableNodeOrder: {word}\n", "x").plugins()
        assert not choice.on("node_order"), word


TAIL = "tiers:\n- plugins:\n  - name: gang\n"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "conf.yaml:1: the file is empty; it needs `actions`"),
        (f'actions: "allocate, allok"\n{TAIL}', "conf.yaml:1: unknown action 'allok'; known are enqueue, allocate"),
        (f"actions: [allocate]\n{TAIL}", "conf.yaml:1: actions: expected text, found a list"),
        (TAIL, "conf.yaml:1: `actions` is missing"),
        (f'actions: "allocate"\nmore: 1\n{TAIL}', "conf.yaml:2: unknown key 'more' in the configuration"),
        (f'actions: "allocate"\n{TAIL}  - name: gangs\n', "conf.yaml:5: unknown plugin 'gangs'; known are conformance"),
        (f'actions: "allocate"\n{TAIL}    enabled: true\n', "conf.yaml:5: unknown key 'enabled' in a plugin"),
        (
            f'actions: "allocate"\n{TAIL}    enableJobOrder: maybe\n',
            "conf.yaml:5: enableJobOrder of gang: 'maybe' is neither true nor false",
        ),
        (
            f'actions: "allocate"\n{TAIL}    arguments:\n      x: 1\n',
            "conf.yaml:6: unknown key 'x' in arguments of gang",
        ),
        (
            f'actions: "allocate"\n{TAIL}  - name: nodeorder\n    arguments:\n      leastrequested.weight: -1\n',
            "conf.yaml:7: leastrequested.weight: '-1' is not an integer from 0 to 1000",
        ),
        (f"actions:\n{TAIL}", "conf.yaml:1: unknown action ''; known are enqueue, allocate"),
        ("actions: [\n", "conf.yaml:2: "),
        ("actions: &a [*a]\ntiers: *a\n", "conf.yaml:1: "),
        # Deeper than Python's limit of recursion. As many brackets would take seconds to read: each may begin a key.
        ("- " * 10_000, "conf.yaml:1: nested too deep"),
    ],
)
def test_what_is_not_known_is_refused_with_file_and_line(text: str, error: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(text, "conf.yaml")
    assert str(caught.value).startswith(error)
