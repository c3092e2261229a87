# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written into sycri.yaml, and what is refused because Singularity-CRI would take it without a word."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._kube.errors import KubeError
from ansible_collections.converged.hpc.plugins.module_utils._kube.node import singularity_cri

NAME = "sycri.yaml"
LEAST = {"listenSocket": "/run/s.sock", "storageDir": "/var/lib/s", "baseRunDir": "/run/s"}
SHIPPED = """\
# unix socket to serve CRI requests on, required
listenSocket: /var/run/singularity.sock

storageDir: /var/lib/singularity

# address to serve streaming requests on
# default: 127.0.0.1:12345
streamingURL:

baseRunDir: /var/run/singularity   # on tmpfs
debug:
"""


def test_a_file_is_made_where_there_is_none() -> None:
    assert singularity_cri.edited(NAME, "", LEAST) == (
        'listenSocket: "/run/s.sock"\nstorageDir: "/var/lib/s"\nbaseRunDir: "/run/s"\n'
    )


def test_comments_order_and_other_keys_of_the_shipped_file_stay() -> None:
    after = singularity_cri.edited(NAME, SHIPPED, {"streamingURL": "127.0.0.1:10010", "trashDir": "/var/trash/s"})
    expected = SHIPPED.replace("streamingURL:\n", 'streamingURL: "127.0.0.1:10010"\n') + 'trashDir: "/var/trash/s"\n'
    assert after == expected


def test_what_is_there_already_changes_nothing() -> None:
    once = singularity_cri.edited(NAME, SHIPPED, {"debug": True})
    assert singularity_cri.edited(NAME, once, {"debug": True, "listenSocket": "/var/run/singularity.sock"}) == once


def test_a_key_that_is_null_is_taken_out() -> None:
    assert "streamingURL" not in singularity_cri.edited(NAME, SHIPPED, {"streamingURL": None}).replace("# address", "")


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"listensocket": "/run/s.sock"}, "ignores this key"),
        ({"storageDir": "images"}, "storageDir: expected an absolute path, found 'images'"),
        ({"baseRunDir": "/run/../etc"}, "baseRunDir: expected an absolute path"),
        ({"baseRunDir": "/"}, "baseRunDir: expected an absolute path"),
        ({"trashDir": "/var/trash\nlistenSocket: /x"}, "trashDir: expected an absolute path"),
        ({"listenSocket": None}, "listenSocket: expected an absolute path, found None"),
        ({"listenSocket": "/run/" + "x" * 110}, "longer than the 107 bytes"),
        ({"streamingURL": "127.0.0.1"}, "streamingURL: expected HOST:PORT"),
        ({"streamingURL": "127.0.0.1:70000"}, "streamingURL: expected HOST:PORT"),
        ({"debug": "yes"}, "debug: expected true or false, found 'yes'"),
    ],
)
def test_what_singularity_cri_would_take_without_a_word_is_refused(config: dict[str, Any], reason: str) -> None:
    with pytest.raises(KubeError, match=rf"^{NAME}: .*{reason}"):
        singularity_cri.edited(NAME, SHIPPED, config)


def test_a_file_without_a_key_that_then_has_no_default_is_refused() -> None:
    with pytest.raises(KubeError, match="storageDir, baseRunDir: Singularity-CRI has no default"):
        singularity_cri.edited(NAME, "debug: true\n", {"listenSocket": "/run/s.sock"})


def test_a_key_of_the_file_that_would_be_ignored_is_refused_with_its_line() -> None:
    """As a site's own file has it; the keys that the role gives are right."""
    with pytest.raises(KubeError, match=rf"^{NAME} line 3: storagedir: Singularity-CRI ignores this key; it knows"):
        singularity_cri.edited(NAME, "# ours\ndebug: true\nstoragedir: /srv/images\n", LEAST)


def test_a_socket_on_which_another_program_listens_is_refused_with_its_name(tmp_path: Path) -> None:
    path = str(tmp_path / "s.sock")
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(path)
        singularity_cri.refuse_in_use(NAME, path, main_pid=0)  # left by a program that was killed
        other.listen()
        own = Path("/proc/self/comm").read_text(encoding="utf-8").strip()
        said = (
            rf"^{NAME}: listenSocket: {path} is in use by {own} \(process {os.getpid()}\): stop it, or choose another"
        )
        for main_pid in (0, os.getpid() + 1):
            with pytest.raises(KubeError, match=said):
                singularity_cri.refuse_in_use(NAME, path, main_pid=main_pid)


def test_a_socket_of_singularity_cri_itself_and_a_free_path_are_taken(tmp_path: Path) -> None:
    path = str(tmp_path / "s.sock")
    singularity_cri.refuse_in_use(NAME, path, main_pid=0)
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(path)
        own.listen()
        singularity_cri.refuse_in_use(NAME, path, main_pid=os.getpid())


def test_a_socket_of_another_kind_is_in_use_although_it_takes_no_call(tmp_path: Path) -> None:
    path = str(tmp_path / "s.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(path)
        with pytest.raises(KubeError, match="is in use by another program: stop it"):
            singularity_cri.refuse_in_use(NAME, path, main_pid=os.getpid())
