# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine's settings after the last bed: as before the first, but for what an administrator has changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from testbed import sysctls
from testbed.paths import bed_dir

Write = Callable[[str, str], None]
BEFORE = {
    "vm/overcommit_memory": "0",
    "kernel/panic": "0",
    "kernel/printk": "4\t4\t1\t7",
    "fs/inotify/max_user_instances": "128",
    "fs/inotify/max_user_watches": "999999",
    "net/ipv4/ip_forward": "0",
}
RAISED = {"fs/inotify/max_user_instances": "8192", "net/ipv4/ip_forward": "1"}


@pytest.fixture
def write(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """A /proc/sys of paper, and two beds that have folders."""
    proc = tmp_path / "proc"
    monkeypatch.setattr(sysctls, "PROC_SYS", proc)
    for name in ("one", "two"):
        bed_dir(name).mkdir(parents=True)

    def write(key: str, value: str) -> None:
        (proc / key).parent.mkdir(parents=True, exist_ok=True)
        (proc / key).write_text(value + "\n")

    for key, value in BEFORE.items():
        write(key, value)
    return write


def now() -> dict[str, str]:
    return {key: sysctls.read(key) for key in BEFORE}


def test_the_last_bed_puts_back_what_beds_and_kubelets_have_changed(write: Write) -> None:
    sysctls.hold("one")
    assert now() == {**BEFORE, **RAISED}
    write("kernel/printk", "7 4 1 7")
    sysctls.note_changes()
    sysctls.hold("two")
    sysctls.release("one")
    write("vm/overcommit_memory", "1")
    write("kernel/panic", "10")
    assert now() != BEFORE
    sysctls.release("two")
    assert now() == BEFORE
    assert not sysctls.store().exists()


def test_what_an_administrator_has_changed_stays_and_is_named(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    sysctls.hold("one")
    sysctls.note_changes()
    write("kernel/panic", "60")
    sysctls.release("one")
    assert now() == {**BEFORE, "kernel/panic": "60"}
    assert "sysctl kernel.panic: is 60, which no bed has set, and stays so (it was 0" in capsys.readouterr().err


def test_a_bed_whose_folder_is_gone_keeps_nothing_from_being_put_back(write: Write) -> None:
    sysctls.hold("one")
    sysctls.hold("two")
    bed_dir("one").rmdir()
    sysctls.release("two")
    assert now() == BEFORE


def test_a_setting_that_is_gone_stops_nothing(write: Write) -> None:
    sysctls.hold("one")
    (sysctls.PROC_SYS / "vm/overcommit_memory").unlink()
    sysctls.note_changes()
    sysctls.release("one")
    assert not sysctls.store().exists()
