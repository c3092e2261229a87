# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host for whole calls of nodeshare: settings on disk, a real API over TLS, and systemd as a file.

Also a program (`python simulated_host.py SETTINGS UNITS POINT ARGUMENT...`), so that tests can run calls as processes
of their own and kill them at a named point.
"""

import json
import os
import signal
import sys

from nodeshare.host.real_host import RealHost
from nodeshare.model import answer
from nodeshare.run import cli, executor

KUBEPODS = (
    ("cpuset/cpuset.cpus", "0-3"),
    ("cpuset/kubepods/cpuset.cpus", "0-3"),
    ("memory/kubepods/memory.limit_in_bytes", str(1 << 33)),
    ("memory/kubepods/memory.usage_in_bytes", "0"),
)


class Systemd:
    """The units that are active, in a file, so that several processes see the same."""

    def __init__(self, path):
        self.path = path
        self.calls = []

    def active(self):
        with open(self.path) as stream:
            return set(json.load(stream))

    def run(self, argv, seconds):
        self.calls.append(argv)
        if argv[0] != "systemctl":
            return answer.Answer(1, "", "slurm_load_jobs error: Invalid job id specified")
        verb, units = argv[1], [word for word in argv[2:] if word.endswith(".service")]
        active = self.active()
        if verb == "is-active":
            out = "".join("{}\n".format("active" if unit in active else "inactive") for unit in units)
            return answer.Answer(0 if active else 3, out, "")
        if verb == "stop":
            active -= set(units)
        elif verb == "start" and "--no-block" not in argv:
            active |= set(units)
        write_whole(self.path, json.dumps(sorted(active)))
        return answer.Answer(0, "", "")


def write_whole(path, text):
    """Replace the file at once: calls that run beside this one read it, and must never find it empty."""
    part = "{}.{}".format(path, os.getpid())
    with open(part, "w") as stream:
        stream.write(text)
    os.replace(part, path)


def make_world(units, top):
    """The real node, with an empty /proc of its own, the cgroups of a kubelet and the given units."""
    proc = os.path.join(top, "proc")
    for path in ("sys/kernel/random", "1", "self"):
        os.makedirs(os.path.join(proc, path), exist_ok=True)
    open(os.path.join(proc, "self/mountinfo"), "a").close()
    write_whole(os.path.join(proc, "sys/kernel/random/boot_id"), "boot\n")
    write_whole(os.path.join(proc, "1/stat"), "1 (init) S 0 " + " ".join(["0"] * 18) + " 0\n")
    for path, text in KUBEPODS:  # as a kubelet has made them, and no call of before has changed them
        path = os.path.join(top, "cgroup", path)
        if not os.path.exists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as stream:
                stream.write(text + "\n")
    return lambda settings: RealHost(settings, proc=proc, cgroup=os.path.join(top, "cgroup"), run=Systemd(units).run)


def run_and_kill(settings, units, point, arguments):
    """A call whose process kills itself when it comes to that point."""

    class Mortal(executor.Executor):
        def __init__(self, **how):
            super().__init__(at_point=kill_at, **how)

    def kill_at(name):
        if name == point:
            os.kill(os.getpid(), signal.SIGKILL)

    if point:
        cli.Executor = Mortal
    return cli.main(["--settings", settings, *arguments], make_world=make_world(units, os.path.dirname(units)))


if __name__ == "__main__":
    sys.exit(run_and_kill(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]))
