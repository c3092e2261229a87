# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster with scripts that write down how they were run, and jobs that they see."""

from __future__ import annotations

import functools
import re
import shutil
import tempfile
import time
import typing as t
from pathlib import Path

from torque_double.cluster import HOSTS, OFTEN, SERVER, Answer, Cluster, until

ROOT_NAMES = ("prologue", "prologue.parallel", "epilogue", "epilogue.parallel")
USER_NAMES = (
    *("prologue.user", "prologue.user.parallel", "epilogue.user", "epilogue.user.parallel"),
    "epilogue.precancel",
)
_PURGED_SECONDS = 20.0
MANAGER_PORT = 15003  # by which MoMs speak to each other
# What a script writes before it does anything else: its name, host, identity, arguments and environment.
_RECORD = """\
#!/bin/bash
fds=$(for n in 0 1 2; do [ -e /proc/$$/fd/$n ] && printf '%s=%s ' $n "$(readlink /proc/$$/fd/$n)"; done)
environment=$(env -0 | tr '\\0\\n' '\\036 ')
{{ printf '%s\\0' "$(basename "$0")" "{host}" "$(id -u)" "$PWD" "$fds" "$(umask)" "$environment" "$@"
printf '\\n'; }} >> {log}
{action}
"""


class Ran(t.NamedTuple):
    """One script that ran."""

    name: str
    host: str
    uid: int
    folder: str
    descriptors: dict[str, str]
    umask: str
    environment: dict[str, str]
    arguments: list[str]


class Site:
    """A cluster, its scripts and its jobs."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._folder = Path(tempfile.mkdtemp(prefix="torque-site-"))
        self._folder.chmod(0o755)
        self._log = self._folder / "log"
        self._moms: list[str] = []  # the processes of the MoMs that trusted each other when they were last asked

    def clear(self) -> None:
        """No jobs, no scripts, nothing seen; nodes free and without marks."""
        for name in self.jobs():
            self.cluster.call("qdel", "-p", name)
        until(lambda: not [name for name, job in self.jobs().items() if job["job_state"] != "C"])
        # Before the messages are cleared: a script that is still refused would leave another one.
        self._wait_for_purged_jobs()
        for host in HOSTS:
            self.on(host, "cd $PBS_HOME/mom_priv && rm -rf prologue* epilogue*")
            until(functools.partial(self._clears_its_messages, host))
            self.cluster.call("pbsnodes", "-c", host)
            self.cluster.call("pbsnodes", "-N", "n", host)
        until(lambda: all(state == "free" for state in self.states().values()))
        moms = [self.on(host, "cat $PBS_HOME/mom_priv/mom.lock").out for host in HOSTS]
        if moms != self._moms:
            until(self._moms_trust_each_other)
            self._moms = moms
        self._log.write_text("")
        self._log.chmod(0o666)

    def _clears_its_messages(self, host: str) -> bool:
        """Return whether the MoM did so. One that is dead does not."""
        return self.on(host, "momctl -q clearmsg").rc == 0

    def _wait_for_purged_jobs(self) -> None:
        """Wait until no MoM has a job: qstat shows no purged one, whose epilogue would be that of the next test.

        A real MoM may keep the file of such a job until the server speaks to it, so the wait ends without one, too.
        """
        give_up = time.monotonic() + _PURGED_SECONDS
        while time.monotonic() < give_up and any(self.on(host, "ls $PBS_HOME/mom_priv/jobs").out for host in HOSTS):
            time.sleep(0.1)

    def remove(self) -> None:
        """Remove what its scripts have written."""
        shutil.rmtree(self._folder)

    def _moms_trust_each_other(self) -> bool:
        """Return whether each MoM takes connections of all others: the server tells it their addresses after its start.

        Until then a sister refuses the first host's connection, and the job waits for it without end.
        """
        answers = [self.on(host, "momctl -d 3").out for host in HOSTS]
        trusted = [re.search(r"^Trusted Client List: *(\S+)", answer, re.MULTILINE) for answer in answers]
        return all(found and found[1].count(f":{MANAGER_PORT}") >= len(HOSTS) for found in trusted)

    def configure(self, *lines: str) -> None:
        """Other lines in mom_priv/config of all hosts, which MoMs read when they are started anew."""
        for host in HOSTS:
            self.restart(host, lines=("$usecp *:/ /", f"$pbsserver {SERVER}", OFTEN, *lines))

    def restart(self, host: str, *, how: str = "", lines: t.Sequence[str] = ()) -> None:
        """Kill a MoM and start it again."""
        self.kill(host)
        for number, line in enumerate(lines):
            self.on(host, f"echo '{line}' {'>>' if number else '>'} $PBS_HOME/mom_priv/config")
        until(lambda: self.cluster.on(host, f"pbs_mom {how}").rc == 0)

    def kill(self, host: str) -> None:
        """End a MoM at once, and nothing else."""
        self.on(host, "kill -9 $(cat $PBS_HOME/mom_priv/mom.lock)")

    def on(self, host: str, script: str) -> Answer:
        """A shell script on a host; what it prints."""
        return self.cluster.on(host, script)

    def install(self, name: str, action: str = "", *, hosts: t.Sequence[str] = tuple(HOSTS), mode: int = 0o755) -> None:
        """A script that writes down how it was run, and then does more."""
        for host in hosts:
            path = self._folder / f"{host}.{name}"
            path.write_text(_RECORD.format(host=host, log=self._log, action=action))
            target = f"$PBS_HOME/mom_priv/{name}"
            done = self.on(host, f"cp {path} {target} && chown 0:0 {target} && chmod {mode:o} {target}")
            assert done.rc == 0, done

    def ran(self, job: str) -> list[Ran]:
        """Scripts that have run for a job, in their order."""
        found = []
        for line in self._log.read_text(errors="surrogateescape").split("\n")[:-1]:
            name, host, uid, folder, descriptors, umask, environment, *arguments = line.split("\0")[:-1]
            if arguments[:1] != [job]:
                continue
            found.append(
                Ran(
                    name,
                    host,
                    int(uid),
                    folder,
                    dict(word.split("=", 1) for word in descriptors.split()),
                    umask,
                    dict(pair.split("=", 1) for pair in environment.split("\x1e") if "=" in pair),
                    arguments,
                )
            )
        return found

    def order(self, job: str) -> list[str]:
        """``NAME@HOST`` of all of them."""
        return [f"{each.name}@{each.host}" for each in self.ran(job)]

    def submit(self, script: str, *words: str, user: str = "alice") -> str:
        """The id of a new job without output files."""
        argv = ["qsub", "-o", "/dev/null", "-e", "/dev/null", "-d", "/tmp", *words]
        answer = self.cluster.call(argv[0], *argv[1:], text=f"{script}\n", user=user)
        assert answer.rc == 0, answer
        return answer.out.strip()

    def jobs(self) -> dict[str, dict[str, str]]:
        """All jobs by id, as the manager sees them: names of elements with dots for levels."""
        answer = self.cluster.call("qstat", "-t", "-x")
        assert answer.rc == 0, answer
        return {fields["Job_Id"]: fields for fields in (_fields(text) for text in _split(answer.out, "Job"))}

    def job(self, name: str) -> dict[str, str]:
        """One of them; empty where there is none."""
        return self.jobs().get(name, {})

    def until_state(self, name: str, state: str) -> dict[str, str]:
        """The job, when it is in a state."""
        found: dict[str, str] = until(lambda: {**self.job(name)} if self.job(name).get("job_state") == state else {})
        return found

    def until_ran(self, name: str, *expected: str) -> None:
        """When as many scripts have run: these, in this order."""
        until(lambda: len(self.order(name)) >= len(expected))
        assert self.order(name) == list(expected)

    def nodes(self) -> dict[str, dict[str, str]]:
        """All nodes by name."""
        answer = self.cluster.call("pbsnodes", "-x")
        assert answer.rc == 0, answer
        return {fields["name"]: fields for fields in (_fields(text) for text in _split(answer.out, "Node"))}

    def states(self) -> dict[str, str]:
        """The states of all nodes."""
        return {name: node["state"] for name, node in self.nodes().items()}


def _split(text: str, tag: str) -> list[str]:
    return re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)


def _fields(text: str) -> dict[str, str]:
    """Leaves with their values; a reader for tests, which knows no broken answer."""
    found: dict[str, str] = {}
    levels: list[str] = []
    for close, name, value in re.findall(r"<(/?)([\w.]+)>([^<]*)", text, re.DOTALL):
        if close:
            levels.pop()
        else:
            levels.append(name)
            found[".".join(levels)] = (
                value.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"').replace("&amp;", "&")
            )
    return found
