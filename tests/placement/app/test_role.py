# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role installs and declares is what the daemon needs."""

import tomllib
from pathlib import Path

import jinja2
import pytest
import yaml
from placement.app import cli
from placement.kube.dialects import DIALECTS
from placement.kube.watch.watched_resources import sources
from placement.kube.write import requests
from placement.kube.write.executor import told
from placement.kube.write.requests import Note, Request
from placement.model.messages.action import (
    Bind,
    BindVolume,
    Evict,
    GroupPhase,
    GroupStatus,
    PodCondition,
    QueueStatus,
    SelectNode,
)

CHECKOUT = Path(__file__).resolve().parents[3]
ROLE = CHECKOUT / "roles/placement"


def test_the_role_installs_what_the_daemon_is_tested_with():
    groups = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["dependency-groups"]
    wanted = yaml.safe_load((ROLE / "defaults/main.yml").read_text())["placement_requirements"]
    pinned = [item for name in ("daemon", "dev-indirect") for item in groups[name] if isinstance(item, str)]
    assert set(wanted) <= set(pinned)
    assert set(groups["daemon"]) <= set(wanted)


def test_without_a_file_the_command_line_checks_what_the_role_writes(capsys):
    written = yaml.safe_load((ROLE / "vars/main.yml").read_text())["_placement_settings_file"]
    with pytest.raises(SystemExit):
        cli.main(["run", "--help"])
    assert f"settings (default: {written}," in " ".join(capsys.readouterr().out.split())
    assert Path(written) == cli.SETTINGS


def test_every_file_of_the_daemon_that_changes_has_it_restarted():
    named = yaml.safe_load((ROLE / "vars/main.yml").read_text())["_placement_globs"]
    folders = {path.parent.relative_to(ROLE) for path in ROLE.glob("files/placement/**/*.py")}
    assert named == sorted(f"{{{{ role_path }}}}/{folder}/*.py" for folder in folders)


def test_the_role_gives_rights_in_every_dialect():
    named = yaml.safe_load((ROLE / "vars/main.yml").read_text())["_placement_dialects"]
    assert {dialect.name.partition("/")[0] for dialect in DIALECTS} == set(named)


def test_every_api_below_k8s_io_that_we_ship_has_its_annotation():
    crds = yaml.safe_load((ROLE / "files/crds/crds.yml").read_text())["items"]
    assert len(crds) == 5
    for crd in crds:
        protected = crd["spec"]["group"].endswith(".k8s.io")
        assert ("api-approved.kubernetes.io" in crd["metadata"].get("annotations", {})) is protected


# Each of these has systemd imply NoNewPrivileges= for who is not root, and then PBS knows nobody who calls qsub.
IMPLYING = {
    *("DynamicUser", "LockPersonality", "MemoryDenyWriteExecute", "NoNewPrivileges", "PrivateDevices", "ProtectClock"),
    *("ProtectHostname", "ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables", "RestrictNamespaces"),
    *("RestrictAddressFamilies", "RestrictRealtime", "RestrictSUIDSGID", "SystemCallArchitectures", "SystemCallFilter"),
}


@pytest.mark.parametrize(("user", "kept"), [("", IMPLYING), ("pods", set())])
def test_a_unit_with_a_user_for_pbs_lets_qsub_prove_who_it_is(user, kept):
    text = (ROLE / "templates/placement.service.j2").read_text()
    unit = jinja2.Template(text).render(placement_user=user, placement_memory_max="")
    names = {line.partition("=")[0] for line in unit.splitlines()}
    assert names & IMPLYING == kept
    assert ("User=pods" in unit) is bool(user)
    assert {"ProtectSystem", "ProtectHome", "PrivateTmp", "CapabilityBoundingSet"} <= names


def test_who_submits_as_others_may_do_that_by_sudo_and_nothing_else():
    jinja = jinja2.Environment(trim_blocks=True)
    texts = yaml.safe_load((ROLE / "vars/main.yml").read_text())
    given = {"placement_user": "pods", "placement_run_as": "%hpc", "placement_settings": {"renew_deadline": 12}}
    seconds = jinja.from_string(texts["_placement_sudo_seconds"]).render(given).strip()
    rule = jinja.from_string(texts["_placement_sudoers_content"]).render(given, _placement_sudo_seconds=seconds)
    assert rule.splitlines()[1:] == ["pods ALL=(%hpc, !root) TIMEOUT=3s NOPASSWD: /opt/pbs/bin/qsub, /opt/pbs/bin/qdel"]
    unit = jinja2.Template((ROLE / "templates/placement.service.j2").read_text())
    # sudo passes signals on, and says what it does to the kernel's audit.
    assert "CAP_AUDIT_WRITE CAP_KILL\n" in unit.render(given)
    assert "CAP_KILL" not in unit.render({**given, "placement_run_as": ""})


VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "GET": "get"}
WHO = {"uid": "uid", "name": "name"}
POD = {**WHO, "namespace": "team"}
GIVEN = BindVolume(
    **POD, node="n1", volume="pv", volume_uid="uid", version=1, claim="data", claim_uid="uid", chosen=True
)


def rights(rules):
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def right(request):
    """What a request needs: group, resource with its subresource, verb."""
    parts = request.path.partition("?")[0].strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    rest = rest[2:] if rest[0] == "namespaces" and len(rest) > 2 else rest
    return group, "/".join([rest[0], *rest[2:]]), VERBS[request.method]


def writes():
    """One of each kind of request that the daemon sends, but for those about its Lease."""
    condition = PodCondition(**POD, reason="Unschedulable", message="no room")
    telling = told(condition)
    note = Note(
        subject=telling.subject, reason="", text="", action="", warning=True, serial="1", time="2026-01-01T00:00:00Z"
    )
    yield requests.bind(Bind(**POD, node="n1"))
    yield Request("GET", requests.pod_path("team", "name"), b"")
    yield requests.evict(Evict(**POD, reason="Preempted", message=""))
    yield requests.pod_condition(condition, "now")
    yield requests.select_node(SelectNode(**POD, node="n1"))
    yield requests.bind_volume(GIVEN)
    yield Request("GET", requests.volume_path("pv"), b"")
    yield requests.event(note, controller="placement", instance="one")
    for dialect in DIALECTS:
        group = GroupStatus(**POD, dialect=dialect.name, phase=GroupPhase.PENDING, scheduled=False)
        yield requests.group_status(group, dialect, "now")
        yield requests.queue_status(QueueStatus(**WHO, dialect=dialect.name), dialect, "now")


def test_1_4_17_the_role_gives_the_rights_that_the_daemon_asks_for_and_no_other():
    variables = yaml.safe_load((ROLE / "vars/main.yml").read_text())
    rules = variables["_placement_role"]["rules"]
    # The dialects are one variable; a right for a resource that a group does not have is none.
    dialects = variables["_placement_dialects"]
    given = rights([{**rule, "apiGroups": dialects} if isinstance(rule["apiGroups"], str) else rule for rule in rules])
    wanted = {right(request) for request in writes() if request is not None}
    for source in sources():
        group, resource, _verb = right(Request("GET", source.path, b""))
        wanted |= {(group, resource, verb) for verb in ("list", "watch")}
    older = {dialect.name.partition("/")[0] for dialect in DIALECTS if dialect.may_lack_subresource}
    whole = {
        (group, resource.removesuffix("/status"), verb)
        for group, resource, verb in wanted
        if "/status" in resource and group in older
    }
    served = {(group, resource) for group, resource, _verb in wanted}
    assert wanted <= given
    assert {item for item in given if item[:2] in served} - wanted <= whole
    assert {group for group, _resource, _verb in given - wanted} <= set(dialects)


@pytest.mark.parametrize(
    ("existed", "answer", "said"),
    [
        (True, {"status": 200}, "The one before it runs again and is ready."),
        (True, {"status": 503, "content": "pods: listing"}, "has not become ready either: pods: listing"),
        (True, {"status": -1, "msg": "Connection refused"}, "has not become ready either: Connection refused"),
        (False, {"skipped": True}, "There was none before it, and it has been stopped."),
    ],
)
def test_who_is_put_back_is_asked_whether_he_is_ready_and_that_is_said(existed, answer, said):
    (tried, *_others) = yaml.safe_load((ROLE / "tasks/service.yml").read_text())
    asked = [task for task in tried["block"] if "ansible.builtin.uri" in task]
    *_before, again, fail = tried["rescue"]
    assert again["ansible.builtin.uri"] == asked[0]["ansible.builtin.uri"]
    assert (again["retries"], again["delay"]) == (asked[0]["retries"], asked[0]["delay"])
    assert again["until"] == f"{again['register']} is succeeded"
    # Whether it is ready or not is said by the next task.
    assert again["ignore_errors"] is True
    assert "failed_when" not in again
    known = {"__placement_before": {"stat": {"exists": existed}}, again["register"]: answer}
    template = jinja2.Template(fail["ansible.builtin.fail"]["msg"])
    text = template.render(known, __placement_failed="why", _placement_unit="u")
    assert "did not become ready: why." in text
    assert said in text
    assert ("runs again" in text) is (answer.get("status") == 200)
