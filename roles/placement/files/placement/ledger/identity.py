# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who a job is submitted for: queue, account and project, by the site's expressions over the namespace.

An expression sees `namespace.name`, `namespace.labels` and `queue` (the name of our Queue), which users cannot forge;
nothing of the pod, and no owner reference either, for whoever creates a pod writes what he likes into it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jmespath  # type: ignore[import-untyped]
from jmespath.exceptions import JMESPathError  # type: ignore[import-untyped]

# PBS takes more in some of these; none of it is needed, and some of it means something in a command.
_PATTERNS: Final = {
    "queue": re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,14}", re.ASCII),
    "account": re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@/-]{0,63}", re.ASCII),
    "project": re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII),
}


class IdentityError(Exception):
    """The expressions give nothing usable; the message says which and for whom."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What goes into the command; empty is left out."""

    queue: str
    account: str = ""
    project: str = ""


def expression_error(text: str) -> str:
    """Why a text is no expression; empty where it is one."""
    try:
        jmespath.compile(text)
    except JMESPathError as error:
        return str(error).splitlines()[0]
    return ""


class Identities:
    """The site's expressions; an empty one asks for nothing."""

    def __init__(self, *, queue: str, account: str = "", project: str = "") -> None:
        texts = {"queue": queue, "account": account, "project": project}
        self._expressions: dict[str, Any] = {name: jmespath.compile(text) for name, text in texts.items() if text}

    def of(self, namespace: str, labels: Mapping[str, str], queue: str) -> Identity:
        """Who jobs of this namespace in this queue are for."""
        known = {"namespace": {"name": namespace, "labels": dict(labels)}, "queue": queue}
        found = {}
        for name, expression in self._expressions.items():
            try:
                value = expression.search(known)
            except JMESPathError as error:
                raise IdentityError(f"pbs_{name}: {str(error).splitlines()[0]}") from None
            if not isinstance(value, str) or not _PATTERNS[name].fullmatch(value):
                raise IdentityError(
                    f"pbs_{name} gives {value!r:.80} for namespace {namespace}: that is no {name} of PBS"
                )
            found[name] = value
        return Identity(**found)
