# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hook of the collection on a cluster, with the real nodeshare or one that writes down how it was called."""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

from pbs_double.cluster import HOSTS, Answer, until
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


class Shared(Installed):
    """The hook with the real nodeshare, whose hosts have no pods and know no Kubernetes."""

    def start(self) -> None:
        for path, text in (("sys/kernel/random/boot_id", "boot"), ("1/stat", "1 (init) " + "0 " * 30)):
            (self.folder / "proc" / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / "proc" / path).write_text(text)
        self.make("converged", 200)
        self.set(enabled=True)

    def tell_of_jobs(self) -> None:
        """nodeshare may ask PBS which jobs there are; without this it has no program to ask."""
        ask = 'PBS_CONF_FILE="$PBS_CONF_FILE" exec "$(command -v qstat)" "\\$@"'
        for host in HOSTS:
            path = self.folder / f"{host}.qstat"
            script = f"cat > {path} <<END\n#!/bin/sh\n{ask}\nEND\nchmod 755 {path}"
            assert self.pbs.on(host, script).rc == 0

    def set(self, *, enabled: bool, **changes: t.Any) -> None:
        self.argv = [sys.executable, "-IS", str(HERE / "nodeshare_here.py"), str(self.folder)]
        flag = self.folder / ("enabled" if enabled else "not-enabled")
        (self.folder / "enabled").touch()
        self.configure("converged", {"nodeshare": self.argv, "enabled": str(flag), **changes})

    def on(self, host: str, *words: str) -> str:
        return self._call(host, *words).out

    def said(self, host: str, *words: str) -> str:
        """The line of that call."""
        return self._call(host, *words).err

    def _call(self, host: str, *words: str) -> Answer:
        answer = self.pbs.on(host, " ".join([*self.argv, *words]))
        assert answer.rc == 0, answer
        return answer

    def repair(self, host: str) -> bool:
        """By what PBS says, as a MoM may list a job for a while after its end; always true."""
        self.pbs.on(host, "touch -d @0 $PBS_HOME/mom_priv/jobs/*.JB")
        return self.on(host, "repair") == ""

    def leases(self, host: str) -> list[str]:
        found = json.loads(self.on(host, "show", "--json"))["leases"]
        return [f"{lease['job']} of {lease['run']}: {lease['cores']} {lease['memory']}" for lease in found]


def share(job: str, *, cpus: int = 1, mem: int | None = 104857600) -> str:
    return f"cpus={cpus}{'' if mem is None else f' mem={mem}'} cgroup=pbs_jobs.service/jobid/{job}"
