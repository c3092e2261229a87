# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything on a node, as JSON: what a proof of the way back compares. Knows nothing of the record.

Run on the node: `python3 - < listing.py` lists all, and `python3 - rest` all but files, which `upper_layer.py` finds
from outside. Left out, because they change by themselves or belong to the kernel and not to the node: see OUT,
FILES_OUT, UNITS_OUT, SYSCTLS_OUT. A directory's own time is left out: it tells of what came and went in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Collection

# Kernel and temporary file systems, logs, caches, package databases, what systemd notes for itself, tests' own parts,
# and where files of PBS and Torque come and go meanwhile: their own, and what the hosts of their doubles share.
OUT = (
    "/proc",
    "/sys",
    "/dev",
    "/run",
    "/tmp",
    "/var/tmp",
    "/var/log",
    "/var/cache",
    "/var/lib/apt",
    "/var/lib/dpkg",
    "/var/lib/systemd",
    "/var/lib/private",
    "/var/spool/pbs",
    "/var/spool/pbs-cluster",
    "/var/spool/torque",
    "/var/spool/torque-cluster",
    "/etc/ld.so.cache",
    "/opt/testbed",
    "/home/ops",
    "/root",
)
# What OpenPBS's own Python, which leaves docstrings out, keeps of the library that a hook has used; ours keeps none.
FILES_OUT = re.compile(r"/usr/lib/python3[^/]*/.*\.opt-2\.pyc")
MOUNTINFO = "/proc/self/mountinfo"
# Where listings do not look.
SEEN = "/run/listing-seen.json"
UNITS_SEEN = "/run/listing-units-seen.json"
# Units that come and go with logins and timers.
UNITS_OUT = re.compile(
    r"(user|session|run|init|apt-daily|dpkg-db-backup|e2scrub|fstrim|man-db|systemd-(tmpfiles|update|hostnamed|timedated))"
    r"[-@.].*|.*\.(scope|device|slice|mount|swap)"
)
# What a kubelet sets, and each node of a bed has for itself (`testbed.sysctls.OF_NODES`).
SYSCTLS_OF_KUBELETS = (
    *("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops"),
    *("kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"),
)
# Mounts that come and go with logins and with units.
MOUNTS_OUT = re.compile(r"/run/(user|credentials)/.*")
# What package managers keep of packages beside their files.
OF_PACKAGES = ("/var/lib/dpkg/info", "/var/lib/dpkg/alternatives", "/var/lib/systemd/deb-systemd-helper-enabled")
# Counters and what the kernel draws anew.
SYSCTLS_OUT = re.compile(r"/proc/sys/net/(netfilter/nf_conntrack_(count|buckets)|.*/(stable_secret|gc_.*|nf_log.*))")


def files(
    seen: dict[str, str], *, root: str = "", top: str = "/", automounts: Collection[str] = ()
) -> dict[str, object]:
    """Return the state of everything below a folder of the host whose tree is at `root`, by its name on that host.

    `seen` keeps digests from one listing to the next: reading every file is most of the work. Nothing looks into an
    automount, which a look would mount.
    """
    found: dict[str, object] = {}
    for place, names, others in os.walk(root + top):
        folder = place[len(root) :]
        paths = {name: os.path.join(folder, name) for name in names}
        names[:] = [name for name, path in paths.items() if not is_left_out(path) and path not in automounts]
        for name in [*names, *others]:
            path = os.path.join(folder, name)
            if not is_left_out(path):
                found[path] = state_of(root + path, seen)
    return found


def rest(known: dict[str, dict[str, str]]) -> dict[str, object]:
    """Return what is no file: units, packages, mounts and settings. `known` keeps what systemd said of files."""
    return {**_units(known), **packages(), **_mounts(), **_sysctls()}


def is_left_out(path: str) -> bool:
    """Return whether listings leave a path out, and with it all that is below."""
    return path in OUT or FILES_OUT.fullmatch(path) is not None


def difference(before: dict[str, object], after: dict[str, object]) -> dict[str, list[object]]:
    """Return what is not the same, by name: its state before and after."""
    both = ((name, [found.get(name, "nothing") for found in (before, after)]) for name in sorted({*before, *after}))
    return {name: states for name, states in both if states[0] != states[1]}


def state_of(path: str, seen: dict[str, str]) -> list[object]:
    """Return what a file is: kind, content or target, mode, owner, attributes, and the time of its content."""
    state = os.lstat(path)
    if stat.S_ISLNK(state.st_mode):
        return ["link", os.readlink(path), state.st_uid, state.st_gid]
    attributes = {name: os.getxattr(path, name).hex() for name in sorted(os.listxattr(path))}
    owner = [oct(stat.S_IMODE(state.st_mode)), state.st_uid, state.st_gid, attributes]
    if not stat.S_ISREG(state.st_mode):
        return [oct(stat.S_IFMT(state.st_mode)), *owner]
    stamp = f"{state.st_dev} {state.st_ino} {state.st_size} {state.st_mtime_ns} {state.st_ctime_ns}"
    if stamp not in seen:
        with open(path, "rb") as file:
            seen[stamp] = hashlib.sha256(file.read()).hexdigest()
    return ["file", seen[stamp], *owner, state.st_mtime_ns]


def _ask(*argv: str) -> list[list[str]]:
    out = subprocess.run(argv, stdout=subprocess.PIPE, check=True, timeout=240).stdout.decode()
    return [line.split() for line in out.splitlines() if line.strip()]


def _units(known: dict[str, dict[str, str]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, load, active, *_ in _ask("systemctl", "list-units", "--all", "--plain", "--no-legend"):
        # Whether systemd has read a unit that does not run is no property of the node.
        if not UNITS_OUT.fullmatch(name) and active != "inactive":
            found[f"unit {name}"] = [load, active]
    stamp = _unit_folders()
    if stamp not in known:
        rows = _ask("systemctl", "list-unit-files", "--plain", "--no-legend")
        known[stamp] = {f"unit file {name}": enabled for name, enabled, *_ in rows if not UNITS_OUT.fullmatch(name)}
    return {**found, **known[stamp]}


def _unit_folders() -> str:
    """Return a digest of the files from which systemd tells what is enabled, which takes systemd 0.4 s."""
    (folders,) = _ask("systemctl", "show", "--property=UnitPath", "--value")
    digest = hashlib.sha256()
    for top in folders:
        for folder, names, others in os.walk(top):
            names.sort()
            for name in sorted([*names, *others]):
                path = os.path.join(folder, name)
                digest.update(repr((path, os.readlink(path) if os.path.islink(path) else "")).encode())
                if os.path.isfile(path):
                    with open(path, "rb") as file:
                        digest.update(hashlib.sha256(file.read()).digest())
    return digest.hexdigest()


def packages() -> dict[str, object]:
    """Return every package in whatever state, as `dpkg -l` or `rpm -qa` shows it, and what is kept of packages."""
    if shutil.which("dpkg-query"):
        rows = _ask("dpkg-query", "-W", "-f", "${db:Status-Abbrev} ${binary:Package} ${Version}\n")
    else:
        rows = _ask("rpm", "-qa", "--queryformat", "installed %{NAME}.%{ARCH} %{VERSION}-%{RELEASE}\n")
    found: dict[str, object] = {f"package {name}": [status, *version] for status, name, *version in rows}
    kept = [os.path.join(top, name) for folder in OF_PACKAGES for top, _, names in os.walk(folder) for name in names]
    return {**found, **{f"of packages {path}": "is there" for path in kept}}


def _mounts() -> dict[str, object]:
    """What is mounted where, one over the other, without looking into any of it."""
    with open(MOUNTINFO) as file:
        return mounts(file.read())


def mounts(mountinfo: str) -> dict[str, object]:
    """Return what is mounted where: root, type and source of each mount, the lowest first."""
    found: dict[str, list[object]] = {}
    for line in mountinfo.splitlines():
        first, _, second = line.partition(" - ")
        root, point = first.split()[3:5]
        if not MOUNTS_OUT.fullmatch(point):
            found.setdefault(f"mount {point}", []).append([root, *second.split()[:2]])
    return dict(found)


def automounts_of(mountinfo: str) -> set[str]:
    """Return where a look mounts something, whether it has done so by now or not."""
    split = [line.partition(" - ") for line in mountinfo.splitlines()]
    return {_decoded(first.split()[4]) for first, _, second in split if second.split()[0] == "autofs"}


def _decoded(word: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), word)


def _sysctls() -> dict[str, object]:
    """Of the node's own network and of what a bed gives to each node; all else in a container is the machine's."""
    found: dict[str, object] = {}
    in_a_container = os.path.exists("/run/.containerenv")
    for name in SYSCTLS_OF_KUBELETS:
        if not in_a_container or os.path.ismount(f"/proc/sys/{name}"):
            with open(f"/proc/sys/{name}") as file:
                found[f"sysctl {name}"] = file.read()
    for folder, _, files in os.walk("/proc/sys/net"):
        for name in files:
            path = os.path.join(folder, name)
            if SYSCTLS_OUT.fullmatch(path) or not os.stat(path).st_mode & stat.S_IRUSR:
                continue
            try:
                with open(path, "rb") as file:
                    found[f"sysctl {path}"] = file.read().decode("latin-1")
            except OSError as error:
                found[f"sysctl {path}"] = error.strerror
    return found


def main() -> None:
    """Print what is asked for as JSON, with the digests of what an earlier listing on this host has read."""
    path, seen = (UNITS_SEEN, {}) if sys.argv[1:] == ["rest"] else (SEEN, {})
    if os.path.exists(path):
        with open(path) as file:
            seen = json.load(file)
    with open(MOUNTINFO) as file:
        automounts = automounts_of(file.read())
    found = rest(seen) if path == UNITS_SEEN else {**files(seen, automounts=automounts), **rest({})}
    with open(path, "w") as file:
        json.dump(seen, file)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
