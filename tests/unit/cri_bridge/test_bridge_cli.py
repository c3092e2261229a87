# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of cri_bridge: wrong input, a socket in use, the check, metrics and health."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from cri_kit.runtime import PATIENCE, Runtime, bridge, command, environment, free_port

BACKEND = ("--backend", "unix:///run/runtime.sock")
VERSION = "/runtime.v1.RuntimeService/Version"


def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {**environment(), **variables}
    return subprocess.run(command(*words), env=environ, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    made = Runtime(tmp_path / "runtime.sock")
    made.start()
    yield made
    made.stop()


LISTEN = ("--listen", "unix:///nowhere/bridge.sock")
WRONG = {
    "no socket for the kubelet": (BACKEND, "--listen"),
    "no socket of the runtime": (LISTEN, "--backend is missing"),
    "an unknown option": ((*LISTEN, *BACKEND, "--fast"), "--fast"),
    "a shortened option": ((*LISTEN, *BACKEND, "--cache", "1"), "--cache"),
    "a socket over the network": (("--listen", "tcp://127.0.0.1:1", *BACKEND), "no address of a socket"),
    "a relative path": (("--listen", "unix://bridge.sock", *BACKEND), "no address of a socket"),
    "a path that is too long": (("--listen", "unix:///" + "a" * 107, *BACKEND), "107 bytes at most"),
    "one socket for both": ((*LISTEN, "--backend", LISTEN[1]), "the bridge's own socket"),
    "seconds below zero": ((*LISTEN, *BACKEND, "--cache-seconds", "-1"), "no number of seconds from 0 to 60"),
    "seconds that are no number": ((*LISTEN, *BACKEND, "--cache-seconds", "nan"), "no number of seconds from 0 to 60"),
    "a port that is none": ((*LISTEN, *BACKEND, "--metrics", "127.0.0.1:0"), "no address"),
    "no host": ((*LISTEN, *BACKEND, "--metrics", "9100"), "no address"),
    "a profile that is not there": (
        (*LISTEN, *BACKEND, "--seccomp-profile", "/nowhere/p.json"),
        "no file on this node",
    ),
    "a folder that is not there": ((*LISTEN, *BACKEND), "its folder must exist"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_said_in_one_line_with_status_2(name: str) -> None:
    words, reason = WRONG[name]
    done = run(*words)
    assert done.returncode == 2
    assert re.fullmatch(r"cri_bridge: .+\n", done.stderr)
    assert reason in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(("module", "package"), [("grpc", "grpcio"), ("google/protobuf", "protobuf")])
def test_a_missing_wheel_is_named(module: str, package: str, tmp_path: Path) -> None:
    broken = tmp_path / module
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('not installed')\n", encoding="utf-8")
    done = run(*LISTEN, *BACKEND, PYTHONPATH=f"{tmp_path}:{environment()['PYTHONPATH']}")
    assert done.returncode == 2
    assert done.stderr.startswith(f"cri_bridge: Python has no {package} (not installed): install its wheel")
    assert done.stderr.count("\n") == 1


def test_help_has_examples_and_needs_no_wheel(tmp_path: Path) -> None:
    (tmp_path / "grpc.py").write_text("raise ImportError\n", encoding="utf-8")
    done = run("--help", PYTHONPATH=f"{tmp_path}:{environment()['PYTHONPATH']}")
    assert done.returncode == 0
    assert "examples:\n  python -m cri_bridge --listen unix:///" in done.stdout


def test_a_second_bridge_on_the_same_socket_is_refused_and_the_first_goes_on(runtime: Runtime, tmp_path: Path) -> None:
    with bridge(tmp_path, runtime.address) as running:
        done = run("--listen", running.address, "--backend", runtime.address)
        assert done.returncode == 2
        assert "is in use by another bridge; stop it first" in done.stderr
        running.call(VERSION)


def test_a_socket_of_another_program_is_left_alone(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "bridge.sock"))
        other.listen()
        done = run("--listen", f"unix://{tmp_path}/bridge.sock", *BACKEND)
    assert done.returncode == 2
    assert "another program listens there" in done.stderr
    assert (tmp_path / "bridge.sock").is_socket()


def test_a_file_where_the_socket_should_be_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "bridge.sock").write_text("precious", encoding="utf-8")
    done = run("--listen", f"unix://{tmp_path}/bridge.sock", *BACKEND)
    assert done.returncode == 2
    assert "is no socket" in done.stderr
    assert (tmp_path / "bridge.sock").read_text(encoding="utf-8") == "precious"


def test_a_port_in_use_is_refused(runtime: Runtime, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        place = f"127.0.0.1:{other.getsockname()[1]}"
        done = run("--listen", f"unix://{tmp_path}/bridge.sock", "--backend", runtime.address, "--metrics", place)
    assert done.returncode == 2
    assert f"cannot listen on {place}" in done.stderr
    assert not (tmp_path / "bridge.sock").exists()


def test_the_check_succeeds_while_bridge_and_runtime_answer(runtime: Runtime, tmp_path: Path) -> None:
    with bridge(tmp_path, runtime.address, "--cache-seconds", "0") as running:
        assert run("--check", "--listen", running.address).returncode == 0
        assert runtime.calls("Version") == 1
        runtime.stop()
        done = run("--check", "--listen", running.address)
        assert done.returncode == 1
        assert re.fullmatch(r"cri_bridge: unix://\S+ does not answer: UNAVAILABLE: .+\n", done.stderr)
    done = run("--check", "--listen", running.address)
    assert done.returncode == 1
    assert re.fullmatch(r"cri_bridge: unix://\S+ does not answer: UNAVAILABLE: .+\n", done.stderr)


def test_metrics_count_calls_errors_times_and_hits(runtime: Runtime, tmp_path: Path) -> None:
    port = free_port()
    with bridge(tmp_path, runtime.address, "--metrics", f"127.0.0.1:{port}", "--cache-seconds", "60") as running:
        for _unused in range(3):
            running.call("/runtime.v1.RuntimeService/ListPodSandbox")
        with pytest.raises(Exception, match="UNIMPLEMENTED"):
            running.call("/runtime.v1.RuntimeService/CheckpointContainer")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
            lines = answer.read().decode().splitlines()
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert 'cri_bridge_calls_total{method="ListPodSandbox",code="OK"} 3' in lines
    assert 'cri_bridge_calls_total{method="CheckpointContainer",code="UNIMPLEMENTED"} 1' in lines
    assert 'cri_bridge_cache_hits_total{method="ListPodSandbox"} 2' in lines
    assert 'cri_bridge_call_seconds_count{method="ListPodSandbox"} 3' in lines
    assert 'cri_bridge_call_seconds_bucket{method="ListPodSandbox",le="+Inf"} 3' in lines
    assert "cri_bridge_cached_answers 1" in lines
    names = {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}
    described = {line.split(" ")[2] for line in lines if line.startswith("# TYPE")}
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in names} == described


def test_health_follows_the_runtime(runtime: Runtime, tmp_path: Path) -> None:
    port = free_port()
    with bridge(tmp_path, runtime.address, "--metrics", f"127.0.0.1:{port}"):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=PATIENCE) as answer:
            assert answer.read() == b"ok\n"
        runtime.stop()
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=PATIENCE)
        with caught.value as error:
            assert error.code == 503
            assert b"the runtime does not answer: UNAVAILABLE" in error.read()
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/other", timeout=PATIENCE)
        with caught.value as error:
            assert error.code == 404


def test_a_request_that_is_too_long_is_dropped_and_the_bridge_goes_on(runtime: Runtime, tmp_path: Path) -> None:
    port = free_port()
    with (
        bridge(tmp_path, runtime.address, "--metrics", f"127.0.0.1:{port}") as running,
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as end,
    ):
        end.sendall(b"POST / HTTP/1.1\r\nX: " + b"a" * 20000)
        end.shutdown(socket.SHUT_WR)
        assert b"200 OK" not in end.recv(1000)
        running.call(VERSION)


def test_the_bridge_leaves_no_file_that_others_can_read(runtime: Runtime, tmp_path: Path) -> None:
    before = set(os.listdir(tmp_path))
    with bridge(tmp_path, runtime.address):
        made = set(os.listdir(tmp_path)) - before - {"bridge.log", "notify.sock"}
        assert made == {"bridge.sock", "bridge.sock.lock"}
        assert all((tmp_path / name).stat().st_mode & 0o077 == 0 for name in made)
