# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs of a shared node are found by how they were called, and counted by what the kernel says."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import node_daemons

CALLED = {
    "1": "/usr/local/bin/kubelet\0--config=/x",
    "2": "/usr/bin/containerd",
    "3": "/usr/bin/containerd-shim-runc-v2\0-namespace",
    "4": "/usr/bin/python3\0-IS\0/usr/local/sbin/nodeshare-controller",
    "5": "/bin/grep\0-r\0x\0kubelet",
    "self": "kubelet",
}


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    for number, words in CALLED.items():
        (tmp_path / number).mkdir()
        (tmp_path / number / "cmdline").write_bytes(words.encode() + b"\0")
        (tmp_path / number / "smaps_rollup").write_text("Rss: 4096 kB\nPss: 2048 kB\nPss_Anon: 1 kB\n")
        (tmp_path / number / "stat").write_text("1 (a) b) S 1 1 1 0 -1 4 0 0 0 0 200 100 0 0 20 0\n")
    return tmp_path


def test_a_program_is_known_by_how_it_was_called(proc: Path) -> None:
    assert {folder.name: name for folder, name in node_daemons.running(proc)} == {
        "1": "kubelet",
        "2": "containerd",
        "3": "containerd-shim",
        "4": "nodeshare-controller",
    }


def test_memory_and_time_are_those_of_the_kernel(proc: Path) -> None:
    assert node_daemons.kib(proc / "1") == 4096
    assert node_daemons.seconds(proc / "1") == pytest.approx(300 / node_daemons.TICKS)
    assert node_daemons.measured(proc, 0)["kubelet"] == [(4.0, 0.0)]
