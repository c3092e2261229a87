# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hooks in the double: their attributes, and the texts that are kept byte by byte."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pbs_double.state import Hook, Refused, State

# In the order of a refusal, and in that in which a hook's events are printed.
_EVENTS = (
    "queuejob",
    "postqueuejob",
    "modifyjob",
    "modifyvnode",
    "management",
    "resvsub",
    "modifyresv",
    "movejob",
    "jobobit",
    "runjob",
    "provision",
    "periodic",
    "resv_confirm",
    "resv_begin",
    "resv_end",
    "execjob_begin",
    "execjob_prologue",
    "execjob_epilogue",
    "execjob_preterm",
    "execjob_end",
    "exechost_periodic",
    "execjob_launch",
    "exechost_startup",
    "execjob_attach",
    "execjob_resize",
    "execjob_abort",
    "execjob_postsuspend",
    "execjob_preresume",
)
_PRINTED = (
    "modifyvnode",
    "execjob_begin",
    "execjob_prologue",
    "execjob_epilogue",
    "execjob_end",
    "execjob_preterm",
    "execjob_launch",
    "execjob_attach",
    "execjob_resize",
    "execjob_abort",
    "execjob_postsuspend",
    "execjob_preresume",
    "exechost_periodic",
    "exechost_startup",
)
_TRUE, _FALSE = ("true", "t", "y", "1"), ("false", "f", "n", "0")


def create(state: State, name: str) -> None:
    if name in state.hooks:
        raise Refused(32, f"hook name '{name}' already registered, try another name")
    state.hooks[name] = Hook(
        {
            "type": "site",
            "enabled": "true",
            "event": '""',
            "user": "pbsadmin",
            "alarm": "30",
            "order": "1",
            "debug": "false",
            "fail_action": "none",
        }
    )


def existing(state: State, name: str) -> Hook:
    if name not in state.hooks:
        raise Refused(32, f"{name} does not exist!")
    return state.hooks[name]


def delete(state: State, name: str) -> None:
    """A server that was to run it itself does so on freed memory."""
    queued = existing(state, name).on_server
    if queued is not None:
        state.server_hangs_from = min(state.server_hangs_from, queued)
    del state.hooks[name]


def change(hook: Hook, attribute: str, operator: str, value: str) -> None:
    """One attribute."""
    events = hook.attributes["event"].split(",")
    if operator == "-=":
        assert (attribute, value) == ("event", "periodic"), "the double takes nothing else from a hook"
        hook.attributes["event"] = _events(",".join(event for event in events if event not in ("periodic", '""')))
        hook.on_server = None
    elif attribute == "event":
        hook.attributes["event"] = _events(value)
        if not {"exechost_periodic", "periodic"} & set(value.split(",")):
            hook.attributes.pop("freq", None)
        else:
            hook.attributes.setdefault("freq", "120")
    elif attribute == "freq" and not {"exechost_periodic", "periodic"} & set(events):
        raise Refused(
            32,
            "set_hook_freq: Can't set hook freq value: hook event must contain at least"
            "'exechost_periodic' or 'periodic'",
        )
    elif attribute == "fail_action" and not {"execjob_begin", "exechost_startup", "execjob_prologue"} & set(events):
        raise Refused(
            32,
            f"Can't set hook fail_action value to '{value}': hook event must contain at least one of "
            "execjob_begin, exechost_startup, execjob_prologue",
        )
    elif attribute in ("enabled", "debug"):
        if value.lower() not in (*_TRUE, *_FALSE):
            known = "|".join((*_TRUE, *_FALSE))
            raise Refused(32, f"unexpected value '{value}', must be (not case sensitive) {known}")
        hook.attributes[attribute] = "true" if value.lower() in _TRUE else "false"
    elif attribute == "order" and not 1 <= int(value) <= 1000:
        raise Refused(32, f"order given ({value}) is outside the acceptable range of [1, 1000] for type 'site'.")
    elif attribute not in hook.attributes and attribute != "freq":
        raise Refused(32, f"Undefined attribute  - {attribute}")
    else:
        hook.attributes[attribute] = value
        if attribute == "freq" and hook.attributes["enabled"] == "true" and hook.content is not None:
            hook.on_server = time.time() + int(value)


def shown(hook: Hook) -> list[tuple[str, str]]:
    """As they are listed."""
    order = ("type", "enabled", "event", "user", "alarm", "freq", "order", "debug", "fail_action")
    return [(name, hook.attributes[name]) for name in order if name in hook.attributes]


def store(state: State, name: str, kind: str, source: str) -> None:
    """Takes a text: Python must compile, a configuration is whatever it is."""
    if source != "-" and not Path(source).is_file():
        raise Refused(1, f"{source} - No such file or directory")
    data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    hook = existing(state, name)
    before = hook.config if kind == "application/x-config" else hook.content
    if kind == "application/x-config":
        hook.config = data
    else:
        try:
            compile(data, name, "exec")
        except (SyntaxError, ValueError):
            kept = "" if before is None else f", hook '{name}' contents not overwritten"
            raise Refused(32, f"Failed to compile script{kept}") from None
        hook.content = data
    if before is not None:
        print(f"hook '{name}' contents overwritten", file=sys.stderr)


def _events(value: str) -> str:
    words = [word for word in value.split(",") if word]
    for word in words:
        if word not in _EVENTS:
            raise Refused(
                32,
                f'invalid argument ({word}) to event. Should be one or more of: {",".join(_EVENTS)} or "" for no event',
            )
    order = [*_PRINTED, *_EVENTS]
    return ",".join(sorted(words, key=order.index)) or '""'
