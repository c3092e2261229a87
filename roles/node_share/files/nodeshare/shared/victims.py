# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods leave a node for a batch job: which of them never do, and which of the others are chosen. Pure.

nodeshare asks pods to leave on the node itself, the placement daemon on all nodes of a job at once, so both must choose
alike. The lowest priority goes first, and members of gangs after pods that stand alone, from one gang rather than from
two. No more pods go than must.

Pods of DaemonSets and static pods stay. Users write owners and annotations of their pods, so each counts only
together with what users cannot write: a forged one must buy nothing.

One source with copies: edit it in plugins/module_utils/_shared, then type `make shared`. PRIVATE to the collection.
"""

import re
import typing as t

# Users may create pods with this annotation. But nobody can add it later, and a kubelet runs no pod that comes with
# it. So if such a pod runs, its kubelet has made it for a static pod.
MIRROR = "kubernetes.io/config.mirror"
# Of the class system-node-critical, which placeholders have. No kubelet ends a pod of this priority for a placeholder.
NODE_CRITICAL = 2000001000
_OBJECT_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}", re.ASCII)


class Owner(t.NamedTuple):
    """An entry of a pod's ownerReferences."""

    api_version: str
    kind: str
    name: str
    is_controller: bool


class Candidate(t.NamedTuple):
    """A pod that may be asked to leave. Amounts are whole, by resource, in the unit of what is missing."""

    uid: str
    namespace: str
    priority: int
    gang: str  # the name of its gang; empty if it stands alone
    requests: t.Mapping[str, int]
    has_job: bool = False  # of the batch system, which gives a job what others have: it leaves after all others


def is_of_daemon_set(owners: t.Sequence[Owner]) -> bool:
    """Return whether the pod has a DaemonSet as its only owner, by a name that the garbage collector can look up.

    The collector deletes a pod whose owner does not exist. But where the look-up of any owner ends in an error, it
    tries again for ever and deletes nothing. An unknown API does that, and a name that is no name of an object, such as
    a path. The controller of DaemonSets writes one owner.
    """
    if len(owners) != 1:
        return False
    owner = owners[0]
    is_daemon_set = (owner.api_version, owner.kind) == ("apps/v1", "DaemonSet") and owner.is_controller
    return is_daemon_set and _OBJECT_NAME.fullmatch(owner.name) is not None


def select_victims(candidates: t.Iterable[Candidate], missing: t.Mapping[str, int]) -> t.List[str]:
    """Return the uids of pods that must leave before nothing is missing, or of all that would help."""
    left = dict(missing)
    chosen: t.List[Candidate] = []
    for candidate in sorted(_in_order(candidates, missing), key=lambda candidate: candidate.has_job):
        if any(amount > 0 and candidate.requests.get(name) for name, amount in left.items()):
            chosen.append(candidate)
            left = {name: amount - candidate.requests.get(name, 0) for name, amount in left.items()}
    for candidate in reversed(tuple(chosen)):  # a larger one may have made an earlier one needless
        without = {name: amount + candidate.requests.get(name, 0) for name, amount in left.items()}
        if all(amount <= 0 for amount in without.values()):
            chosen.remove(candidate)
            left = without
    return [candidate.uid for candidate in chosen]


def _in_order(candidates: t.Iterable[Candidate], missing: t.Mapping[str, int]) -> t.Iterator[Candidate]:
    """Of equal priority first those that stand alone, then gang by gang; of each those that free most come first."""
    together: t.Dict[t.Tuple[int, str, str, str], t.List[Candidate]] = {}
    for candidate in sorted(candidates, key=lambda candidate: (-_frees([candidate], missing), candidate.uid)):
        gang = (candidate.priority, candidate.namespace, candidate.gang, "" if candidate.gang else candidate.uid)
        together.setdefault(gang, []).append(candidate)

    def order(some: t.List[Candidate]) -> t.Tuple[int, bool, int, int, str]:
        first = some[0]
        return (first.priority, bool(first.gang), -_frees(some, missing), -_frees([first], missing), first.uid)

    for some in sorted(together.values(), key=order):
        yield from some


def _frees(some: t.Sequence[Candidate], missing: t.Mapping[str, int]) -> int:
    """How much of what is missing, in thousandths of it."""
    freed = {name: sum(candidate.requests.get(name, 0) for candidate in some) for name in missing}
    return max((1000 * min(freed[name], amount) // amount for name, amount in missing.items() if amount > 0), default=0)
