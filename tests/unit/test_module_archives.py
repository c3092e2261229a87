# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The callback plugin that keeps Ansible's archives of modules between runs, loaded by a real ansible-playbook."""

from __future__ import annotations

import base64
import dataclasses
import importlib.util
import io
import marshal
import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
PLAY = "- hosts: localhost\n  gather_facts: false\n  tasks:\n    - ansible.builtin.ping:\n    - converged.hpc.probe:\n"
MODULE = """
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.converged.hpc.plugins.module_utils.answer import ANSWER
module = AnsibleModule(argument_spec={})
module.exit_json(answer=ANSWER)
"""


class Run:
    """A collection with one module, a cache, and plays of them."""

    def __init__(self, top: Path) -> None:
        self.top, self.cache = top, top / "cache"
        self.collection = top / "collections/ansible_collections/converged/hpc"
        for folder in ("modules", "module_utils"):
            (self.collection / "plugins" / folder).mkdir(parents=True, exist_ok=True)
        (self.collection / "plugins/modules/probe.py").write_text(MODULE)
        (top / "play.yml").write_text(PLAY)
        self.answer("first")

    def answer(self, text: str) -> None:
        """Change what the module imports."""
        (self.collection / "plugins/module_utils/answer.py").write_text(f"ANSWER = {text!r}\n")

    def play(self, more: Mapping[str, str] | None = None) -> str:
        """Play it once; the output."""
        environ = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(self.top / "collections"),
            "ANSIBLE_CALLBACK_PLUGINS": str(CHECKOUT / "tests/ansible_plugins/callback"),
            "ANSIBLE_CALLBACKS_ENABLED": "module_archives",
            "ANSIBLE_HOME": str(self.top / "home"),
            "CONVERGED_CACHE": str(self.cache),
            **(more or {}),
        }
        python = f"ansible_python_interpreter={sys.executable}"
        argv = ["ansible-playbook", "-v", "-i", "localhost,", "-c", "local", "-e", python, str(self.top / "play.yml")]
        done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def archives(self) -> list[Path]:
        packed = self.cache.rglob("ansible_collections.converged*")
        return sorted(path for path in packed if path.suffix != ".lock")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run that has played once, with a copy for each test."""
    top = tmp_path_factory.mktemp("played")
    assert '"answer": "first"' in Run(top).play()
    assert not list((top / "home/tmp").iterdir())
    return top


@pytest.fixture
def run(played: Path, tmp_path: Path) -> Run:
    """Return a run that has played once, with the archives of that play."""
    shutil.copytree(played, tmp_path, dirs_exist_ok=True)
    return Run(tmp_path)


def test_a_second_run_finds_the_archives_of_the_first(run: Run) -> None:
    (packed,) = run.archives()
    before = packed.stat().st_mtime_ns

    run.play()

    assert run.archives() == [packed]
    assert packed.stat().st_mtime_ns == before
    assert not list((run.top / "home/tmp").iterdir())


def test_a_changed_import_of_a_module_is_packed_anew(run: Run) -> None:
    run.answer("second")

    assert '"answer": "second"' in run.play()
    assert len(run.archives()) == 2


def swap_bytecode(archive: Path, module: str, text: str, magic: bytes = importlib.util.MAGIC_NUMBER) -> None:
    """Put bytecode of another text into the archive, beside the source as it is."""
    cached = pickle.loads(archive.read_bytes())
    files = packed_files(archive)
    changed = io.BytesIO()
    with zipfile.ZipFile(changed, "w") as written:
        for name in files.namelist():
            mine = name.endswith(f"/{module}.pyc")
            written.writestr(
                name,
                magic + bytes([1, 0, 0, 0]) + bytes(8) + marshal.dumps(compile(text, name, "exec"))
                if mine
                else files.read(name),
            )
    archive.write_bytes(pickle.dumps(dataclasses.replace(cached, zip_data=base64.b64encode(changed.getvalue()))))


def packed_files(archive: Path) -> zipfile.ZipFile:
    """The archive's files, read as Ansible reads them."""
    return zipfile.ZipFile(io.BytesIO(base64.b64decode(pickle.loads(archive.read_bytes()).zip_data)))


def test_a_kept_archive_has_bytecode_that_the_next_run_takes(run: Run) -> None:
    (packed,) = run.archives()
    files = packed_files(packed)
    names = files.namelist()
    assert sorted(f"{name}c" for name in names if name.endswith(".py")) == sorted(
        name for name in names if name.endswith(".pyc")
    )

    swap_bytecode(packed, "answer", "ANSWER = 'by bytecode'")

    assert '"answer": "by bytecode"' in run.play()


def test_bytecode_of_another_python_is_passed_over(run: Run) -> None:
    (packed,) = run.archives()

    swap_bytecode(packed, "answer", "ANSWER = 'by bytecode'", magic=b"\0\0\r\n")

    assert '"answer": "first"' in run.play()


def test_another_copy_of_the_collection_has_its_own_archives(run: Run, tmp_path: Path) -> None:
    """A test from the built tarball must not run the modules of the checkout."""
    other = Run(tmp_path / "other")
    other.answer("other")
    shared = {"CONVERGED_CACHE": str(run.cache)}

    assert '"answer": "other"' in other.play(shared)


@pytest.mark.soak
def test_without_a_cache_ansible_packs_as_ever(tmp_path: Path) -> None:
    run = Run(tmp_path)

    assert '"answer": "first"' in run.play({"CONVERGED_CACHE": ""})
    assert not run.cache.exists()


@pytest.mark.soak
def test_a_lost_folder_of_archives_is_made_again(run: Run) -> None:
    shutil.rmtree(run.cache)

    run.play()

    assert run.archives()
