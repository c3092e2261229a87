# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""share_diff: every difference of a plan is printed, those that are the same on many hosts once."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.converged.hpc.plugins.action.share_diff import (
    Part,
    heading,
    kept,
    lines,
    own,
    together,
    with_names,
    with_names_where_hosts_differ,
)
from ansible_collections.converged.hpc.plugins.plugin_utils._planned import KEPT

ROOT = Path(__file__).parents[4]
NAMES = [f"n{at}" for at in range(1, 7)]


def registered(host: str, *changes: dict[str, str], changed: bool = True) -> dict[str, Any]:
    return {"changed": changed, KEPT: {"host": host, "changes": list(changes)}}


def change(path: str, after: str, before: str = "") -> dict[str, str]:
    return {"before_header": path, "after_header": path, "before": before, "after": after}


def shown(parts: dict[str, list[Part]]) -> list[str]:
    return [heading(one) for one in together(parts)]


def given_back(one: dict[str, Any], host: str, values: dict[str, str]) -> str:
    """The text of a diff as a host has it."""
    after: str = one["diff"]["after"]
    for value, name in values.items():
        after = after.replace(f"{{{{ {name} }}}}", value)
    return after


def test_a_plan_for_many_hosts_prints_what_is_the_same_once_and_what_differs_by_itself(tmp_path: Path) -> None:
    text = "same for all\n{{ 'but not here\n' if inventory_hostname == 'n4' else '' }}"
    files = [
        {"path": f"{tmp_path}/one", "content": text},
        {"path": f"{tmp_path}/named", "content": "I am {{ inventory_hostname }} of the batch\n"},
    ]
    state = {"record_dir": f"{tmp_path}/record", "role": "test", "record_copy_dir": f"{tmp_path}/copy", "files": files}
    plays = [
        {
            "hosts": "all",
            "gather_facts": False,
            "check_mode": True,
            "vars": {"_converged_diffs_together": True},
            "tasks": [{"name": "Plan", "converged.hpc.node_state": state, "register": "planned"}],
        },
        {
            "hosts": "all",
            "gather_facts": False,
            "tasks": [{"converged.hpc.share_diff": {"hosts": "{{ groups['all'] }}"}, "run_once": True}],
        },
    ]
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": dict.fromkeys(NAMES), "vars": here}}))
    (tmp_path / "plays.yml").write_text(yaml.safe_dump(plays))
    argv = [str(Path(sys.executable).parent / "ansible-playbook"), "--check", "--diff", "-i", "hosts.yml", "plays.yml"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.findall(r"^on (\S+), (\d+) hosts?: (.+)$", done.stdout, re.MULTILINE)
    assert ("n[1-3,5-6]", "5", f"{tmp_path}/one") in found, done.stdout
    assert ("n4", "1", f"{tmp_path}/one") in found
    assert ("n[1-6]", "6", f"{tmp_path}/named") in found
    assert done.stdout.count("+same for all") == 2
    assert done.stdout.count("+but not here") == 1
    assert done.stdout.count("+I am {{ inventory_hostname }} of the batch") == 1
    assert "+++ after" not in done.stdout, "none is printed for each host besides"


# Of a real site in soak, in e2e/test_first_canary.py.
def test_the_plan_of_the_way_back_prints_each_difference_once_and_no_proof_of_what_was_not_done(tmp_path: Path) -> None:
    said = {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_python_interpreter": sys.executable,
        "converged_record_dir": f"{tmp_path}/{{{{ inventory_hostname }}}}/record",
        "converged_record_copy_dir": f"{tmp_path}/copy",
    }
    nodes = {"hosts": dict.fromkeys(NAMES[:2])}
    groups = {"all": {"vars": said}, "converged_nodes": nodes, "converged_controllers": {"hosts": {"ctl": None}}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(groups))
    folder = f"{tmp_path}/{{{{ inventory_hostname }}}}"
    (tmp_path / "made.yml").write_text(
        yaml.safe_dump(
            [
                {
                    "hosts": "converged_nodes",
                    "gather_facts": False,
                    "tasks": [
                        {"ansible.builtin.file": {"path": folder, "state": "directory", "mode": "0755"}},
                        {
                            "converged.hpc.node_state": {
                                "record_dir": "{{ converged_record_dir }}",
                                "record_copy_dir": "{{ converged_record_copy_dir }}",
                                "role": "pbs_share_enable",
                                "files": [{"path": f"{folder}/flag", "content": "of all\n"}],
                            }
                        },
                    ],
                }
            ]
        )
    )
    program = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.yml"]
    for words in (["made.yml"], ["converged.hpc.restore", "--check", "--diff"]):
        done = subprocess.run(
            [*program, *words], cwd=tmp_path, capture_output=True, text=True, timeout=1800, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    headings = re.findall(r"^on (\S+), \d hosts?: (.+)$", done.stdout, re.MULTILINE)
    # PBS's scripts become inert, and all of the record goes: of both only one is printed.
    assert headings == [("n[1-2]", f"{folder}/flag")], done.stdout
    assert done.stdout.count("-of all") == 1
    assert "--- before" not in done.stdout, "none is printed for each host besides"
    assert "proved" not in done.stdout
    assert (tmp_path / "n1/flag").exists()


# Modules of the collection with an action that keeps the diff of a plan.
KEEPING = {
    f"converged.hpc.{path.stem}"
    for path in (ROOT / "plugins/action").glob("*.py")
    if "_planned import" in path.read_text(encoding="utf-8") and path.stem != "share_diff"
}


def keeps(task: dict[str, Any]) -> bool:
    return not KEEPING.isdisjoint(task)


def plays_of(playbook: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((ROOT / f"playbooks/{playbook}.yml").read_text(encoding="utf-8"))
    return found


def everything(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All tasks of a play, with those of its blocks."""
    parts = ("block", "rescue", "always")
    return [
        one for task in tasks for one in (task, *everything([inner for part in parts for inner in task.get(part, [])]))
    ]


@pytest.mark.parametrize(("playbook", "plays"), [("site", 4), ("restore", 7)])
def test_every_plan_for_many_hosts_is_followed_by_what_prints_its_differences(playbook: str, plays: int) -> None:
    """One of the way back is followed by it in the last play itself, before the proofs of all hosts."""
    found = plays_of(playbook)
    planning = [at for at, play in enumerate(found) if "_converged_diffs_together" in play.get("vars", {})]
    printing = [
        at for at, play in enumerate(found) if any("converged.hpc.share_diff" in task for task in play["tasks"])
    ]
    assert len(planning) == plays
    assert printing == [max(planning) + (playbook == "site")]


def test_every_play_of_the_way_back_that_changes_something_keeps_its_differences() -> None:
    printing_each = [
        play["name"]
        for play in plays_of("restore")
        if "_converged_diffs_together" not in play.get("vars", {})
        and any(keeps(task) for _role, _file, task in tasks_of(play))
    ]
    assert printing_each == []


@pytest.mark.parametrize("playbook", ["site", "restore"])
def test_no_two_tasks_that_plan_keep_their_differences_under_one_name(playbook: str) -> None:
    """The second would take the place of the first, which would be printed nowhere."""
    seen: dict[str, tuple[str, str]] = {}
    for play in plays_of(playbook):
        if "_converged_diffs_together" not in play.get("vars", {}):
            continue
        for name, file, task in tasks_of(play):
            if keeps(task) and "register" in task:
                at = (f"{name}/{file}", task["name"])
                assert seen.setdefault(task["register"], at) == at
    some = {
        "site": {"__node_share_state", "__slurm_share_copy", "__node_kubelet_labelled"},
        "restore": {"__node_share_restored", "__slurm_share_copy_restored", "__restore"},
    }
    assert some[playbook] <= set(seen)


def test_every_task_of_the_way_back_keeps_its_differences_under_a_name() -> None:
    """What is registered nowhere is printed for each host."""
    unnamed = {
        f"{name}/{file}: {task['name']}"
        for play in plays_of("restore")
        for name, file, task in tasks_of(play)
        if keeps(task) and "register" not in task
    }
    assert unnamed == set()


# What a name of a role that is put together can stand for.
STANDS_FOR = {"converged_wlm": ("slurm_share", "pbs_share", "torque_share"), "{{": ("node_runtime", "singularity_cri")}


def tasks_of(play: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    found = []
    for task in everything(play["tasks"]):
        entered = task.get("ansible.builtin.import_role") or task.get("ansible.builtin.include_role")
        if not entered:
            found.append(("", "playbook", task))
            continue
        named = str(entered["name"])
        stands = next((roles for part, roles in STANDS_FOR.items() if part in named), (named.rpartition(".")[2],))
        for role in stands:
            found += tasks_in(role, entered.get("tasks_from", "main"))
    return found


def tasks_in(role: str, file: str) -> list[tuple[str, str, dict[str, Any]]]:
    waiting = list(yaml.safe_load((ROOT / f"roles/{role}/tasks/{file.removesuffix('.yml')}.yml").read_text("utf-8")))
    found = []
    while waiting:
        task = waiting.pop()
        for part in ("block", "rescue", "always"):
            waiting += task.get(part, [])
        more = task.get("ansible.builtin.include_tasks") or task.get("ansible.builtin.import_tasks")
        if more:
            found += tasks_in(role, more["file"] if isinstance(more, dict) else more)
        found.append((role, file, task))
    return found


def test_what_ran_once_and_is_registered_on_every_host_is_printed_for_the_host_on_which_it_ran() -> None:
    once = registered("ctl", change("/etc/slurm/slurm.conf", "Prolog=x\n"))
    parts = kept([{"conf": once, "other": 1}, {"conf": once}])
    assert shown(parts) == ["on ctl, 1 host: /etc/slurm/slurm.conf"]


def test_each_result_of_a_loop_is_printed_and_one_without_a_change_is_not() -> None:
    looped = {"results": [registered("n1", change("/a", "1\n")), registered("n1", change("/b", "2\n"))]}
    still = registered("n1", change("/c", "3\n"), changed=False)
    assert shown(kept([{"looped": looped, "still": still}])) == ["on n1, 1 host: /a", "on n1, 1 host: /b"]


def test_two_tasks_that_ask_one_host_under_one_name_are_both_printed() -> None:
    parts = kept(
        [
            {"asked": registered("kube", change("node n1", "a\n"))},
            {"asked": registered("kube", change("node n2", "b\n"))},
        ]
    )
    assert [one.header for one in parts["kube"]] == ["node n1", "node n2"]


def test_the_same_change_of_many_objects_is_printed_once() -> None:
    parts = {"kube": [Part(f"node n{at:04d}", "", "label: x\n", "") for at in range(1, 601)]}
    assert shown(parts) == ["on kube, 1 host: node n[0001-0600]"]


def test_a_text_that_names_many_hosts_is_printed_once_as_it_is_on_all_that_have_it() -> None:
    """A slurm.conf, of which each host would have another one with its own name in it replaced."""
    conf = "SlurmctldHost=ctl\nNodeName=n1 Weight=1\n{first}NodeName=n2 Weight=2\n{prolog}"
    names = {host: {host: "inventory_hostname"} for host in ("ctl", "n1", "n2", "n3")}
    parts = {
        host: [
            Part("/etc/slurm.conf", conf.format(first="", prolog="Prolog=x\n"), conf.format(first="", prolog=""), ""),
            Part("/etc/own", "", f"name {host}\n", ""),
        ]
        for host in names
    }
    # Its copy has a line more, far from what is printed.
    parts["n3"][0] = Part("/etc/slurm.conf", *(f"#\n{text}" for text in parts["n3"][0][1:3]), "")
    found = together(with_names_where_hosts_differ(parts, names))
    assert [heading(one) for one in found] == [
        "on ctl,n[1-2], 3 hosts: /etc/slurm.conf",
        "on ctl,n[1-3], 4 hosts: /etc/own",
        "on n3, 1 host: /etc/slurm.conf",
    ]
    assert lines(found[0]["diff"])[1:] == [
        " SlurmctldHost=ctl",
        " NodeName=n1 Weight=1",
        " NodeName=n2 Weight=2",
        "-Prolog=x",
    ]
    assert lines(found[1]["diff"])[1:] == ["+name {{ inventory_hostname }}"]


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("name: {n}\naddress: {a}\n", "name: {n}\naddress: 10.0.0.9\n"),
        ("subnet {a}0\n", "subnet {a}1\n"),
        ("{{{{ inventory_hostname }}}} {n}\n", "{{{{ inventory_hostname }}}} {n}\n"),
        ("x{n} {n}x {n}.example.org {n}\n", "x{n} {n}x {n}.example.org {n} \n"),
    ],
)
def test_the_text_of_each_host_is_what_is_printed_with_its_own_values_put_back(text: str, other: str) -> None:
    values = {f"n{at}": {f"n{at}": "inventory_hostname", f"10.0.0.{at}": "node_kubelet_node_ip"} for at in (1, 2, 3)}
    texts = {
        host: (other if host == "n3" else text).format(n=host, a=next(a for a in own_ if a.startswith("10.")))
        for host, own_ in values.items()
    }
    parts = {host: with_names([Part("/etc/x", "", texts[host], "")], values[host]) for host in values}
    found = {host: one for one in together(parts) for host in one["hosts"]}
    assert {host: given_back(one, host, values[host]) for host, one in found.items() if "{{{{" not in text} == {
        host: texts[host] for host in values if "{{{{" not in text
    }
    if "{{{{" in text:
        assert len(together(parts)) == 3, "braces of the text itself could not be told from ours"


def test_a_value_of_a_host_is_named_by_the_first_variable_that_has_it_templated_where_it_is_a_template() -> None:
    variables = {"inventory_hostname": "n1", "inventory_hostname_short": "n1", "converged_kube_node": "{{ x }}"}
    assert own(variables, "n1", {"n1": {"converged_kube_node": "k1"}}) == {
        "n1": "inventory_hostname",
        "k1": "converged_kube_node",
    }


def test_a_diff_has_the_lines_around_it_and_a_comparison_of_a_module_is_printed_as_it_is() -> None:
    assert lines({"before": "a\nb\n", "after": "a\nc\n", "prepared": ""}) == ["@@ -1,2 +1,2 @@", " a", "-b", "+c"]
    prepared = "--- /x\n+++ /x\n@@ -1 +1 @@\n-b\n+c"
    assert lines({"before": "", "after": "", "prepared": prepared}) == prepared.splitlines()
    (one,) = together(kept([{"r": registered("ctl", {"prepared": prepared})}]))
    assert heading(one) == "on ctl, 1 host: /x"
    assert json.loads(json.dumps(one)) == one
