# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of gates. Which files each reads is data: `scopes.toml`."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path

from gates.artifact import run_importer
from gates.english import check_english
from gates.file_sets import FileMap, load
from gates.gate import LONGEST_LIMIT, Context, Gate, commands
from gates.lengthy import bench_parts, soak_parts
from gates.payloads import run_payload_tests
from gates.pool import SUPPLIES
from gates.reference import check_docs
from gates.roles import check_roles
from gates.sanity import run_sanity, run_sanity_of_prose
from gates.tools import (
    check_changelog,
    check_floors,
    check_layers,
    check_shell,
    check_types,
    fill_caches,
    lint_ansible,
    run_demo,
    run_scenario,
    run_scope,
)
from gates.with_pytest import FOLDERS, run_prose_tests, run_tests

QUICK = frozenset({"check", "test"})
FULL = frozenset({"test"})
ON_BEDS = frozenset({"test", "soak", "bench"})
# Scenarios that build what `supplies` does not have.
BUILDING = {"singularity_cri"}
# Gates that are not part of `make check`, which a developer waits for.
LONGER = {"pbs", "torque", "rehearsals", "rehearsals-conversion"}
# Gates that take more than half of the usual limit on a machine that has other work.
SLOW = {"rehearsals", "rehearsals-conversion"}
# Gates with tests that draw. The others do not see the seed of a run, so what they prove counts for every seed.
DRAWING = {
    "payloads",
    "unit",
    "unit-prose",
    "placement",
    "e2e-node-state",
    "e2e-placement",
    "e2e-share",
}
CHECKOUT = Path(__file__).resolve().parents[2]
HERE = platform.machine()

# Name, what it does, and the tiers that it is part of.
WITHOUT_BED: tuple[tuple[str, Callable[[Context], None], frozenset[str]], ...] = (
    ("payloads", run_payload_tests, QUICK),
    ("sanity", run_sanity, FULL),
    ("sanity-prose", run_sanity_of_prose, FULL),
    *((name, run_tests(name), FULL if name in LONGER else QUICK) for name in FOLDERS),
    ("unit-prose", run_prose_tests, FULL),
    ("docs", check_docs, FULL),
    ("english", check_english, QUICK),
    ("ansible-lint", lint_ansible, FULL),
    ("types", check_types, QUICK),
    ("format", commands(["ruff", "format", "--check", "."]), QUICK),
    ("lint", commands(["ruff", "check", "."]), QUICK),
    ("floors", check_floors, QUICK),
    ("layers", check_layers, QUICK),
    ("yamllint", commands(["yamllint", "--strict", "."]), QUICK),
    ("shell", check_shell, QUICK),
    ("roles", check_roles, QUICK),
    ("changelog", check_changelog, QUICK),
    ("importer", run_importer, FULL),
)


def gates(checkout: Path = CHECKOUT, files: FileMap | None = None, *, machine: str = HERE) -> tuple[Gate, ...]:
    """Return all gates of all tiers that a host with this kind of processor can run."""
    known = files or load()
    scopes = tuple(scope for scope in known.scopes if scope.runs_on(machine))
    scenarios = sorted(path.parent.name for path in checkout.glob("extensions/molecule/*/molecule.yml"))
    scripts = [path for path in sorted(checkout.glob("tests/bench/*.py")) if not path.name.startswith("_")]
    return (
        Gate(name=SUPPLIES, action=fill_caches, tiers=ON_BEDS, limit=40 * 60),
        *(
            Gate(
                name=name,
                action=action,
                tiers=tiers,
                reads=known.gates[name],
                limit=LONGEST_LIMIT if name in SLOW else 20 * 60.0,
            )
            for name, action, tiers in WITHOUT_BED
        ),
        *(
            Gate(
                name=scope.name,
                action=run_scope(scope),
                tiers=FULL,
                reads=scope.reads,
                group="e2e",
                on_bed=True,
            )
            for scope in scopes
            if not scope.only_soak
        ),
        *(
            Gate(
                name=f"molecule-{name.replace('_', '-')}",
                action=run_scenario(name),
                tiers=FULL,
                reads=known.gates[f"molecule-{name.replace('_', '-')}"],
                group="molecule",
                on_bed=True,
                limit=LONGEST_LIMIT if name in BUILDING else 20 * 60.0,
            )
            for name in scenarios
        ),
        Gate(
            name="demo",
            action=run_demo,
            tiers=FULL,
            reads=known.gates["demo"],
            on_bed=True,
        ),
        *soak_parts(scopes),
        *bench_parts(scripts),
    )


def left_out(files: FileMap | None = None, *, machine: str = HERE) -> str:
    """Return the line that names the scopes that this host cannot run; "" where it can run all."""
    names = [scope.name for scope in (files or load()).scopes if not scope.runs_on(machine)]
    return f"not on a host with {machine}, and so not proved here: {', '.join(names)}" if names else ""
