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
import re
import resource
import sys
import unittest
from typing import Iterator, List

# Of each process, in bytes: a test that takes memory in a loop fails, before it takes the machine's.
MOST_MEMORY = 8 << 30


def main(arguments: List[str]) -> int:
    """Runs tests of the folder; 0 when they passed. The caller judges how many there were."""
    parser = argparse.ArgumentParser()
    parser.add_argument("result")
    parser.add_argument("tests")
    parser.add_argument("--part", default="1/1", help="K/N: every Nth class of tests, from the Kth on")
    parser.add_argument("--short", action="store_true", help="without the tests that are for the oldest Python")
    given = parser.parse_args(arguments)
    random.seed(os.environ.get("CONVERGED_SEED", "0"))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    match = re.match(r"([0-9]+)/([0-9]+)$", given.part)
    number, parts = map(int, match.groups()) if match else (0, 0)
    if not 1 <= number <= parts:
        parser.error(f"--part is {given.part}; it takes K/N with K from 1 to N")
    found = unittest.defaultTestLoader.discover(given.tests, top_level_dir=given.tests)
    part = list(part_of(found, number, parts))
    suite = unittest.TestSuite(test for test in part if not (given.short and is_for_the_oldest(test)))
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=1, warnings="error").run(suite)
    skips = [(test.id(), reason) for test, reason in result.skipped]
    skips += [(test.id(), "expected failure") for test, _ in result.expectedFailures]
    with open(given.result, "w") as out:
        counts = {"run": result.testsRun, "left_out": len(part) - result.testsRun, "there": found.countTestCases()}
        json.dump(dict(counts, skips=skips), out)
    return 0 if result.wasSuccessful() else 1


def part_of(suite: unittest.TestSuite, number: int, parts: int) -> Iterator[unittest.TestCase]:
    """Yields the tests of every `parts`-th class, from the one of that number on."""
    classes = []  # type: List[type]
    for test in each(suite):
        if type(test) not in classes:
            classes.append(type(test))
        if classes.index(type(test)) % parts == number - 1:
            yield test


def is_for_the_oldest(test: unittest.TestCase) -> bool:
    """Whether a test has the mark `oldest_python_only`."""
    return getattr(getattr(test, test.id().rpartition(".")[2], None), "oldest_python_only", False)


def each(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """Yields the tests of a suite of suites, in their order."""
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from each(one)
        else:
            yield one


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
