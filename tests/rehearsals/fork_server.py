# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of `ansible-playbook` that are forked from a process which has imported Ansible already.

Each start of Python with what Ansible imports takes a third of a second of the processor. A server does that once
for each environment, as Ansible reads its settings from there when it is imported. A run is a child of it: it has its
own arguments, working folder and temporary folder, and ends as the program would. All runs of a server have one seed
of Python's hashes, so the order of sets differs between sessions only.
"""

from __future__ import annotations

import atexit
import functools
import gc
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PROGRAM = str(Path(sys.executable).parent / "ansible-playbook")
# Less than the time of the gate, so that a run that hangs is shown.
SECONDS = 600
# Of the environment, what Ansible does not look at when it is imported.
LATE = ("REHEARSAL", "PYTEST_CURRENT_TEST")
# More than it takes to import Ansible, and to end a run whose time is over.
MORE_SECONDS = 120
# How long a run may take to end after SIGTERM.
END_SECONDS = 30

_servers: dict[str, Server] | None = None
_begins = threading.Lock()


def program(
    words: Sequence[str], folder: Path, environ: Mapping[str, str] | None = None, seconds: float = SECONDS
) -> subprocess.CompletedProcess[str]:
    """Run it in a folder, as the program."""
    argv = [PROGRAM, *words]
    return subprocess.run(argv, cwd=folder, env=environ, capture_output=True, text=True, timeout=seconds, check=False)


def ansible_playbook(
    words: Sequence[str], folder: Path, environ: Mapping[str, str] | None = None, seconds: float = SECONDS
) -> subprocess.CompletedProcess[str]:
    """Run it in a folder: by a server where `served` is in force, else as the program.

    A server makes one run at a time: another one beside it is a run of the program.
    """
    if _servers is None:
        return program(words, folder, environ, seconds)
    given = dict(os.environ if environ is None else environ)
    key = json.dumps({name: value for name, value in given.items() if name not in LATE}, sort_keys=True)
    with _begins:
        if key not in _servers:
            _servers[key] = Server(given)
        server = _servers[key]
    if not server.is_free.acquire(blocking=False):
        return program(words, folder, environ, seconds)
    try:
        return server.run(words, folder, given, seconds)
    except RuntimeError:
        _servers.pop(key).end()
        raise
    finally:
        server.is_free.release()


@contextmanager
def served() -> Iterator[None]:
    """Have runs forked from servers, one for each environment; these end with it."""
    global _servers
    _servers = {}
    try:
        yield
    finally:
        servers, _servers = _servers, None
        for server in servers.values():
            server.end()


class Server:
    """A process that has imported Ansible in one environment; it makes one run at a time."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fork-server-")
        self._said = Path(self._folder.name) / "said"
        self._runs = 0
        self.is_free = threading.Lock()
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, __file__],
                cwd=self._folder.name,
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,
            )
        assert self._process.stdin
        assert self._process.stdout
        self._asks, self._answers = self._process.stdin, self._process.stdout

    def run(
        self, words: Sequence[str], folder: Path, environ: Mapping[str, str], seconds: float
    ) -> subprocess.CompletedProcess[str]:
        """Make one run; raise subprocess.TimeoutExpired with what it has said when its time is over."""
        files = []
        with suppress(BrokenPipeError):
            files = self.ask(words, folder, environ, seconds)
        ready, _, _ = select.select([self._answers], [], [], seconds + MORE_SECONDS)
        if not ready or not (answer := self._answers.readline()):
            what = "ended" if ready else "does not answer"
            raise RuntimeError(f"a server of ansible-playbook {what}: {self._said.read_text('utf-8', 'replace')}")
        said = [path.read_text(encoding="utf-8") for path in files]
        code = json.loads(answer)
        if code is None:
            raise subprocess.TimeoutExpired([PROGRAM, *words], seconds, *said)
        return subprocess.CompletedProcess([PROGRAM, *words], code, *said)

    def ask(self, words: Sequence[str], folder: Path, environ: Mapping[str, str], seconds: float) -> list[Path]:
        """Have a run begin; return the files that get its output and its errors.

        Each run has its own: what is left of a run that was killed may still write.
        """
        self._runs += 1
        files = [Path(self._folder.name) / f"{name}-{self._runs}" for name in ("out", "err")]
        asked = {"argv": [PROGRAM, *words], "folder": str(folder), "environ": dict(environ), "seconds": seconds}
        self._asks.write(json.dumps({**asked, "files": [str(path) for path in files]}).encode() + b"\n")
        self._asks.flush()
        return files

    def end(self) -> None:
        """End it, and the run that it may have."""
        with suppress(BrokenPipeError):
            self._asks.close()
        try:
            self._process.wait(MORE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()
        self._folder.cleanup()


def _serve() -> None:
    """Fork a run for each line of the standard input, until its end; in such a run, return when it is prepared."""
    from ansible import constants
    from ansible.utils.collection_loader import _collection_finder as finder
    from ansible.utils.path import cleanup_tmp_file

    # Ansible parses 400 kB of its own when it first looks for a plugin; a run reads the file, and finds it parsed.
    finder._meta_yml_to_dict = functools.cache(finder._meta_yml_to_dict)
    builtin = Path(constants.__file__).with_name("config") / "ansible_builtin_runtime.yml"
    finder._meta_yml_to_dict(builtin.read_bytes(), ("ansible.builtin", "runtime.yml"))
    # Each run makes its own temporary folder.
    atexit.unregister(cleanup_tmp_file)
    shutil.rmtree(constants.DEFAULT_LOCAL_TMP)
    gc.collect()
    gc.freeze()
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads cannot be forked"
    while line := sys.stdin.buffer.readline():
        asked = json.loads(line)
        if not (child := os.fork()):
            _become(asked)
            return
        os.write(1, json.dumps(_ended(child, asked["seconds"])).encode() + b"\n")
    os._exit(0)


def _become(asked: Mapping[str, Any]) -> None:
    """Make this child what the program is when it begins."""
    from ansible import constants

    os.setpgid(0, 0)
    for number, path in enumerate((os.devnull, *asked["files"])):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC if number else os.O_RDONLY, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environ"])
    sys.argv[:] = asked["argv"]
    constants.DEFAULT_LOCAL_TMP = constants.config.get_config_value("DEFAULT_LOCAL_TMP", variables=vars(constants))


def _ended(child: int, seconds: float) -> int | None:
    """Wait for a run; return its exit status, or None where its time was over or its session has ended."""
    watched = os.pidfd_open(child)
    ready, _, _ = select.select([watched, 0], [], [], seconds)
    if watched in ready:
        os.close(watched)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    # Ansible hands the first signal on to its workers, which have process groups of their own.
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGTERM)
    select.select([watched], [], [], END_SECONDS)
    os.close(watched)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


if __name__ == "__main__":
    sys.path[0] = os.path.dirname(PROGRAM)
    from ansible.cli.playbook import main

    _serve()
    try:
        main()
    except SystemExit as ended:
        if not isinstance(ended.code, int):
            raise
        # As a process that multiprocessing has forked: to take all of Ansible apart would copy its memory first.
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended.code)
