# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seeds of tests that draw their cases without Hypothesis.

They come from tests/seeds.txt, so that every run draws the same; CONVERGED_SEED draws others.
"""

import os

FILE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "seeds.txt")
HIGHEST = 2**32 - 1


class SeedError(Exception):
    """CONVERGED_SEED, or a line of the file, is no seed."""


def given(environ=os.environ):
    """Return CONVERGED_SEED as a number, or None where it is unset or empty."""
    text = environ.get("CONVERGED_SEED", "")
    return _number("CONVERGED_SEED", text) if text else None


def seeds(test, count, environ=os.environ):
    """Return the seeds of a test: those that found a fault, then `count` from the first one on."""
    always, start = found(test), first(environ)
    following = range(start, start + count)
    return always + [seed for seed in following if seed not in always]


def first(environ=os.environ):
    """Return the seed of this run."""
    number = given(environ)
    return read(FILE)[0] if number is None else number


def found(test):
    """Return the seeds that made this test fail before."""
    return [seed for name, seed, _what in read(FILE)[1] if name == test]


def read(path):
    """Return the first seed and the lines of seeds that found something: test, seed, what it found."""
    start, lines = None, []
    with open(path, encoding="utf-8") as stream:
        for line in stream:
            words = line.split(None, 3)
            if not words or line.startswith("#"):
                continue
            if words[0] == "first" and len(words) == 2:
                start = _number("a seed in " + path, words[1])
            elif words[0] == "found" and len(words) == 4:
                lines.append((words[1], _number("a seed in " + path, words[2]), words[3].strip()))
            else:
                raise SeedError(
                    "{}: '{}' is neither 'first SEED' nor 'found TEST SEED WHAT'".format(path, line.strip())
                )
    if start is None:
        raise SeedError("{} has no line 'first SEED'".format(path))
    return start, lines


def _number(where, text):
    if not text.isdecimal() or int(text) > HIGHEST:
        raise SeedError("{} is '{}'; it takes a number from 0 to {}.".format(where, text, HIGHEST))
    return int(text)


try:
    given()
except SeedError as error:
    raise SystemExit("error: {}".format(error)) from None
