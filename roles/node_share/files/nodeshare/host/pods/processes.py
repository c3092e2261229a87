# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds and ends the processes of pods, without asking kubelet or runtime: these may be stopped, and pods run on.

Two traces are followed. Processes in a pod's cgroup, which stay there whatever becomes of their shim; and
descendants of a shim, which are found where containers have no cgroup of their own. Neither alone finds them all.
"""

import contextlib
import json
import os
import re
import signal
import time
from typing import Dict, FrozenSet, Iterator, List, NamedTuple, Optional, Set, Tuple

from ..cgroups import kubepods

HIERARCHIES = ("", "memory", "cpu", "cpuset", "pids", "systemd", "unified")
SHIM_NAMES = ("containerd-shim", "conmon")
_POD = re.compile(
    r"(?:.*-)?pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})"
    r"(?:\.slice)?",
    re.ASCII,
)


class Process(NamedTuple):
    pid: int
    parent: int
    name: str
    state: str


class Workload(NamedTuple):
    """The processes of one pod. `inits` are what a runtime would send SIGTERM to."""

    pids: FrozenSet[int]
    inits: FrozenSet[int]
    shims: FrozenSet[int]


class Workloads:
    """`proc`, `cgroup` and `bundles` are where the kernel and containerd show what runs."""

    def __init__(
        self,
        *,
        proc: str = "/proc",
        cgroup: str = "/sys/fs/cgroup",
        bundles: str = "/run/containerd/io.containerd.runtime.v2.task/k8s.io",
    ) -> None:
        self.proc = proc
        self.cgroup = cgroup
        self.bundles = bundles

    def find(self) -> Dict[str, Workload]:
        """Pod uid -> its processes. A shim whose pod cannot be told stands under a name of its own."""
        pids: Dict[str, Set[int]] = {}
        inits: Dict[str, Set[int]] = {}
        shims: Dict[str, Set[int]] = {}
        processes = self._processes()
        for hierarchy in HIERARCHIES:
            for uid, directory in self._pod_cgroups((hierarchy,)):
                members = {
                    pid
                    for pid in _numbers(os.path.join(directory, "cgroup.procs"))
                    if pid in processes and processes[pid].state != "Z"
                }
                pids.setdefault(uid, set()).update(members)
            if any(pids.values()):
                break  # each process is in every hierarchy; only where none is found, all of them must say so
        children: Dict[int, List[Process]] = {}
        for process in processes.values():
            children.setdefault(process.parent, []).append(process)
        for shim in processes.values():
            sandbox = self._sandbox(shim)
            if sandbox is None:
                continue
            below = [process for process in _descendants(shim.pid, children) if process.state != "Z"]
            uid = self._pod_of(below, sandbox)
            if below:
                pids.setdefault(uid, set()).update(process.pid for process in below)
                inits.setdefault(uid, set()).update(
                    process.pid for process in below if process.parent == shim.pid and process.name != "pause"
                )
                shims.setdefault(uid, set()).add(shim.pid)
        return {
            uid: Workload(frozenset(pids[uid]), frozenset(inits.get(uid) or pids[uid]), frozenset(shims.get(uid, ())))
            for uid in pids
            if pids[uid]
        }

    def terminate(self, uids: Tuple[str, ...]) -> None:
        found = self.find()
        for uid in uids:
            if uid in found:
                _signal(found[uid].inits, signal.SIGTERM)

    def kill(self, uids: Tuple[str, ...], *, seconds: float) -> None:
        """SIGKILL until nothing is left: a process that forks is met again. Shims only where no runtime minds them.

        Frozen by cgroup v1, a process does not even die. A runtime freezes a container to kill all of it, and may have
        been killed itself, by us too, before it thawed it.
        """
        shims: Set[int] = set()
        give_up = time.monotonic() + seconds
        while True:
            found = self.find()
            left = [found[uid] for uid in uids if uid in found]
            if not left or time.monotonic() > give_up:
                break
            for uid, directory in self._pod_cgroups(("",)):
                if uid in uids:
                    _write(os.path.join(directory, "cgroup.kill"), "1")  # cgroup v2, kernel 5.14 and later
            for workload in left:
                _signal(workload.pids, signal.SIGKILL)
                shims.update(workload.shims)
            for uid, directory in self._pod_cgroups(("freezer",)):
                if uid in uids:
                    _write(os.path.join(directory, "freezer.state"), "THAWED")
            time.sleep(0.02)
        if not any(process.name == "containerd" for process in self._processes().values()):
            _signal(frozenset(shims), signal.SIGKILL)

    def _pod_cgroups(self, hierarchies: Tuple[str, ...]) -> Iterator[Tuple[str, str]]:
        """(uid, directory) for every cgroup at and below a pod's, in these hierarchies."""
        for top in kubepods.tops(self.cgroup, hierarchies):
            for directory, _names, _files in os.walk(top):
                uid = uid_in(os.path.relpath(directory, top))
                if uid:
                    yield uid, directory

    def _processes(self) -> Dict[int, Process]:
        found = {}
        for name in os.listdir(self.proc):
            if name.isdigit():
                process = self._process(name)
                if process is not None:
                    found[process.pid] = process
        return found

    def _process(self, name: str) -> Optional[Process]:
        text = _read(os.path.join(self.proc, name, "stat"))
        opening, closing = text.find("("), text.rfind(")")  # the name may hold anything, brackets too
        rest = text[closing + 1 :].split()
        if opening < 0 or len(rest) < 2:
            return None  # ended meanwhile
        return Process(int(name), int(rest[1]), text[opening + 1 : closing], rest[0])

    def _sandbox(self, process: Process) -> Optional[str]:
        """Return the sandbox id of a shim of Kubernetes; None for anything else, another client's shim included."""
        if not process.name.startswith(SHIM_NAMES) or not is_of_our_user(self.proc, process.pid):
            return None  # a batch user may give his own processes any name and any arguments
        arguments = _read(os.path.join(self.proc, str(process.pid), "cmdline")).split("\0")
        pairs = dict(zip(arguments, arguments[1:]))
        if process.name.startswith("conmon"):
            # CRI-O names containers as the kubelet does; Podman, by which batch jobs run some of theirs, does not
            return pairs.get("-c") if pairs.get("-n", "").startswith("k8s_") else None
        return pairs.get("-id") if pairs.get("-namespace") == "k8s.io" else None

    def _pod_of(self, below: List[Process], sandbox: str) -> str:
        for process in below:
            for line in _read(os.path.join(self.proc, str(process.pid), "cgroup")).splitlines():
                uid = uid_in(line.split(":", 2)[-1])
                if uid:
                    return uid
        if re.fullmatch(r"[0-9A-Za-z_.-]{1,128}", sandbox, re.ASCII) and sandbox not in (".", ".."):
            try:
                bundle = json.loads(_read(os.path.join(self.bundles, sandbox, "config.json")))
                return str(bundle["annotations"]["io.kubernetes.cri.sandbox-uid"])
            except (ValueError, KeyError, TypeError):
                pass  # the bundle is gone or of another runtime: the name below serves as well
        return "sandbox-" + sandbox


def is_of_our_user(proc: str, pid: int) -> bool:
    """By the real user id, which a program that is setuid does not change."""
    status = _read(os.path.join(proc, str(pid), "status"))
    return re.search(r"^Uid:\t{}\t".format(os.getuid()), status, re.MULTILINE) is not None


def uid_in(path: str) -> str:
    """Return the uid of the pod to which a cgroup of this path belongs; empty: to none."""
    for part in path.split("/"):
        found = _POD.fullmatch(part)
        if found:
            return found.group(1).replace("_", "-")
    return ""


def _descendants(pid: int, children: Dict[int, List[Process]]) -> Iterator[Process]:
    waiting, met = [pid], {pid}
    while waiting:
        for process in children.get(waiting.pop(), ()):
            if process.pid not in met:
                met.add(process.pid)
                waiting.append(process.pid)
                yield process


def _signal(pids: FrozenSet[int], number: int) -> None:
    for pid in pids:
        if pid > 1:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read(1 << 20)
    except OSError:
        return ""  # a process that ended between listing and reading is no news


def _numbers(path: str) -> List[int]:
    return [int(word) for word in _read(path).split() if word.isdigit()]


def _write(path: str, text: str) -> None:
    try:
        with open(path, "r+") as stream:
            stream.write(text)
    except OSError:
        pass  # not cgroup v2, an older kernel, or gone: the signals do it
