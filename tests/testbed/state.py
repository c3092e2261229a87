# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bed is, written down before anything of it is made.

The record survives a kill at any point: every write is a new file, synced and renamed. It says that there is a bed and
what it was asked to be; what the bed has on the machine is found on the machine (see `down`).
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from testbed.cgroups import Way
from testbed.errors import BedError
from testbed.paths import bed_dir, beds_dir, locks_dir
from testbed.progress import say

FORMAT = 1
ANNOUNCE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Host:
    """One container or machine of a bed. `name` is its host name inside the bed and its Slurm NodeName."""

    name: str
    role: str  # node, controller or kube
    container: str  # the name of the container, or of the machine
    ip: str
    machine: bool = False  # a virtual machine, not a container


@dataclass(frozen=True, slots=True)
class Bed:
    """One test bed: what was asked for, and the names and addresses that follow."""

    name: str
    debian: int
    way: Way
    image: str
    subnet: str
    gateway: str
    hosts: tuple[Host, ...]
    wlm: str  # slurm, pbs, torque or none
    slurm_conf: str  # local, shared or configless
    slurmdbd: bool
    kube: bool
    uid: int  # who asked: owns the ssh key and the kubeconfig
    complete: bool = False  # everything came up
    pbs_exec: str = ""  # where the OpenPBS is that PBS is here; nowhere for its double
    vm: bool = False  # nodes are virtual machines
    security: str = ""  # of machines: selinux, or Debian's own choice

    @property
    def dir(self) -> Path:
        """The bed's own folder."""
        return bed_dir(self.name)

    @property
    def network(self) -> str:
        """The podman network."""
        return self.name

    @property
    def nodes(self) -> tuple[Host, ...]:
        """The batch nodes."""
        return tuple(host for host in self.hosts if host.role == "node")

    @property
    def controllers(self) -> tuple[Host, ...]:
        """The batch controllers, primary first."""
        return tuple(host for host in self.hosts if host.role == "controller")

    @property
    def node_way(self) -> Way:
        """How nodes get their cgroups: a machine has version 2 alone, whatever the containers beside it have."""
        return Way.V2 if self.vm else self.way

    @property
    def known_hosts(self) -> tuple[tuple[str, str], ...]:
        """Name → address of every host, for /etc/hosts."""
        return tuple((host.name, host.ip) for host in self.hosts)

    def host(self, name: str) -> Host:
        """The host of that name; the container's name is accepted too."""
        for host in self.hosts:
            if name in (host.name, host.container):
                return host
        raise BedError(f"bed '{self.name}' has no host '{name}'; it has {' '.join(host.name for host in self.hosts)}")

    def to_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "way": self.way.value}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Bed:
        hosts = tuple(Host(**_known(Host, host)) for host in data["hosts"])
        return cls(**{**_known(cls, data), "way": Way(data["way"]), "hosts": hosts})


def _known(kind: type[Host | Bed], data: dict[str, Any]) -> dict[str, Any]:
    """Without what only another checkout has there, as its beds stand beside ours."""
    return {field.name: data[field.name] for field in dataclasses.fields(kind) if field.name in data}


@dataclass(frozen=True, slots=True)
class BedStore:
    """Reads and writes the record of one bed. Writers hold `lock`."""

    name: str

    @property
    def path(self) -> Path:
        return bed_dir(self.name) / "state.json"

    def load(self) -> Bed | None:
        """Return the bed on record, or None where there is no such bed."""
        advice = f"take the bed down, which needs no record for that: testbed down {self.name}"
        try:
            data = json.loads(self.path.read_text())
            if data.get("format") != FORMAT:
                raise BedError(f"{self.path}: format {data.get('format')}, expected {FORMAT}; {advice}")
            return Bed.from_json(data["bed"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BedError(f"{self.path}: no record of a bed ({error}); {advice}") from None

    def existing(self) -> Bed:
        """Return a bed that must be there."""
        bed = self.load()
        if bed is None:
            have = ", ".join(bed_names()) or "none"
            raise BedError(f"no bed '{self.name}' (there are: {have}); bring it up with: testbed up --name {self.name}")
        return bed

    def save(self, bed: Bed) -> None:
        """Replace the record in one step that survives a crash."""
        # An older checkout takes a bed down by a list of its things.
        things = [("sysctls", bed.name), ("network", bed.network), *(("container", one.container) for one in bed.hosts)]
        listed = [{"kind": kind, "name": name} for kind, name in things]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_synced(self.path, json.dumps({"format": FORMAT, "bed": bed.to_json(), "things": listed}, indent=1) + "\n")

    @contextmanager
    def lock(self, *, timeout: float = 5.0) -> Iterator[None]:
        """Only one process changes a bed at a time."""
        with file_lock(f"bed-{self.name}", timeout=timeout, what=f"bed '{self.name}'"):
            yield


def bed_names() -> list[str]:
    """The beds that exist, half-made ones included."""
    return sorted(path.parent.name for path in beds_dir().glob("*/state.json"))


def write_synced(path: Path, text: str) -> None:
    """Write a file so that after a crash it holds the old text or the new, whole."""
    fresh = path.with_name(f".{path.name}.new")
    with fresh.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def file_lock(name: str, *, timeout: float, what: str) -> Iterator[None]:
    """Hold an exclusive lock. After a kill or a failure it ends with the last command that its holder has started.

    Commands inherit the open file: the next holder knows that nothing is still being made. A holder that has done its
    work gives the lock back itself, because commands that other threads have started meanwhile inherit it as well.
    """
    locks_dir().mkdir(parents=True, exist_ok=True)
    path = locks_dir() / f"{name}.lock"
    with path.open("a+") as file:
        os.set_inheritable(file.fileno(), True)
        deadline = time.monotonic() + timeout
        announce = min(deadline, time.monotonic() + ANNOUNCE_SECONDS)
        while not try_lock(file):
            file.seek(0)
            holder = file.read().strip() or "unknown"
            if time.monotonic() >= deadline:
                raise BedError(f"{what}: process {holder} is working on it; wait for its end")
            if time.monotonic() >= announce:
                say(f"  ..  {what}: waiting for process {holder}")
                announce = deadline
            time.sleep(0.1)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
        fcntl.flock(file, fcntl.LOCK_UN)


def try_lock(file: IO[str]) -> bool:
    """Whether the lock is ours now."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
