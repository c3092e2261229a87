# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers to objects that could not be read: a condition and an Event that name the field, once for each state.

Groups and queues of all dialects are answered, and pods that name this scheduler. A follower answers nothing. Once it
leads, it answers everything that is still unreadable. Objects of other kinds are named in the log.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from placement.kube.dialects import BY_NAME
from placement.kube.fields.field_error import shown
from placement.kube.watch.reflector import Source
from placement.kube.write.executor import Telling
from placement.kube.write.requests import Subject
from placement.model.messages.action import Action, GroupStatus, PodCondition, QueueStatus
from placement.model.messages.refusal import Refusal
from placement.model.objects.pod import Pod
from placement.model.objects.workload import PodGroup, Queue

REASON: Final = "Invalid"
_REMEMBERED: Final = 1 << 14
_ANSWERED: Final = (Pod, PodGroup, Queue)


class UnreadableReporter:
    """Remembers what has been answered; thread-safe."""

    def __init__(
        self,
        scheduler_name: str,
        *,
        may_write: Callable[[], bool],
        tell: Callable[[Telling], None],
        carry: Callable[[tuple[Action, ...]], None],
        log: Callable[[str, str], None],
    ) -> None:
        self._scheduler_name = scheduler_name
        self._may_write = may_write
        self._tell = tell
        self._carry = carry
        self._log = log
        self._lock = threading.Lock()
        self._answered: OrderedDict[str, str] = OrderedDict()
        self._waiting: OrderedDict[str, tuple[Source, Refusal]] = OrderedDict()

    def note(self, source: Source, refusal: Refusal) -> None:
        """Answers, unless this has been answered already."""
        if not (refusal.uid and refusal.name):
            return
        if source.kind not in _ANSWERED:
            if self._is_news(refusal):
                self._log(source.name, f"{shown(refusal.name)} cannot be read: {refusal.field}: {refusal.reason}")
            return
        if not self._may_write():
            with self._lock:
                self._waiting[refusal.uid] = (source, refusal)
                if len(self._waiting) > _REMEMBERED:
                    self._waiting.popitem(last=False)
            return
        text = f"{refusal.field}: {refusal.reason}"
        action = self._action(source, refusal, text)
        if action is None or not self._is_news(refusal):
            return
        version = source.path.removeprefix("/apis/").rpartition("/")[0] if source.shared else "v1"
        subject = Subject(
            api_version=version,
            kind=refusal.kind,
            namespace=refusal.namespace,
            name=refusal.name,
            uid=refusal.uid,
        )
        self._tell(Telling(subject, REASON, text, "Reading"))
        self._carry((action,))

    def catch_up(self) -> None:
        """Answers what came while we did not lead; an object that has been mended since gets one answer too many."""
        if not self._waiting or not self._may_write():
            return
        with self._lock:
            waiting, self._waiting = list(self._waiting.values()), OrderedDict()
        for source, refusal in waiting:
            self.note(source, refusal)

    def _is_news(self, refusal: Refusal) -> bool:
        said = f"{refusal.field}: {refusal.reason}"
        with self._lock:
            if self._answered.get(refusal.uid) == said:
                return False
            self._answered[refusal.uid] = said
            if len(self._answered) > _REMEMBERED:
                self._answered.popitem(last=False)
        return True

    def _action(self, source: Source, refusal: Refusal, text: str) -> Action | None:
        if source.kind is Pod:
            if refusal.scheduler_name != self._scheduler_name or refusal.node:
                return None
            return PodCondition(
                uid=refusal.uid, namespace=refusal.namespace, name=refusal.name, reason=REASON, message=text
            )
        if not source.shared:
            return None
        dialect = BY_NAME[source.path.removeprefix("/apis/").rpartition("/")[0]]
        if source.kind is PodGroup:
            return GroupStatus(
                uid=refusal.uid,
                namespace=refusal.namespace,
                name=refusal.name,
                dialect=dialect.name,
                phase=None,
                scheduled=False,
                reason=REASON,
                message=text,
            )
        return QueueStatus(
            uid=refusal.uid, name=refusal.name, dialect=dialect.name, readable=False, reason=REASON, message=text
        )
