# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of faults: read, checked, and put into a text."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

LIST = Path(__file__).with_name("faults.toml")
LAYERS = ("hook", "decide", "record", "policy", "state", "kube", "playbooks")


class FaultError(Exception):
    """The list, or an entry of it, cannot be used; the message names the entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One small change of one product file, as a tired maintainer might make it.

    `hints` are the test files to run first. `beyond` names the tests that see the fault where no fast test can:
    files of tests/e2e, scenarios of extensions/molecule, or `demo`.
    """

    id: str
    layer: str
    file: str
    before: str
    after: str
    breaks: str
    hints: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()


def read_faults(path: Path = LIST) -> tuple[Fault, ...]:
    """Return all faults of the list in its order; raise FaultError where an entry is malformed or an id is repeated."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise FaultError(f"{path}: {error}") from error
    faults = tuple(_read_entry(entry) for entry in table.get("fault", ()))
    seen: set[str] = set()
    for fault in faults:
        if fault.id in seen:
            raise FaultError(f"{fault.id}: two faults have this id")
        seen.add(fault.id)
    return faults


def _read_entry(entry: dict[str, Any]) -> Fault:
    name = entry.get("id", "an entry without id")
    texts = ("id", "layer", "file", "before", "after", "breaks")
    for key in texts:
        if not isinstance(entry.get(key), str) or (not entry[key] and key != "after"):
            raise FaultError(f"{name}: '{key}' must be a text")
    for key in ("hints", "beyond"):
        if not all(isinstance(item, str) for item in entry.get(key, [])):
            raise FaultError(f"{name}: '{key}' must be a list of texts")
    unknown = set(entry) - {field.name for field in fields(Fault)}
    if unknown:
        raise FaultError(f"{name}: unknown keys: {', '.join(sorted(unknown))}")
    if entry["layer"] not in LAYERS:
        raise FaultError(f"{name}: layer '{entry['layer']}' is none of {', '.join(LAYERS)}")
    if entry["before"] == entry["after"]:
        raise FaultError(f"{name}: 'before' and 'after' are the same")
    hints, beyond = tuple(entry.get("hints", ())), tuple(entry.get("beyond", ()))
    return Fault(**{key: entry[key] for key in texts}, hints=hints, beyond=beyond)


def chosen(faults: Sequence[Fault], names: Iterable[str]) -> tuple[Fault, ...]:
    """Return the faults of these ids, or of these layers; all where no name is given."""
    wanted = list(names)
    known = {fault.id for fault in faults}
    for name in wanted:
        if name not in known and name not in LAYERS:
            raise FaultError(f"{name}: there is no such fault and no such layer; see: python -m mutations list")
    return tuple(fault for fault in faults if not wanted or fault.id in wanted or fault.layer in wanted)


def with_fault(fault: Fault, text: str) -> str:
    """Return the text of the fault's file with the fault in it; raise FaultError unless `before` is there once."""
    found = text.count(fault.before)
    if found != 1:
        raise FaultError(
            f"{fault.id}: its text is in {fault.file} {found} times and must be there once: "
            "bring the entry in tests/mutations/faults.toml up to date"
        )
    return text.replace(fault.before, fault.after)
