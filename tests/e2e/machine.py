# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at the machine from outside the test bed: what a bed consists of, and what of it is still there.

It does not use the bed's own record, because that record is what is being tested. Runs as root: tests
that are not root call it as a program.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))

from testbed.cgroups import Way  # noqa: E402
from testbed.paths import bed_dir, cache_dir, locks_dir  # noqa: E402
from testbed.podman import Podman  # noqa: E402
from testbed.run import run  # noqa: E402

# What the kernel itself changes all the time.
VOLATILE = (
    *("fs.dentry-state", "fs.file-nr", "fs.inode-nr", "fs.inode-state", "fs.aio-nr", "fs.quota", "kernel.ns_last_pid"),
    *("kernel.pty.nr", "kernel.random", "kernel.tainted", "net.netfilter.nf_conntrack_count", "kernel.perf_event_max"),
)
# They come and go with the interfaces of other beds.
PER_INTERFACE = ("net.ipv4.conf.", "net.ipv4.neigh.", "net.ipv6.conf.", "net.ipv6.neigh.", "net.mpls.conf.")


def ask(*arguments: str, known: dict[str, Any] | None = None) -> Any:
    """Run this file as root and return what it says; what is `known` of a bed travels apart from the command line."""
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    variables = [f"{name}={os.environ[name]}" for name in ("CONVERGED_CACHE", "PATH") if name in os.environ]
    command = [*prefix, "env", "PYTHONDONTWRITEBYTECODE=1", *variables, sys.executable, __file__, *arguments]
    return json.loads(run(command, timeout=60, input=json.dumps(known)).out)


def facts(name: str) -> dict[str, Any]:
    """Everything by which the parts of a bed, half-made ones too, can be recognised later."""
    found: dict[str, Any] = {"name": name, "containers": [], "ids": [], "namespaces": [], "pid_namespaces": []}
    found["main"] = {}
    for podman in engines():
        listed = podman.call("ps", "--all", "--filter", f"name=^{name}-", "--format", "json").out
        for entry in json.loads(listed or "[]"):
            found["containers"].append(entry["Names"][0])
            found["ids"].append(entry["Id"])
            inspected = podman.inspect(entry["Id"]) or {}
            found["namespaces"].append(inspected.get("NetworkSettings", {}).get("SandboxKey", ""))
            if pid := inspected.get("State", {}).get("Pid"):
                found["pid_namespaces"].append(os.readlink(f"/proc/{pid}/ns/pid"))
                found["main"][entry["Id"]] = pid
    network = run(["podman", "network", "inspect", name], timeout=30, check=False)
    for one in json.loads(network.out) if network.rc == 0 else []:
        found["bridge"], found["subnet"] = one["network_interface"], one["subnets"][0]["subnet"]
    return found


def engines() -> list[Podman]:
    """Podman as beds use it whose containers can be seen from here; those of the private way live in a namespace."""
    return [Podman(way) for way in (Way.V1, Way.V2) if Podman(way).storage_dir.exists()]


def leftovers(known: dict[str, Any]) -> list[str]:
    """What is still there of a bed, in words."""
    name, ids = known["name"], known["ids"]
    found = [f"folder {bed_dir(name)}"] if bed_dir(name).exists() else []
    found += [f"namespace {path}" for path in known["namespaces"] if path and Path(path).exists()]
    for podman in engines():
        # podman does not filter containers of which only the storage is there: another bed may be making some.
        named = podman.call("ps", "--all", "--external", "--format", "{{.Names}}").out.split()
        found += [f"container {one}" for one in named if one.startswith(f"{name}-")]
        found += [f"storage of {one}" for one in ids if (podman.storage_dir / "overlay-containers" / one).exists()]
    if run(["podman", "network", "exists", name], timeout=30, check=False).rc == 0:
        found.append(f"network {name}")
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    found += [f"mount {line}" for line in mounts if any(mark in line for mark in (*ids, f"{bed_dir(name)}/"))]
    links = json.loads(run(["ip", "-json", "link"], timeout=10).out)
    bridge = known.get("bridge", "none")
    found += [f"link {one['ifname']}" for one in links if bridge in (one["ifname"], one.get("master"))]
    rules = run(["iptables-save"], timeout=30, check=False).out.splitlines()
    found += [f"firewall rule {line}" for line in rules if known.get("subnet", "none") in line]
    found += [f"cgroup {path}" for path in cgroups() if any(one in path.name for one in ids)]
    return found + [f"process {one}" for one in processes(known)]


def cgroups() -> list[Path]:
    """The cgroups of all containers, of every v1 controller and of v2. Those of other beds come and go meanwhile."""
    root = Path("/sys/fs/cgroup")
    parents = [root / "libpod_parent", *(folder / "libpod_parent" for folder in root.iterdir())]
    return [parent / name for parent in parents if parent.is_dir() for name in os.listdir(parent)]


def processes(known: dict[str, Any]) -> list[str]:
    """Processes that run in the bed's containers, or watch over them."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            groups = (folder / "cgroup").read_text()
            # The kernel gives the number of a namespace that is gone to a new one, so to another bed's container.
            stray = "libpod-" not in groups and os.readlink(folder / "ns/pid") in known["pid_namespaces"]
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if stray or any(one in groups or one in command for one in known["ids"]):
            found.append(f"{folder.name} {command}")
    return found


def strand(subnet: str) -> None:
    """Leave a chain for a subnet in the firewall, as the engine does now and then when the last container goes."""
    chain = "NETAVARK-STRANDED"
    for words in (
        ["-N", chain],
        ["-A", chain, "-d", subnet, "-j", "ACCEPT"],
        ["-A", "POSTROUTING", "-s", subnet, "-j", chain],
    ):
        run(["iptables", "--wait", "20", "--table", "nat", *words], timeout=60)


def sysctls() -> dict[str, str]:
    """All settings of the machine that do not change by themselves."""
    listed = subprocess.run(["sysctl", "-a"], capture_output=True, text=True, timeout=30, check=False).stdout
    pairs = (line.split(" = ", 1) for line in listed.splitlines() if " = " in line)
    return {key: value for key, value in pairs if not key.startswith((*VOLATILE, *PER_INTERFACE))}


def holders() -> list[str]:
    """Return the beds for which the machine's settings are kept as they are."""
    store = cache_dir() / "sysctls.json"
    found: list[str] = json.loads(store.read_text())["beds"] if store.exists() else []
    return found


def processor(name: str) -> float:
    """Return the processor seconds that everything in a bed's containers has taken, by their cgroups."""
    return sum(usage(known) for known in facts(name)["main"].items())


def usage(main: tuple[str, int]) -> float:
    """Return the processor seconds of one container, by its identity and the number of its first process."""
    identity, pid = main
    places = [line.split(":", 2)[1:] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    for controllers, path in places:
        # systemd moves itself deeper; all of the container is at the part that has its name.
        own = re.sub(rf"({identity}[^/]*)/.*", r"\1", path)
        if "cpuacct" in controllers.split(","):
            return int(Path(f"/sys/fs/cgroup/{controllers}{own}/cpuacct.usage").read_text()) / 1e9
        if not controllers and len(places) == 1:
            rows = Path(f"/sys/fs/cgroup{own}/cpu.stat").read_text().splitlines()
            return int(dict(row.split() for row in rows)["usage_usec"]) / 1e6
    raise SystemExit(f"no accounting of processor time for process {pid}")


def signal_holder(name: str, number: int) -> int:
    """Send a signal to whoever works on a bed right now, as the lock says."""
    holder = int((locks_dir() / f"bed-{name}.lock").read_text())
    os.kill(holder, number)
    return holder


def main(arguments: list[str]) -> Any:
    """The questions that `ask` puts."""
    match arguments:
        case ["facts", name]:
            return facts(name)
        case ["leftovers"]:
            return leftovers(json.load(sys.stdin))
        case ["strand", subnet]:
            return strand(subnet)
        case ["sysctls"]:
            return sysctls()
        case ["holders"]:
            return holders()
        case ["processor", name]:
            return processor(name)
        case ["signal", name, number]:
            return signal_holder(name, int(number))
    raise SystemExit(2)


if __name__ == "__main__":
    json.dump(main(sys.argv[1:]), sys.stdout)
