# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The argv runner: what it is given, how it ends, and what its errors say."""

from __future__ import annotations

import time

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._cmd import CommandError, run


def test_output_and_status_come_back_and_the_locale_is_c() -> None:
    done = run(["sh", "-c", "echo $LC_ALL; cat; exit 3"], timeout=10, ok=(3,), text="given\n")
    assert (done.rc, done.out) == (3, "C\ngiven\n")


def test_an_unexpected_status_names_the_command_and_its_last_line() -> None:
    with pytest.raises(CommandError, match=r"^sh -c 'echo one >&2; echo two >&2; exit 1': exit status 1: two$"):
        run(["sh", "-c", "echo one >&2; echo two >&2; exit 1"], timeout=10)


def test_a_command_that_does_not_end_is_stopped_with_its_children() -> None:
    begin = time.monotonic()
    with pytest.raises(CommandError, match=r"no answer within 0\.2 s, stopped"):
        run(["sh", "-c", "sleep 60 & sleep 60"], timeout=0.2)
    assert time.monotonic() - begin < 10


def test_a_child_that_has_left_for_a_session_of_its_own_holds_nobody_up() -> None:
    begin = time.monotonic()
    with pytest.raises(CommandError, match="no answer within"):
        run(["sh", "-c", "setsid sleep 8 & sleep 60"], timeout=0.2)
    assert time.monotonic() - begin < 6


def test_a_missing_command_is_named() -> None:
    with pytest.raises(CommandError, match=r"no-such-tool: command not found \(needed for: no-such-tool -x\)"):
        run(["no-such-tool", "-x"], timeout=10)


def test_words_are_never_read_by_a_shell() -> None:
    assert run(["echo", "$(id); `id`\n&"], timeout=10).out == "$(id); `id`\n&\n"


def test_text_goes_in_and_comes_back_byte_by_byte() -> None:
    text = "a\r\nb\rc\n\udcff\u00e9"
    assert run(["cat"], timeout=10, text=text).out == text
