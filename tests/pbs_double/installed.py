# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hook on a cluster, and jobs that it sees."""

from __future__ import annotations

import functools
import json
import typing as t
from pathlib import Path

from pbs_double.cluster import HOSTS, Cluster, until

_EVENTS = (
    *("execjob_begin", "execjob_end", "execjob_abort", "execjob_preterm", "execjob_postsuspend"),
    *("execjob_preresume", "exechost_startup", "exechost_periodic"),
)
_ATTRIBUTES = {
    "event": f'"{",".join(_EVENTS)}"',
    "freq": "3600",
    "alarm": "300",
    "fail_action": '"offline_vnodes,clear_vnodes_upon_recovery"',
}
Record = dict[str, t.Any]


class Installed:
    """Hooks of one program, and jobs that they see."""

    def __init__(self, pbs: Cluster, folder: Path, program: Path) -> None:
        self.pbs = pbs
        self.folder = folder
        self._program = program

    def make(self, name: str, order: int) -> None:
        """A hook that all hosts get with its first configuration."""
        words = [f"create hook {name}", f"set hook {name} order = {order}"]
        words += [f"set hook {name} {key} = {value}" for key, value in _ATTRIBUTES.items()]
        for command in [*words, f"import hook {name} application/x-python default {self._program}"]:
            assert self.pbs.call("qmgr", "-c", command).rc == 0, command

    def configure(self, name: str, content: t.Mapping[str, t.Any]) -> None:
        """All hosts have it when this returns."""
        config = self.folder / f"{name}.json"
        config.write_text(json.dumps(content))
        self.pbs.call("qmgr", "-c", f"import hook {name} application/x-config default {config}")
        folder = "$PBS_HOME/mom_priv/hooks"
        for host in HOSTS:
            same = f"cmp {folder}/{name}.CF {config} && cmp {folder}/{name}.PY {self._program}"
            until(functools.partial(self._holds, host, same))

    def set_alarm(self, name: str, seconds: int) -> None:
        """How long it may run, on all hosts."""
        assert self.pbs.call("qmgr", "-c", f"set hook {name} alarm = {seconds}").rc == 0
        same = f"grep -qx alarm={seconds} $PBS_HOME/mom_priv/hooks/{name}.HK"
        for host in HOSTS:
            until(functools.partial(self._holds, host, same))

    def make_often(self, name: str, of: str) -> None:
        """What hook `of` does, every second and without a job: MoM waits for the end of a period that it has begun."""
        words = [f"create hook {name}", f"set hook {name} event = exechost_periodic", f"set hook {name} freq = 1"]
        words += [f"import hook {name} application/x-config default {self.folder}/{of}.json"]
        words += [f"import hook {name} application/x-python default {self._program}"]
        words += [f"set hook {name} event -= periodic"]  # the server's own, which `freq` has brought
        for command in words:
            self.pbs.call("qmgr", "-c", command)

    def remove(self, name: str) -> None:
        """It is not asked any more."""
        assert self.pbs.call("qmgr", "-c", f"delete hook {name}").rc == 0

    def _holds(self, host: str, condition: str) -> bool:
        return self.pbs.on(host, condition).rc == 0

    def submit(self, *words: str) -> str:
        """The id of a new job."""
        answer = self.pbs.call("qsub", "-o", "/dev/null", "-e", "/dev/null", *words)
        assert answer.rc == 0, answer.err
        return answer.out.strip()

    def job(self, name: str) -> Record:
        """A job, also when it is over."""
        found: Record = json.loads(self.pbs.call("qstat", "-x", "-f", "-F", "json", name).out)["Jobs"][name]
        return found

    def node(self, name: str) -> Record:
        """A node."""
        found: Record = json.loads(self.pbs.call("pbsnodes", "-F", "json", name).out)["nodes"][name]
        return found

    def until_runs(self, name: str, count: int = 1) -> None:
        """It has its session, at this attempt."""
        until(lambda: (self.job(name)["substate"], self.job(name).get("run_count")) == (42, count))

    def end_jobs(self) -> None:
        """None is left, and none of their hooks runs any more."""

        def over() -> bool:
            names = list(json.loads(self.pbs.call("qstat", "-f", "-F", "json").out).get("Jobs", {}))
            self.pbs.call("qdel", *names)
            return not names

        until(over)
