# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which lines of slurm.conf to change so that a key has the wanted value: a pure plan, carried out by `apply`.

A key is changed where it lives, also in an included file. A new line stands behind the last line of the same key, or at
the end of slurm.conf. Each edit names the lines before and after, so that the record can undo it line by line.

PRIVATE to the collection.
"""

from __future__ import annotations

import typing as t

from ..errors import ConfError
from . import model as slurm_conf
from . import prolog_flags
from . import text as conf_text
from .model import Conf
from .text import Statement


class Wish(t.NamedTuple):
    """What a key must say.

    ``set``: this one value. ``add``: this line among the lines of a repeatable key. ``merge``: these words in a comma
    list, beside those that are there. ``remove``: no line with this value.
    """

    action: str
    key: str
    value: str


class LineEdit(t.NamedTuple):
    """Lines of one file, from number ``index`` (from 0) on, before and after; one of the two may be empty."""

    path: str
    index: int
    before: tuple[str, ...]
    after: tuple[str, ...]


class Plan(t.NamedTuple):
    """The edits in the order in which they are to be made, and every changed file's new text."""

    edits: tuple[LineEdit, ...]
    changed: dict[str, str]


def plan(conf: Conf, wishes: t.Iterable[Wish]) -> Plan:
    """Plan all edits for all wishes; the result is read again and must say what was wished."""
    wishes = list(wishes)
    for wish in wishes:
        if wish.key.lower() in conf_text.LISTS | {"include"}:
            raise ConfError(f"{wish.key}: lines that define something are not changed, only plain settings")
    edits: list[LineEdit] = []
    now = conf
    for wish in wishes:
        for edit in _PLANNERS[wish.action](now, wish):
            edits.append(edit)
            now = slurm_conf.loaded_from(now, {edit.path: applied(now.files[edit.path].lines, edit)})
    for wish in wishes:
        if list(_PLANNERS[wish.action](now, wish)):
            raise ConfError(f"{wish.key}: what is asked for contradicts itself ({wish.action} {wish.value!a})")
    changed = {path: text.text() for path, text in now.files.items() if text.lines != conf.files[path].lines}
    return Plan(tuple(edits), changed)


def applied(lines: t.Sequence[str], edit: LineEdit) -> str:
    """Return a file's text after one edit; the lines before must be there."""
    end = edit.index + len(edit.before)
    if tuple(lines[edit.index : end]) != edit.before:
        raise ConfError(f"{edit.path} line {edit.index + 1} is no longer what it was when the change was planned")
    return "".join([*lines[: edit.index], *edit.after, *lines[end:]])


def _set(conf: Conf, wish: Wish) -> t.Iterator[LineEdit]:
    if conf.repeats(wish.key) and len(conf.of(wish.key)) > 1:
        places = ", ".join(statement.place for statement in conf.of(wish.key))
        raise ConfError(f"{wish.key} stands on several lines that all count ({places}): add or remove one of them")
    found = conf.of(wish.key)
    if not found:
        yield _appended(conf, wish)
    elif found[-1].value != wish.value:
        yield _revalued(conf, found[-1], wish.value)


def _add(conf: Conf, wish: Wish) -> t.Iterator[LineEdit]:
    found = conf.of(wish.key)
    if wish.value in [statement.value for statement in found]:
        return
    if found and not conf.repeats(wish.key):
        raise ConfError(
            f"{found[-1].place} sets {wish.key} already, and Slurm {conf.release} takes one line of it only: "
            "a second would silently replace it"
        )
    yield _inserted(conf, found[-1], wish) if found else _appended(conf, wish)


def _merge(conf: Conf, wish: Wish) -> t.Iterator[LineEdit]:
    value = conf.value(wish.key) or ""
    if wish.key.lower() == "prologflags":
        merged = prolog_flags.merge(value, wish.value)
    else:
        merged = prolog_flags.united(value, wish.value)
    return _set(conf, wish._replace(value=merged))


def _remove(conf: Conf, wish: Wish) -> t.Iterator[LineEdit]:
    # From the last on, so that the numbers of the lines that remain to be removed stay right.
    for statement in reversed(conf.of(wish.key)):
        if statement.value == wish.value:
            yield LineEdit(statement.path, statement.index, _lines(conf, statement), ())


_PLANNERS: dict[str, t.Callable[[Conf, Wish], t.Iterator[LineEdit]]] = {
    "set": _set,
    "add": _add,
    "merge": _merge,
    "remove": _remove,
}


def _lines(conf: Conf, statement: Statement) -> tuple[str, ...]:
    return conf.files[statement.path].lines[statement.index : statement.index + statement.count]


def _revalued(conf: Conf, statement: Statement, value: str) -> LineEdit:
    conf_text.render(statement.key, value)
    if statement.pairs[0].operator:
        raise ConfError(
            f"{statement.place}: {statement.key}{statement.pairs[0].operator}= is not changed automatically"
        )
    before = _lines(conf, statement)
    return LineEdit(statement.path, statement.index, before, (conf_text.replace_value(before, value),))


def _inserted(conf: Conf, behind: Statement, wish: Wish) -> LineEdit:
    return _new_line(conf, behind.path, behind.index + behind.count, wish)


def _appended(conf: Conf, wish: Wish) -> LineEdit:
    return _new_line(conf, conf.path, len(conf.files[conf.path].lines), wish)


def _new_line(conf: Conf, path: str, index: int, wish: Wish) -> LineEdit:
    """Return the edit that adds a line, with the ending that the file uses; a last line without one gets it."""
    lines = conf.files[path].lines
    ending = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    line = conf_text.render(wish.key, wish.value) + ending
    last = lines[index - 1] if index else "\n"
    if conf_text.continues(last):
        raise ConfError(f"{path} line {index}: the file ends in a continued line, behind which nothing can be added")
    if not last.endswith("\n"):
        return LineEdit(path, index - 1, (last,), (last + ending, line))
    return LineEdit(path, index, (), (line,))
