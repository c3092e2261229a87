# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate: the payloads' own tests, under the oldest and the newest interpreter found from the payloads' floor up.

What a Python between them lacks, the oldest lacks too; what it has taken away is gone from the newest as well. Tests
that only repeat others many times run under the oldest alone. A part of soak runs all tests under all of them. pytest
of today does not run on 3.6, and ansible-test looks at no payloads: so unittest.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from testbed.kube_go import MEMORY_DISK, free_memory

from gates import skips
from gates.gate import Context, GateFailure
from gates.interpreters import Version, interpreters, of_every_change, version_of

TESTS = "tests/payloads"
# The tests of one interpreter run in so many processes at once, because they wait half of the time.
PARTS = 2
# More than there are processors: these tests wait for processes and time limits half of their time.
AT_ONCE = 4
# Python prints these and goes on: what a test leaves open, and what fails in a thread of a test that passes.
OVERLOOKED = ("Exception ignored in", "Exception in thread")
# The tests write small files, yet a container's usual 64 MiB may be too few for four interpreters at a time.
ENOUGH_MEMORY = 512 * 1024**2


def run_payload_tests(context: Context) -> None:
    """Run them under the oldest interpreter and the newest; at a quick look the short ones under the oldest alone."""
    found = of_every_change(_interpreters(context), quick=context.quick)
    _run_under(context, found, short=set(found) if context.quick else set(list(found)[1:]))


def run_payload_tests_everywhere(context: Context) -> None:
    """Run them under every interpreter that there is."""
    _run_under(context, _interpreters(context), short=set())


def _interpreters(context: Context) -> dict[Version, Path]:
    return interpreters(context.environ, lowest=version_of(context.settings()["payload-floor"]))


def _run_under(context: Context, found: Mapping[Version, Path], *, short: Set[Version]) -> None:
    """Fail when a test fails under one of them, when one was run by no part, or on a skip that is not allowed.

    Under the interpreters of `short` no test runs that is for the oldest Python alone.
    """
    tests = context.checkout / TESTS
    daemon = set(context.settings()["daemon"])
    roots = [root for root in context.payload_roots() if str(root) not in daemon]
    if not tests.is_dir():
        if roots:
            raise GateFailure(f"{', '.join(map(str, roots))} has Python and {TESTS} does not exist")
        context.say("SHOW no payloads yet")
        return
    with memory_folder() as temporary, ThreadPoolExecutor(AT_ONCE) as pool:
        settings = {**temporary, "PYTHONPATH": ":".join(str(context.checkout / root) for root in roots)}
        parts = [
            _Part(_apart(context, version, number), version, str(found[version]), number, version in short)
            for version in found
            for number in range(1, PARTS + 1)
        ]
        runs = [pool.submit(part.run, settings) for part in parts]
        failures = []
        for part, run in zip(parts, runs, strict=True):
            failures += run.result()
            context.say(part.context.log.read_text(encoding="utf-8", errors="replace").rstrip())
    for version in found:
        counts = [part.counts for part in parts if part.version == version]
        if all(counts):
            there = counts[0]["there"]
            ran, left_out = (sum(one[name] for one in counts) for name in ("run", "left_out"))
            if not ran or ran + left_out != there:
                failures.append(f"{ran} tests ran under Python {_text(version)}, {left_out} were left out of {there}")
    if failures:
        raise GateFailure("; ".join(failures))


@contextlib.contextmanager
def memory_folder(disk: Path = MEMORY_DISK) -> Iterator[dict[str, str]]:
    """Yield the setting of temporary files: a folder in memory, removed at the end, or nothing.

    nodeshare waits for the disk at every write, and the disk may be busy with the images of test beds. The tests start
    programs of their own, so a disk that is mounted without execution or is small is left alone.
    """
    try:
        state = os.statvfs(disk)
    except OSError:
        yield {}
        return
    free = min(state.f_bavail * state.f_frsize, free_memory())
    if state.f_flag & os.ST_NOEXEC or free < ENOUGH_MEMORY or not os.access(disk, os.W_OK):
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="converged-hpc-", dir=disk, ignore_cleanup_errors=True) as folder:
        yield {"TMPDIR": folder}


@dataclasses.dataclass
class _Part:
    """Some of the tests, under one interpreter, with a log of their own."""

    context: Context
    version: Version
    python: str
    number: int
    short: bool
    counts: dict[str, Any] = dataclasses.field(default_factory=dict)

    def run(self, settings: Mapping[str, str]) -> list[str]:
        """Run them with these settings, and return what failed."""
        name = f"Python {_text(self.version)}, part {self.number} of {PARTS}"
        result = self.context.log.with_suffix(".json")
        argv = [self.python, "-B", "-W", "error", str(self.context.checkout / "tests/gates/unittest_under.py")]
        argv += [str(result), str(self.context.checkout / TESTS), f"--part={self.number}/{PARTS}"]
        try:
            self.context.run([*argv, *(["--short"] if self.short else [])], env=dict(settings))
        except GateFailure:
            return [f"failed under {name}"]
        printed = self.context.log.read_text(encoding="utf-8", errors="replace")
        if overlooked := overlooked_in(printed):
            return [f"tests under {name} passed, yet Python printed: {overlooked[0]}"]
        self.counts = json.loads(result.read_text(encoding="utf-8"))
        seen = [skips.Skip(test, reason) for test, reason in self.counts["skips"]]
        reasons = skips.allowed_reasons(skips.ALLOWED.read_text(encoding="utf-8"))
        self.context.say(f"SHOW {name}: {self.counts['run']} tests ({self.python})")
        for line in skips.report(seen, reasons) if seen else []:
            self.context.say(f"SHOW {line}")
        return [f"a skip under {name} that is not allowed"] if skips.refused(seen, reasons) else []


def overlooked_in(printed: str) -> list[str]:
    """Return what Python printed of exceptions that fail no test, each from its first words to the end of the line."""
    found = re.finditer(f"(?:{'|'.join(OVERLOOKED)}).*", printed)
    return [one.group() for one in found]


def _apart(context: Context, version: Version, number: int) -> Context:
    """The same with a log of its own, for runs beside each other."""
    return dataclasses.replace(context, log=context.scratch / f"payloads-{_text(version)}-{number}.log")


def _text(version: Version) -> str:
    return "{}.{}".format(*version)
