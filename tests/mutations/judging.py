# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs tests against one fault, and says what became of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mutations.faults import Fault
from mutations.level import Command, again, failed_test, last_begun
from mutations.tree import Tree

# Fixtures that end processes or take a bed down need this long after an interrupt.
GRACE_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What became of one command. `late`: it was stopped at its time limit."""

    passed: bool
    said: str
    seconds: float
    late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of one fault. `test` found it; `hung`: that test did not end; `unsure`: why `test` proves nothing."""

    fault: Fault
    seconds: float
    test: str = ""
    hung: bool = False
    unsure: str = ""

    @property
    def found(self) -> bool:
        """Return whether a test that passes without the fault failed with it."""
        return bool(self.test) and not self.unsure

    def told(self) -> str:
        """Return the verdict in words."""
        if self.unsure:
            return f"unsure: {self.unsure}"
        if not self.test:
            return "survived"
        return f"found by timeout in {self.test}" if self.hung else f"found by {self.test}"


def judge(fault: Fault, tree: Tree, commands: Iterable[Command], environ: Mapping[str, str]) -> Verdict:
    """Run the commands with the fault in the copy until one fails; then run what failed again without the fault."""
    began = time.monotonic()
    failed: tuple[Command, Ran] | None = None
    with tree.broken(fault):
        for command in commands:
            ran = run(command, tree.checkout, environ)
            if not ran.passed:
                failed = command, ran
                break
    seconds = time.monotonic() - began
    if failed is None:
        return Verdict(fault=fault, seconds=seconds)
    command, ran = failed
    test = (last_begun(ran.said) if ran.late else failed_test(ran.said)) or command.what
    repeated = command if test == command.what else again(test, tree.checkout)
    without = run(repeated, tree.checkout, environ)
    unsure = "" if without.passed else f"{test} fails without the fault, too; the end of what it says:\n{tail(without)}"
    return Verdict(fault=fault, seconds=seconds, test=test, hung=ran.late, unsure=unsure)


def run(command: Command, checkout: Path, environ: Mapping[str, str]) -> Ran:
    """Run one command; past its time limit interrupt it, and kill what is left of its session after a grace."""
    path = ":".join([*(str(checkout / part) for part in command.path), environ.get("PYTHONPATH", "")])
    env = {**environ, **command.env, "PYTHONPATH": path}
    began = time.monotonic()
    child = subprocess.Popen(
        command.argv,
        cwd=checkout / command.cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    late = False
    try:
        said, _unused = child.communicate(timeout=command.seconds)
    except subprocess.TimeoutExpired:
        late = True
        said = _stop(child)
    except BaseException:
        _stop(child)
        raise
    return Ran(passed=child.returncode == 0 and not late, said=said, seconds=time.monotonic() - began, late=late)


def _stop(child: subprocess.Popen[str]) -> str:
    """End a session, politely first, and return what it has said."""
    for number in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        try:
            return child.communicate(timeout=GRACE_SECONDS)[0]
        except subprocess.TimeoutExpired:
            continue
    return ""


def tail(ran: Ran, lines: int = 12) -> str:
    """Return the end of what a command said."""
    return "\n".join(f"    {line}" for line in ran.said.splitlines()[-lines:])
