# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node in a temporary directory: real files, and systemd, apt and the kernel as far as the record speaks to them.

`Mortal` dies at the n-th effect, as kill -9 would: before it, and from then on nothing more is done.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import typing as t
from dataclasses import dataclass, field

from ansible_collections.converged.hpc.plugins.module_utils._command import Completed
from ansible_collections.converged.hpc.plugins.module_utils._record.host.host import Host
from ansible_collections.converged.hpc.plugins.module_utils._record.model.errors import RecordError

ETC_UNITS = "/etc/systemd/system"
LIB_UNITS = "/usr/lib/systemd/system"
MOUNTINFO = "/proc/self/mountinfo"
# A directory on the root file system, which is a volume: what is mounted there from itself has the same root.
MOUNTED = "/var/lib/kubelet"
EFFECTS = (
    "open_lock",
    "make_file",
    "append",
    "set_owner",
    "set_link_owner",
    "set_mode",
    "set_xattr",
    "remove_xattr",
    "set_mtime",
    "rename",
    "publish",
    "make_link",
    "make_directory",
    "remove",
    "remove_directory",
    "sync_directory",
    "write_value",
    "run",
)


class Killed(BaseException):
    """The process is gone."""


@dataclass
class Package:
    """What a repository offers."""

    name: str
    files: t.Dict[str, str] = field(default_factory=dict)
    conffiles: t.Dict[str, str] = field(default_factory=dict)
    needs: t.Tuple[str, ...] = ()


@dataclass
class World:
    """What is in no file: it outlives a killed process."""

    root: str
    running: t.Set[str] = field(default_factory=set)
    failed: t.Set[str] = field(default_factory=set)
    loaded_units: t.Dict[str, str] = field(default_factory=dict)
    installed: t.Set[str] = field(default_factory=set)
    configured: t.Set[str] = field(default_factory=set)  # packages that were removed and not purged
    tables: t.Dict[str, t.Dict[str, bool]] = field(default_factory=dict)  # nftables: table -> chain -> holds a rule
    changes_the_node: str = (
        ""  # a unit that, as a kubelet, changes settings, mounts and the packet filter when it starts
    )
    unpacked: t.Set[str] = field(default_factory=set)  # what dpkg had not ended when it was killed
    half: t.Set[str] = field(default_factory=set)  # what dpkg was unpacking when it was killed
    offered: t.Dict[str, Package] = field(default_factory=dict)
    log: t.List[str] = field(default_factory=list)

    def at(self, path: str) -> str:
        return self.root + path

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """As the site would."""
        os.makedirs(os.path.dirname(self.at(path)), exist_ok=True)
        with open(self.at(path), "w", encoding="utf-8", newline="") as file:
            file.write(text)
        os.chmod(self.at(path), mode)

    def text(self, path: str) -> str:
        with open(self.at(path), encoding="utf-8", newline="") as file:
            return file.read()

    def unit_file(self, name: str) -> str:
        for folder in (ETC_UNITS, LIB_UNITS):
            path = f"{folder}/{name}"
            if os.path.lexists(self.at(path)):
                return path
        return ""

    def fragment(self, name: str) -> str:
        """A digest of a unit's files as they are now."""
        total = hashlib.sha256()
        path = self.unit_file(name)
        drop_ins = f"{ETC_UNITS}/{name}.d"
        found = [path] if path else []
        if os.path.isdir(self.at(drop_ins)):
            found += [
                f"{drop_ins}/{inner}" for inner in sorted(os.listdir(self.at(drop_ins))) if inner.endswith(".conf")
            ]
        for file in found:
            total.update(file.encode() + b"\0")
            total.update(
                os.readlink(self.at(file)).encode() if os.path.islink(self.at(file)) else self.text(file).encode()
            )
        return total.hexdigest() if found else ""

    def wants(self, name: str) -> str:
        return f"{ETC_UNITS}/multi-user.target.wants/{name}"

    def enable(self, name: str) -> None:
        os.makedirs(os.path.dirname(self.at(self.wants(name))), exist_ok=True)
        if not os.path.lexists(self.at(self.wants(name))):
            os.symlink(self.unit_file(name), self.at(self.wants(name)))

    def disable(self, name: str) -> None:
        if os.path.lexists(self.at(self.wants(name))):
            os.unlink(self.at(self.wants(name)))
            if not os.listdir(os.path.dirname(self.at(self.wants(name)))):
                os.rmdir(os.path.dirname(self.at(self.wants(name))))

    def listing(self) -> t.Dict[str, t.Any]:
        """Everything: files with owner, mode, time, attributes; units, packages."""
        found: t.Dict[str, t.Any] = {}
        for folder, names, files in os.walk(self.root):
            for name in [*names, *files]:
                full = os.path.join(folder, name)
                found[full[len(self.root) :]] = _describe(full)
        found["running"], found["installed"] = sorted(self.running), sorted(self.installed)
        found["failed"] = sorted(self.failed)
        found["configured"] = sorted(self.configured)
        found["tables"] = {table: sorted(chains) for table, chains in sorted(self.tables.items())}
        return found

    def change_the_node(self) -> None:
        """As a kubelet does that starts."""
        self.write("/proc/sys/kernel/panic", "10\n")
        if self.text(MOUNTINFO).count(f" {MOUNTED} ") == 0:
            root = f"/volume{MOUNTED}"
            self.write(MOUNTINFO, self.text(MOUNTINFO) + f"40 1 8:1 {root} {MOUNTED} rw - ext4 /dev/sda1 rw\n")
        self.tables.setdefault("ip filter", {}).setdefault("INPUT", False)
        self.tables.setdefault("ip mangle", {})


def _describe(full: str) -> t.Tuple[t.Any, ...]:
    state = os.lstat(full)
    if stat.S_ISLNK(state.st_mode):
        return ("link", os.readlink(full))
    owner = (stat.S_IMODE(state.st_mode), state.st_uid, state.st_gid)
    xattrs = tuple((name, os.getxattr(full, name)) for name in sorted(os.listxattr(full)))
    if stat.S_ISDIR(state.st_mode):
        return ("directory", *owner, xattrs)
    with open(full, "rb") as file:
        content = file.read()
    time = None if "/proc/" in full else state.st_mtime_ns
    return ("file", content, *owner, xattrs, time)


class FakeNode(Host):
    """A host whose programs are simulated on a `World`."""

    def __init__(self, world: World) -> None:
        super().__init__(world.root)
        self.world = world

    def ask(self, argv: t.Sequence[str], *, timeout: float = 60, ok: t.Container[int] = (0,)) -> Completed:
        del timeout
        return self._answer(argv, ok)

    def run(
        self,
        argv: t.Sequence[str],
        *,
        timeout: float,
        env: t.Optional[t.Mapping[str, str]] = None,
        ok: t.Container[int] = (0,),
    ) -> Completed:
        del timeout, env
        self.world.log.append(" ".join(argv))
        return self._answer(argv, ok)

    def write_value(self, path: str, value: str) -> None:
        with open(self.at(path), "w", encoding="ascii") as file:
            file.write(value + "\n")

    def _answer(self, argv: t.Sequence[str], ok: t.Container[int]) -> Completed:
        words = [word for word in argv if word != "--"]
        rc, out = getattr(self, "_" + words[0].replace("-", "_"))(words[1:])
        if rc not in ok:
            raise RecordError(f"{' '.join(argv)}: exit status {rc}: {out}")
        return Completed(tuple(argv), rc, out, "")

    def _true(self, words: t.Sequence[str]) -> t.Tuple[int, str]:
        return 0, ""

    def _check(self, words: t.Sequence[str]) -> t.Tuple[int, str]:
        """A validator: refuses what says so."""
        return (1, "line 1: bad") if b"bad" in self.read(words[0]) else (0, "")

    def _systemctl(self, words: t.Sequence[str]) -> t.Tuple[int, str]:
        verb, names = words[0], list(words[1:])
        if verb == "show":
            return 0, "\n\n".join(self._show(name) for name in names[2:])
        if verb == "daemon-reload":
            self.world.loaded_units = {name: self.world.fragment(name) for name in self.world.loaded_units}
            return 0, ""
        return getattr(self, "_unit_" + verb.replace("-", "_"))(names[0])

    def _show(self, name: str) -> str:
        path = self.world.unit_file(name)
        masked = bool(path) and os.path.islink(self.at(path)) and os.readlink(self.at(path)) == "/dev/null"
        if path and name not in self.world.loaded_units:
            self.world.loaded_units[name] = self.world.fragment(name)
        stale = self.world.loaded_units.get(name, "") != self.world.fragment(name)
        state = "active" if name in self.world.running else "failed" if name in self.world.failed else "inactive"
        enabled = "" if not path else "masked" if masked else "disabled"
        if os.path.lexists(self.at(self.world.wants(name))):
            enabled = "enabled"
        load = "not-found" if not path else "masked" if masked else "loaded"
        return (
            f"LoadState={load}\nActiveState={state}\nUnitFileState={enabled}\n"
            f"NeedDaemonReload={'yes' if stale else 'no'}\nType=simple\nRemainAfterExit=no"
        )

    def _systemd_analyze(self, words: t.Sequence[str]) -> t.Tuple[int, str]:
        return 0, "Conditions succeeded."

    def _unit_start(self, name: str) -> t.Tuple[int, str]:
        if not self.world.unit_file(name):
            return 5, f"Unit {name} not found."
        self.world.failed.discard(name)
        self.world.running.add(name)
        if name == self.world.changes_the_node:
            self.world.change_the_node()
        return 0, ""

    _unit_restart = _unit_start

    def _unit_stop(self, name: str) -> t.Tuple[int, str]:
        self.world.running.discard(name)
        return 0, ""

    def _unit_enable(self, name: str) -> t.Tuple[int, str]:
        self.world.enable(name)
        return 0, ""

    def _unit_disable(self, name: str) -> t.Tuple[int, str]:
        self.world.disable(name)
        return 0, ""

    def _unit_reset_failed(self, name: str) -> t.Tuple[int, str]:
        self.world.failed.discard(name)
        return 0, ""

    def _dpkg_query(self, words: t.Sequence[str]) -> t.Tuple[int, str]:
        if any("Conffiles" in word for word in words):
            known = [name for name in words[3:] if name in self.world.installed | self.world.configured]
            return 0, "".join(f"{name}\n{self._conffiles(self.world.offered[name])}\n" for name in known)
        lines = [f"installed {name} 1.0" for name in sorted(self.world.installed)]
        lines += [f"unpacked {name} 1.0" for name in sorted(self.world.unpacked)]
        lines += [f"half-installed {name} 1.0" for name in sorted(self.world.half)]
        lines += [f"config-files {name} 1.0" for name in sorted(self.world.configured)]
        return 0, "\n".join(lines) + "\n"

    def _conffiles(self, package: Package) -> str:
        digests = {path: hashlib.md5(text.encode()).hexdigest() for path, text in package.conffiles.items()}
        return "".join(f"\n {path} {digest}" for path, digest in digests.items())

    def _nft(self, words: t.Sequence[str]) -> t.Tuple[int, str]:
        if words[0] != "--json":
            return self._nft_transaction([line.split() for line in words[0].split("; ")])
        items: t.List[t.Dict[str, t.Any]] = [{"metainfo": {"version": "1.0.6"}}]
        for table, chains in self.world.tables.items():
            family, name = table.split()
            items.append({"table": {"family": family, "name": name}})
            for chain, holds in chains.items():
                place = {"family": family, "table": name}
                items.append({"chain": {**place, "name": chain, "hook": chain.lower(), "policy": "accept"}})
                items += [{"rule": {**place, "chain": chain}}] if holds else []
        return 0, json.dumps({"nftables": items})

    def _nft_transaction(self, lines: t.Sequence[t.Sequence[str]]) -> t.Tuple[int, str]:
        for _delete, kind, family, table, *chain in lines:
            chains = self.world.tables[f"{family} {table}"]
            if kind == "table":
                del self.world.tables[f"{family} {table}"]
            elif chains.pop(chain[0]):
                return 1, "Device or resource busy"
        return 0, ""

    def _umount(self, words: t.Sequence[str]) -> t.Tuple[int, str]:
        lines = self.world.text(MOUNTINFO).splitlines(keepends=True)
        last = max((at for at, line in enumerate(lines) if line.split()[4] == words[0]), default=-1)
        if last < 0:
            return 32, "not mounted"
        self.world.write(MOUNTINFO, "".join(lines[:last] + lines[last + 1 :]))
        return 0, ""

    def _dpkg(self, words: t.Sequence[str]) -> t.Tuple[int, str]:
        verb = next(word for word in words if word in ("--configure", "--remove", "--purge"))
        if verb == "--configure":
            self.world.installed |= self.world.unpacked
            self.world.unpacked.clear()
            return 0, ""
        names = set(words[words.index(verb) + 1 :])
        half = sorted(names & self.world.half)
        said = [f"dpkg: error processing package {name} ({verb}):\n package is in a very bad state" for name in half]
        going = names & (self.world.installed | self.world.unpacked)
        while True:
            users = self._users(going)
            if not users:
                break
            said += [
                f"dpkg: dependency problems prevent removal of {name}:\n {users[name]} depends on {name}."
                for name in users
            ]
            going -= set(users)
        for name in sorted(going) if "--dry-run" not in words else []:
            self._take_away(self.world.offered[name])
        for name in sorted(names & self.world.configured) if verb == "--purge" else []:
            self._purge(self.world.offered[name])
        return int(bool(said)), "\n".join(said)

    def _users(self, going: t.AbstractSet[str]) -> t.Dict[str, str]:
        """Return which of these packages one needs that stays, and which that is."""
        staying = sorted((self.world.installed | self.world.unpacked) - going)
        return {name: other for other in staying for name in self.world.offered[other].needs if name in going}

    def _apt_get(self, words: t.Sequence[str]) -> t.Tuple[int, str]:
        if words[-1] == "check":
            return 0, ""
        lost = sorted(self.world.half - set(self.world.offered))
        if lost:
            return 100, f"E: The package {lost[0]} needs to be reinstalled, but I can't find an archive for it."
        simulate = "-s" in words
        names = [name.split("=")[0] for name in words[words.index("install") + 1 :]]
        for name in names:
            if name not in self.world.offered:
                return 100, f"E: Unable to locate package {name}"
        coming = [name for name in self._with_needs(names) if name not in self.world.installed]
        coming += sorted(self.world.half - set(coming))
        if simulate:
            was = dict.fromkeys(self.world.half, " [1.0]")
            return 0, "".join(f"Inst {name}{was.get(name, '')} (1.0 local [all])\n" for name in coming)
        for name in coming:
            self._unpack(self.world.offered[name])
        return 0, ""

    def _with_needs(self, names: t.Sequence[str]) -> t.List[str]:
        found: t.List[str] = []
        for name in names:
            found += [*self._with_needs(self.world.offered[name].needs), name]
        return list(dict.fromkeys(found))

    def cut_while_unpacking(self, package: Package) -> None:
        """Lose the power while a package is unpacked: its files have no names yet, and dpkg has no list of them."""
        for path in (*package.files, *package.conffiles):
            self.world.write(f"{path}.dpkg-new", "")
        self.world.half.add(package.name)

    def _unpack(self, package: Package) -> None:
        for path in (*package.files, *package.conffiles):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.at(f"{path}.dpkg-new"))
        self.world.half.discard(package.name)
        for path, text in package.files.items():
            self.world.write(path, text)
            if path.endswith(".service"):
                self._unit_start(os.path.basename(path))
                self.world.enable(os.path.basename(path))
        for path, text in package.conffiles.items():
            if not os.path.lexists(self.at(path)):
                self.world.write(path, text)
        self.world.installed.add(package.name)
        self.world.configured.discard(package.name)

    def _take_away(self, package: Package) -> None:
        for path in package.files:
            if path.endswith(".service"):
                self.world.running.discard(os.path.basename(path))
                self.world.disable(os.path.basename(path))
            os.unlink(self.at(path))
        self.world.installed.discard(package.name)
        self.world.unpacked.discard(package.name)
        if package.conffiles:
            self.world.configured.add(package.name)

    def _purge(self, package: Package) -> None:
        """Also the folders that dpkg had made, where nothing else is in them."""
        for path in package.conffiles:
            if os.path.lexists(self.at(path)):
                os.unlink(self.at(path))
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(self.at(path)))
        self.world.configured.discard(package.name)

    def _modprobe(self, words: t.Sequence[str]) -> t.Tuple[int, str]:
        """Loads; with -r it unloads also what nobody else uses, here what was loaded before."""
        if words[0] != "-r":
            self.world.write(f"/sys/module/{words[0]}/refcnt", "0\n")
            return 0, ""
        self._rmmod(["loaded_before"])
        return self._rmmod(words[1:])

    def _rmmod(self, words: t.Sequence[str]) -> t.Tuple[int, str]:
        os.unlink(self.at(f"/sys/module/{words[0]}/refcnt"))
        os.rmdir(self.at(f"/sys/module/{words[0]}"))
        return 0, ""


class Mortal(FakeNode):
    """Dies at its `life`-th effect."""

    def __init__(self, world: World, life: int) -> None:
        super().__init__(world)
        self.life = life
        self.effects = 0

    def __getattribute__(self, name: str) -> t.Any:
        found = super().__getattribute__(name)
        if name not in EFFECTS:
            return found

        def counted(*args: t.Any, **kwargs: t.Any) -> t.Any:
            if self.effects >= self.life:
                raise Killed
            self.effects += 1
            return found(*args, **kwargs)

        return counted
