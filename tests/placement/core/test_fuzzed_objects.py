# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of every kind with odd values anywhere: none stops the scheduler, and good pods are placed afterwards.

They take the whole way, from the text of a watch to decisions: 10^5 in `make soak`, a sample of them in `make test`.
"""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest
from e2e.placement.generated import NODES, Draw, claims, storage_classes
from placement.core.scheduler import Scheduler
from placement.kube.decode.decoder import Decoder
from placement.kube.watch.reflector import Source
from placement.kube.watch.watched_resources import sources
from placement.model.messages.action import Bind
from placement.model.messages.event import Deleted, Unreadable, Upserted
from placement.policy.plugins.configuration import load
from placement_kit.builders import mine, node
from placement_kit.simulated import OURS, Simulated

Json = dict[str, Any]

# Objects that are there at once.
CROWD = 50
LEAST_SHARE = 0.1
CONFIGURATION = """\
actions: "enqueue, allocate, backfill, preempt, reclaim"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
ODD: tuple[Any, ...] = (
    *(None, True, "", "x", "\0", "ü" * 300, "x" * 10_000, [], {}, [None], [[]], {"": None}, {"a": {}}, [{}]),
    *(
        -1,
        0,
        1,
        2**31,
        2**62,
        2**63,
        2**70,
        0.5,
        1e308,
        "1",
        "-1",
        "NaN",
        "1Ei",
        "1e99",
        "9" * 400,
        "100n",
        " 1",
        "1_0",
    ),
    *("In", "Exists", "Always", "default", "q0", "g0", "n0", "Failed", "Running", "2026-01-01T00:00:00Z"),
    *([{"key": "a", "operator": "In"}], {"cpu": "1"}, {"cpu": -1}, {"cpu": {}}, ["a", 1], {"matchLabels": {"a": "b"}}),
)


class Fuzz:
    """Draws objects as the API would send them, and spoils some."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)
        self._draw = Draw(self._random, 0)
        self._serial = itertools.count(1)
        self._sources = [
            (source, Decoder({source.kind: source.reader} if source.reader else None)) for source in sources()
        ]

    def event(self, version: int) -> Upserted | Unreadable:
        """What a watch says of one more object."""
        source, decoder = self._random.choice(self._sources)
        made = self._object(source)
        # Lists and dictionaries of the generator are shared between its objects.
        made = json.loads(json.dumps(made))
        for _unused in range(self._random.choice((0, 1, 1, 2, 5))):
            self._spoil(made)
        identity = {"uid": f"fuzz-{next(self._serial)}", "resourceVersion": str(version)}
        if isinstance(made.get("metadata"), dict):
            made["metadata"] |= identity
        line = json.dumps({"type": "MODIFIED", "object": made}).encode()
        found = decoder.decode_watch_event(source.kind, line)
        assert isinstance(found, Upserted | Unreadable), found
        return found

    def _object(self, source: Source) -> Json:
        """A good object of this kind."""
        name, choice = source.name.partition(".")[0], self._random.choice
        if name == "nodes":
            return self._draw.node(f"n{self._random.randrange(NODES)}")
        if name == "pods":
            made = self._draw.pod(f"p{next(self._serial)}", small=True)
            made["spec"] |= {"schedulerName": choice((OURS, OURS, "other")), "priority": choice((0, 5))}
            made["spec"] |= {"nodeName": f"n{self._random.randrange(NODES)}"} if choice((True, False)) else {}
            made["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": choice(("g0", "g1", "none"))}
            return made | {"status": {"phase": choice(("Pending", "Running", "Failed"))}}
        number, namespace = self._random.randrange(3), "feasible-a"
        metadata: Json = {"name": f"{choice('gqn')}{number}", "namespace": namespace, "labels": {"app": "x"}}
        volumes, found = claims(0, namespace)
        made = {
            "podgroups": lambda: {"spec": self._group()},
            "queues": lambda: {"spec": {"weight": 1, "capability": {"cpu": "4"}, "parent": "q0", "reclaimable": True}},
            "persistentvolumes": lambda: choice(volumes),
            "persistentvolumeclaims": lambda: choice(found),
            "storageclasses": lambda: choice(storage_classes()),
            "csinodes": lambda: {"spec": {"drivers": [{"name": "d", "nodeID": "n", "allocatable": {"count": 1}}]}},
            "noderesourcetopologies": lambda: {
                "zones": [{"name": "node-0", "type": "Node", "resources": [{"name": "cpu", "allocatable": "2"}]}],
                "topologyPolicies": ["Restricted"],
            },
            "resourceslices": lambda: {
                "spec": {
                    "driver": "gpu.example.com",
                    "pool": {"name": choice(("n0", "n1")), "generation": number, "resourceSliceCount": 1},
                    "nodeName": "n0",
                    "devices": [
                        {
                            "name": "gpu-0",
                            "attributes": {"numa": {"int": 1}, "type": {"string": "gpu"}},
                            "capacity": {"memory": {"value": "80Gi"}},
                        }
                    ],
                }
            },
            "priorityclasses": lambda: {"value": 7, "globalDefault": False},
            "poddisruptionbudgets": lambda: {
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
                "status": {"disruptionsAllowed": 1},
            },
        }.get(name, dict)()
        return {"metadata": metadata, **made}

    def _group(self) -> Json:
        least = self._random.choice((1, 3, 100))
        gang = {"schedulingPolicy": {"gang": {"minCount": least}}}
        return {
            "minMember": least,
            "queue": self._random.choice(("", "q0", "q1")),
            "minResources": {"cpu": "1"},
            **gang,
        }

    def _spoil(self, value: Json) -> None:
        """Something anywhere in the object is odd, missing or somewhere else."""
        places: list[tuple[Any, Any]] = []
        left: list[Any] = [value]
        while left:
            inner = left.pop()
            keys = list(inner) if isinstance(inner, dict) else range(len(inner))
            places += [(inner, key) for key in keys]
            left += [inner[key] for key in keys if isinstance(inner[key], dict | list)]
        if not places:
            return
        inner, key = self._random.choice(places)
        what = self._random.random()
        if what < 0.1:
            del inner[key]
        elif what < 0.2:
            other, place = self._random.choice(places)
            inner[key] = json.loads(json.dumps(other[place])) if place in other or isinstance(other, list) else None
        else:
            inner[key] = json.loads(json.dumps(self._random.choice(ODD)))


def settled(scheduler: Scheduler, now: float) -> list[Any]:
    """Everything that is decided until there is nothing left to decide."""
    decided: list[Any] = []
    for _unused in range(1000):
        decision = scheduler.decide(now, lambda: False)
        decided += decision.actions
        if not decision.more:
            return decided
    raise AssertionError("the scheduler does not come to rest")


@pytest.mark.parametrize("number", [2_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_no_object_however_odd_stops_the_scheduler(number: int, chosen: random.Random) -> None:
    fuzz, simulated = Fuzz(str(chosen.random())), Simulated(load(CONFIGURATION, "test"))
    scheduler = simulated.scheduler
    refused = told = 0
    for _unused in range(number // CROWD):
        events = []
        for _unused_too in range(CROWD):
            simulated.version += 1
            events.append(fuzz.event(simulated.version))
            scheduler.apply(events[-1])
        refused += sum(isinstance(event, Unreadable) for event in events)
        simulated.now += 1
        told += len(settled(scheduler, simulated.now))
        for event in events:
            simulated.version += 1
            kind, uid = (
                (type(event.item), event.item.uid) if isinstance(event, Upserted) else (event.kind, event.refusal.uid)
            )
            scheduler.apply(Deleted(kind, uid, simulated.version))
        good, pod = node("good"), mine("good")
        simulated.see(good, pod)
        simulated.now += 1
        bound = [action for action in settled(scheduler, simulated.now) if isinstance(action, Bind)]
        assert [(action.uid, action.node) for action in bound] == [(pod.uid, "good")]
        simulated.gone(good, pod)
    print(f"{number} objects, {refused} of them unreadable, {told} answers and decisions")
    assert LEAST_SHARE < refused / number < 1 - LEAST_SHARE
    assert told > number / CROWD
