# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What qstat and pbsnodes of PBS print as JSON: the answer as a whole, the run of a job, what a job has of its vnodes.

With the server down, qstat prints valid JSON without jobs: the exit status is for the caller to look at.

One source with copies: edit it in plugins/module_utils/_shared, then type `make shared`. PRIVATE to the collection.
"""

import json
import re
import sys
import typing as t

Fields = t.Dict[str, t.Any]
# What a job has of one vnode: its name, and resources with their amounts as PBS writes them.
Vnode = t.Tuple[str, t.Tuple[t.Tuple[str, str], ...]]

_CHUNK = re.compile(r"\(([^()]+)\)")
# PBS reads what users write as JSON, up to 1000 deep, where Python's own reader gives up.
sys.setrecursionlimit(max(sys.getrecursionlimit(), 3000))


class AnswerError(ValueError):
    """The text is not the whole answer; nothing follows from it."""


def answer(text: str, program: str) -> Fields:
    """Return an answer of a program; AnswerError if it is cut off or has not what each answer has."""
    try:
        found = json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        raise AnswerError(f"{program} printed JSON that is not whole: {str(error)[:100]}") from None
    if not isinstance(found, dict) or not isinstance(found.get("timestamp"), int):
        raise AnswerError(f"{program} printed JSON without a timestamp")
    return found


def section(found: Fields, key: str, program: str, *, needed: bool) -> t.Dict[str, Fields]:
    """Return the objects below a key of an answer, by name; AnswerError if there is none and one is needed."""
    objects = found.get(key, {})
    if needed and not objects:
        raise AnswerError(f"{program} printed JSON without {key}")
    if not isinstance(objects, dict) or not all(isinstance(fields, dict) for fields in objects.values()):
        raise AnswerError(f"{program}: {key} is not an object of objects")
    return objects


def run_of(fields: Fields) -> t.Optional[int]:
    """Return how often a job has started, 0 if never; None if that cannot be told.

    The owner of a job may alter run_count. Users cannot alter run_version, which hooks see too.
    An older PBS has only run_count.
    """
    run = fields.get("run_version", fields.get("run_count", 0))
    return run if isinstance(run, int) and not isinstance(run, bool) else None


def chunks(exec_vnode: str) -> t.Tuple[t.Tuple[Vnode, ...], ...]:
    """Return the chunks of ``(a:ncpus=2:mem=1gb)+(b[0]:ncpus=1+b[1]:ncpus=1)``, each with its vnodes of one host."""
    groups = _CHUNK.findall(exec_vnode)
    if "+".join(f"({group})" for group in groups) != exec_vnode:
        raise AnswerError(f"exec_vnode {exec_vnode[:60]!a}: expected (vnode:resource=amount) joined by +")
    return tuple(tuple(_vnode(part) for part in group.split("+")) for group in groups)


def _vnode(text: str) -> Vnode:
    name, *amounts = text.split(":")
    pairs = [amount.partition("=") for amount in amounts]
    if not name or any(not resource or not mark for resource, mark, _value in pairs):
        raise AnswerError(f"exec_vnode part {text[:60]!a}: expected vnode:resource=amount")
    return name, tuple((resource, value) for resource, _mark, value in pairs)
