# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of the double of PBS as hosts have it that cannot mount its folder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import pytest
from pbs_double import lending
from pbs_double.lender import Lender

TURNS = 40
Taken = Callable[[], contextlib.AbstractContextManager[lending.Copy]]


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A lender of an empty folder."""
    with Lender(tmp_path, ("127.0.0.1", 0)) as lender:
        serving = Thread(target=lender.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        yield f"127.0.0.1:{lender.server_address[1]}"
        lender.shutdown()
        serving.join()


def count(taken: Taken) -> None:
    for _turn in range(TURNS):
        with taken() as copy:
            copy.keep(str(int(copy.content or b"0") + 1).encode())


def test_hosts_that_borrow_and_those_that_mount_the_folder_never_have_the_state_at_once(
    address: str, tmp_path: Path
) -> None:
    ways: list[Taken] = [lambda: lending.borrowed(address), lambda: lending.held(tmp_path)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count, ways * 2))
    with lending.held(tmp_path) as copy:
        assert copy.content == str(4 * TURNS).encode()


def test_who_keeps_nothing_or_goes_away_has_changed_nothing_and_keeps_nobody_waiting(
    address: str, tmp_path: Path
) -> None:
    with lending.held(tmp_path) as copy:
        copy.keep(b"before")
    with lending.borrowed(address) as copy:
        assert copy.content == b"before"
    with contextlib.suppress(RuntimeError), lending.borrowed(address):
        raise RuntimeError
    with lending.held(tmp_path) as copy:
        assert copy.content == b"before"


def test_a_state_of_any_size_arrives_whole(address: str) -> None:
    large = bytes(range(256)) * 4096
    with lending.borrowed(address) as copy:
        copy.keep(large)
    with lending.borrowed(address) as copy:
        assert copy.content == large
