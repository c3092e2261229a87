# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of gates."""

from __future__ import annotations

from gates.artifact import run_importer
from gates.gate import Gate, commands
from gates.lengthy import run_benchmarks, run_soak
from gates.payloads import run_payload_tests
from gates.reference import check_docs
from gates.roles import check_roles
from gates.sanity import run_sanity
from gates.tools import (
    check_changelog,
    check_floors,
    check_layers,
    check_shell,
    check_types,
    lint_ansible,
    run_demo,
    run_end_to_end,
    run_molecule,
    run_pbs_tests,
    run_unit_tests,
)

QUICK = frozenset({"check", "test"})
FULL = frozenset({"test"})

# The long ones first, so that two at a time end together.
GATES = (
    Gate(name="payloads", what="payload tests under every Python", action=run_payload_tests, tiers=QUICK),
    Gate(name="sanity", what="ansible-test sanity", action=run_sanity, tiers=FULL),
    Gate(name="unit", what="tests that need no cluster", action=run_unit_tests, tiers=QUICK),
    Gate(name="pbs", what="tests on PBS or its double", action=run_pbs_tests, tiers=FULL),
    Gate(name="docs", what="documentation", action=check_docs, tiers=QUICK),
    Gate(name="ansible-lint", what="profile production, no skips", action=lint_ansible, tiers=QUICK),
    Gate(name="types", what="mypy, strict", action=check_types, tiers=QUICK),
    Gate(name="format", what="ruff format", action=commands(["ruff", "format", "--check", "."]), tiers=QUICK),
    Gate(name="lint", what="ruff check", action=commands(["ruff", "check", "."]), tiers=QUICK),
    Gate(name="floors", what="Python 3.6 and 3.8", action=check_floors, tiers=QUICK),
    Gate(name="layers", what="import contracts", action=check_layers, tiers=QUICK),
    Gate(name="yamllint", what="YAML", action=commands(["yamllint", "--strict", "."]), tiers=QUICK),
    Gate(name="shell", what="shellcheck", action=check_shell, tiers=QUICK),
    Gate(name="roles", what="defaults and argument_specs", action=check_roles, tiers=QUICK),
    Gate(name="changelog", what="fragments", action=check_changelog, tiers=QUICK),
    Gate(name="importer", what="galaxy-importer", action=run_importer, tiers=FULL),
    Gate(name="e2e", what="on a test bed", action=run_end_to_end, tiers=FULL, alone=True, timeout=4 * 3600),
    Gate(name="molecule", what="roles and modules on nodes", action=run_molecule, tiers=FULL, alone=True),
    Gate(name="demo", what="the main job, as shown to a newcomer", action=run_demo, tiers=FULL, alone=True),
    Gate(
        name="soak",
        what="random tests at length",
        action=run_soak,
        tiers=frozenset({"soak"}),
        alone=True,
        timeout=6 * 3600,
    ),
    Gate(
        name="bench",
        what="figures",
        action=run_benchmarks,
        tiers=frozenset({"bench"}),
        alone=True,
        timeout=4 * 3600,
    ),
)
