# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which faults come when: drawn by a seed, so that the same seed gives the same faults at the same moments.

A run is divided into rounds. In a storm pods come and go under faults; in the rest after it nothing happens, so that
the daemon can be asked whether it has put everything right.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

REST_SECONDS: Final = 120.0
ROUND_SECONDS: Final = 360.0
# From this number of rounds up, the daemons live on in the middle half of the run, so that their memory can be judged.
# A leader that loses the API server for 10 s ends, so there is no such fault then either.
CALM_ROUNDS: Final = 10
# The first fault of a lane comes so soon; a leader is left time to work before it is disturbed again.
_GAP: Final = (2.0, 12.0)
_GAP_OF_LEADERS: Final = (20.0, 50.0)
_LASTS: Final = (4.0, 20.0)
# A leader may be frozen for longer than its Lease, and meets another when it goes on.
_FROZEN: Final = (4.0, 45.0)


class Kind(Enum):
    """What goes wrong."""

    API = "API server restarted"
    KILL = "leader killed"
    FREEZE = "leader frozen"
    NOT_READY = "nodes not ready"
    CORDON = "nodes cordoned"
    VANISH = "nodes deleted"
    BUDGET = "evictions refused by a budget"
    DENIED = "evictions refused by admission"


DAEMON: Final = (Kind.API, Kind.KILL, Kind.FREEZE)
SITE: Final = (Kind.NOT_READY, Kind.CORDON, Kind.VANISH, Kind.BUDGET, Kind.DENIED)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: when it begins in the storm, how long it lasts, and the seed by which it chooses nodes."""

    at: float
    kind: Kind
    seconds: float
    seed: int


@dataclass(frozen=True, slots=True)
class Round:
    """A storm of so many seconds with its faults, by lane; the faults of one lane follow each other."""

    storm: float
    lanes: tuple[tuple[Fault, ...], ...]


def plan(seed: int, seconds: float) -> list[Round]:
    """Return the rounds of a run. Raise ValueError if there is no time for a storm and a rest."""
    if seconds < 1.5 * REST_SECONDS:
        raise ValueError(f"{seconds:g} s are too short: a storm and a rest take {1.5 * REST_SECONDS:g} s")
    number = max(1, round(seconds / ROUND_SECONDS))
    storm = seconds / number - REST_SECONDS
    rng = random.Random(seed)
    of_daemon, of_site = _deck(rng, DAEMON), _deck(rng, SITE)
    rounds = []
    for index in range(number):
        calm = number >= CALM_ROUNDS and number <= 4 * index + 2 < 3 * number
        lanes = (
            () if calm else _lane(rng, of_daemon, storm, _GAP_OF_LEADERS),
            _lane(rng, of_site, storm, _GAP),
        )
        rounds.append(Round(storm, lanes))
    return rounds


def _deck(rng: random.Random, kinds: tuple[Kind, ...]) -> Iterator[Kind]:
    """Yield each kind once, then each again in another order, for ever."""
    while True:
        yield from rng.sample(kinds, len(kinds))


def _lane(rng: random.Random, kinds: Iterator[Kind], storm: float, gap: tuple[float, float]) -> tuple[Fault, ...]:
    found: list[Fault] = []
    at = rng.uniform(*_GAP)
    for kind in kinds:
        lasts = rng.uniform(*(_FROZEN if kind is Kind.FREEZE else _LASTS))
        if at + lasts > storm:
            break
        found.append(Fault(at, kind, lasts, rng.randrange(1 << 32)))
        at += lasts + rng.uniform(*gap)
    return tuple(found)
