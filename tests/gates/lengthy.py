# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs for hours, in parts: the random tests at length, the long end-to-end tests, and the figures.

Each part is a gate of its own (`make soak GATE='soak-unit'`), ends within 80 minutes and says how to repeat it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from gates.file_sets import Scope
from gates.gate import Context, Gate, GateFailure
from gates.payloads import run_payload_tests_everywhere
from gates.sanity import run_sanity_everywhere
from gates.with_pytest import run_pytest, run_pytest_on_bed

PART_LIMIT = 80 * 60.0
HISTORIES = 500
# The payloads' modules that draw by `seeds`: all that test_lengthy.py finds there.
DRAWING_TESTS = [
    "test_controller_decisions",
    "test_jobid",
    "test_leases",
    "test_placing_histories",
    "test_random_histories",
    "test_room",
]
RANDOM = "(hypothesis or drawn or soak) and not repeated"
PROFILE = "--hypothesis-profile=soak"
# Part -> folders of tests; what is random there is drawn with 2,000 examples a property.
RANDOM_PARTS = {
    "soak-unit": ["tests/unit"],
    "soak-placement-policy": ["tests/placement/policy"],
    "soak-placement": ["tests/placement", "--ignore=tests/placement/policy"],
    "soak-rehearsals": ["tests/rehearsals"],
}
# Churn of the placement daemon under faults: together three hours on 5,000 nodes, and first the same on a few.
CHURN_PARTS = {
    "soak-placement-churn-short": (0, ("--nodes", "200", "--seconds", "240")),
    **{f"soak-placement-churn-{number}": (number, ("--seconds", "3600")) for number in (1, 2, 3)},
}
Tests = Callable[[Context], None]


def soak_parts(scopes: tuple[Scope, ...]) -> list[Gate]:
    """Return all parts of `make soak`."""
    parts = [
        _part("soak-payloads", soak_payloads),
        _part("soak-payloads-everywhere", run_payload_tests_everywhere),
        _part("soak-sanity-everywhere", run_sanity_everywhere),
    ]
    parts += [_part(name, _random(arguments)) for name, arguments in RANDOM_PARTS.items()]
    parts += [
        _part(name, _churn(number, options), on_bed=True, also="churn")
        for name, (number, options) in CHURN_PARTS.items()
    ]
    for scope in scopes:
        if scope.soak:
            # All of its tests: in many files each test takes the next step on the same bed.
            action, name = _on_bed(scope, "not repeated"), f"soak-{scope.name}"
            parts.append(_part(name, action, on_bed=True, alone=scope.alone, also=scope.also))
        for number in range(1, scope.repeated + 1):
            action = _on_bed(scope, "repeated", f"--part={number}/{scope.repeated}")
            parts.append(_part(f"soak-{scope.name}-{number}", action, on_bed=True))
    return parts


def _part(name: str, action: Tests, *, on_bed: bool = False, alone: bool = False, also: str = "") -> Gate:
    return Gate(
        name=name,
        action=_repeatable(name, action),
        tiers=frozenset({"soak"}),
        group="soak",
        also=also,
        on_bed=on_bed,
        alone=alone,
        limit=PART_LIMIT,
    )


def _repeatable(name: str, action: Tests) -> Tests:
    """Return the action with a failure that says how to run the part again with the same seed."""

    def run(context: Context) -> None:
        try:
            action(context)
        except GateFailure as error:
            raise GateFailure(f"{error}; CONVERGED_SEED={context.seed} make soak GATE={name} repeats it") from None

    return run


def soak_payloads(context: Context) -> None:
    """Run the payloads' tests that draw, by the run's seed, with 500 random histories of each kind."""
    roots = [str(context.checkout / root) for root in context.payload_roots()]
    settings = {"NODESHARE_HISTORIES": str(HISTORIES), "PYTHONPATH": ":".join(roots)}
    argv = [sys.executable, "-W", "error", "-m", "unittest", *DRAWING_TESTS]
    context.run(argv, cwd=context.checkout / "tests/payloads", env=settings)


def _random(arguments: list[str]) -> Tests:
    def run(context: Context) -> None:
        run_pytest(context, RANDOM, "-v", PROFILE, "--hypothesis-show-statistics", *arguments)

    return run


def _churn(number: int, options: tuple[str, ...]) -> Tests:
    """Return what runs one part of the churn, by a seed of its own that the run's seed gives."""

    def run(context: Context) -> None:
        seed = str((context.seed or 0) + number)
        context.run([sys.executable, "-m", "placement_churn", "--seed", seed, *options])
        context.say("\n".join(f"SHOW {line}" for line in _last(context, "nodes, ")))

    return run


def _last(context: Context, mark: str) -> list[str]:
    """Return the lines of the log from the last one with these words on."""
    lines = context.log.read_text(encoding="utf-8", errors="replace").splitlines()
    begin = max((number for number, line in enumerate(lines) if mark in line), default=0)
    return lines[begin:]


def _on_bed(scope: Scope, marks: str, *options: str) -> Tests:
    def run(context: Context) -> None:
        run_pytest_on_bed(context, scope, marks, PROFILE, *options)

    return run


def bench_parts(scripts: list[Path]) -> list[Gate]:
    """Return a gate for every script of tests/bench."""
    return [
        Gate(
            name=f"bench-{script.stem.replace('_', '-')}",
            action=_figures(script),
            tiers=frozenset({"bench"}),
            group="bench",
            on_bed=True,
        )
        for script in scripts
    ]


def _figures(script: Path) -> Tests:
    """Return what runs one script; what it prints is shown, and added to the figures of the run."""

    def run(context: Context) -> None:
        context.run([sys.executable, str(script)])
        said = context.log.read_text(encoding="utf-8", errors="replace")
        tables = context.logs / "figures.txt"
        with tables.open("a", encoding="utf-8") as collected:
            collected.write(f"{said}\n")
        context.say("\n".join(f"SHOW {line}" for line in said.splitlines()))
        context.say(f"SHOW all figures of this run: {tables}")

    return run
