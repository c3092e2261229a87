# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays of the collection as they are, with modules that only note what they are asked for.

A rehearsal shows what is done, on which host, in which order and with which words, in seconds and without a host.
What the modules really do is for other tests to say.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from gates import file_sets
from gates.gate import listed_files
from rehearsals.fork_server import ansible_playbook, served

ROOT = Path(__file__).parents[2]
STAND_IN = Path(__file__).with_name("stand_in.py")
# Modules of others that change or read a host; everything else of Ansible is run as it is.
OTHERS = ("command", "systemd_service", "file", "slurp", "get_url", "uri", "stat", "find", "ping")
_OTHERS = re.compile(rf"(?:ansible\.builtin\.({'|'.join(OTHERS)})|kubernetes\.core\.(k8s|k8s_info)):")
OFTEN = 100000
MAP = file_sets.load()
UNREAD = MAP.unread(MAP.gates["rehearsals"], listed_files(ROOT))
HOSTS = {
    "converged_nodes": ["n1", "n2"],
    "converged_shared": ["n1", "n2"],
    "converged_controllers": ["ctl"],
    "converged_kube": ["kube"],
}
HERE = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": sys.executable}
SITE = {"converged_wlm": "slurm", "converged_kubeconfig": "/admin.conf"}


@dataclass(frozen=True)
class Call:
    """One call of a module."""

    host: str
    module: str
    args: dict[str, Any]
    check: bool
    name: str

    def __str__(self) -> str:
        """Return it in short: the module, its state and its role or the word that a program was given."""
        words = self.args.get("argv") or []
        parts = [self.args.get("state"), self.args.get("role"), *words[1:2]]
        return " ".join(str(part) for part in (self.module, *parts) if part)


@dataclass(frozen=True)
class Rehearsed:
    """What was said and done."""

    said: str
    passed: bool
    calls: list[Call]

    def done(self, host: str) -> list[str]:
        """Return what was done for a host, in order, what was only planned left out."""
        return [str(call) for call in self.calls if call.host == host and not call.check]


def _left_out(folder: str, names: Sequence[str]) -> set[str]:
    """Return what a stage does not have of a folder: files that no play looks into, so that the gate reads none."""
    here = Path(folder).relative_to(ROOT)
    return {name for name in names if name == "__pycache__" or {f"{here / name}", f"{here / name}/"} & UNREAD}


class Stage:
    """A copy of the collection in which a stand-in is in the place of each module."""

    def __init__(self, collections: Path) -> None:
        self.collections = collections
        self.inner = collections / "ansible_collections" / "converged" / "hpc"
        for name in ("plugins", "roles", "playbooks", "meta"):
            shutil.copytree(ROOT / name, self.inner / name, ignore=_left_out)
        shutil.copy2(ROOT / "galaxy.yml", self.inner)
        modules = {path.stem for path in (ROOT / "plugins/modules").glob("*.py")}
        modules |= {f"stand_in_{name}" for name in (*OTHERS, "k8s", "k8s_info")}
        shutil.rmtree(self.inner / "plugins/action")
        (self.inner / "plugins/action").mkdir()
        for name in modules:
            shutil.copy2(STAND_IN, self.inner / f"plugins/action/{name}.py")
        for path in [*self.inner.glob("roles/*/tasks/*.yml"), *self.inner.glob("playbooks/*.yml")]:
            text = path.read_text(encoding="utf-8")
            changed = _OTHERS.sub(lambda found: f"converged.hpc.stand_in_{found[1] or found[2]}:", text)
            path.write_text(changed, encoding="utf-8")

    def plays(self, playbook: str) -> list[dict[str, Any]]:
        """Return the plays of a playbook, with stand-ins."""
        found: list[dict[str, Any]] = yaml.safe_load((self.inner / f"playbooks/{playbook}.yml").read_text("utf-8"))
        return found

    def play(self, playbook: str, name: str) -> dict[str, Any]:
        """Return the play of this name."""
        (found,) = [play for play in self.plays(playbook) if play["name"] == name]
        return found


class Rehearsal:
    """One run on a stage: `answer` comes before it, the answer given last counts first."""

    def __init__(self, stage: Stage, folder: Path, hosts: Mapping[str, Sequence[str]] | None = None) -> None:
        self.stage = stage
        self._hosts = hosts or HOSTS
        self._folder = folder
        self._answers: list[list[Any]] = []
        self.start = ansible_playbook
        for module, result in USUAL.items():
            self.answer(result, module=module)

    def answer(self, result: Mapping[str, Any], *, times: int = OFTEN, **wanted: Any) -> None:
        """Give this result to calls that match, so many times."""
        self._answers.insert(0, [wanted, dict(result), times])

    def playbook(self, name: str, *options: str, **given: Any) -> Rehearsed:
        """Run a playbook of the collection for a small site."""
        return self._run([f"converged.hpc.{name}", *options], given)

    def play(self, plays: Sequence[Mapping[str, Any]], **given: Any) -> Rehearsed:
        """Run plays of one's own for it."""
        (self._folder / "plays.yml").write_text(yaml.safe_dump(list(plays)), encoding="utf-8")
        return self._run([str(self._folder / "plays.yml")], given)

    def role(self, name: str, tasks: str, *, hosts: str, **given: Any) -> Rehearsed:
        """Run one list of tasks of a role."""
        role = {"name": f"converged.hpc.{name}", "tasks_from": tasks, "rolespec_validate": False}
        return self.play([{"hosts": hosts, "gather_facts": False, "tasks": [{"import_role": role}]}], **given)

    def _run(self, words: Sequence[str], given: Mapping[str, Any]) -> Rehearsed:
        groups = {group: {"hosts": dict.fromkeys(hosts)} for group, hosts in self._hosts.items()}
        inventory = {"all": {"vars": {**HERE, **SITE}}, **groups}
        (self._folder / "hosts.yml").write_text(yaml.safe_dump(inventory, sort_keys=False), encoding="utf-8")
        (self._folder / "answers").write_text(json.dumps(self._answers), encoding="utf-8")
        (self._folder / "calls").write_text("", encoding="utf-8")
        words = ["-i", str(self._folder / "hosts.yml"), *words, "-e", json.dumps(given)]
        environ = {
            **os.environ,
            "REHEARSAL": str(self._folder),
            "ANSIBLE_COLLECTIONS_PATH": str(self.stage.collections),
            "ANSIBLE_LOCALHOST_WARNING": "false",
        }
        done = self.start(words, self._folder, environ)
        said = done.stdout + done.stderr
        assert "the rehearsal has no answer" not in said, said
        lines = (self._folder / "calls").read_text(encoding="utf-8").splitlines()
        return Rehearsed(said, done.returncode == 0, [Call(**json.loads(line)) for line in lines])


def seen(**more: Any) -> dict[str, Any]:
    """Return what preflight reads of a host, with `more` instead of what it reads as a rule."""
    return {"found": {**USUAL["share_node_info"]["found"], **more}}


# What modules answer where a test says nothing else: a site on which everything is still to be done.
USUAL: dict[str, dict[str, Any]] = {
    "share_lock": {"changed": True},
    "share_diff": {"changed": False, "diffs": []},
    "share_inventory": {"changed": False},
    "share_verdict": {"changed": False, "left_out": []},
    "share_node_info": {
        "found": {
            "record": [],
            "enabled": False,
            "family": "Debian",
            "slurm": {"conf": "/etc/slurm/slurm.conf", "kept": "local", "bin_dir": "/usr/bin", "squeue": True},
            "pbs": {"bin_dir": "/opt/pbs/bin", "home": "/var/spool/pbs"},
        }
    },
    "share_facts": {"ansible_facts": {"converged_share": {"roles": [], "sharing": {"node": {}}}}},
    "node_state": {"changed": True, "report": {"found_record": True}},
    "slurm_info": {
        "version": "23.11.4",
        "bin_dir": "/usr/bin",
        "user": {"name": "slurm", "group": "slurm"},
        "host": {"conf": "/etc/slurm/slurm.conf", "kept": "local"},
        "config": {"PrologFlags": "", "PrologEpilogTimeout": "65534"},
        "nodes": [{"name": "n1"}, {"name": "n2"}],
        "jobs": [{"id": 7, "run": 0, "state": "RUNNING", "nodes": ["n2"]}],
        "partitions": [],
    },
    "slurm_conf": {"changed": True, "conf_path": "/etc/slurm/slurm.conf", "digests": {}, "restart_needed": []},
    "slurm_node": {"changed": True, "busy": []},
    "pbs_node": {"changed": True, "busy": []},
    "kube_info": {},
    "kube_certificate": {
        "changed": True,
        "api_server": "https://kube:6443",
        "ca": "pem",
        "ca_hashes": ["sha256:1"],
        "certificates": {"converged:controller:ctl": "pem"},
    },
    "kube_certificate_info": {"api_server": "https://kube:6443", "ca": "pem", "ca_hashes": ["sha256:1"]},
    "kube_client_config": {"changed": True, "csr": "request"},
    "kube_bootstrap_token": {
        "changed": True,
        "api_server": "https://kube:6443",
        "ca_hashes": ["sha256:1"],
        "token": "abcdef.0123456789abcdef",
        "token_id": "abcdef",
        "missing": ["n1", "n2"],
    },
    "kube_join": {"changed": True, "ours": True},
    "kubelet_config": {"changed": True},
    "kube_node": {"changed": True, "labelled": {"n1": {}, "n2": {}}, "untainted": [], "tainted": []},
    "k8s": {"changed": True},
    "k8s_info": {"resources": [], "api_found": True},
    "command": {"changed": True, "rc": 0, "stdout": "", "stderr": "adopt: new=1"},
    "systemd_service": {"changed": True},
    "file": {"changed": True},
    "slurp": {"content": "e30="},
    "ping": {"ping": "pong"},
    "stat": {"stat": {"exists": True}},
    "uri": {"status": 200},
    "find": {"files": []},
}


@pytest.fixture(scope="session", autouse=True)
def servers() -> Iterator[None]:
    with served():
        yield


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(tmp_path_factory.mktemp("stage"))


@pytest.fixture
def rehearsal(stage: Stage, tmp_path: Path) -> Rehearsal:
    return Rehearsal(stage, tmp_path)


@pytest.fixture(scope="module")
def rehearsals(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Rehearsal]:
    """Return what makes new rehearsals, for a run that several tests look at."""
    return lambda: Rehearsal(stage, tmp_path_factory.mktemp("rehearsal"))
