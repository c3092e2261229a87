# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An address that cannot be listened on is named at the start; no socket or file of another program is removed."""

import re
import socket

import pytest
from placement.app.endpoints import control_socket
from placement.app.endpoints.control_socket import LocalSocket
from placement.app.endpoints.listening import ListenError
from placement.app.endpoints.web import Web


def test_a_port_in_use_is_named_with_what_to_do():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError) as refused:
            Web(("127.0.0.1", port), {})
    said = f"listen: 127.0.0.1:{port}: Address already in use; another program has it, "
    assert str(refused.value) == said + "perhaps another placement daemon: end that or set another address"


def test_an_address_of_another_host_is_named():
    with pytest.raises(ListenError, match=r"listen: 192\.0\.2\.1:0: .*; set an address of this host"):
        Web(("192.0.2.1", 0), {})


def test_the_socket_of_a_daemon_that_answers_is_left_to_it(tmp_path):
    path = tmp_path / "socket"
    first = LocalSocket(path, lambda _question: {"i": "am the first"})
    first.start()
    try:
        with pytest.raises(ListenError, match=re.escape(f"socket: {path}: another daemon answers there")):
            LocalSocket(path, lambda _question: {})
        assert control_socket.ask(path, {"ask": "status"}) == {"i": "am the first"}
    finally:
        first.close()


def test_what_a_daemon_that_was_killed_has_left_is_no_obstacle(tmp_path):
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    second = LocalSocket(path, lambda _question: {"i": "am the second"})
    second.start()
    try:
        assert control_socket.ask(path, {"ask": "status"}) == {"i": "am the second"}
    finally:
        second.close()


def test_a_file_is_not_deleted_for_a_socket(tmp_path):
    path = tmp_path / "socket"
    path.write_text("still in use")
    with pytest.raises(ListenError, match=re.escape(f"socket: {path}: there is a file that is no socket")):
        LocalSocket(path, lambda _question: {})
    assert path.read_text() == "still in use"


@pytest.mark.parametrize("name", ["nowhere/socket", "x" * 200])
def test_a_path_that_cannot_be_is_named(tmp_path, name):
    path = tmp_path / name
    with pytest.raises(ListenError, match=re.escape(f"socket: {path}: ")):
        LocalSocket(path, lambda _question: {})
