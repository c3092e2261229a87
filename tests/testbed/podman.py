# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The container engine, with a configuration and a storage of its own.

Own storage, because beds must neither show among a person's containers nor be pruned with them, and
because removing the cache folder must remove everything. Works as root; otherwise through `sudo -n`.
"""

from __future__ import annotations

import json
import os
import resource
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed import namespaces
from testbed.cgroups import Way
from testbed.errors import BedError
from testbed.namespaces import UMASK, MainProcess
from testbed.paths import DEFAULT_CACHE, cache_dir
from testbed.run import Completed, failure, run

# On everything of a bed: its name, and on networks, which all caches share, the cache that the bed is in.
LABEL, CACHE_LABEL = "converged.bed", "converged.cache"
RUN_DIR = Path("/run/converged-hpc")
QUICK = 30.0
SLOW = 120.0
# How often podman is asked for all containers while other beds remove some.
LISTINGS = 20
# By storage and name of the container: what this process knows.
MAIN_PROCESSES: dict[tuple[Path, str], MainProcess] = {}

CONTAINERS_CONF = """\
[containers]
default_ulimits = ["nofile={files}:{files}", "nproc=32768:32768"]
pids_limit = {pids}
log_size_max = 10485760

[engine]
runtime = "{runtime}"
cgroup_manager = "{manager}"
events_logger = "none"
lock_type = "file"
tmp_dir = "{tmp}"

[network]
network_backend = "netavark"
"""

# On cgroup v1, podman mounts the machine's own name=systemd hierarchy over the container's. All systemds would share
# one tree then: each clears what others made, and waits at a stop for processes that are not its own.
OWN_SYSTEMD_HIERARCHY = """\
if grep -q ' /\\.\\.[^ ]* /sys/fs/cgroup/systemd ' /proc/self/mountinfo
then umount /sys/fs/cgroup/systemd/release_agent /sys/fs/cgroup/systemd || exit 1
fi
exec /sbin/init
"""

STORAGE_CONF = """\
[storage]
driver = "overlay"
graphroot = "{graph}"
runroot = "{run}"
"""


@dataclass(frozen=True, slots=True)
class Volume:
    """A folder of the machine inside a container."""

    source: Path
    target: str
    read_only: bool = False

    def argument(self) -> str:
        return f"{self.source}:{self.target}" + (":ro" if self.read_only else "")


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """One container that boots systemd."""

    name: str
    hostname: str
    image: str
    network: str
    ip: str
    known_hosts: tuple[tuple[str, str], ...] = ()
    volumes: tuple[Volume, ...] = ()


@dataclass(frozen=True, slots=True)
class Podman:
    """Podman for containers with cgroups of one `way`; `namespace` is the mount namespace of the private way."""

    way: Way
    namespace: Path | None = None

    def configure(self) -> None:
        """Write the two configuration files; needs root."""
        folder = self.config_dir
        folder.mkdir(parents=True, exist_ok=True)
        conf = CONTAINERS_CONF.format(
            files=min(20000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
            # Only in the private way must the pids controller stay untouched: it is not there.
            pids=0 if self.way is Way.PRIVATE_V2 else 32768,
            # crun refuses hybrid cgroups without CAP_SYS_RESOURCE, runc does not.
            runtime="runc" if self.way is Way.V1 else "crun",
            manager="systemd" if self.way is Way.V2 and Path("/run/systemd/system").exists() else "cgroupfs",
            tmp=self.run_dir / "libpod",
        )
        storage = STORAGE_CONF.format(graph=self.storage_dir, run=self.run_dir / "storage")
        for name, text in (("containers.conf", conf), ("storage.conf", storage)):
            path = folder / name
            if not path.exists() or path.read_text() != text:
                path.with_suffix(".new").write_text(text)
                path.with_suffix(".new").replace(path)

    @property
    def config_dir(self) -> Path:
        """Where the configuration files of this way lie."""
        return cache_dir() / "podman" / self.way.value

    @property
    def run_dir(self) -> Path:
        """What is to be forgotten at the next boot; two storages must not share one."""
        cache = cache_dir()
        mark = "" if cache == Path(DEFAULT_CACHE) else f"-{zlib.crc32(bytes(cache)):08x}"
        return Path(f"{RUN_DIR}{mark}") / self.way.value

    @property
    def storage_dir(self) -> Path:
        """Where images and containers of this way lie."""
        return cache_dir() / "storage" / self.way.value

    def has_storage(self) -> bool:
        """Return whether this way was ever used."""
        return self.storage_dir.exists()

    def argv(self, *arguments: str) -> list[str]:
        """A whole command line, for callers that stream instead of waiting."""
        prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
        if self.namespace is not None:
            prefix += ["nsenter", f"--mount={self.namespace}"]
        variables = [f"CONTAINERS_{which.upper()}" for which in ("conf", "storage_conf")]
        files = ("containers.conf", "storage.conf")
        settings = [f"{variable}={self.config_dir / file}" for variable, file in zip(variables, files, strict=True)]
        return [*prefix, "env", *settings, "podman", *arguments]

    def call(
        self, *arguments: str, timeout: float = QUICK, input: str | bytes | None = None, check: bool = True
    ) -> Completed:
        """Run one podman command."""
        return run(self.argv(*arguments), timeout=timeout, input=input, check=check)

    def create(self, spec: ContainerSpec) -> None:
        """Make a container without starting it, so that files can be put in before it boots."""
        hosts = [f"--add-host={name}:{ip}" for name, ip in spec.known_hosts]
        volumes = [f"--volume={volume.argument()}" for volume in spec.volumes]
        command = ["/bin/sh", "-c", OWN_SYSTEMD_HIERARCHY] if self.way is Way.V1 else ["/sbin/init"]
        self.call(
            *("create", "--name", spec.name, "--hostname", spec.hostname, "--pull", "never"),
            # A bed's network has its name.
            *("--label", f"{LABEL}={spec.network}"),
            *("--systemd", "always", "--privileged", "--cgroupns", "private"),
            *("--network", spec.network, "--ip", spec.ip, *hosts, *volumes, spec.image, *command),
            timeout=SLOW,
        )

    def copy_in(self, container: str, archive: bytes) -> None:
        """Unpack a tar archive at the root of a container, keeping owners; it need not run."""
        self.call("cp", "--archive=false", "-", f"{container}:/", timeout=SLOW, input=archive)

    def start(self, container: str) -> None:
        """Boot a container that `create` made."""
        self.call("start", container, timeout=SLOW)

    def exec(
        self,
        container: str,
        argv: Sequence[str],
        *,
        timeout: float,
        input: str | bytes | None = None,
        check: bool = True,
    ) -> Completed:
        """Run a command as root in a running container; status 255 where the container does not run."""
        what, done = f"{container}: {argv[0]}", Completed(255, "", "the container does not run")
        main = self.main_process(container)
        if main is not None:
            done = run(main.command(argv), timeout=timeout, input=input, check=False, what=what, umask=UMASK)
        if done.rc < 0:
            # nsenter ends by the signal that ended the command; podman tells it as shells do.
            done = Completed(128 - done.rc, done.out, done.err)
        if check and done.rc != 0:
            raise failure(what, done)
        return done

    def main_process(self, container: str) -> MainProcess | None:
        """Return the main process of a container, or None; podman is asked once for each boot of the container."""
        key = (self.storage_dir, container)
        known = MAIN_PROCESSES.get(key)
        if known is None or not known.runs():
            known = namespaces.main_process(self.inspect(container))
        if known is not None:
            MAIN_PROCESSES[key] = known
        return known

    def inspect(self, container: str) -> dict[str, Any] | None:
        """Everything the engine knows of a container, or None where there is no such container."""
        done = self.call("container", "inspect", container, check=False)
        if done.rc != 0:
            if "no such container" in done.err:
                return None
            raise BedError(f"podman container inspect {container}: {done.err.strip()}")
        found: list[dict[str, Any]] = json.loads(done.out)
        return found[0]

    def states(self, prefix: str) -> dict[str, str]:
        """Name → state ("running", "exited", ...) of the containers whose names begin with `prefix`.

        Never of all: those of another bed may live in a mount namespace where this call cannot look.
        """
        listed = self.call("ps", "--all", "--filter", f"name=^{prefix}", "--format", "json").out
        return {name: entry["State"] for entry in json.loads(listed or "[]") for name in entry["Names"]}

    def all_names(self, prefix: str) -> list[str]:
        """Return the names that begin with `prefix` of all containers, those of a killed `create` too."""
        # What is external to podman is listed whatever the filter is.
        listing = ("ps", "--all", "--external", "--filter", f"name=^{prefix}", "--format", "json")
        # podman fails when a container of another bed goes while it looks at each of them.
        for _again in range(LISTINGS):
            done = self.call(*listing, check=False)
            if done.rc == 0 or "container not known" not in done.err:
                break
        if done.rc != 0:
            raise failure("podman ps --all --external", done)
        return [
            name for entry in json.loads(done.out or "[]") for name in entry["Names"] or () if name.startswith(prefix)
        ]

    def rm(self, container: str) -> None:
        """Remove a container whatever its state; none is fine, half-made is fine."""
        self.call("rm", "--force", "--time", "0", "--volumes", "--ignore", container, timeout=SLOW)

    def network_create(self, name: str, *, subnet: str, gateway: str) -> None:
        """A bridge of its own. No name server: names come from /etc/hosts, and one process less has to go."""
        labels = ("--label", f"{LABEL}={name}", "--label", f"{CACHE_LABEL}={cache_dir()}")
        self.call("network", "create", *labels, "--disable-dns", "--subnet", subnet, "--gateway", gateway, name)

    def bridge(self, network: str) -> str:
        """Return the interface of a network on this host; it is there while a container is on it."""
        found: str = json.loads(self.call("network", "inspect", network).out)[0]["network_interface"]
        return found

    def subnet(self, network: str) -> str:
        """Return the subnet of a network of ours, which has one."""
        found: str = json.loads(self.call("network", "inspect", network).out)[0]["subnets"][0]["subnet"]
        return found

    def networks(self, bed: str) -> list[str]:
        """Return the networks of a bed. All storages share them, and another cache may have a bed of that name."""
        found = json.loads(
            self.call("network", "ls", "--filter", f"label={LABEL}={bed}", "--format", "json").out or "[]"
        )
        ours = str(cache_dir())
        return [one["name"] for one in found if one.get("labels", {}).get(CACHE_LABEL, ours) == ours]

    def network_rm(self, name: str) -> None:
        """Remove a network; none is fine."""
        if self.call("network", "exists", name, check=False).rc == 0:
            self.call("network", "rm", "--force", name, timeout=SLOW)
