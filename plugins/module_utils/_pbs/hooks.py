# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be done so that a hook of PBS is as wished: attributes, program and configuration. Pure.

A new hook has no event and does nothing; so it is filled first and given its events after that. PBS compiles a program
before it takes it, but takes any configuration: both are judged here before anything is sent.

If an enabled hook has a period, the server of OpenPBS runs its program in that period itself, whatever its events are.
Once the hook is deleted, the server does so on freed memory, and may loop and answer no request. Removing the event
`periodic` ends that, even if the hook never had it.

PRIVATE to the collection.
"""

from __future__ import annotations

import json
import typing as t

from . import qmgr
from .client import CONFIG, CONTENT
from .errors import SpecError

PERIODIC = "exechost_periodic"
_PERIODIC_ON_SERVER = "periodic"
# In the order in which they are set: some need their event, and a hook is enabled when all else is there.
_SETTABLE = ("event", "alarm", "debug", "fail_action", "freq", "order", "user", "enabled")
_LISTS = ("event", "fail_action")
_OFF = "false"


class Found(t.NamedTuple):
    """A hook as PBS has it; ``attributes`` is None where there is no such hook."""

    attributes: dict[str, str] | None
    content: str
    config: str


class Change(t.NamedTuple):
    """Commands before and after the texts, and the texts by their kind, each with what was stored."""

    before: list[str]
    texts: dict[str, tuple[str, str]]
    after: list[str]
    attributes: dict[str, tuple[str | None, str]]

    def __bool__(self) -> bool:
        return bool(self.before or self.texts or self.after)


def present(
    name: str, found: Found, attributes: t.Mapping[str, t.Any], *, content: str | None, config: str | None
) -> Change:
    """Plan the hook with these attributes and texts; what is not named stays as it is."""
    wanted = _wanted(attributes)
    _judge(name, content, config)
    current = found.attributes or {}
    events = _words(wanted.get("event", current.get("event", "")))
    if "freq" in wanted and PERIODIC not in events:
        raise SpecError(f"hook {name}: freq needs the event {PERIODIC}")
    changing = {
        attribute: (current.get(attribute), wanted[attribute])
        for attribute in _SETTABLE
        if attribute in wanted and not _same(attribute, current.get(attribute), wanted[attribute])
    }
    # a program knows the keys of its releases before, and the one of before none of those that are new
    stored = {CONTENT: (found.content, content), CONFIG: (found.config, config)}
    commands = {attribute: qmgr.assigned("hook", name, attribute, new) for attribute, (_old, new) in changing.items()}
    before = [] if found.attributes is not None else [f"create hook {qmgr.checked_name('hook', name)}"]
    if changing.get("enabled", ("", ""))[1] == _OFF:
        before.append(commands.pop("enabled"))  # it shall not run with half of the change
    stopped = [_stopped_on_server(name)] if _PERIODIC_ON_SERVER not in events else []
    return Change(
        before=before,
        texts={kind: (old, new) for kind, (old, new) in stored.items() if new is not None and new != old},
        after=[
            each for attribute, line in commands.items() for each in (line, *(stopped if attribute == "freq" else ()))
        ],
        attributes=changing,
    )


def absent(name: str, found: Found) -> Change:
    """Plan that there is no hook of this name."""
    if found.attributes is None:
        return Change([], {}, [], {})
    # somebody may have set its period as this module did not
    return Change([_stopped_on_server(name), f"delete hook {qmgr.checked_name('hook', name)}"], {}, [], {})


def diff(name: str, found: Found, change: Change) -> list[dict[str, str]]:
    """Return what changes, attributes first. A hook that is made or deleted is there or not."""
    lines = [
        (f"{attribute} = {old}\n" if old else "", f"{attribute} = {new}\n")
        for attribute, (old, new) in change.attributes.items()
    ]
    before, after = ("".join(side) for side in zip(*lines)) if lines else ("", "")
    if change.before and change.before[0].startswith("create"):
        after = f"hook {name}\n{after}"
    elif change.before and change.before[-1].startswith("delete"):
        before = f"hook {name}\n"
    shown = [(name, before, after)] if before or after else []
    shown += [(f"{name} {kind}", old, new) for kind, (old, new) in change.texts.items()]
    return [
        {"before_header": header, "after_header": header, "before": _printable(old), "after": _printable(new)}
        for header, old, new in shown
    ]


def _stopped_on_server(name: str) -> str:
    return f"set hook {qmgr.checked_name('hook', name)} event -= {_PERIODIC_ON_SERVER}"


def _wanted(attributes: t.Mapping[str, t.Any]) -> dict[str, str]:
    unknown = sorted(set(attributes) - set(_SETTABLE))
    if unknown:
        raise SpecError(
            f"{', '.join(unknown)}: no attribute of a hook that can be set; known are {', '.join(_SETTABLE)}"
        )
    wanted = {}
    for attribute, value in attributes.items():
        values = value if isinstance(value, list) else [value]
        if not values or not all(isinstance(each, (bool, int, str)) and each != "" for each in values):
            raise SpecError(f"{attribute}: expected text, a number or true, and not {value!a}")
        wanted[attribute] = ",".join(str(each).lower() if isinstance(each, bool) else str(each) for each in values)
        if attribute in ("enabled", "debug"):
            wanted[attribute] = wanted[attribute].lower()
    return wanted


def _judge(name: str, content: str | None, config: str | None) -> None:
    if content is not None:
        try:
            compile(content, f"<hook {name}>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            raise SpecError(f"the program of hook {name} is no Python: {error}") from error
        if not content.strip():
            raise SpecError(f"the program of hook {name} is empty")
    if config is not None:
        try:
            json.loads(config)
        except (ValueError, RecursionError) as error:
            raise SpecError(f"the configuration of hook {name} is no JSON: {error}") from error


def _same(attribute: str, current: str | None, wanted: str) -> bool:
    if current is None:
        return False
    return _words(current) == _words(wanted) if attribute in _LISTS else current.strip('"') == wanted


def _words(text: str) -> frozenset[str]:
    return frozenset(word.strip() for word in text.strip('"').split(",")) - {""}


def _printable(text: str) -> str:
    """Return a text for a result: bytes that are no UTF-8 are replaced."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
