# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which leases are dead: local evidence first, then one question, and "cannot tell" is never "gone"."""

from typing import Dict, List, Mapping, Optional, Tuple

from ..model.actions import ENDING, GONE, LIFE, LIVE, Action, AskBatch, Drop, Look, Remember
from ..model.jobs.lease import Lease
from ..model.node.observed import Observed
from ..model.settings import Settings

LONGEST_PAUSE = 600.0
QUESTIONS_PER_CALL = 4  # a node with many silent leases must not become a storm on the controller


def next_step(leases: Tuple[Lease, ...], settings: Settings, seen: Observed) -> Optional[Action]:
    """Return the next action of a repair that concerns leases; None when they are all judged."""
    if not leases:
        return None
    if seen.life is None:
        return Look(LIFE)
    silent = tuple(lease for lease in leases if seen.life.get(str(lease.key)) is False)
    if not seen.tried.get("ask"):
        due = _due(silent, seen)
        if due:
            return AskBatch(due)
    for lease in silent:
        why = _why_gone(lease, leases, settings, seen)
        if why:
            return Drop(lease, why)
    asked = _asked_next(silent, seen)
    if asked != seen.memory.asked:
        return Remember(seen.memory._replace(asked=asked))
    return None


def _due(silent: Tuple[Lease, ...], seen: Observed) -> Tuple[Lease, ...]:
    when = {key: at for key, at, _pause in seen.memory.asked}
    waiting = [lease for lease in silent if when.get(str(lease.key), seen.now) <= seen.now]
    return tuple(sorted(waiting, key=lambda lease: when.get(str(lease.key), 0.0))[:QUESTIONS_PER_CALL])


def _why_gone(lease: Lease, leases: Tuple[Lease, ...], settings: Settings, seen: Observed) -> str:
    """Why this lease without processes on the node may be dropped; empty: it holds."""
    if any(one.key[:2] == lease.key[:2] and one.key.run > lease.key.run for one in leases):
        return "a later run of the job has begun here"
    answer = seen.answers.get(str(lease.key))
    if answer in (LIVE, ENDING):
        return ""
    if answer == GONE:
        return "the batch system says that this run is over"
    if lease.corrupt:
        return ""  # neither its boot nor its age is known
    if lease.boot_id != seen.boot_id:
        return "the node has been booted since, and nothing of the job runs"
    lived = any(key == str(lease.key) for key, _at, _pause in seen.memory.asked)  # when it was asked about last
    if lease.doubtful and not lived and seen.now - lease.began >= settings.mark_life:
        return "its end was reported before its begin, and nothing of it runs"
    return ""


def _asked_next(silent: Tuple[Lease, ...], seen: Observed) -> Tuple[Tuple[str, float, float], ...]:
    """When to ask next: at once for a lease that has just fallen silent, then at doubling intervals while it lives.

    A repair may come between a job's begin and its first process, and the whole job between two repairs. So the first
    answer says nothing about the next repair. Later ones hold for as long as the job has been silent before.
    """
    before = {key: (at, pause) for key, at, pause in seen.memory.asked}
    after: Dict[str, Tuple[float, float]] = {}
    for lease in silent:
        key = str(lease.key)
        due, pause = before.get(key, (seen.now, 0.0))
        if seen.answers.get(key) == LIVE and due <= seen.now:
            since_asked = seen.now - (due - pause)
            pause = min(max(pause * 2, since_asked), LONGEST_PAUSE)
            after[key] = (seen.now + pause, pause)
        elif key in before and seen.answers.get(key) != ENDING:  # that one is asked about at the next repair
            after[key] = before[key]
    rows: List[Tuple[str, float, float]] = [(key, after[key][0], after[key][1]) for key in after]
    return tuple(sorted(rows))


def untold(asked: Tuple[Lease, ...], answers: Mapping[str, str]) -> str:
    """Describe the questions that the batch system has not answered: they are asked again at the next repair."""
    keys = ", ".join(str(lease.key) for lease in asked if str(lease.key) not in answers)
    return "the batch system did not say whether this goes on: " + keys if keys else ""
