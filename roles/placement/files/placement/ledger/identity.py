# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The identity of a job: queue, account, project and user, by the site's expressions over the namespace.

An expression sees `namespace.name`, `namespace.labels` and `queue` (the name of our Queue), which users cannot forge.
It sees nothing of the pod, and no owner reference either, because a pod's creator may write anything into it.
"""

import pwd
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import jmespath  # type: ignore[import-untyped]
from jmespath.exceptions import JMESPathError  # type: ignore[import-untyped]

from placement.model.batch import Whose
from placement.model.rules.selector import LabelPairs

USER: Final = re.compile(r"[a-z_][a-z0-9_.-]{0,31}", re.ASCII)
# PBS takes more in some of these; none of it is needed, and some of it means something in a command.
_PATTERNS: Final = {
    "queue": re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,14}", re.ASCII),
    "account": re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@/-]{0,63}", re.ASCII),
    "project": re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII),
    "user": USER,
}
_SEEN: Final = 'namespace.name, namespace.labels."LABEL" and queue'


class IdentityError(Exception):
    """The expressions give nothing usable; the message says which, and for which namespace."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What goes into the command; empty is left out, and without a user the job is the daemon's own."""

    queue: str
    account: str = ""
    project: str = ""
    user: str = ""


def expression_error(text: str) -> str:
    """Why a text is no expression, or never gives anything; empty where it may."""
    try:
        parsed = jmespath.compile(text).parsed
    except JMESPathError as error:
        return str(error).splitlines()[0]
    unknown = not all(map(_sees, _paths(parsed)))
    return f"{text}: there are {_SEEN}; words are quoted once more: \"'word'\"" if unknown else ""


def _paths(parsed: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Names after names from the root on, as far as they are plain."""
    children = parsed["children"]
    if parsed["type"] == "field":
        yield (parsed["value"],)
    elif parsed["type"] == "subexpression" and all(child["type"] == "field" for child in children):
        yield tuple(child["value"] for child in children)
    elif parsed["type"] == "or_expression":
        for child in children:
            yield from _paths(child)


def _sees(path: tuple[str, ...]) -> bool:
    return path in (("queue",), ("namespace", "name")) or (path[:2] == ("namespace", "labels") and len(path) <= 3)


def uid_of(user: str) -> int | None:
    """Return the uid of a user of this host; None if there is none."""
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
        self._least_uid = least_uid
        self._uid_of = uid_of
        self._expressions: dict[str, Any] = {name: jmespath.compile(text) for name, text in texts.items() if text}
        # Where users may have jobs of ours: anywhere, or, from when they were submitted as users, in that of all.
        self.queue_of_users = None if user else self._queue_of_all()

    def of(self, namespace: str, labels: Mapping[str, str], queue: str) -> Identity:
        """Return the identity for jobs of this namespace in this queue. Asks the host for users, which may take its
        time.
        """
        found = {name: self._value(name, namespace, labels, queue) for name in self._expressions}
        self.check_user(found.get("user", ""))
        return Identity(**found)

    def whose(self, namespace: str, labels: LabelPairs, queue: str) -> Whose | None:
        """Whose jobs may back its pods, by the expressions alone; None where they give no user."""
        found = {"user": "", "queue": ""}
        for name in found.keys() & self._expressions.keys():
            try:
                found[name] = self._value(name, namespace, dict(labels), queue)
            except IdentityError:
                if name == "user":
                    return None
        return Whose(**found)

    def _queue_of_all(self) -> str:
        """Return the queue that is given whatever the namespace; empty if it depends on the namespace."""
        try:
            return self._value("queue", "", {}, "") if "queue" in self._expressions else ""
        except IdentityError:
            return ""

    def _value(self, name: str, namespace: str, labels: Mapping[str, str], queue: str) -> str:
        try:
            value = self._expressions[name].search(
                {"namespace": {"name": namespace, "labels": dict(labels)}, "queue": queue}
            )
        except JMESPathError as error:
            raise IdentityError(f"pbs_{name}: {str(error).splitlines()[0]}") from None
        if not isinstance(value, str) or not _PATTERNS[name].fullmatch(value):
            raise IdentityError(f"pbs_{name} gives {value!r:.80} for namespace {namespace}: that is no {name} of PBS")
        return value

    def check_user(self, user: str) -> None:
        """Refuse a name that is no ordinary user of this host: a label may hold any name."""
        if not user:
            return
        uid = self._uid_of(user) if USER.fullmatch(user) else None
        if uid is None:
            raise IdentityError(f"pbs_user gives {user!r:.80}: there is no such user on this host")
        if uid < max(1, self._least_uid):
            raise IdentityError(f"pbs_user gives {user}, whose uid {uid} is below pbs_least_uid {self._least_uid}")
