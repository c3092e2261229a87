# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who a job is submitted for: queue, account, project and user, by the site's expressions over the namespace.

An expression sees `namespace.name`, `namespace.labels` and `queue` (the name of our Queue), which users cannot forge;
nothing of the pod, and no owner reference either, for whoever creates a pod writes what he likes into it.
"""

import pwd
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import jmespath  # type: ignore[import-untyped]
from jmespath.exceptions import JMESPathError  # type: ignore[import-untyped]

# PBS takes more in some of these; none of it is needed, and some of it means something in a command.
_PATTERNS: Final = {
    "queue": re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,14}", re.ASCII),
    "account": re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@/-]{0,63}", re.ASCII),
    "project": re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII),
    "user": re.compile(r"[a-z_][a-z0-9_.-]{0,31}", re.ASCII),
}


class IdentityError(Exception):
    """The expressions give nothing usable; the message says which and for whom."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What goes into the command; empty is left out, and without a user the job is the daemon's own."""

    queue: str
    account: str = ""
    project: str = ""
    user: str = ""


def expression_error(text: str) -> str:
    """Why a text is no expression; empty where it is one."""
    try:
        jmespath.compile(text)
    except JMESPathError as error:
        return str(error).splitlines()[0]
    return ""


def uid_of(user: str) -> int | None:
    """The uid of a user of this host; None where there is none."""
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


class Identities:
    """The site's expressions; an empty one asks for nothing."""

    def __init__(
        self,
        *,
        queue: str,
        account: str = "",
        project: str = "",
        user: str = "",
        least_uid: int = 1000,
        uid_of: Callable[[str], int | None] = uid_of,
    ) -> None:
        texts = {"queue": queue, "account": account, "project": project, "user": user}
        self.maps_users = bool(user)
        self._least_uid = least_uid
        self._uid_of = uid_of
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
        self.check_user(found.get("user", ""))
        return Identity(**found)

    def check_user(self, user: str) -> None:
        """Refuses whoever is no ordinary user of this host: a label may name anybody."""
        if not user:
            return
        uid = self._uid_of(user) if _PATTERNS["user"].fullmatch(user) else None
        if uid is None:
            raise IdentityError(f"pbs_user gives {user!r:.80}: there is no such user on this host")
        if uid < max(1, self._least_uid):
            raise IdentityError(f"pbs_user gives {user}, whose uid {uid} is below pbs_least_uid {self._least_uid}")
