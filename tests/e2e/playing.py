# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bed as an administrator's site: an inventory, playbooks, single modules, and what Ansible says about them.

Every test that calls Ansible does so from here, so that runs keep apart: an inventory, copies of the record and ssh
connections of their own, although the hosts of all beds have the same names and, one bed after the other, addresses.
"""

from __future__ import annotations

import json
import os
import re
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from e2e import upper_layer
from e2e.hosts import KubeHosts, SlurmHosts, until
from rehearsals.fork_server import ansible_playbook
from testbed import api, keys
from testbed.controlplane import kubeconfig
from testbed.inventory import inventory
from testbed.run import STALL_SECONDS, Completed, run

__all__ = ["Said", "Site", "play", "processor_seconds", "until"]

PLAY_SECONDS = 1200.0
MODULE_SECONDS = 300.0
# What the batch system's daemons save whenever they like.
BATCH_STATE = "/var/lib/slurm/"
# What nodes that are containers of a test bed need of node_runtime and node_kubelet; all else are the roles' defaults.
IN_CONTAINERS: dict[str, Any] = {
    "node_runtime_cgroup_driver": "cgroupfs",
    "node_runtime_sandbox_image": "localhost/pause:local",
    "node_runtime_restrict_oom_score_adj": True,
    "node_runtime_disable_apparmor": True,
    "node_runtime_pod_cidr": "10.244.{{ groups.converged_nodes.index(inventory_hostname) + 1 }}.0/24",
    "node_runtime_images": ["/opt/testbed/images/pause.tar", "/opt/testbed/images/busybox.tar"],
    "node_runtime_kernel_modules": [],
    "node_runtime_sysctls": {"net.ipv4.ip_forward": "1"},
    "node_kubelet_source": "node",
    "node_kubelet_folder": "/opt/testbed/bin",
    "node_kubelet_node_ip": "{{ ansible_host }}",
    "node_kubelet_timeout": 200,
}

# Nodes that are virtual machines have a kernel, and a systemd that has its cgroups: there the roles' defaults hold.
OF_CONTAINERS_ALONE = {
    "node_runtime_cgroup_driver",
    "node_runtime_restrict_oom_score_adj",
    "node_runtime_disable_apparmor",
    "node_runtime_kernel_modules",
    "node_runtime_sysctls",
}
IN_MACHINES = {name: value for name, value in IN_CONTAINERS.items() if name not in OF_CONTAINERS_ALONE}


def play(hosts: str, *steps: str | Mapping[str, Any], **keywords: Any) -> dict[str, Any]:
    """A play as root; a step is a task, or a role of the collection: `ROLE` or `ROLE/TASKS_FROM`."""
    tasks = [_role(step) if isinstance(step, str) else dict(step) for step in steps]
    return {"hosts": hosts, "become": True, "gather_facts": False, "tasks": tasks, **keywords}


def _role(step: str) -> dict[str, Any]:
    name, _slash, tasks = step.partition("/")
    return {"import_role": {"name": f"converged.hpc.{name}", "tasks_from": tasks or "main"}}


@dataclass(frozen=True, slots=True)
class Said(Completed):
    """What a run of Ansible left."""

    def recap(self) -> dict[str, dict[str, int]]:
        """By host: ok, changed, unreachable, failed, skipped, rescued, ignored."""
        lines = re.findall(r"^(\S+) +: (ok=\d+ .*)$", self.out, re.MULTILINE)
        return {host: {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", row)} for host, row in lines}

    def changed(self) -> dict[str, int]:
        """How many tasks changed something, by host."""
        return {host: counts["changed"] for host, counts in self.recap().items()}


class Site(SlurmHosts, KubeHosts):
    """The administrator's folder; `set` adds variables to the inventory."""

    def __init__(self, bed: api.RunningBed, folder: Path) -> None:
        super().__init__(bed)
        self.folder = folder
        self.hosts = inventory(bed.bed)
        self.set("all", converged_record_copy_dir=str(folder / "record"))

    def set(self, where: str, **variables: Any) -> None:
        """Variables of `all`, of a group or of a host."""
        everything = self.hosts["all"]
        groups = everything["children"]
        if where == "all":
            everything["vars"].update(variables)
        elif where in groups:
            groups[where].setdefault("vars", {}).update(variables)
        else:
            next(group["hosts"][where] for group in groups.values() if where in group["hosts"]).update(variables)

    def ask_kubernetes_from_here(self) -> None:
        """Modules for Kubernetes run where Ansible runs: the bed's control plane has no Python client."""
        here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        self.hosts["all"]["children"]["converged_kube"] = {"hosts": {"localhost": here}}
        self.set("all", converged_kubeconfig=str(kubeconfig(self.bed.bed)))

    def run(
        self,
        playbook: str | list[dict[str, Any]],
        *options: str,
        check: bool = True,
        timeout: float = PLAY_SECONDS,
        **variables: Any,
    ) -> Said:
        """A playbook of the collection by its name, or plays of the site's own; `variables` as on the command line."""
        if not isinstance(playbook, str):
            (self.folder / "play.yml").write_text(yaml.safe_dump(playbook), encoding="utf-8")
            playbook = str(self.folder / "play.yml")
        argv = [playbook, "--extra-vars", json.dumps(variables), *options]
        (_program, *words), settings = self.command("ansible-playbook", argv)
        ended = ansible_playbook(words, Path.cwd(), {**os.environ, **settings}, timeout + STALL_SECONDS)
        done = Said(ended.returncode, ended.stdout, ended.stderr)
        # What failed stands on stdout, and warnings on stderr.
        assert done.rc == 0 or not check, f"{playbook}: exit status {done.rc}:\n{done.out}\n{done.err}"
        return done

    def module(self, host: str, name: str, options: Mapping[str, Any], *, check_mode: bool = False) -> dict[str, Any]:
        """What `converged.hpc.NAME` returns on a host, run as root; a failure is one of its answers."""
        argv = [host, "--become", "--module-name", f"converged.hpc.{name}"]
        argv += [*(["--args", json.dumps(options)] if options else []), *(["--check"] if check_mode else [])]
        command, settings = self.command("ansible", argv)
        said = run(command, timeout=MODULE_SECONDS, check=False, env=settings)
        _errors, arrow, body = f"\n{said.out}".rpartition(f"\n{host} | ")
        assert arrow, said
        result: dict[str, Any] = json.loads(body.partition(" => ")[2])
        result["failed"] = body.startswith("FAILED")
        return result

    def results(self, host: str, *tasks: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return what tasks answer one after the other, in one run; a failure is one of the answers."""
        answers = self.folder / "answers.json"
        names = [f"answer_{at}" for at in range(len(tasks))]
        told = [{**task, "register": name, "ignore_errors": True} for task, name in zip(tasks, names, strict=True)]
        content = "{{ [" + ", ".join(names) + "] | to_json }}"
        here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        tell = {"ansible.builtin.copy": {"content": content, "dest": str(answers), "mode": "0600"}, "vars": here}
        self.run([play(host, *told, {**tell, "delegate_to": "localhost", "become": False})])
        found: list[dict[str, Any]] = json.loads(answers.read_text(encoding="utf-8"))
        return found

    def listing(self, host: str) -> dict[str, object]:
        """Return everything on a host but the batch system's state."""
        found = upper_layer.everything(self.bed, host)
        return {name: thing for name, thing in found.items() if not name.startswith(BATCH_STATE)}

    def command(self, program: str, argv: list[str]) -> tuple[list[str], dict[str, str]]:
        """How Ansible is called here: the whole command line, and what its environment has besides ours."""
        hosts = self.folder / "hosts.yml"
        hosts.write_text(json.dumps(self.hosts), encoding="utf-8")
        # A connection that was kept must not be taken for one to the next bed at the same address: that has other keys.
        bed = zlib.crc32(keys.known_hosts(self.bed.bed).read_bytes())
        settings = {
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_PIPELINING": "1",
            "ANSIBLE_TIMEOUT": "120",
            "ANSIBLE_SSH_CONTROL_PATH": f"%(directory)s/{bed:08x}-%%h-%%p",
        }
        return [str(Path(sys.executable).with_name(program)), "--inventory", str(hosts), *argv], settings


def processor_seconds() -> float:
    """What programs have cost that were started here and have ended: no more where the machine is busy."""
    spent = os.times()
    return spent.children_user + spent.children_system
