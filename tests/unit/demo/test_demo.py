# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the demo shows of a run: its pods, one line a second, Ansible's words in short, the table of times."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from demo import live, said, show, workload
from demo.hands import Report, Step
from demo.intervals import CLOSED, HELD, PLAIN, SHARED

README = """\
    ansible-galaxy collection install converged.hpc
    ansible-playbook -i hosts.yml converged.hpc.site --check --diff    # the plan
    ansible-playbook -i hosts.yml converged.hpc.off
"""
ZERO = datetime(2026, 11, 21, 15, 0, tzinfo=UTC)
PLAN = """\
PLAY [Plan the nodes] ****
TASK [converged.hpc.node_share : Put nodeshare on the node] ****
--- before: /usr/local/lib/converged/a.py
+++ after: /usr/local/lib/converged/a.py
@@ -0,0 +1 @@
+    "--- not a thing"
--- before: unit kubelet.service
+++ after: unit kubelet.service
changed: [n2]
+++ after: /usr/local/lib/converged/a.py
+++ after: unit kubelet.service
changed: [n1]
--- /etc/slurm/slurm.conf
+++ /etc/slurm/slurm.conf
@@ -42,5 +42,5 @@
 # --- our own scripts (keep these!) ---
-Prolog=/etc/slurm/prolog.sh
+Prolog=/etc/converged/slurm/prolog
changed: [ctl]
+++ after: node n1
changed: [n1 -> localhost]
warn [cgroup] n1: cgroup v1
fit to be shared: n1
ok: [ctl]
PLAY RECAP ****
ctl                        : ok=18   changed=7    unreachable=0    failed=0    skipped=4    rescued=0    ignored=0
n1                         : ok=14   changed=10   unreachable=1    failed=2    skipped=3    rescued=0    ignored=0
"""
PROOF = """\
ok: [n2] => {
    "msg": {
        "proved": "73 things are as they were",
    }
}
ok: [ctl] => {
    "msg": {
        "proved": "44 things are as they were",
    }
}
"""


def node(*taints: str, ready: str = "True", unschedulable: bool = False) -> dict[str, Any]:
    spec = {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints], "unschedulable": unschedulable}
    conditions = [{"type": "Ready", "status": ready}]
    return {"metadata": {"name": "n1"}, "spec": spec, "status": {"conditions": conditions}}


def pod(on: str, phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    return {"metadata": metadata, "spec": {"nodeName": on}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("found", "owner"),
    [
        (None, PLAIN),
        (node(), SHARED),
        (node("converged.hpc/batch"), HELD),
        (node("converged.hpc/batch", ready="Unknown"), HELD),
        (node("converged.hpc/converting"), CLOSED),
        (node(ready="False"), CLOSED),
        (node(unschedulable=True), CLOSED),
    ],
)
def test_a_node_is_whose_its_taints_and_its_conditions_say(found: dict[str, Any] | None, owner: str) -> None:
    assert live.owner(found) == owner


def test_a_second_is_one_line_with_owner_jobs_and_pods_of_each_node() -> None:
    pods = [
        pod("n1"),
        pod("n1", deletionTimestamp="now"),
        pod("n1", "Succeeded"),
        pod("n2"),
        {"metadata": {}, "spec": {}},
    ]
    text = live.line(3.21, ["n1", "n2"], nodes=[node("converged.hpc/batch")], pods=pods, jobs={"n1": ["7"]})

    assert text.split("|") == [
        "    3.2 s  n1: held for batch jobs, job 7, 2 pods (1 leaving)".ljust(11 + live.WIDE),
        " n2: plain batch node, 1 pod",
    ]


def test_the_live_view_ends_when_all_is_done_or_after_too_long(capsys: pytest.CaptureFixture[str]) -> None:
    answers = iter([("one", False), ("two", True)])

    assert live.watch(lambda _passed: next(answers), most=60, every=0.001)
    assert not live.watch(lambda _passed: ("three", False), most=0.0, every=0.001)
    assert capsys.readouterr().out.split()[:2] == ["one", "two"]


def test_a_plan_that_names_each_difference_once_is_read_as_well() -> None:
    text = """changed: [n1]

on n[1-2], 2 hosts: /usr/local/lib/a, unit kubelet.service
@@ -0,0 +1 @@
+x

on ctl, 1 host: /etc/slurm/slurm.conf
--- /etc/slurm/slurm.conf
+++ /etc/slurm/slurm.conf
@@ -1 +1 @@
-Prolog=/etc/slurm/prolog.sh
+Prolog=/etc/converged/slurm/prolog

on n1, 1 host: /etc/other
+y
ok: [localhost]
"""
    assert said.plan(text) == [
        "    ctl: 1 things",
        "      1 files and folders in /etc/slurm/slurm.conf",
        "    n1: 1 things",
        "      1 files and folders in /etc/other",
        "    n[1-2]: 2 things",
        "      1 files and folders in /usr/local/lib",
        "      units: kubelet.service",
        "    slurm.conf, the same on every host:",
        "      -Prolog=/etc/slurm/prolog.sh",
        "      +Prolog=/etc/converged/slurm/prolog",
    ]


def test_the_plan_names_hosts_once_with_what_they_get_and_shows_slurm_conf() -> None:
    assert said.plan(PLAN) == [
        "    Kubernetes: 1 things",
        "      nodes: n1",
        "    ctl: 1 things",
        "      1 files and folders in /etc/slurm/slurm.conf",
        "    n1, n2: 2 things",
        "      1 files and folders in /usr/local/lib",
        "      units: kubelet.service",
        "    slurm.conf, the same on every host:",
        "      -Prolog=/etc/slurm/prolog.sh",
        "      +Prolog=/etc/converged/slurm/prolog",
    ]


def test_verdicts_recaps_plays_and_proofs_are_read_from_what_ansible_prints() -> None:
    assert said.verdicts(PLAN) == ["    warn [cgroup] n1: cgroup v1", "    fit to be shared: n1"]
    assert said.recap(PLAN) == {"ctl": (7, 0), "n1": (10, 3)}
    assert [play for line in PLAN.splitlines() if (play := said.play(line))] == ["Plan the nodes"]
    assert said.proofs(PROOF) == ["    ctl: 44 things are as they were", "    n2: 73 things are as they were"]


def test_pods_pull_nothing_and_spread_over_nodes() -> None:
    apps = [workload.deployment(), workload.driver("https://kube:6443", prefers="n3")[-1], workload.workers()]
    for one in [app["spec"]["template"] for app in apps]:
        assert {container["imagePullPolicy"] for container in one["spec"]["containers"]} == {"Never"}
        (spread,) = one["spec"]["topologySpreadConstraints"]
        assert spread["topologyKey"] == "kubernetes.io/hostname"


def test_the_driver_may_only_have_workers_and_read_and_is_replaced_when_it_has_to_leave() -> None:
    objects = {one["kind"]: one for one in workload.driver("https://kube:6443", prefers="n3")}

    assert json.loads(objects["ConfigMap"]["data"]["workers.json"]) == workload.workers()
    rights = {rule["resources"][0]: rule["verbs"] for rule in objects["Role"]["rules"]}
    assert rights == {"statefulsets": ["create", "get", "delete"], "pods": ["get", "list"], "pods/log": ["get"]}
    job = objects["Job"]["spec"]
    assert job["template"]["spec"]["serviceAccountName"] == "driver"
    (rule,) = job["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")
    assert (job["backoffLimit"], job["template"]["spec"]["restartPolicy"]) == (0, "Never")


@contextlib.contextmanager
def worker(part: int, folder: Path, *, waits: bool) -> Iterator[Callable[[], str]]:
    """Run a worker's script itself, with or without the waiting between slices; yield what reads a line of it.

    In the end it is asked to leave, as a container is, and what it has started goes with it.
    """
    script = workload.workers()["spec"]["template"]["spec"]["containers"][0]["command"][-1]
    assert script.count('system("sleep 1")') == 1
    argv = ["sh", "-c", script if waits else script.replace('system("sleep 1")', "")]
    env = {"HOSTNAME": f"worker-{part}", "TMPDIR": str(folder), "PATH": os.environ["PATH"]}
    process = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline
        process.terminate()
        (folder / "status").write_text(str(process.wait(timeout=60)))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        rest, _errors = process.communicate(timeout=60)
    (folder / "rest").write_text(rest)


def test_the_workers_add_up_all_numbers_between_them_and_end_well_when_the_driver_ends_them(tmp_path: Path) -> None:
    total = 0
    for part in range(workload.WORKERS):
        with worker(part, tmp_path, waits=False) as line:
            assert line() == f"worker {part} begins\n"
            *words, found = line().split()
        assert (words, (tmp_path / "status").read_text()) == (["worker", str(part), "found"], "0")
        total += int(found)
    assert total == workload.TOTAL


def test_a_worker_that_is_asked_to_leave_does_so_at_once_and_has_found_nothing(tmp_path: Path) -> None:
    with worker(0, tmp_path, waits=True) as line:
        assert line() == "worker 0 begins\n"
    assert ((tmp_path / "status").read_text(), (tmp_path / "rest").read_text()) == ("143", "")


def test_the_table_has_every_step_with_its_result_and_the_sum() -> None:
    report = Report(
        [
            Step("Slurm runs a job", "job", "n1 n2", ZERO, ZERO + timedelta(seconds=1.25)),
            Step("Down", "down", "nothing left", ZERO, ZERO + timedelta(seconds=2)),
        ]
    )

    assert report.table().splitlines() == [
        "Slurm runs a job     1.2 s  n1 n2",
        "Down                 2.0 s  nothing left",
        "together             3.2 s",
    ]


def test_a_bad_name_is_refused_before_anything_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert show.main(["--name", "Bad Name"]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert shown.err.startswith("error: name 'Bad Name': give 1 to 20 lower-case letters")


def test_what_readme_promises_is_its_playbooks_with_their_options() -> None:
    assert said.promised(README) == ["site --check --diff", "off"]


@pytest.mark.prose
def test_the_demo_runs_all_of_readmes_first_example_and_nothing_else() -> None:
    readme = Path(__file__).resolve().parents[3] / "README.md"
    assert tuple(said.promised(readme.read_text(encoding="utf-8"))) == show.PROMISED
