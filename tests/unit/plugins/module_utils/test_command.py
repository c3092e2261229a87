# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The argv runner: what it is given, how it ends, and what its errors say."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._command import CommandError, run


def test_output_and_status_come_back_and_the_locale_is_c() -> None:
    done = run(["sh", "-c", "echo $LC_ALL; cat; exit 3"], timeout=120, ok=(3,), text="given\n")
    assert (done.rc, done.out) == (3, "C\ngiven\n")


def test_an_unexpected_status_names_the_command_and_its_last_line() -> None:
    with pytest.raises(CommandError, match=r"^sh -c 'echo one >&2; echo two >&2; exit 1': exit status 1: two$"):
        run(["sh", "-c", "echo one >&2; echo two >&2; exit 1"], timeout=120)


def is_alive(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except FileNotFoundError:
        return False


def stopped_while_a_child_runs(tmp_path: Path, child: str) -> int:
    """A command that does not end, whose child has begun when it is stopped: the child's process id."""
    said = tmp_path / "child"
    script = f'{child} & echo $! > "$1.new"; mv "$1.new" "$1"; sleep 900'
    for seconds in (0.2, 2, 20, 200):
        with pytest.raises(CommandError, match=rf"no answer within {seconds:g} s, stopped"):
            run(["sh", "-c", script, "sh", str(said)], timeout=seconds)
        if said.exists():  # a slow machine may not have come so far
            break
    return int(said.read_text(encoding="ascii"))


def test_a_command_that_does_not_end_is_stopped_with_its_children(tmp_path: Path) -> None:
    child = stopped_while_a_child_runs(tmp_path, "sleep 900")
    for _number in range(1200):
        if not is_alive(child):
            return
        time.sleep(0.1)
    pytest.fail("its child goes on")


def test_a_child_that_has_left_for_a_session_of_its_own_holds_nobody_up(tmp_path: Path) -> None:
    child = stopped_while_a_child_runs(tmp_path, "exec setsid sleep 900")
    assert is_alive(child), "it was waited for"
    os.kill(child, signal.SIGKILL)


def test_a_missing_command_is_named() -> None:
    with pytest.raises(CommandError, match=r"no-such-tool: command not found \(needed for: no-such-tool -x\)"):
        run(["no-such-tool", "-x"], timeout=120)


def test_words_are_never_read_by_a_shell() -> None:
    assert run(["echo", "$(id); `id`\n&"], timeout=120).out == "$(id); `id`\n&\n"


def test_text_goes_in_and_comes_back_byte_by_byte() -> None:
    text = "a\r\nb\rc\n\udcff\u00e9"
    assert run(["cat"], timeout=120, text=text).out == text
