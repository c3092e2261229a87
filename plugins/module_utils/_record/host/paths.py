# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths: only absolute and normalised ones, links followed once and only where root made them.

A link in the middle of a path (/lib, /var/run, /etc/slurm -> /cm/shared/...) is resolved first, so that one file has
one key in the record, whatever name a role gives it.
"""

from __future__ import annotations

import hashlib
import os
import stat
import typing as t

from ..model.errors import RecordError
from .host import Host, is_trusted

_LONGEST_NAME = 200
_MOST_LINKS = 40


def check(path: str) -> str:
    """Return `path` itself; refuse one that can mean more than one thing."""
    if not path.startswith("/") or path.startswith("//") or os.path.normpath(path) != path or path == "/":
        raise RecordError(f"path {path!r}: expected an absolute, normalised path without '..' or a final slash")
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in path):
        raise RecordError(f"path {path!r}: control characters are not allowed")
    return path


def resolve(host: Host, path: str, *, follow_last: bool) -> str:
    """Return where `path` really is. A last component that is missing is kept; one behind a link is an error."""
    todo = [name for name in reversed(check(path).split("/")) if name]
    done, links = "", 0
    while todo:
        name = todo.pop()
        if name == "..":
            done = os.path.dirname(done) if done != "/" else done
            continue
        here = f"{done}/{name}"
        found = host.lstat(here)
        if found is None and links and not todo and follow_last:
            _refuse_dangling(host, path)
        if found is None or not stat.S_ISLNK(found.st_mode) or (not todo and not follow_last):
            done = here
            continue
        links += 1
        if not is_trusted(found, host):
            raise RecordError(f"{path}: {here} is a link that user {found.st_uid} made, not root: remove or replace it")
        if links > _MOST_LINKS:
            raise RecordError(f"{path}: {here} is a link that leads to itself: remove it")
        target = host.link_target(here)
        todo.extend(name for name in reversed(target.split("/")) if name not in ("", "."))
        done = "" if target.startswith("/") else done
    return done


def _refuse_dangling(host: Host, path: str) -> None:
    found = host.lstat(path)
    if found is not None and stat.S_ISLNK(found.st_mode):
        raise RecordError(f"{path}: is a link to {host.link_target(path)}, where nothing is: remove the link first")


def staging(path: str) -> str:
    """Return where the next content of `path` is made: one fixed name beside it, found again after a crash."""
    folder, name = os.path.split(path)
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return f"{folder}/.{name}.converged-new"


def discard(host: Host, path: str) -> None:
    """Remove what an earlier run may have left staged."""
    found = host.lstat(staging(path))
    if found is not None and stat.S_ISDIR(found.st_mode):
        host.remove_directory(staging(path))
    elif found is not None:
        host.remove(staging(path))


def parents(path: str) -> t.List[str]:
    """Return the directories above `path`, nearest first, without the root."""
    found = []
    path = os.path.dirname(path)
    while path != "/":
        found.append(path)
        path = os.path.dirname(path)
    return found
