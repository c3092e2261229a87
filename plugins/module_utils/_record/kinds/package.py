# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages: apt (proved on nodes), dnf and zypper (so far only against recorded answers), one interface.

Only what is missing is installed, never an upgrade or a removal of what the site has. Only what we installed is
removed, and never when something of the site's would go with it. A package that was not there before is purged; one of
which the site had kept the configuration is removed only. Configuration that differs from what the package brought is
the site's: the undo records such a file before the package goes, and puts it back afterwards.

A power cut leaves dpkg's packages half-way. Those of ours are ended first, also before they are removed: dpkg has no
list of the files of a package that it had not wholly unpacked. Those of the site are left alone. Apt would end them
with ours, so they are named, and nothing is installed until the site has done it. Removals are dpkg's own: it changes
the packages that are named, and no other. Rpm has no such state. It lists a package
once its files are there, so a cut one is missing and is installed again.
"""

from __future__ import annotations

import hashlib
import re
import stat
import typing as t

from ..._command import Completed, last_line
from ..host.host import Host
from ..model.errors import RecordError
from ..model.items import PackageItem

_INSTALL_SECONDS = 1800
_LOCK_SECONDS = 120
_APT_ENV = {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_SUSPEND": "1", "APT_LISTCHANGES_FRONTEND": "none"}
_APT = ("-y", "-q", "--no-install-recommends", "-o", f"DPkg::Lock::Timeout={_LOCK_SECONDS}")
# Without these dpkg asks which configuration file to keep where the site had one, reads no answer, and fails.
_KEEP_CONFIG = ("--force-confdef", "--force-confold")
_APT_INSTALL = (*(word for option in _KEEP_CONFIG for word in ("-o", f"Dpkg::Options::={option}")), "--no-remove")
_APT_CHECK = ("apt-get", "-q", "-o", f"DPkg::Lock::Timeout={_LOCK_SECONDS}", "check")
_APT_HELD = re.compile(r"(\S+)\. It is held by process (\d+ \(.*\))")
_APT_GAVE_UP = re.compile(r"^E: .*(is another process using it|Could not get lock)", re.MULTILINE)
_DPKG_LOCKED = re.compile(r"^dpkg: error: dpkg .* locked by another process", re.MULTILINE)
_DPKG_TRIES = 3  # a lock that is free may be taken again before dpkg gets it
_DPKG_USER = re.compile(r"^ (\S+) (?:pre-)?depends on ", re.MULTILINE)
_DPKG_ERROR = re.compile(r"^dpkg: error.*(?:\n .*)*", re.MULTILINE)
_DPKG_UPDATES = "/var/lib/dpkg/updates"
_APT_STEP = re.compile(r"^(Inst|Remv) (\S+)(?: \[(\S*)\])?", re.MULTILINE)
_CONFIG_FLAG = 1  # RPMFILE_CONFIG
_MD5_LETTERS = 32
_RPM_FILES = "[%{=NAME} %{FILEFLAGS} %{FILEDIGESTS} %{FILENAMES}\\n]"
# What stands before the words of a package manager that failed, and the words of one that does not know a package.
_PROGRAM = re.compile(r"^.*?: exit status \d+: ")
_NOT_OFFERED = re.compile(
    r"Unable to locate|no installation candidate|was not found|Unable to find a match|No match for|not found in package"
)
_RPM_SECTION = re.compile(r"^(Installing|Upgrading|Downgrading|Reinstalling|Removing|The following .*)\b.*:\s*$")


# The state of a package that was removed and not purged.
CONFIGURED = "config-files"


def is_installed(state: object) -> bool:
    """Return whether a recorded state of a package is that of an installed one."""
    return state not in ("", CONFIGURED)


class OwnFile(t.NamedTuple):
    """A place where a package has configuration."""

    package: str
    path: str
    is_there: bool
    is_pristine: bool  # as its package brought it


class Packages:
    """What every package manager can do for us."""

    def installed(self) -> t.Dict[str, str]:
        """Name and version of everything that is wholly installed."""
        raise NotImplementedError

    def configured(self) -> t.Set[str]:
        """Return the packages that were removed and not purged."""
        return set()

    def present(self) -> t.Dict[str, str]:
        """Return what is installed, what a killed run left half-way, and, as CONFIGURED, what was only removed."""
        return self.installed()

    def half_unpacked(self) -> t.Dict[str, str]:
        """Name and version of what a killed run had not wholly unpacked: it cannot be removed."""
        return {}

    def is_cut(self, ours: t.Collection[str]) -> bool:
        """Return whether a killed run left a package of ours half-way."""
        del ours
        return False

    def check(self, ours: t.Collection[str]) -> None:
        """Raise RecordError if a package that is not ours is half-way: an installation would end it with ours."""

    def repair(self, ours: t.Collection[str]) -> None:
        """End what a killed run began with packages of ours, if it did; raise RecordError as `check` does."""

    def would_install(self, items: t.Sequence[PackageItem]) -> t.List[str]:
        """Return all that installing `items` brings. Raise RecordError if it would change what the site has."""
        raise NotImplementedError

    def install(self, items: t.Sequence[PackageItem]) -> None:
        """Install packages without a question, in bounded time."""
        raise NotImplementedError

    def would_remove(self, names: t.Sequence[str]) -> t.List[str]:
        """Return all that removing `names` takes away."""
        raise NotImplementedError

    def remove(self, names: t.Sequence[str]) -> None:
        """Remove packages without a question, in bounded time; their configuration may stay."""
        raise NotImplementedError

    def purge(self, names: t.Sequence[str]) -> None:
        """Remove packages with their configuration and all that the package manager keeps of them."""
        self.remove(names)

    def own_files(self, names: t.Sequence[str]) -> t.List[OwnFile]:
        """Return the configuration of these packages, also where the files are gone."""
        raise NotImplementedError


class Apt(Packages):
    """dpkg and apt-get."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def installed(self) -> t.Dict[str, str]:
        return {name: version for status, name, version in self._rows() if status in _DPKG_WHOLE}

    def configured(self) -> t.Set[str]:
        return {name for name, state in self.present().items() if state == CONFIGURED}

    def present(self) -> t.Dict[str, str]:
        rows = [row for row in self._rows() if row[0] != "not-installed"]
        # One of two architectures may be installed while only the configuration of the other one is left.
        found = {name: CONFIGURED for status, name, _version in rows if status == CONFIGURED}
        found.update((name, version or status) for status, name, version in rows if status != CONFIGURED)
        return found

    def _rows(self) -> t.List[t.Tuple[str, str, str]]:
        form = "${db:Status-Status} ${binary:Package} ${Version}\\n"
        rows = (line.split(" ") for line in self._host.ask(["dpkg-query", "-W", "-f", form]).out.splitlines())
        return [(row[0], row[1].split(":")[0], row[2]) for row in rows if len(row) == 3]

    def half_unpacked(self) -> t.Dict[str, str]:
        return {name: version for status, name, version in self._rows() if status == _DPKG_HALF}

    def is_cut(self, ours: t.Collection[str]) -> bool:
        return any(name in ours for name, _status in self._half_way())

    def check(self, ours: t.Collection[str]) -> None:
        foreign = self._foreign(ours)
        if foreign:
            self._await_lock()  # another apt may be at work on it now
            foreign = self._foreign(ours)
        for name, status in foreign:
            way = f"apt-get install --reinstall {name}" if status == _DPKG_HALF else "dpkg --configure -a"
            raise RecordError(f"package {name} is {status}, and not by us: end that first, as by `{way}`")

    def _foreign(self, ours: t.Collection[str]) -> t.List[t.Tuple[str, str]]:
        return [(name, status) for name, status in self._half_way() if name not in ours]

    def _half_way(self) -> t.List[t.Tuple[str, str]]:
        at_rest = (*_DPKG_AT_REST, *_DPKG_WHOLE)
        return [(name, status) for status, name, _version in self._rows() if status not in at_rest]

    def repair(self, ours: t.Collection[str]) -> None:
        if self.is_cut(ours):
            self.check(ours)
        elif not ours or not self._is_interrupted() or self._foreign(ours):
            return
        self._dpkg(*_KEEP_CONFIG, "--configure", "-a")
        half = {name: version for name, version in self.half_unpacked().items() if name in ours}
        if half:
            self._unpack_again(half, ours)

    def _is_interrupted(self) -> bool:
        """Return whether dpkg has something to end, if only its books: apt changes nothing until they are closed."""
        if any(name.isdigit() for name in self._host.names(_DPKG_UPDATES)):
            return True
        return any(status not in _DPKG_AT_REST for status, _name, _version in self._rows())

    def _unpack_again(self, half: t.Mapping[str, str], ours: t.Collection[str]) -> None:
        """Unpack packages that dpkg neither configures nor removes: in the same version, or in what there is now.

        Packages that a newer version needs besides are in no record, and a restore would leave them: the error names
        them, and nothing is installed.
        """
        exact = [f"{name}={version}" if version else name for name, version in half.items()]
        found, why = [], ""
        for named in (exact, list(half)):
            try:
                coming = _coming(self._simulate(named, "--reinstall"), named, half)
            except RecordError as error:
                why = why or _PROGRAM.sub("", str(error))
                continue
            new = [name for name in coming if name not in ours]
            if new:
                raise RecordError(
                    f"packages {', '.join(half)}: a run of ours was cut while it unpacked them, and what is offered "
                    f"now brings {', '.join(new)} as well, which is in no record: install that yourself, and run again"
                )
            found = named
            break
        if not found:
            raise RecordError(
                f"packages {', '.join(half)}: a run of ours was cut while it unpacked them, and they cannot be "
                f"unpacked again: {why}: give this node a package source that has them, and run again"
            )
        self._change(["apt-get", *_APT, *_APT_INSTALL, "--reinstall", "install", "--", *found])

    def _await_lock(self) -> None:
        """Wait for another apt or dpkg to end; raise RecordError with its process if it does not end in time."""
        done = self._host.ask(_APT_CHECK, timeout=2 * _LOCK_SECONDS, ok=range(256))
        if _APT_GAVE_UP.search(done.out + done.err):
            raise RecordError(_apt_reason(done))

    def _change(self, argv: t.Sequence[str]) -> None:
        _succeed(self._run(argv))

    def _dpkg(self, *words: str) -> None:
        """Run dpkg, which waits for no lock, when another apt or dpkg has ended."""
        for _try in range(_DPKG_TRIES):
            self._await_lock()
            done = self._run(["dpkg", *words])
            if not _DPKG_LOCKED.search(done.err):
                break
        _succeed(done)

    def _run(self, argv: t.Sequence[str]) -> Completed:
        return self._host.run(argv, timeout=_INSTALL_SECONDS, env=_APT_ENV, ok=range(256))

    def would_install(self, items: t.Sequence[PackageItem]) -> t.List[str]:
        named = [_apt_name(item) for item in items]
        try:
            out = self._simulate(named)
        except RecordError as error:
            raise _not_installable(named, str(error)) from error
        return _coming(out, named, self.half_unpacked())

    def _simulate(self, named: t.Sequence[str], *options: str) -> str:
        argv = ["apt-get", "-s", *_APT, *options, "install", "--", *named]
        return self._host.ask(argv, timeout=_LOCK_SECONDS).out

    def install(self, items: t.Sequence[PackageItem]) -> None:
        self._change(["apt-get", *_APT, *_APT_INSTALL, "install", "--", *(_apt_name(item) for item in items)])

    def would_remove(self, names: t.Sequence[str]) -> t.List[str]:
        """Return `names` and all that needs them. dpkg itself takes away only what is named."""
        going = list(names)
        while True:
            argv = ["dpkg", "--dry-run", "--remove", "--", *self._instances(going)]
            done = self._host.ask(argv, timeout=_LOCK_SECONDS, ok=(0, 1))
            users = {user.split(":")[0] for user in _DPKG_USER.findall(f"{done.out}\n{done.err}")}
            if users <= set(going):
                return sorted(going)
            going += sorted(users - set(going))

    def remove(self, names: t.Sequence[str]) -> None:
        self._dpkg("--remove", "--", *self._instances(names))

    def purge(self, names: t.Sequence[str]) -> None:
        self._dpkg("--purge", "--", *self._instances(names))

    def _instances(self, names: t.Sequence[str]) -> t.List[str]:
        """Return what dpkg calls these packages. Of those in several architectures apt installed the node's own."""
        there = [name for status, name, _version in self._rows() if status != "not-installed"]
        if not any(there.count(name) > 1 for name in names):
            return list(names)
        own = self._host.ask(["dpkg", "--print-architecture"]).out.strip()
        return [f"{name}:{own}" if there.count(name) > 1 else name for name in names]

    def own_files(self, names: t.Sequence[str]) -> t.List[OwnFile]:
        if not names:
            return []
        form = "${binary:Package}\\n${Conffiles}\\n"
        out = self._host.ask(["dpkg-query", "-W", "-f", form, "--", *names], ok=(0, 1)).out
        found, package = [], ""
        for line in out.splitlines():
            if line.startswith(" /"):
                path, digest = line.split()[:2]
                there = _is_file(self._host, path)
                found.append(OwnFile(package, path, there, there and _md5(self._host, path) == digest))
            elif line.strip():
                package = line.strip().split(":")[0]
        return found


def _coming(out: str, named: t.Sequence[str], half: t.Container[str]) -> t.List[str]:
    """Return what a simulation installs; raise RecordError if it changes what the site has."""
    steps = [(verb, name.split(":")[0], version) for verb, name, version in _APT_STEP.findall(out)]
    wanted = " ".join(named)
    for verb, name, version in steps:
        if verb == "Remv":
            raise RecordError(f"package {name} would be removed by installing {wanted}: settle this first")
        if version and name not in half:  # of a half-installed one apt also says the version
            raise RecordError(f"package {name} {version} would be upgraded by installing {wanted}: do that yourself")
    return sorted({name for _verb, name, _version in steps})


def _is_file(host: Host, path: str) -> bool:
    found = host.lstat(path)
    return found is not None and stat.S_ISREG(found.st_mode)


def _md5(host: Host, path: str) -> str:
    """Return the digest that dpkg compares by."""
    return hashlib.md5(host.read(path)).hexdigest()


def _succeed(done: Completed) -> None:
    if done.rc:
        raise RecordError(f"{' '.join(done.argv)}: exit status {done.rc}: {_apt_reason(done)}")


def _apt_reason(done: Completed) -> str:
    """Return why apt or dpkg failed: the process that holds the lock, or dpkg's words, which apt does not repeat."""
    said = f"{done.out}\n{done.err}"
    held = _APT_HELD.findall(said)
    if held and _APT_GAVE_UP.search(said):
        return f"{held[-1][0]} is held by process {held[-1][1]}: run again when that has ended"
    errors = _DPKG_ERROR.findall(said)
    return " ".join(errors[0].split()) if errors else last_line(done.err) or last_line(done.out)


_DPKG_HALF = "half-installed"
_DPKG_AT_REST = ("installed", "not-installed", CONFIGURED)
# Configured: dpkg only owes it, or another package, the work of triggers, which any call of apt does.
_DPKG_WHOLE = ("installed", "triggers-awaited", "triggers-pending")


def _apt_name(item: PackageItem) -> str:
    return f"{item.name}={item.version}" if item.version else item.name


class Rpm(Packages):
    """rpm with dnf, or with zypper. Not proved on a node yet."""

    def __init__(self, host: Host, tool: str) -> None:
        self._host = host
        self._tool = tool

    def installed(self) -> t.Dict[str, str]:
        out = self._host.ask(["rpm", "-qa", "--queryformat", "%{NAME} %{VERSION}-%{RELEASE}\\n"]).out
        return dict(t.cast("t.Tuple[str, str]", line.split(" ", 1)) for line in out.splitlines() if " " in line)

    def would_install(self, items: t.Sequence[PackageItem]) -> t.List[str]:
        named = [_rpm_name(item) for item in items]
        try:
            found = self._simulate(["install", *named])
        except RecordError as error:
            raise _not_installable(named, str(error)) from error
        for name in found.get("changed", []):
            raise RecordError(f"package {name} would be changed by installing {' '.join(named)}: settle this first")
        return sorted(found.get("installed", []))

    def install(self, items: t.Sequence[PackageItem]) -> None:
        self._host.run([*self._command(), "install", *(_rpm_name(item) for item in items)], timeout=_INSTALL_SECONDS)

    def would_remove(self, names: t.Sequence[str]) -> t.List[str]:
        return sorted(self._simulate(["remove", *names]).get("changed", []))

    def remove(self, names: t.Sequence[str]) -> None:
        self._host.run([*self._command(), "remove", *names], timeout=_INSTALL_SECONDS)

    def own_files(self, names: t.Sequence[str]) -> t.List[OwnFile]:
        """Return their configuration. rpm removes files that are as they came, and renames those that were changed."""
        if not names:
            return []
        out = self._host.ask(["rpm", "-q", "--queryformat", _RPM_FILES, "--", *names], ok=range(256)).out
        found = []
        for line in out.splitlines():
            row = line.split(" ", 3)
            if len(row) < 4 or not row[1].isdigit() or not int(row[1]) & _CONFIG_FLAG:
                continue
            package, path, there = row[0], row[3], _is_file(self._host, row[3])
            digest = _md5 if len(row[2]) == _MD5_LETTERS else Host.digest
            found.append(OwnFile(package, path, there, there and digest(self._host, path) == row[2]))
        return found

    def _command(self) -> t.List[str]:
        return (
            ["zypper", "--non-interactive"]
            if self._tool == "zypper"
            else ["dnf", "-y", "--setopt=clean_requirements_on_remove=0"]
        )

    def _simulate(self, words: t.Sequence[str]) -> t.Dict[str, t.List[str]]:
        if self._tool == "zypper":
            out = self._host.ask([*self._command(), words[0], "--dry-run", *words[1:]], timeout=_LOCK_SECONDS).out
            return parse_zypper(out)
        done = self._host.ask([*self._command(), words[0], "--assumeno", *words[1:]], timeout=_LOCK_SECONDS, ok=(0, 1))
        found = parse_dnf(done.out)
        if done.rc and not found:  # 1 is the status of an answer "no" as well, which follows a table
            raise RecordError(last_line(done.err) or last_line(done.out))
        return found


def _not_installable(named: t.Sequence[str], error: str) -> RecordError:
    """Return the error for packages that no package source of the node has, or that it cannot install."""
    why = _PROGRAM.sub("", error)
    advice = ": add a package source that has them, or refresh its lists" if _NOT_OFFERED.search(why) else ""
    return RecordError(f"packages {', '.join(named)} cannot be installed: {why}{advice}")


def needed(packages: Packages, ours: t.Sequence[str]) -> t.Dict[str, str]:
    """Return which of our packages cannot go without one of the site's, and which that is."""
    found: t.Dict[str, str] = {}
    going = list(ours)
    while going:
        foreign = [name for name in packages.would_remove(going) if name not in ours]
        if not foreign:
            break
        blocked = {}
        for name in going:
            others = [other for other in packages.would_remove([name]) if other not in ours]
            if others:
                blocked[name] = others[0]
        if not blocked:  # only together do they take something away
            blocked = dict.fromkeys(going, foreign[0])
        found.update(blocked)
        going = [name for name in going if name not in blocked]
    return found


def parse_dnf(text: str) -> t.Dict[str, t.List[str]]:
    """Read the transaction table: packages by what happens to them."""
    found: t.Dict[str, t.List[str]] = {}
    section = ""
    for line in text.splitlines():
        heading = _RPM_SECTION.match(line.strip())
        if heading or line.startswith("Transaction Summary"):
            word = heading.group(1) if heading else ""
            section = {"Installing": "installed", "": ""}.get(word, "changed")
        elif section and re.match(r"^ \S+\s+\S+\s+\S+\s+\S+", line):
            found.setdefault(section, []).append(line.split()[0])
    return found


def parse_zypper(text: str) -> t.Dict[str, t.List[str]]:
    """Read the lists below 'The following ... going to be ...:'."""
    found: t.Dict[str, t.List[str]] = {}
    section = ""
    for line in text.splitlines():
        if line.startswith("The following"):
            section = "installed" if "going to be installed" in line else "changed"
        elif section and line.startswith("  "):
            found.setdefault(section, []).extend(line.split())
        else:
            section = ""
    return found


def _rpm_name(item: PackageItem) -> str:
    return f"{item.name}-{item.version}" if item.version else item.name


def manager(host: Host) -> Packages:
    """Return the package manager of this node."""
    for tool in ("dpkg-query", "dnf", "zypper"):
        for folder in ("/usr/bin", "/bin"):
            if host.lstat(f"{folder}/{tool}") is not None:
                return Apt(host) if tool == "dpkg-query" else Rpm(host, tool)
    raise RecordError("no package manager found: expected apt, dnf or zypper; install the packages yourself")
