# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock of a site: one operator at a time, and none for ever."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.converged.hpc.plugins.action import share_lock
from ansible_collections.converged.hpc.plugins.module_utils import _site_lock

ALICE = {"who": "alice@head1", "host": "head1", "pid": 7, "token": "head1/7/100", "since": "today"}
BOB = {"who": "bob@head2", "host": "head2", "pid": 8, "token": "head2/8/200", "since": "today"}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "lock")


def test_the_second_operator_is_told_who_the_first_is(path: str) -> None:
    assert _site_lock.take(path, ALICE)
    assert not _site_lock.take(path, ALICE)
    with pytest.raises(
        _site_lock.LockError, match=r"alice@head1 changes this site \(process 7 on head1, since today\)"
    ):
        _site_lock.take(path, BOB)
    assert not _site_lock.leave(path, BOB)
    assert _site_lock.leave(path, ALICE)
    assert _site_lock.take(path, BOB)


def test_the_lock_of_a_holder_that_is_gone_is_taken_over_and_only_that_holders(path: str) -> None:
    _site_lock.take(path, ALICE)
    with pytest.raises(_site_lock.LockError, match="alice"):
        _site_lock.take(path, BOB, over="head1/7/99")
    assert _site_lock.take(path, BOB, over=ALICE["token"])
    assert _site_lock.holder(path) == BOB


def test_nothing_is_taken_or_freed_in_check_mode(path: str) -> None:
    assert _site_lock.take(path, ALICE, check=True)
    assert not Path(path).exists()
    _site_lock.take(path, ALICE)
    assert _site_lock.leave(path, ALICE, check=True)
    assert _site_lock.holder(path) == ALICE


@pytest.mark.parametrize("text", ["", "{", '{"who": "alice"}', "[]"])
def test_a_file_that_was_cut_off_holds_nobody_up(path: str, text: str) -> None:
    Path(path).write_text(text)
    assert _site_lock.take(path, BOB)


def test_a_link_in_its_place_is_refused(path: str, tmp_path: Path) -> None:
    Path(path).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(_site_lock.LockError, match="symbolic link"):
        _site_lock.take(path, ALICE)


def test_a_holder_is_gone_when_its_process_has_ended_and_unknown_when_it_is_of_another_host() -> None:
    assert not share_lock.is_gone(share_lock.me(os.getpid()))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        held = share_lock.me(child.pid)
        assert not share_lock.is_gone(held)
        child.communicate(b"\n", timeout=300)
    assert share_lock.is_gone(held)
    mine = share_lock.me(os.getpid())
    assert share_lock.is_gone({**mine, "token": f"{share_lock.here()}/{os.getpid()}/1"})
    assert not share_lock.is_gone(ALICE)
    of_our_name = {**mine, "token": f"{mine['host']}/another machine/pid:[1]/{os.getpid()}/1"}
    assert not share_lock.is_gone(of_our_name)
