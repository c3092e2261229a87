# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""slurm.conf with all files it includes, as one model: what Slurm would take for true, and where each key lives.

Reading is injected (``read(path) -> bytes``), so that the same model serves a module on the controller, a check of a
copy on a node, and a test without files.

PRIVATE to the collection.
"""

from __future__ import annotations

import posixpath
import typing as t

from ..._shared import hostlist
from .. import version
from ..errors import ConfError
from . import text as conf_text
from .text import ConfText, Statement

MAX_FILES = 200
SCRIPT_KEYS = ("Prolog", "Epilog", "PrologSlurmctld", "EpilogSlurmctld")
SCRIPTS = frozenset(key.lower() for key in SCRIPT_KEYS)
_REPEATED = conf_text.LISTS | {"slurmctldhost"}
# What holds names of nodes. The name of a partition or of a NodeSet is none.
_HOST_LISTS = frozenset(["nodename", "nodeaddr", "nodehostname", "nodes", "downnodes"])


class Conf:
    """The files by path, and all statements in the order in which Slurm reads them."""

    def __init__(self, path: str, release: version.Version) -> None:
        self.path = path
        self.release = release
        self.files: dict[str, ConfText] = {}
        self.statements: list[Statement] = []

    def of(self, key: str) -> list[Statement]:
        """Return all statements of a key, whether they count or not."""
        return [statement for statement in self.statements if statement.is_key(key)]

    def repeats(self, key: str) -> bool:
        """Return whether every line of this key counts, or only the last."""
        if key.lower() in SCRIPTS:
            return self.release >= version.REPEATED_SCRIPTS
        return key.lower() in _REPEATED

    def values(self, key: str) -> list[str]:
        """Return the values that count, in order: all of a repeatable key, of any other the last one, or none."""
        found = [statement.value for statement in self.of(key)]
        return found if self.repeats(key) else found[-1:]

    def value(self, key: str) -> str | None:
        """Return the value of a key that has one; None where Slurm's default holds."""
        return next(iter(self.values(key)[-1:]), None)


def load(path: str, *, release: version.Version, read: t.Callable[[str], bytes]) -> Conf:
    """Read slurm.conf and, depth first as Slurm does, every file it includes."""
    if not posixpath.isabs(path):
        raise ConfError(f"{path}: the path of slurm.conf must be absolute")
    conf = Conf(path, release)
    _load_file(conf, path, read, inside=())
    _check_host_lists(conf)
    return conf


def loaded_from(conf: Conf, changed: t.Mapping[str, str]) -> Conf:
    """Return the same configuration with the text of some files replaced; read nothing."""

    def read(path: str) -> bytes:
        if path in changed:
            return conf_text.encode(changed[path])
        if path in conf.files:
            return conf_text.encode(conf.files[path].text())
        raise ConfError(f"{path}: an edit must not make slurm.conf include another file")

    return load(conf.path, release=conf.release, read=read)


def inlined_text(conf: Conf) -> str:
    """Return all statements as one text without Includes, in Slurm's order.

    Slurm's own parser judges it, and the joint check compares hosts by its digest.
    """
    lines = []
    for statement in conf.statements:
        if not statement.is_key("Include"):
            text = conf.files[statement.path]
            lines.extend(text.lines[statement.index : statement.index + statement.count])
            if not lines[-1].endswith("\n"):
                lines.append("\n")
    return "".join(lines)


def _check_host_lists(conf: Conf) -> None:
    """Refuse ranges of hosts that are too long: slurmctld would die when it reads its configuration again."""
    for statement in conf.statements:
        if statement.key.lower() in conf_text.LISTS:
            for pair in statement.pairs:
                if pair.key.lower() in _HOST_LISTS:
                    _expanded(statement, pair.value)


def _expanded(statement: Statement, written: str) -> list[str]:
    try:
        return hostlist.expand(written)
    except hostlist.HostlistError as error:
        raise ConfError(f"{statement.place}: {error}") from error


def _load_file(conf: Conf, path: str, read: t.Callable[[str], bytes], inside: tuple[str, ...]) -> None:
    if path in inside:
        raise ConfError(f"{path} includes itself by way of {inside[-1]}")
    if path in conf.files:
        raise ConfError(f"{path} is included twice (again in {inside[-1]}): which of its lines count cannot be edited")
    if len(conf.files) >= MAX_FILES:
        raise ConfError(f"{conf.path} includes more than {MAX_FILES} files")
    try:
        text = conf_text.decode(read(path))
    except OSError as error:
        by = f" (included by {inside[-1]})" if inside else ""
        raise ConfError(f"{path}{by} cannot be read: {error.strerror or error}") from error
    conf.files[path] = conf_text.parse(path, text)
    for statement in conf.files[path].statements:
        conf.statements.append(statement)
        if statement.is_key("Include"):
            _load_file(conf, _included(conf, statement), read, (*inside, path))


def _included(conf: Conf, statement: Statement) -> str:
    """Return the path of the file that an Include names; ConfError where Slurm would read none by that name.

    A relative name is beside slurm.conf in newer releases of Slurm, and beside the including file in older ones.
    """
    name = statement.value
    if any(char in name for char in "*?["):
        raise ConfError(f"{statement.place}: Include {name!a} is a pattern, which Slurm does not expand")
    if "%c" in name:
        cluster = conf.value("ClusterName")
        if cluster is None:
            raise ConfError(f"{statement.place}: Include {name!a} stands before ClusterName")
        name = name.replace("%c", cluster.lower())
    beside = conf.path if conf.release >= version.INCLUDE_BESIDE_CONF else statement.path
    return posixpath.normpath(posixpath.join(posixpath.dirname(beside), name))
