# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps the archives of modules that Ansible packs, from one run of a test to the next.

Ansible packs each module with what it imports, and forgets the archive at the end of the run. The tests start some
hundred runs, and packing took a third of their processor time. Ansible looks for archives in `ansiballz_cache` below
its temporary folder; this plugin makes that a link to a folder that stays.

The folder's name is a digest of all that an archive can hold, so that a changed file finds an empty folder.

An archive that is kept has each file's bytecode beside its source. Without it a node compiles the same files at each
call, which is four tenths of what a small module costs there. Python takes bytecode of its own version only, so a
node with another Python compiles the source as ever.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import importlib.util
import io
import marshal
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.executor import module_common
from ansible.plugins.callback import CallbackBase
from ansible.release import __version__

DOCUMENTATION = """
name: module_archives
type: aggregate
short_description: Keeps packed modules from one run of a test to the next
description:
  - Ansible packs each module again in every run. This plugin lets it find the archives of earlier runs.
"""

COLLECTIONS = ("converged.hpc", "kubernetes.core")
"""The collections whose modules the tests run. Modules of any other collection are looked for here as well."""
PACKED = ("plugins/modules", "plugins/module_utils")


def files_of(collections: list[Path]) -> Iterator[tuple[str, bytes]]:
    """Names and texts of all files that an archive of these collections can hold, in order."""
    for at in collections:
        for folder in PACKED:
            for file in sorted((at / folder).rglob("*.py")):
                yield f"{at.parent.name}.{at.name}/{file.relative_to(at)}", file.read_bytes()


def digest(collections: list[Path]) -> str:
    """One name for all that an archive depends on: Ansible, its Python, and the files of the collections."""
    total = hashlib.sha256(f"{__version__} {sys.version_info[:3]} {constants.__file__}".encode())
    total.update(Path(__file__).read_bytes())
    for name, text in files_of(collections):
        total.update(f"\0{name}\0{len(text)}\0".encode() + text)
    return total.hexdigest()[:20]


def found(names: tuple[str, ...]) -> list[Path]:
    """The folders of those collections that this run of Ansible would load modules from."""
    places = []
    for name in names:
        try:
            package = importlib.import_module(f"ansible_collections.{name}")
        except ImportError:
            continue
        places.append(Path(package.__path__[0]))
    return places


def link(temporary: Path, archives: Path) -> None:
    """Make Ansible's folder for archives in `temporary` a link to the folder `archives`, which only root reads."""
    archives.mkdir(mode=0o700, parents=True, exist_ok=True)
    (temporary / "ansiballz_cache").symlink_to(archives)


def bytecode(source: bytes, name: str) -> bytes:
    """What Python would write into a .pyc file that it never compares with its source (PEP 552)."""
    unchecked = (1).to_bytes(4, "little")
    code = marshal.dumps(compile(source, name, "exec", dont_inherit=True, optimize=0))
    return importlib.util.MAGIC_NUMBER + unchecked + importlib.util.source_hash(source) + code


def with_bytecode(archive: bytes) -> bytes:
    """The archive, in base64 as Ansible has it, with bytecode beside each source."""
    packed = io.BytesIO(base64.b64decode(archive))
    with zipfile.ZipFile(packed, "a") as files:
        for source in [file for file in files.infolist() if file.filename.endswith(".py")]:
            compiled = zipfile.ZipInfo(f"{source.filename}c", source.date_time)
            compiled.compress_type = source.compress_type
            files.writestr(compiled, bytecode(files.read(source), source.filename))
    return base64.b64encode(packed.getvalue())


def keep_bytecode() -> None:
    """Have Ansible write archives with bytecode from now on."""
    packed = module_common._CachedModule
    dump = packed.dump

    def dump_with_bytecode(archive: Any, path: str) -> None:
        dump(dataclasses.replace(archive, zip_data=with_bytecode(archive.zip_data)), path)

    packed.dump = dump_with_bytecode


class CallbackModule(CallbackBase):
    """Sets the link when Ansible loads its callbacks, which is before it packs the first module."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "module_archives"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        cache = os.environ.get("CONVERGED_CACHE")
        if cache:
            keep_bytecode()
            link(Path(constants.DEFAULT_LOCAL_TMP), Path(cache) / "module-archives" / digest(found(COLLECTIONS)))
