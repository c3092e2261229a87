# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the standard-library tests of payloads; started under every interpreter from 3.6 up, so it is written for 3.6.

    python unittest_under.py RESULT.json TESTS_FOLDER [--part K/N] [--short]

Warnings are errors, and the payloads are on the path (the caller gives -W error and PYTHONPATH). The counts and skips
go to RESULT.json; the gate judges them.
"""

import argparse
import json
import os
import random
import resource
import sys
import unittest
from typing import Iterator, List

# Of each process, in bytes: a test that takes memory in a loop fails, before it takes the machine's.
MOST_MEMORY = 8 << 30


def main(arguments: List[str]) -> int:
    """Runs tests of the folder; 0 when they passed and the folder has any."""
    parser = argparse.ArgumentParser()
    parser.add_argument("result")
    parser.add_argument("tests")
    parser.add_argument("--part", default="1/1", help="K/N: every Nth class of tests, from the Kth on")
    parser.add_argument("--short", action="store_true", help="without the tests that are marked as lengthy")
    given = parser.parse_args(arguments)
    random.seed(os.environ.get("CONVERGED_SEED", "0"))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    found = unittest.defaultTestLoader.discover(given.tests, top_level_dir=given.tests)
    suite = unittest.TestSuite(part_of(found, *map(int, given.part.split("/")), short=given.short))
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=1, warnings="error").run(suite)
    skips = [(test.id(), reason) for test, reason in result.skipped]
    skips += [(test.id(), "expected failure") for test, _ in result.expectedFailures]
    with open(given.result, "w") as out:
        json.dump({"run": result.testsRun, "skips": skips}, out)
    return 0 if result.wasSuccessful() and found.countTestCases() > 0 else 1


def part_of(suite: unittest.TestSuite, number: int, parts: int, *, short: bool) -> Iterator[unittest.TestCase]:
    """Yields the tests of every `parts`-th class; with `short` only those without the mark `lengthy`."""
    classes = []  # type: List[type]
    for test in each(suite):
        if type(test) not in classes:
            classes.append(type(test))
        method = getattr(test, getattr(test, "_testMethodName", ""), None)
        if classes.index(type(test)) % parts == number - 1 and not (short and getattr(method, "lengthy", False)):
            yield test


def each(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """Yields the tests of a suite of suites, in their order."""
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from each(one)
        else:
            yield one


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
