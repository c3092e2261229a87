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
import stat
import subprocess
import sys

# Kernel and temporary file systems, logs, caches, package databases, what systemd notes for itself, tests' own parts,
# and where files of PBS come and go meanwhile: its own, and what the hosts of its double share.
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
    "/etc/ld.so.cache",
    "/opt/testbed",
    "/home/ops",
    "/root",
)
# What OpenPBS's own Python, which leaves docstrings out, keeps of the library that a hook has used; ours keeps none.
FILES_OUT = re.compile(r"/usr/lib/python3[^/]*/.*\.opt-2\.pyc")
# Where listings do not look.
SEEN = "/run/listing-seen.json"
UNITS_SEEN = "/run/listing-units-seen.json"
# Units that come and go with logins and timers.
UNITS_OUT = re.compile(
    r"(user|session|run|init|apt-daily|dpkg-db-backup|e2scrub|fstrim|man-db|systemd-(tmpfiles|update|hostnamed|timedated))"
    r"[-@.].*|.*\.(scope|device|slice|mount|swap)"
)
# Counters and what the kernel draws anew.
SYSCTLS_OUT = re.compile(r"/proc/sys/net/(netfilter/nf_conntrack_(count|buckets)|.*/(stable_secret|gc_.*|nf_log.*))")


def files(seen: dict[str, str], *, root: str = "", top: str = "/") -> dict[str, object]:
    """Return the state of everything below a folder of the host whose tree is at `root`, by its name on that host.

    `seen` keeps digests from one listing to the next: reading every file is most of the work.
    """
    found: dict[str, object] = {}
    for place, names, others in os.walk(root + top):
        folder = place[len(root) :]
        names[:] = [name for name in names if not is_left_out(os.path.join(folder, name))]
        for name in [*names, *others]:
            path = os.path.join(folder, name)
            if not is_left_out(path):
                found[path] = state_of(root + path, seen)
    return found


def rest(known: dict[str, dict[str, str]]) -> dict[str, object]:
    """Return what is no file: units, packages and settings of the network. `known` keeps what systemd said of files."""
    return {**_units(known), **_packages(), **_sysctls()}


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


def _packages() -> dict[str, object]:
    form = "${db:Status-Status} ${binary:Package} ${Version}\n"
    rows = _ask("dpkg-query", "-W", "-f", form)
    return {f"package {name}": version for status, name, version in rows if status == "installed"}


def _sysctls() -> dict[str, object]:
    """Of the node's own network; everything else in a container is the machine's."""
    found: dict[str, object] = {}
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
    found = rest(seen) if path == UNITS_SEEN else {**files(seen), **rest({})}
    with open(path, "w") as file:
        json.dump(seen, file)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
