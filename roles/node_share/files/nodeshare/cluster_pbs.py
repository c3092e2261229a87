# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller asks of PBS: who is in control, all jobs in one call, all nodes' states. "Cannot tell" is None.

A vnode's name says nothing certain of its host, which is what Kubernetes knows: pbsnodes tells which vnode is where.
"""

from typing import Any, Callable, Dict, FrozenSet, Mapping, Optional, Tuple

from . import batch_pbs
from .cluster import Jobs
from .cluster_batch import Batch, Run, plain

# A node with one of these is not for jobs now, and not for pods either: whoever set it wants it for himself.
CLOSED = frozenset(
    (
        "offline",
        "down",
        "state-unknown",
        "unresolvable",
        "stale",
        "initializing",
        "maintenance",
        "provisioning",
        "wait-provisioning",
        "sleep",
    )
)


class PbsBatch(Batch):
    """Jobs of `ignored` queues are those of pods: they take nothing from pods, and hold no node against them."""

    def __init__(
        self,
        *,
        run: Run,
        qstat: str,
        pbsnodes: str,
        host: str,
        names: Mapping[str, str],
        remark: Callable[[str], None],
        ignored: FrozenSet[str] = frozenset(),
    ) -> None:
        super().__init__(run=run, host=host, names=names, remark=remark)
        self.qstat = qstat
        self.pbsnodes = pbsnodes
        self.ignored = ignored
        self.hosts: Dict[str, str] = {}  # by vnode, from the last answer

    def in_control(self) -> Optional[bool]:
        """Of several servers the one that is active says its own name."""
        return self.answered((self.qstat, "-B", "-f", "-F", "json"), lambda text: in_control(text, host=self.host))

    def jobs(self) -> Optional[Jobs]:
        found = self.answered((self.qstat, "-t", "-f", "-F", "json"), batch_pbs.jobs)
        if found is None or (not self.hosts and self.states() is None):
            return None
        holding: Dict[str, FrozenSet[str]] = {}
        ending = set()
        for name, job in found.items():
            if job.queue in self.ignored:
                continue
            key = batch_pbs.key_of(name, job)
            if key is not None and job.vnodes and job.state in batch_pbs.HOLDING:
                holding[key] = self.kube_names(self.hosts.get(vnode, vnode) for vnode in job.vnodes)
            elif key is not None and job.state in batch_pbs.EXITING:
                ending.add(key)
        return Jobs(holding, frozenset(ending))

    def states(self) -> Optional[Dict[str, str]]:
        found = self.answered((self.pbsnodes, "-av", "-F", "json"), node_states)
        if found is None:
            return None
        self.hosts, states = found
        return {self.names.get(host, host): state for host, state in states.items()}


def in_control(text: str, *, host: str) -> bool:
    for name, fields in batch_pbs.section(text, "Server", needed=True).items():
        active = str(fields.get("server_host", name))
        return active.partition(".")[0] == host.partition(".")[0]
    return False


def node_states(text: str) -> Tuple[Dict[str, str], Dict[str, str]]:
    """The host of each vnode; and why each host is not for jobs now, or "". One closed vnode closes its host."""
    hosts: Dict[str, str] = {}
    states: Dict[str, str] = {}
    for name, fields in batch_pbs.section(text, "nodes", needed=True).items():
        words = fields.get("state")
        if not isinstance(words, str) or not words:
            raise ValueError("{}: no node with a state".format(ascii(name[:60])))
        hosts[name] = host = _host(name, fields)
        closed = "+".join(sorted(CLOSED.intersection(words.split(","))))
        comment = plain(str(fields.get("comment", ""))[:200])
        state = closed + (": " + comment if closed and comment else "")
        states[host] = states.get(host) or state
    return hosts, states


def _host(name: str, fields: Mapping[str, Any]) -> str:
    available = fields.get("resources_available")
    host = available.get("host") if isinstance(available, dict) else None
    return str(host or fields.get("Mom") or name)
