# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gates that are little more than a tool's command: which files, which floor, which flags."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from gates.artifact import copy_of_the_sources
from gates.file_sets import Scope
from gates.gate import Context, GateFailure, existing
from gates.with_pytest import run_pytest_on_bed


def check_types(context: Context) -> None:
    """mypy, strict, on the development side and on every payload."""
    roots = context.payload_roots()
    folders = [*existing(context, context.settings()["typed"]), *map(str, roots)]
    context.run(["mypy", *folders], env={"MYPYPATH": ":".join(str(context.checkout / root) for root in roots)})


def check_floors(context: Context) -> None:
    """vermin: payloads run on the Python of old batch nodes, the bridge on that of EL 9, modules as Ansible does."""
    settings = context.settings()
    daemon = tuple(settings["daemon"])
    payloads = [path for path in context.files("roles/*/files/**.py") if not str(path).startswith(daemon)]
    payloads += context.files("tests/payloads/**.py", "tests/gates/unittest_under.py")
    modules = context.files("plugins/modules/**.py", "plugins/module_utils/**.py")
    vermin = ["vermin", "--no-tips", "--violations", "--no-parse-comments"]
    if payloads:
        # 3.6 evaluates annotations; modules have them as text (`from __future__ import annotations`).
        context.run([*vermin, "--eval-annotations", f"--target={settings['payload-floor']}-", *map(str, payloads)])
    if modules:
        context.run([*vermin, f"--target={settings['module-floor']}-", *map(str, modules)])
    bridge = context.files("roles/singularity_cri/files/cri_bridge/**.py")
    if bridge:
        context.run([*vermin, f"--target={settings['bridge-floor']}-", *map(str, bridge)])


def check_layers(context: Context) -> None:
    """import-linter: the layers of the placement daemon, of nodeshare, of the record and of cri_bridge."""
    roots = [
        str(context.checkout / "roles" / role / "files") for role in ("placement", "node_share", "singularity_cri")
    ]
    roots.append(str(context.checkout / "plugins"))
    context.run(["lint-imports", "--no-cache", "--no-logo"], env={"PYTHONPATH": os.pathsep.join(roots)})


def check_shell(context: Context) -> None:
    """shellcheck on every shell script, with or without a suffix."""
    scripts = context.files("*.sh", ".ci/run")
    scripts += [
        path for path in context.files("roles/*/files/*", "roles/*/files/**") if _is_shell(context.checkout / path)
    ]
    context.run(["shellcheck", "--severity=style", *map(str, sorted(set(scripts)))])


def _is_shell(path: Path) -> bool:
    with path.open("rb") as start:
        return start.readline(40).startswith((b"#!/bin/sh", b"#!/bin/bash", b"#!/usr/bin/env bash"))


def lint_ansible(context: Context) -> None:
    """ansible-lint, profile production, on a copy: it writes beside what it reads."""
    folder = copy_of_the_sources(context, "ansible-lint")
    collections = folder.parents[2]
    context.run(
        ["ansible-lint", "--offline", "--strict", "--nocolor", "--project-dir", "."],
        cwd=folder,
        env={"ANSIBLE_COLLECTIONS_PATH": str(collections), "PYTHONPATH": ""},
    )


def check_changelog(context: Context) -> None:
    """antsibull-changelog: every fragment is well-formed."""
    context.run(["antsibull-changelog", "lint"])
    if not context.files("changelogs/fragments/*.yml", "changelogs/changelog.yaml"):
        raise GateFailure("there is neither a changelog nor a fragment")


def run_scope(scope: Scope) -> Callable[[Context], None]:
    """Return what runs the tests of a scope that are part of every change."""

    def action(context: Context) -> None:
        run_pytest_on_bed(context, scope, "not soak")

    return action


def run_scenario(name: str) -> Callable[[Context], None]:
    """Return what runs one molecule scenario, on nodes of the test bed.

    A scenario whose playbooks or hosts molecule does not find passes without having done anything: that is a failure.
    """

    def action(context: Context) -> None:
        folder = str(context.scratch / "molecule" / name)
        env = {"MOLECULE_EPHEMERAL_DIRECTORY": folder, "NO_COLOR": "1", **_without_cyclic_gc(context)}
        context.run(["molecule", "test", "-s", name], env=env)
        said = context.log.read_text(encoding="utf-8")
        for sign in ("no hosts matched", "Missing playbook"):
            if sign in said:
                raise GateFailure(f"molecule says '{sign}': the scenario did not do what it is for")

    return action


def fill_caches(context: Context) -> None:
    """Build the programs and images of test beds, where the caches lack them."""
    context.run([sys.executable, "-m", "testbed", "supplies"])


def run_demo(context: Context) -> None:
    """What the README promises: the main job, seen working."""
    context.run([sys.executable, "-m", "demo", "--name", "gate-demo"], env=_without_cyclic_gc(context))


def _without_cyclic_gc(context: Context) -> dict[str, str]:
    return {"ANSIBLE_CALLBACKS_ENABLED": f"{context.environ['ANSIBLE_CALLBACKS_ENABLED']},without_cyclic_gc"}
