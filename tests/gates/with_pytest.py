# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How gates and parts of soak start pytest: one command for all, and which tests each gate runs."""

from __future__ import annotations

import sys
from collections.abc import Callable

from gates.file_sets import Scope
from gates.gate import Context

# Gates that need no bed, and the folder with the tests of each; another gate may have a folder below it.
FOLDERS = {
    "unit": "tests/unit",
    "placement": "tests/placement",
    # Tests of processes and servers, which wait half of their time.
    "placement-app": "tests/placement/app",
    "rehearsals": "tests/rehearsals",
    # Apart, as all rehearsals in one gate came near the time that a gate may take.
    "rehearsals-conversion": "tests/rehearsals/conversion",
    "pbs": "tests/pbs",
    "torque": "tests/torque",
}
# Tests that bear it read what the gate of their folder does not: another gate runs them, which reads everything.
MARK = "prose"
# A test that takes so long has its stacks printed, and goes on: half the time of a gate, so that most hangs are shown.
SHOWN_AFTER = 600


def run_pytest(context: Context, marks: str, *arguments: str, env: dict[str, str] | None = None) -> None:
    """Run the tests that bear these marks, in one process, and keep the seconds of each."""
    argv = [sys.executable, "-m", "pytest", "-p", "gates.timings", "-o", f"faulthandler_timeout={SHOWN_AFTER}"]
    context.run([*argv, "-m", marks, *arguments], env={**(env or {}), **context.timings()})


def others_below(gate: str) -> list[str]:
    """Return the folders below a gate's own that other gates have."""
    return [folder for folder in FOLDERS.values() if folder.startswith(f"{FOLDERS[gate]}/")]


def run_tests(gate: str) -> Callable[[Context], None]:
    """Return what runs the tests of a gate, random ones sampled; none may open a file that the gate does not read."""
    ignored = [f"--ignore={folder}" for folder in others_below(gate)]

    def action(context: Context) -> None:
        watched = ("-p", "gates.reading", f"--gate={gate}")
        run_pytest(context, f"not soak and not {MARK}", "-q", _profile(context), *watched, *ignored, FOLDERS[gate])

    return action


def run_prose_tests(context: Context) -> None:
    """Run the tests of all these folders that read what their own gate does not."""
    modules = [
        str(path)
        for path in context.files(*(f"{folder}/**.py" for folder in FOLDERS.values()))
        if f"mark.{MARK}" in (context.checkout / path).read_text(encoding="utf-8")
    ]
    run_pytest(context, f"{MARK} and not soak", "-q", _profile(context), *modules)


def _profile(context: Context) -> str:
    return f"--hypothesis-profile={'check' if context.quick else 'test'}"


def run_pytest_on_bed(context: Context, scope: Scope, marks: str, *options: str) -> None:
    """Run those tests of a scope that bear the marks, in one process."""
    environment = {"CONVERGED_SCOPE": scope.name}
    run_pytest(context, marks, "-v", "--durations=0", *options, *scope.tests, env=environment)
