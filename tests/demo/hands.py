# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo's hands: commands of the test bed, programs on its hosts, playbooks; each is shown as typed."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from demo import said

COMMAND_SECONDS = 400.0
PLAYBOOK_SECONDS = 1800.0
UP_SECONDS = 3600.0


class DemoError(Exception):
    """A step did not do what it should; one line."""


@dataclass(frozen=True, slots=True)
class Step:
    """What was shown, and when."""

    what: str
    short: str  # where there is little room
    result: str
    begin: datetime
    end: datetime
    is_setup: bool = False  # how long it takes says nothing of the collection: no picture shows it

    @property
    def seconds(self) -> float:
        return (self.end - self.begin).total_seconds()


@dataclass(slots=True)
class Report:
    """All steps so far."""

    rows: list[Step] = field(default_factory=list)

    @contextmanager
    def step(self, what: str, *, short: str, is_setup: bool = False) -> Iterator[list[str]]:
        """A titled, timed step; what the body appends is its result in the table."""
        print(f"\n== {what}", flush=True)
        begin, result = datetime.now(UTC), list[str]()
        yield result
        self.rows.append(Step(what, short, " ".join(result), begin, datetime.now(UTC), is_setup))

    def table(self) -> str:
        """The steps with their results and times."""
        wide = max(len(step.what) for step in self.rows)
        lines = [f"{step.what:<{wide}}  {step.seconds:6.1f} s  {step.result}".rstrip() for step in self.rows]
        total = sum(step.seconds for step in self.rows)
        return "\n".join([*lines, f"{'together':<{wide}}  {total:6.1f} s"])


def bed_command(*arguments: str, check: bool = True) -> bool:
    """One command of the test bed, its output shown."""
    print(f"$ python -m testbed {' '.join(arguments)}", flush=True)
    argv = [sys.executable, "-m", "testbed", *arguments]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, timeout=UP_SECONDS, check=False)
    if check and done.returncode != 0:
        raise DemoError(f"'testbed {arguments[0]}' ended with status {done.returncode}.")
    return done.returncode == 0


def exists(bed: str) -> bool:
    """Whether an earlier demo was left up."""
    argv = [sys.executable, "-m", "testbed", "inventory", bed]
    return subprocess.run(argv, capture_output=True, timeout=300, check=False).returncode == 0


@dataclass(frozen=True, slots=True)
class Hosts:
    """Commands on the hosts of a bed."""

    bed: str

    def on(self, host: str, *argv: str, text: str = "", quiet: bool = False) -> str:
        """A command on a host of the bed; shown with what it prints."""
        if not quiet:
            print(f"{host}# {shlex.join(argv)}", flush=True)
        done = subprocess.run(
            [sys.executable, "-m", "testbed", "exec", self.bed, host, "--", *argv],
            input=text,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise DemoError(f"'{argv[0]}' on {host} ended with status {done.returncode}: {done.stderr.strip()}")
        if not quiet:
            print(done.stdout, end="", flush=True)
        return done.stdout

    def kubectl(self, *arguments: str, text: str = "", quiet: bool = False) -> str:
        return self.on("kube", "kubectl", *arguments, text=text, quiet=quiet)


@dataclass(frozen=True, slots=True)
class Playbooks:
    """An administrator's folder: the inventory, the logs of all runs."""

    folder: Path
    ran: list[str] = field(default_factory=list)

    def run(self, name: str, *options: str) -> str:
        """A playbook of the collection; a line for each play, all of its output in a log. The output is the result."""
        self.ran.append(" ".join([name, *options]))
        words = ["-i", str(self.folder / "hosts.yml"), f"converged.hpc.{name}", *options]
        log = self.folder / f"{'-'.join([name, *(option.strip('-') for option in options)])}.log"
        print(f"$ ansible-playbook {shlex.join(words)}\n  all of its output: {log}", flush=True)
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        environment = os.environ | {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_PIPELINING": "1"}
        environment["ANSIBLE_SSH_CONTROL_PATH_DIR"] = str(self.folder / "ssh")
        begun, lines = time.monotonic(), []
        # -u brings each line at once, for this process alone: a variable would reach its modules on this machine.
        argv = [sys.executable, "-u", program, *words]
        with log.open("w", encoding="utf-8") as stream, _started(argv, environment) as process:
            limit = threading.Timer(PLAYBOOK_SECONDS, process.kill)
            limit.start()
            try:
                for line in process.stdout or ():
                    stream.write(line)
                    lines.append(line)
                    if play := said.play(line):
                        print(f"  {time.monotonic() - begun:5.1f} s  {play}", flush=True)
            finally:
                limit.cancel()
        text = "".join(lines)
        failed = [host for host, (_changed, failures) in said.recap(text).items() if failures]
        if process.returncode != 0 or failed:
            raise DemoError(
                f"converged.hpc.{name} ended with status {process.returncode} ({' '.join(failed)}); see {log}"
            )
        return text


def _started(argv: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        argv, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def write_inventory(folder: Path, hosts: dict[str, object]) -> None:
    """JSON is YAML."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hosts.yml").write_text(json.dumps(hosts, indent=1) + "\n", encoding="utf-8")
