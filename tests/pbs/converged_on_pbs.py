# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hook of the collection on a cluster, with a nodeshare that writes down how it was called."""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

from pbs_double.cluster import HOSTS, until
from pbs_double.installed import Installed

HERE = Path(__file__).resolve().parent
PROGRAM = HERE.parents[1] / "roles/pbs_share/files/converged_hook.py"


class Told(Installed):
    """The hook with a nodeshare that writes down how it was called."""

    def start(self, **changes: t.Any) -> None:
        """Nothing has been called, and all is accepted."""
        self.log = self.folder / "calls"
        self.log.unlink(missing_ok=True)
        for host in HOSTS:
            self.answer(host)
        (self.folder / "enabled").touch()
        stub = [sys.executable, "-IS", str(HERE / "nodeshare_stub.py"), str(self.folder)]
        self.configure("converged", {"nodeshare": stub, "enabled": str(self.folder / "enabled"), **changes})

    def answer(self, host: str, code: int = 0, seconds: float = 0) -> None:
        new = self.folder / "new"
        new.write_text(f"{code} {seconds}")
        new.replace(self.folder / host)

    def calls(self, job: str) -> list[str]:
        """`VERB@HOST of RUN` in their order, with what the job takes there."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []
        found = []
        for host, words in lines:
            verb, *options = words
            given = dict(option.lstrip("-").partition("=")[::2] for option in options)
            if given.get("job") == job:
                assert given["wlm"] == "pbs"
                taken = [f"{name}={given[name]}" for name in ("cpus", "mem", "device", "cgroup") if name in given]
                taken += ["exclusive"] if "exclusive" in given else []
                found.append(" ".join([f"{verb}@{host} of {given['run']}", *taken]))
        return found

    def until_called(self, job: str, *expected: str) -> None:
        """So often, and so; hosts do not wait for each other."""
        until(lambda: len(self.calls(job)) >= len(expected))
        assert sorted(self.calls(job)) == sorted(expected)

    def said(self, host: str, job: str) -> list[str]:
        """The hook's lines in the MoM's log."""
        lines = self.pbs.on(host, "cat $PBS_HOME/mom_logs/*").out.splitlines()
        return [line.partition(";converged: ")[2] for line in lines if f";Job;{job};converged: " in line]


def share(job: str, *, cpus: int = 1, mem: int | None = 104857600) -> str:
    return f"cpus={cpus}{'' if mem is None else f' mem={mem}'} cgroup=pbs_jobs.service/jobid/{job}"
