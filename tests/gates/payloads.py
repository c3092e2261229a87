# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate: the payloads' own tests, under the oldest and the newest interpreter found from the payloads' floor up.

What a Python between them lacks, the oldest lacks too; what it has taken away is gone from the newest as well. A part
of soak runs all of them. pytest of today does not run on 3.6, and ansible-test looks at no payloads: so unittest.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from testbed.kube_go import MEMORY_DISK, free_memory

from gates import skips
from gates.gate import Context, GateFailure
from gates.interpreters import Version, interpreters, of_every_change, version_of

TESTS = "tests/payloads"
# More than there are processors: these tests wait for processes and time limits half of their time.
AT_ONCE = 4
# The tests write small files, yet a container's usual 64 MiB may be too few for four interpreters at a time.
ENOUGH_MEMORY = 512 * 1024**2


def run_payload_tests(context: Context) -> None:
    """Run them under the oldest interpreter and the newest; at a quick look under the oldest alone."""
    found = _interpreters(context)
    _run_under(context, of_every_change(found, quick=context.quick))


def run_payload_tests_everywhere(context: Context) -> None:
    """Run them under every interpreter that there is."""
    _run_under(context, _interpreters(context))


def _interpreters(context: Context) -> dict[Version, Path]:
    return interpreters(context.environ, lowest=version_of(context.settings()["payload-floor"]))


def _run_under(context: Context, found: Mapping[Version, Path]) -> None:
    """Fail when a test fails under one of them, when none was run, or on a skip that is not allowed."""
    tests = context.checkout / TESTS
    daemon = set(context.settings()["daemon"])
    roots = [root for root in context.payload_roots() if str(root) not in daemon]
    if not tests.is_dir():
        if roots:
            raise GateFailure(f"{', '.join(map(str, roots))} has Python and {TESTS} does not exist")
        context.say("SHOW no payloads yet")
        return
    with memory_folder() as temporary, ThreadPoolExecutor(AT_ONCE) as pool:
        runs = [(_apart(context, version), version) for version in found]
        under_way = [pool.submit(_under, own, version, str(found[version]), roots, temporary) for own, version in runs]
        failures = []
        for (own, _version), run in zip(runs, under_way, strict=True):
            failures += run.result()
            context.say(own.log.read_text(encoding="utf-8", errors="replace").rstrip())
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


def _apart(context: Context, version: Version) -> Context:
    """The same with a log of its own, for runs beside each other."""
    return dataclasses.replace(context, log=context.scratch / "payloads-{}.{}.log".format(*version))


def _under(context: Context, version: Version, python: str, roots: list[Path], given: Mapping[str, str]) -> list[str]:
    """Run all tests under one interpreter, with the given settings; return what failed."""
    name = "{}.{}".format(*version)
    result = context.scratch / f"payloads-{name}.json"
    program = context.checkout / "tests/gates/unittest_under.py"
    argv = [python, "-B", "-W", "error", str(program), str(result), str(context.checkout / TESTS)]
    settings = {**given, "PYTHONPATH": ":".join(str(context.checkout / root) for root in roots)}
    try:
        context.run(argv, env=settings)
    except GateFailure:
        return [f"failed under Python {name}"]
    counts = json.loads(result.read_text(encoding="utf-8"))
    seen = [skips.Skip(test, reason) for test, reason in counts["skips"]]
    reasons = skips.allowed_reasons(skips.ALLOWED.read_text(encoding="utf-8"))
    context.say(f"SHOW Python {name}: {counts['run']} tests ({python})")
    for line in skips.report(seen, reasons) if seen else []:
        context.say(f"SHOW {line}")
    return [f"a skip under Python {name} that is not allowed"] if skips.refused(seen, reasons) else []
