# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts the playbooks go to, in which order, and what they refuse before they go anywhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from nodeshare.model.settings import CHECKS
from rehearsals.fork_server import ansible_playbook, program

ROOT = Path(__file__).parents[2]
AWAY = ("n2", "backup")


def run(folder: Path, name: str, *options: str, **groups: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """A playbook of the collection, for a small site of which one node and one controller are away."""
    hosts: dict[str, tuple[str, ...]] = {
        "converged_nodes": ("n1", "n2"),
        "converged_shared": ("n1",),
        "converged_controllers": ("ctl", "backup"),
        "converged_kube": ("kube",),
        "converged_excepted": AWAY,
        **groups,
    }
    inventory: dict[str, Any] = {group: {"hosts": dict.fromkeys(found)} for group, found in hosts.items()}
    (folder / "hosts.yml").write_text(yaml.safe_dump(inventory, sort_keys=False), encoding="utf-8")
    return ansible_playbook(["-i", str(folder / "hosts.yml"), f"converged.hpc.{name}", *options], folder)


def play_alone(
    folder: Path, play: dict[str, Any], inventory: dict[str, Any], **given: Any
) -> subprocess.CompletedProcess[str]:
    """One play, for an inventory of its own."""
    (folder / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
    (folder / "play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    words = ["-i", str(folder / "hosts.yml"), str(folder / "play.yml"), "-e", json.dumps(given)]
    return ansible_playbook(words, folder)


def reached(folder: Path, name: str, *options: str) -> set[str]:
    """Every host that a play of it goes to."""
    done = run(folder, name, "--list-hosts", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    return listed(done.stdout)


def listed(said: str) -> set[str]:
    """Every host of all plays but those that reach none: the check of the run, and the summary of status."""
    first, *plays = re.split(r"^  play #", said, flags=re.MULTILINE)[1:]
    assert "Check what this run is asked for" in first
    plays = [play for play in plays if "Sum up" not in play]
    return {host for play in plays for host in re.findall(r"^ {6}(\S+)$", play, re.MULTILINE)}


@pytest.mark.parametrize(
    ("name", "hosts"), [("off", {"n1"}), ("on", {"n1"}), ("status", {"n1", "ctl"}), ("verify", {"kube"})]
)
def test_a_host_that_is_left_out_makes_no_playbook_fail(tmp_path: Path, name: str, hosts: set[str]) -> None:
    assert reached(tmp_path, name) == hosts


@pytest.mark.parametrize("name", ["off", "on", "status"])
def test_a_host_that_is_left_out_is_reached_by_its_name(tmp_path: Path, name: str) -> None:
    assert reached(tmp_path, name, "-e", "converged_hosts=n2") == {"n2"}


def test_switching_off_names_the_nodes_that_it_leaves_as_they_are(tmp_path: Path) -> None:
    done = run(tmp_path, "off", "--check", "-e", json.dumps(HERE))

    assert "not switched off, as they are in converged_excepted: n2." in done.stdout, done.stdout + done.stderr


SITE = {"converged_wlm": "slurm", "converged_kubeconfig": "/etc/kubernetes/admin.conf"}
UNTOUCHED = "Refused, and nothing was touched"


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """What a run said that went to no host."""
    assert done.returncode != 0, done.stdout
    assert done.stdout.count("PLAY [") == 1, done.stdout
    assert UNTOUCHED in done.stdout, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ({"converged_excepted": ("ctl",)}, "the first controller cannot be in converged_excepted"),
        (
            {"converged_excepted": ("kube",)},
            "exactly one in converged_kube; that one and the first controller cannot be in",
        ),
        ({"converged_kube": ()}, "exactly one in converged_kube"),
        ({"converged_shared": ()}, "there is no node to convert: put one node there, the canary (n1, for example)"),
        ({"converged_shared": ("n1", "n7")}, "n7: in converged_shared, and not in converged_nodes: put them into both"),
    ],
)
def test_a_conversion_needs_groups_that_say_where_it_goes(tmp_path: Path, groups: dict[str, Any], said: str) -> None:
    assert said in refused(run(tmp_path, "site", "-e", json.dumps(SITE), **{"converged_excepted": ("n2",), **groups}))


def test_a_way_back_asks_a_controller_that_is_not_left_out(tmp_path: Path) -> None:
    groups = {"converged_controllers": ("ctl", "backup"), "converged_excepted": ("ctl",)}
    said = refused(run(tmp_path, "restore", "-e", json.dumps(SITE), **groups))
    assert "[groups] ctl, the first of converged_controllers, is in converged_excepted" in said, said
    assert "locked and the batch system asked from the first: put backup first" in said, said
    well = run(tmp_path, "restore", "--check", "-e", json.dumps({**HERE, **SITE, "converged_hosts": "ctl"}), **groups)
    assert UNTOUCHED not in well.stdout, well.stdout + well.stderr
    assert well.stdout.count("PLAY [") > 1, well.stdout + well.stderr


def test_a_way_back_without_a_controller_stays_open(tmp_path: Path) -> None:
    groups = {"converged_controllers": ("ctl", "backup"), "converged_excepted": ("backup", "ctl")}
    done = run(tmp_path, "restore", "--check", "-e", json.dumps({**HERE, **SITE}), **groups)
    assert UNTOUCHED not in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("PLAY [") > 1, done.stdout + done.stderr


@pytest.mark.parametrize("missing", sorted(SITE))
def test_a_conversion_needs_what_has_no_default(tmp_path: Path, missing: str) -> None:
    given = {name: value for name, value in SITE.items() if name != missing}
    said = refused(run(tmp_path, "site", "-e", json.dumps(given)))
    assert "all hosts need converged_wlm (slurm, pbs or torque) and converged_kubeconfig" in said


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (
            "converged_drain_timeout",
            "a day",
            "converged_drain_timeout is 'a day': expected a duration: seconds (90), or text",
        ),
        ("converged_convert", "n7", "converged_convert is n7, which names no host of the inventory"),
        ("converged_convert", "n2", "converged_convert names n2, which the group converged_shared has not"),
        ("converged_drain", "sometimes", "converged_drain is 'sometimes': expected one of when_needed, always, never"),
        ("node_share_handover", "quiece", "node_share_handover is 'quiece': expected one of quiesce, stop"),
        (
            "node_share_deadline",
            "2x",
            "node_share_deadline is '2x': expected a duration: seconds (90), or text such as 30m",
        ),
        ("node_share_deadline", "2h", "node_share_deadline is '2h': expected seconds from 0 to 3600"),
        ("node_share_deadlin", 60, "node_share_deadlin: no role has such a variable: write node_share_deadline"),
    ],
)
def test_a_conversion_refuses_what_cannot_be_meant(tmp_path: Path, name: str, value: Any, said: str) -> None:
    assert said in refused(run(tmp_path, "site", "-e", json.dumps({**SITE, name: value}), converged_excepted=("n2",)))


def test_two_batch_systems_need_two_inventories(tmp_path: Path) -> None:
    hosts = {"n1": {"converged_wlm": "pbs"}, "n2": {"converged_wlm": "slurm"}}
    groups = {"converged_nodes": hosts, "converged_shared": {"n1": None}, "converged_kube": {"kube": None}}
    inventory = {name: {"hosts": found} for name, found in groups.items()}
    inventory["converged_controllers"] = {"hosts": {"ctl": {"converged_wlm": "slurm"}}}
    inventory["all"] = {"vars": {"converged_kubeconfig": "/etc/kubernetes/admin.conf", "converged_serial": 3}}
    (tmp_path / "hosts.yml").write_text(json.dumps(inventory), encoding="utf-8")
    said = refused(ansible_playbook(["-i", str(tmp_path / "hosts.yml"), "converged.hpc.site"], tmp_path))

    assert "converged_wlm differs between hosts (pbs, slurm): one run is for one batch system" in said
    assert (
        "converged_serial: in the inventory, from where site does not read it: give it on the command line with -e"
        in said
    )


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        (
            "site",
            ("--limit", "n1"),
            "--limit n1 does not go with site: leave it out: checks, lock and slurm.conf need hosts",
        ),
        ("site", ("--limit", "n1"), "a run for some of them is -e converged_convert=PATTERN"),
        ("site", ("--tags", "slurm_share"), "--tags slurm_share does not go with site: leave it out: each step needs"),
        ("site", ("--skip-tags", "share_preflight"), "--skip-tags share_preflight does not go with site"),
        ("restore", ("--tags", "node_share"), "one role alone goes back with -e converged_restore_role=ROLE"),
        (
            "verify",
            ("--limit", "n1"),
            "--limit n1 does not go with verify: leave it out: nodes of the proof are named by",
        ),
        ("off", ("--limit", "ctl"), "no host that --limit ctl leaves is in converged_nodes:!converged_excepted"),
        ("off", ("--limit", "n1,n7"), "n7: the inventory has no such host or group: correct the name, or leave it out"),
        ("status", ("-e", "converged_hosts=n1:!n7"), "n7: the inventory has no such host or group"),
        ("restore", ("-e", "converged_hosts=n1,!nodes"), "nodes: the inventory has no such host or group"),
    ],
)
def test_an_option_that_would_leave_out_a_guard_stops_the_run_with_what_to_use_instead(
    tmp_path: Path, name: str, options: tuple[str, ...], said: str
) -> None:
    assert said in refused(run(tmp_path, name, *options, "-e", json.dumps(SITE), converged_excepted=("n2",)))


@pytest.mark.parametrize(
    "pattern", ["n1:&converged_shared:!converged_none:!127.0.0.1", "n*:!n[2:3]", "~n[12],!n2", "all:!ctl:!backup:!kube"]
)
def test_a_pattern_of_names_that_there_are_goes_through(tmp_path: Path, pattern: str) -> None:
    done = run(tmp_path, "off", "--check", "-e", json.dumps({**HERE, "converged_hosts": pattern}), converged_none=())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "n1 " in done.stdout


@pytest.mark.parametrize(
    ("tag", "options"),
    [
        ("always", ("--skip-tags", "always")),
        ("tagged", ("--skip-tags", "tagged")),
        ("always", ("--tags", "slurm_share", "--skip-tags", "x,always")),
    ],
)
@pytest.mark.parametrize("name", ["site", "verify", "status", "off", "on", "restore"])
def test_a_run_without_the_tag_of_its_checks_reaches_no_host(
    tmp_path: Path, name: str, tag: str, options: tuple[str, ...]
) -> None:
    done = run(tmp_path, name, *options, "-e", json.dumps(SITE))

    assert done.returncode != 0
    assert f"--skip-tags {tag} does not go with {name}, as it would skip the checks" in done.stdout + done.stderr
    assert "TASK [" not in done.stdout


@pytest.mark.parametrize("name", ["off", "on"])
def test_no_tag_keeps_the_kill_switch_from_working(tmp_path: Path, name: str) -> None:
    wrong = {"node_share_handover": "quiece", "converged_drain": "sometimes"}
    done = run(tmp_path, name, "--check", "--tags", "node_share", "-e", json.dumps({**HERE, **wrong}))

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"TASK [Switch sharing {name}]" in done.stdout


# Answers of systemctl. The last two: a service manager that does not answer, and a host without one.
@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ("echo inactive; exit 3", None),
        ("echo activating; exit 3", "activating"),
        ("echo 'Failed to connect to bus' >&2; exit 1", "Failed to connect to bus"),
        ("", "Error executing command."),
    ],
)
def test_a_node_where_a_kubelet_may_be_left_is_not_called_switched_off(
    tmp_path: Path, answer: str, named: str | None
) -> None:
    done = switch_off(tmp_path, systemctl=answer)
    assert (done.returncode == 0) == (named is None), done.stdout + done.stderr
    said = f"nodeshare is not there, and `systemctl is-active kubelet.service` says '{named}'. Stop the kubelet by"
    assert (said in " ".join(done.stdout.split())) == (named is not None), done.stdout


def test_a_node_that_was_never_converged_is_off(tmp_path: Path) -> None:
    done = switch_off(tmp_path, systemctl="echo active", converted=False)
    assert done.returncode == 0, done.stdout + done.stderr


def switch_off(folder: Path, *, systemctl: str, converted: bool = True) -> subprocess.CompletedProcess[str]:
    """Run `off` on this host, which has no nodeshare, with such a systemctl; with none where that is empty."""
    programs = folder / "bin"
    programs.mkdir()
    for found in Path("/usr/bin").iterdir():
        if found.name != "systemctl":
            (programs / found.name).symlink_to(found)
    if systemctl:
        (programs / "systemctl").write_text(f'#!/bin/sh\n[ "$*" = "is-active kubelet.service" ] && {systemctl}\n')
        (programs / "systemctl").chmod(0o755)
    if converted:
        (folder / "record").mkdir()
    given = {**HERE, "converged_record_dir": str(folder / "record"), "ansible_python_interpreter": sys.executable}
    inventory = {"converged_nodes": {"hosts": {"n1": None}}, "all": {"vars": given}}
    (folder / "hosts.yml").write_text(json.dumps(inventory), encoding="utf-8")
    environ = {**os.environ, "PATH": str(programs)}
    return program(["-i", str(folder / "hosts.yml"), "converged.hpc.off"], folder, environ)


@pytest.mark.parametrize("name", ["off", "on"])
def test_the_kill_switch_gives_a_node_all_the_time_that_nodeshare_may_take(name: str) -> None:
    *_others, play = yaml.safe_load((ROOT / f"playbooks/{name}.yml").read_text(encoding="utf-8"))
    switch = play["tasks"][0]
    # nodeshare ends by itself ten seconds after its limit.
    with pytest.raises(ValueError, match="7200"):
        CHECKS["limit"](switch["timeout"] - 60)


def test_the_way_back_waits_for_no_value_that_it_does_not_read(tmp_path: Path) -> None:
    wrong = {"node_share_handover": "quiece", "node_share_deadlin": 3}
    done = run(tmp_path, "restore", "--check", "--limit", "n1", "-e", json.dumps({**HERE, **SITE, **wrong}))
    assert UNTOUCHED not in done.stdout, done.stdout

    bad = {"slurm_share_conf": "locl"}
    said = refused(run(tmp_path, "restore", "--check", "-e", json.dumps({**HERE, **SITE, **bad})))
    assert "slurm_share_conf is 'locl': expected one of auto, local, shared, configless" in said


def test_taking_a_role_back_is_locked_as_the_whole_way_back_is(tmp_path: Path) -> None:
    done = run(tmp_path, "restore", "--list-hosts", "-e", "converged_restore_role=node_runtime")

    locked = re.search(r"Be the only one.*?hosts \((\d+)\)", done.stdout, re.DOTALL)
    assert locked is not None
    assert locked.group(1) == "4", done.stdout


def test_scripts_that_slurm_conf_names_are_not_taken_from_some_hosts_alone(tmp_path: Path) -> None:
    here = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": sys.executable}
    asked = json.dumps({**here, "converged_restore_role": "slurm_share"})
    done = run(tmp_path, "restore", "--check", "--limit", "n1", "-e", asked)

    assert done.returncode != 0
    assert "all hosts at once, as they have one slurm.conf; left out are ctl. Nothing was changed" in done.stdout
    assert "changed=0" in done.stdout


def taken_back(folder: Path, role: str, **held: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """What is asked before one role goes back, with the facts that hosts have told."""
    plays = yaml.safe_load((ROOT / "playbooks/restore.yml").read_text(encoding="utf-8"))
    play = next(play for play in plays if play["name"] == "Read what is held")
    fact = {"converged_share": "{{ held }}", "cacheable": True}
    tasks = [{"ansible.builtin.set_fact": fact}, *play["tasks"][1:]]
    checks = {"hosts": "all", "gather_facts": False, "vars": {"__only": role}, "tasks": tasks}
    return play_alone(folder, checks, {"all": {"hosts": {name: {"held": fact} for name, fact in held.items()}}})


@pytest.mark.parametrize(("held", "refused"), [("kube_join", True), ("node_share", False)])
def test_the_runtime_is_not_taken_from_under_a_kubelet(tmp_path: Path, held: str, refused: bool) -> None:
    roles = {"roles": ["node_runtime", held]}
    done = taken_back(tmp_path, "node_runtime", n1=roles, n2=roles)

    assert ("take node_kubelet back first, or everything. Nothing was changed" in done.stdout) == refused, done.stdout
    assert (done.returncode != 0) == refused


@pytest.mark.parametrize(
    ("node", "refused"),
    [
        ({"leases": [{"job": "1"}], "placeholders": ["converged-1"]}, True),
        ({"leases": [{"job": "1"}], "placeholders": []}, True),
        ({"leases": [], "placeholders": []}, False),
        ({"leases": [{"job": "1"}], "placeholders": None}, False),
    ],
)
def test_the_fence_between_pods_and_jobs_does_not_go_back_alone(
    tmp_path: Path, node: dict[str, Any], refused: bool
) -> None:
    roles = ["node_share"]
    shown = {"n1": {"roles": roles, "sharing": {"node": node}}, "ctl": {"roles": roles, "sharing": {"node": {}}}}
    done = taken_back(tmp_path, "node_share", **shown)

    said = "nothing else keeps them apart; they do on n1. Take everything back"
    assert (said in " ".join(done.stdout.split())) == refused, done.stdout + done.stderr
    assert (done.returncode != 0) == refused


HERE = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": sys.executable}
SILENT = {"ansible_host": "127.0.0.1", "ansible_port": 1}


def silent_site(folder: Path, **nodes: dict[str, Any]) -> dict[str, Any]:
    """An inventory of which neither the controller nor the host that reaches the API can be reached."""
    said = {"converged_wlm": "slurm", "converged_kubeconfig": "/none", "converged_record_dir": str(folder / "record")}
    groups = {"converged_nodes": nodes, "converged_controllers": {"ctl": SILENT}, "converged_kube": {"kube": SILENT}}
    return {"all": {"vars": said}, **{name: {"hosts": hosts} for name, hosts in groups.items()}}


def test_a_node_is_reported_although_nobody_reaches_the_clusters(tmp_path: Path) -> None:
    plays = yaml.safe_load((ROOT / "playbooks/status.yml").read_text(encoding="utf-8"))
    done = play_alone(tmp_path, plays[1], silent_site(tmp_path, n1=HERE))

    assert re.search(r"TASK \[Report\] \*+\nok: \[n1\]", done.stdout), done.stdout + done.stderr
    assert done.stdout.count("Connection refused") > 2


def test_clusters_that_nobody_reaches_are_judged_with_all_the_rest(tmp_path: Path) -> None:
    plays = yaml.safe_load((ROOT / "playbooks/site.yml").read_text(encoding="utf-8"))
    done = play_alone(tmp_path, plays[1], silent_site(tmp_path, n1=SILENT))

    assert done.returncode != 0
    for finding in (
        "[slurm] (cluster): Slurm does not answer",
        "[kube_api] (cluster): the Kubernetes API does not answer",
        "[unreachable] ctl: ",
        "[unreachable] n1: ",
    ):
        assert done.stdout.count(f"refuse {finding}") == 1, done.stdout + done.stderr


@pytest.mark.parametrize(("name", "held"), [("Be the only one", False), ("Be the only one", True), ("End", False)])
def test_the_way_back_is_open_without_the_host_of_the_lock_and_not_while_somebody_has_it(
    tmp_path: Path, name: str, held: bool
) -> None:
    plays = yaml.safe_load((ROOT / "playbooks/restore.yml").read_text(encoding="utf-8"))
    play = next(play for play in plays if play["name"].startswith(name))
    site = silent_site(tmp_path, n1=HERE, n2=HERE)
    if held:
        lock = tmp_path / "lock"
        eve = {"who": "eve", "pid": 1, "host": "elsewhere", "since": "noon", "token": "1"}
        lock.write_text(json.dumps(eve), encoding="utf-8")
        site["converged_controllers"]["hosts"]["ctl"] = HERE
        play["module_defaults"]["converged.hpc.share_lock"] = {"path": str(lock)}
    play["tasks"].append({"ansible.builtin.debug": {"msg": "the way back"}})
    done = play_alone(tmp_path, play, site)

    assert ("the way back" in done.stdout) == (not held), done.stdout + done.stderr
    assert ("eve" in done.stdout) == held


@pytest.mark.parametrize(("hosts", "said"), [({}, "no host in converged_kube"), ({"kube": SILENT}, "via ssh")])
def test_the_way_back_goes_on_without_the_api(tmp_path: Path, hosts: dict[str, Any], said: str) -> None:
    plays = yaml.safe_load((ROOT / "playbooks/restore.yml").read_text(encoding="utf-8"))
    site = silent_site(tmp_path, n1=HERE, n2=HERE)
    site["converged_kube"]["hosts"] = hosts
    asking = ("Leave to the end what the API does not do now", "Go on without the API")
    blocks = [(play, task) for play in plays for task in play["tasks"] if "rescue" in task and task["name"] in asking]
    for play, block in blocks:
        then = {"ansible.builtin.debug": {"msg": "{{ inventory_hostname }} goes on"}}
        told = {"ansible_facts": {"converged_share": {"roles": ["kube_join", "drain_access"]}}, "__only": ""}
        alone = {**play, "hosts": "converged_nodes", "vars": {**play["vars"], **told}, "tasks": [block, then]}
        done = play_alone(tmp_path, alone, site)
        assert done.returncode == 0, done.stdout + done.stderr
        assert ("n1 goes on" in done.stdout, "n2 goes on" in done.stdout) == (True, True), done.stdout
        assert said in done.stdout
    assert len(blocks) == 3


def test_a_controller_knows_nodes_by_both_names_that_the_inventory_gives_them(tmp_path: Path) -> None:
    names = {"msg": "{{ _node_share_controller_content.names }}"}
    tasks = [{"ansible.builtin.debug": names}]
    files = [str(ROOT / "roles/node_share" / file) for file in ("defaults/main.yml", "vars/main.yml")]
    asked = {"hosts": "ctl", "gather_facts": False, "vars_files": files, "tasks": tasks}
    nodes = {"n1": {"converged_wlm_node": "N1"}, "n2": {"converged_kube_node": "n2.example"}, "n3": None}
    done = play_alone(
        tmp_path,
        asked,
        {"converged_nodes": {"hosts": nodes}, "ungrouped": {"hosts": {"ctl": None}}},
        node_share_controller_names={"N7": "n7"},
    )

    found = re.search(r'"msg": (\{.*?\})', done.stdout, re.DOTALL)
    assert found is not None, done.stdout + done.stderr
    assert json.loads(found.group(1)) == {"N1": "n1", "n2": "n2.example", "N7": "n7"}


@pytest.mark.parametrize(
    ("skipped", "hosts"),
    [(("n1",), {"n1"}), (("n1", "n2", "n3"), {"n1"}), ((), {"n1", "n2", "n3"}), (("n2",), {"n1", "n2", "n3"})],
)
def test_a_canary_that_was_skipped_has_proved_nothing(
    tmp_path: Path, skipped: tuple[str, ...], hosts: set[str]
) -> None:
    plays = yaml.safe_load((ROOT / "playbooks/site.yml").read_text(encoding="utf-8"))
    play = next(play for play in plays if play["name"] == "Convert the nodes")
    sort = f"{{{{ 'skipped' if inventory_hostname in {list(skipped)} else 'done' }}}}"
    tasks = [
        play["tasks"][0],
        {"ansible.builtin.debug": {"msg": "reached {{ inventory_hostname }}"}},
        {"ansible.builtin.group_by": {"key": f"converged_{sort}"}},
    ]
    rolling = {"hosts": "all", "gather_facts": False, "serial": [1, 1, 5], "tasks": tasks}
    done = play_alone(tmp_path, rolling, {"all": {"hosts": dict.fromkeys(("n1", "n2", "n3"))}})

    assert set(re.findall(r'"reached (\S+)"', done.stdout)) == hosts, done.stdout + done.stderr
    assert (done.returncode == 0) == (hosts == {"n1", "n2", "n3"})
    assert ("n1 came first and was skipped" in done.stdout) == (hosts == {"n1"})


def verify(programs: str = "/usr/bin") -> dict[str, Any]:
    """The play of the proof, where Kubernetes answers, without what it asks of the batch system first."""
    _check, _spark, play = yaml.safe_load((ROOT / "playbooks/verify.yml").read_text(encoding="utf-8"))
    proof = play["tasks"][-1]
    play["tasks"] = [proof]
    play["vars"]["__slurm_here"] = {"bin_dir": programs}
    for part in ("block", "always"):
        proof[part] = [
            {"name": task["name"], "ansible.builtin.debug": {"msg": "done"}, "register": task.get("register", "__done")}
            if any(word.startswith("kubernetes.core.") for word in task)
            else task
            for task in proof[part]
        ]
    return dict(play)


def test_the_pods_of_a_proof_are_removed_although_the_batch_controller_has_gone_away(tmp_path: Path) -> None:
    play = verify()
    away = {"ansible_host": "192.0.2.1", "ansible_timeout": 1}
    inventory = {
        "all": {"vars": {"converged_wlm": "slurm", "converged_kubeconfig": "/none"}},
        "converged_kube": {"hosts": {"localhost": {"ansible_connection": "local"}}},
        "converged_controllers": {"hosts": {"ctl": away}},
        "converged_nodes": {"hosts": {"n1": None}},
    }
    done = play_alone(tmp_path, play, inventory)

    assert done.returncode != 0
    assert "UNREACHABLE" in done.stdout, done.stdout + done.stderr
    assert re.search(r"TASK \[Remove the pods\] \*+\nok: \[localhost\]", done.stdout), done.stdout


def test_a_proof_whose_pods_could_not_be_removed_says_so_and_fails(tmp_path: Path) -> None:
    play = verify()
    (proof,) = play["tasks"]
    proof["block"] = [{"ansible.builtin.debug": {"msg": "proved"}}]
    always = [task for task in proof["always"] if "pods" in task["name"]]
    proof["always"] = [{**always[0], "ansible.builtin.ping": None, "delegate_to": "away", "become": False}, *always[1:]]
    proof["always"][0].pop("ansible.builtin.debug")
    inventory = {
        "all": {"vars": {"converged_wlm": "slurm", "converged_kubeconfig": "/none"}},
        "converged_kube": {"hosts": {"localhost": {"ansible_connection": "local"}}},
        "others": {"hosts": {"away": {"ansible_host": "192.0.2.1", "ansible_timeout": 1}}},
        "converged_nodes": {"hosts": {"n1": None}},
    }
    done = play_alone(tmp_path, play, inventory)
    assert done.returncode != 0, done.stdout
    assert "the pods of this proof may be left: " in " ".join(done.stdout.split()), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("found", "refused"),
    [
        ([], False),
        ([{}], True),
        ([{"labels": {"team": "a"}}], True),
        ([{"labels": {"kubernetes.io/metadata.name": "x", "app.kubernetes.io/managed-by": "converged.hpc"}}], False),
    ],
)
def test_a_proof_uses_and_deletes_no_namespace_of_the_sites_own(
    tmp_path: Path, found: list[dict[str, Any]], refused: bool
) -> None:
    _check, _spark, play = yaml.safe_load((ROOT / "playbooks/verify.yml").read_text(encoding="utf-8"))
    there = {"__there": {"resources": [{"metadata": metadata} for metadata in found]}}
    (asked,) = [number for number, task in enumerate(play["tasks"]) if task.get("register") == "__there"]
    play["tasks"] = [{"ansible.builtin.set_fact": there}, play["tasks"][asked + 1]]
    play["become"] = False
    done = play_alone(tmp_path, play, {"converged_kube": {"hosts": {"localhost": {"ansible_connection": "local"}}}})
    assert (done.returncode != 0) == refused, done.stdout + done.stderr
    assert ("namespace converged-verify has no label" in " ".join(done.stdout.split())) == refused, done.stdout


def test_a_proof_needs_a_host_that_asks_the_api(tmp_path: Path) -> None:
    said = refused(run(tmp_path, "verify", converged_kube=()))
    assert "no host of the inventory is in converged_kube: name the inventory with -i" in said


@pytest.mark.parametrize(("quotas", "refused"), [([], True), ([{"metadata": {"name": "team"}}], False)])
def test_a_spark_example_in_a_namespace_without_a_quota_is_refused(
    tmp_path: Path, quotas: list[dict[str, Any]], refused: bool
) -> None:
    _check, play, _proof = yaml.safe_load((ROOT / "playbooks/verify.yml").read_text(encoding="utf-8"))
    block = play["tasks"][0]["block"]
    (asked,) = [number for number, task in enumerate(block) if "kubernetes.core.k8s_info" in task]
    block[asked] = {"name": "Answer", "ansible.builtin.set_fact": {"__quotas": {"resources": quotas}}}
    judged = {"namespace": "team-a", "grace": 40, "refused": [], "warnings": []}
    (tmp_path / "job.yml").touch()
    play["vars"].update(__given="job.yml", __file=str(tmp_path / "job.yml"), __judged=judged)
    play["become"] = False
    inventory = {
        "converged_kube": {"hosts": {"localhost": {"ansible_connection": "local"}}},
        "converged_nodes": {"hosts": {"n1": None}},
    }
    done = play_alone(tmp_path, play, inventory)

    said = "refuse [spark] job.yml: namespace team-a has no ResourceQuota"
    assert (done.returncode != 0) == refused, done.stdout + done.stderr
    assert (said in done.stdout) == refused, done.stdout + done.stderr


SLURM_S = ("srun", "squeue", "scancel")


def test_a_proof_ends_its_own_job_and_no_other_s(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    for name in SLURM_S:
        program = tmp_path / name
        program.write_text(
            f'#!/bin/sh\necho "{name} $*" >>{calls}\ngrep -q ^srun {calls} && echo 7\n', encoding="utf-8"
        )
        program.chmod(0o755)
    play = verify(str(tmp_path))
    play["environment"] = {"PATH": f"{tmp_path}:/usr/bin:/bin", "ANSIBLE_ASYNC_DIR": str(tmp_path)}
    said = {"converged_wlm": "slurm", "converged_kubeconfig": "/none", "converged_share_mode": "placeholder", **HERE}
    groups = {"converged_kube": "kube", "converged_controllers": "ctl", "converged_nodes": "n1"}
    hosts = {group: {"hosts": {name: None}} for group, name in groups.items()}
    names = []
    for _proof in range(2):
        play_alone(tmp_path, play, {"all": {"vars": said}, **hosts})  # ends where there is no nodeshare
        named = {call.split()[0]: re.findall(r"name=(\S+)", call) for call in calls.read_text("utf-8").splitlines()}
        calls.unlink()
        assert named["srun"] == named["squeue"] == named["scancel"], named
        names += named["srun"]
    assert len(set(names)) == 2, names


SLURM = """#!/bin/sh
case "$*" in
*node) echo NodeName=n1 CPUTot=2 RealMemory=1000 State=IDLE Partitions=batch
    echo NodeName=n2 CPUTot=2 RealMemory=1000 State=IDLE Partitions=debug ;;
*config) echo Configuration data as of now
    echo SLURM_VERSION = 22.05.8
    echo "SlurmctldHost[0] = ctl"
    echo
    echo "Slurmctld(primary) at ctl is UP" ;;
esac
"""


def test_a_conversion_goes_to_the_nodes_and_controllers_that_slurm_lists(tmp_path: Path) -> None:
    (tmp_path / "scontrol").write_text(SLURM, encoding="utf-8")
    source = {
        "plugin": "converged.hpc.slurm",
        "command_prefix": ["/bin/sh", str(tmp_path / "scontrol")],
        "groups": {
            "converged_nodes": "slurm_partitions is defined",
            "converged_shared": "'batch' in slurm_partitions | default([])",
            "converged_controllers": "slurm_controller is defined",
        },
    }
    (tmp_path / "slurm.yml").write_text(json.dumps(source), encoding="utf-8")
    away: tuple[str, ...] = ()
    options = ("--list-hosts", "--inventory", str(tmp_path / "slurm.yml"))
    groups = dict.fromkeys(("converged_nodes", "converged_shared", "converged_controllers", "converged_excepted"), away)
    done = run(tmp_path, "site", *options, **groups)

    assert done.returncode == 0, done.stdout + done.stderr
    assert listed(done.stdout) == {"n1", "n2", "ctl"}
    converting = re.split(r"^  play #", done.stdout, flags=re.MULTILINE)
    (planned,) = [play for play in converting if "Plan the nodes" in play]
    assert re.findall(r"^ {6}(\S+)$", planned, re.MULTILINE) == ["n1"]
