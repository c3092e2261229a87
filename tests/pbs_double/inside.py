# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a command of the double in the test's own process: its program would start Python first."""

from __future__ import annotations

import contextlib
import io
import sys
import threading
import typing as t

from pbs_double.cluster import Answer

_ONE_AT_A_TIME = threading.Lock()  # a process has one standard input and output


def answered(run: t.Callable[[str, str, list[str]], int], folder: str, program: str, words: t.Sequence[str]) -> Answer:
    """Return what the program prints and the number with which it exits."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape", write_through=True) for _stream in range(2))
    with _ONE_AT_A_TIME, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        depth, given = sys.getrecursionlimit(), sys.stdin
        sys.stdin = io.TextIOWrapper(io.BytesIO())
        try:
            status = run(program, folder, list(words))
        finally:
            sys.stdin = given
            sys.setrecursionlimit(depth)
    return Answer(status, _written(out), _written(err))


def _written(stream: io.TextIOWrapper) -> str:
    content = stream.detach()
    assert isinstance(content, io.BytesIO)
    return content.getvalue().decode()
