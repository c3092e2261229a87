# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What pods leave behind on a node that leaves its cluster, found by name: processes, mounts, links, iptables chains.

Everything is read from what the kernel says, and only what can be pods' alone is touched.
Parsing is pure; `Sweep` acts.

PRIVATE to the collection.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import time
import typing as t

from ... import _command

KUBELET_STATE = "/var/lib/kubelet"
MOUNT_PREFIXES = (f"{KUBELET_STATE}/", "/run/containerd/io.containerd", "/run/netns/cni-", "/var/run/netns/cni-")
NAMESPACE_FOLDER = "/run/netns"
CGROUPS, SLICE = "/sys/fs/cgroup", "kubepods.slice"
CHAINS = ("KUBE-", "CNI-")
_KUBERNETES_SHIM = re.compile(r"(?:^|/)containerd-shim[^\0]*\0(?:.*\0)?-namespace\0k8s\.io\0", re.DOTALL)
_OCTAL = re.compile(r"\\([0-7]{3})")
_QUICK = 30.0
_END_SECONDS = 10.0


def is_of_pods(command: str, cgroup: str) -> bool:
    """Return whether a process is a shim of Kubernetes' containerd namespace, or anything below kubepods."""
    return bool(_KUBERNETES_SHIM.search(command)) or any("/kubepods" in line for line in cgroup.splitlines())


def mounts_of_pods(mountinfo: str, prefixes: t.Sequence[str] = MOUNT_PREFIXES) -> t.List[str]:
    """Return mount points of pods, the last mounted first."""
    points = [_OCTAL.sub(lambda match: chr(int(match.group(1), 8)), line.split()[4]) for line in mountinfo.splitlines()]
    return [point for point in reversed(points) if point.startswith(tuple(prefixes))]


def without_chains(saved: str) -> t.Tuple[str, t.List[str]]:
    """Turn output of `iptables-save` into input for `iptables-restore --noflush`, and name the chains it removes."""
    out: t.List[str] = []
    names: t.List[str] = []
    table, ours, rules = "", [], []
    for line in saved.splitlines():
        if line.startswith("*"):
            table, ours, rules = line, [], []
        elif line.startswith(":") and line[1:].startswith(CHAINS):
            ours.append(line[1:].split()[0])
        elif line.startswith("-A "):
            rules.append(line)
        elif line == "COMMIT" and ours:
            jumps = [rule for rule in rules if rule.split()[1] not in ours and _target(rule) in ours]
            out += [table, *(f"-D{rule[2:]}" for rule in jumps)]
            out += [*(f"-F {name}" for name in ours), *(f"-X {name}" for name in ours), line]
            names += [f"{table[1:]} {name}" for name in ours]
    return "".join(f"{line}\n" for line in out), names


def _target(rule: str) -> str:
    match = re.search(r" -[jg] (\S+)", rule)
    return match.group(1) if match else ""


class Sweep:
    """Removes leftovers and says which; `check` only says. What cannot be removed is `left`, with the reason."""

    def __init__(self, *, check: bool) -> None:
        self.check = check
        self.removed: t.List[str] = []
        self.left: t.List[str] = []

    def processes(self) -> None:
        """Kill processes of pods: pods had their grace when they were stopped."""
        pids = self._pids()
        if not pids:
            return
        self.removed.append(f"{len(pids)} processes of pods and their shims")
        deadline = time.monotonic() + _END_SECONDS
        while pids and not self.check:
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.1)
            pids = self._pids()
            if time.monotonic() > deadline:
                self.left += [f"process {pid}: does not end" for pid in pids]
                return

    def cgroups(self, root: str = CGROUPS) -> None:
        """Remove the kubelet's cgroups, which no process is in any more: systemd's units, or plain directories."""
        hierarchies = [root, *(f"{root}/{name}" for name in _names(root) if not os.path.islink(f"{root}/{name}"))]
        if any(os.path.isdir(f"{hierarchy}/{SLICE}") for hierarchy in hierarchies):
            self._do(f"unit {SLICE}", ["systemctl", "stop", "--", SLICE])
        for hierarchy in hierarchies:
            # Of cgroup v1 systemd removes the directories of its own hierarchy alone.
            for name in ("kubepods",) if self.check else ("kubepods", SLICE):
                if os.path.isdir(f"{hierarchy}/{name}"):
                    self._cgroup(f"{hierarchy}/{name}")

    def _cgroup(self, top: str) -> None:
        folders = [folder for folder, _below, _files in os.walk(top, topdown=False)]
        try:
            for folder in folders if not self.check else ():
                os.rmdir(folder)
            self.removed.append(f"cgroup {top}")
        except OSError as error:
            self.left.append(f"cgroup {folder}: {error.strerror}")

    def mounts(self) -> None:
        prefixes = [*MOUNT_PREFIXES, f"{os.path.realpath(KUBELET_STATE)}/"]  # sites make it a link to a larger disk
        for point in mounts_of_pods(_text("/proc/self/mountinfo"), prefixes):
            self._do(f"mount {point}", ["umount", "--", point])
        for name in _names(NAMESPACE_FOLDER):
            if name.startswith("cni-"):
                self._file(f"{NAMESPACE_FOLDER}/{name}")

    def links(self, names: t.Iterable[str]) -> None:
        for name in names:
            if os.path.exists(f"/sys/class/net/{name}"):
                self._do(f"network link {name}", ["ip", "link", "delete", name])

    def chains(self) -> None:
        for family in ("iptables", "ip6tables"):
            if shutil.which(f"{family}-save", path=_command.PATH) is None:
                continue
            try:
                text, names = without_chains(_command.run([f"{family}-save"], timeout=_QUICK).out)
                if names and not self.check:
                    _command.run([f"{family}-restore", "--noflush"], timeout=_QUICK, text=text)
            except _command.CommandError as error:
                self.left.append(f"{family} chains: {error}")
                continue
            self.removed += [f"{family} chain {name}" for name in names]

    def contents(self, folder: str) -> None:
        """Remove all in a directory that is on its own file system; what is mounted in it stays and is named."""
        for name in _names(folder):
            path = f"{folder}/{name}"
            before = len(self.left)
            self.removed.append(path)
            if not self.check:
                self._tree(path, os.stat(folder).st_dev)
            if len(self.left) > before:
                self.removed.remove(path)

    def _tree(self, path: str, device: int) -> None:
        state = os.lstat(path)
        if state.st_dev != device:
            self.left.append(f"{path}: something is mounted there")
            return
        if stat.S_ISDIR(state.st_mode):
            for name in _names(path):
                self._tree(f"{path}/{name}", device)
        try:
            os.rmdir(path) if stat.S_ISDIR(state.st_mode) else os.unlink(path)
        except OSError as error:
            self.left.append(f"{path}: {error.strerror}")

    def file(self, path: str) -> None:
        if os.path.lexists(path):
            self._file(path)

    def _file(self, path: str) -> None:
        try:
            if not self.check:
                os.unlink(path)
            self.removed.append(path)
        except OSError as error:
            self.left.append(f"{path}: {error.strerror}")

    def _do(self, what: str, argv: t.Sequence[str]) -> None:
        try:
            if not self.check:
                _command.run(argv, timeout=_QUICK)
            self.removed.append(what)
        except _command.CommandError as error:
            self.left.append(f"{what}: {error}")

    def _pids(self) -> t.List[int]:
        found = []
        for name in _names("/proc"):
            if name.isdigit() and is_of_pods(_text(f"/proc/{name}/cmdline"), _text(f"/proc/{name}/cgroup")):
                found.append(int(name))
        return found


def _names(folder: str) -> t.List[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _text(path: str) -> str:
    """Read a file of /proc; return nothing for a process that is gone by now."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""
