# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the standard-library tests of payloads; started under every interpreter from 3.6 up, so it is written for 3.6.

    python unittest_under.py RESULT.json TESTS_FOLDER

Warnings are errors, and the payloads are on the path (the caller gives -W error and PYTHONPATH). The counts and skips
go to RESULT.json; the gate judges them.
"""

import json
import os
import random
import resource
import sys
import unittest
from typing import List

# Of each process, in bytes: a test that takes memory in a loop fails, before it takes the machine's.
MOST_MEMORY = 8 << 30


def main(arguments: List[str]) -> int:
    """Runs everything below the tests folder; 0 when it passed and there was something to run."""
    random.seed(os.environ.get("CONVERGED_SEED", "0"))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    result_file, tests = arguments
    suite = unittest.defaultTestLoader.discover(tests, top_level_dir=tests)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=1, warnings="error").run(suite)
    skips = [(test.id(), reason) for test, reason in result.skipped]
    skips += [(test.id(), "expected failure") for test, _ in result.expectedFailures]
    with open(result_file, "w") as out:
        json.dump({"run": result.testsRun, "skips": skips}, out)
    return 0 if result.wasSuccessful() and result.testsRun > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
