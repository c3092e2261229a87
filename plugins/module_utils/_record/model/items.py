# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a role can ask for, what can be found on a node, and one step between the two."""

from __future__ import annotations

import typing as t
from dataclasses import asdict, dataclass, field

ABSENT, FILE, DIRECTORY, LINK, OTHER = "absent", "file", "directory", "link", "other"

# What a role does with a path. Two roles may share a directory, or edit lines of one file; nothing else.
FORM_FILE, FORM_DIRECTORY, FORM_LINK, FORM_ABSENT, FORM_LINES = "file", "directory", "link", "absent", "lines"
# What the record holds of the site's only while a package goes that would take it along.
FORM_SAVED = "saved"
# What a program of ours makes of a thing by itself.
FORM_MADE = "made"

JSON = t.Dict[str, t.Any]


# Wanted


@dataclass(frozen=True)
class FileItem:
    """A whole file; `sha256` names its content, which travels apart."""

    path: str
    sha256: str
    size: int
    owner: str = ""
    group: str = ""
    mode: t.Optional[int] = None
    secret: bool = False
    validate: t.Tuple[str, ...] = ()


@dataclass(frozen=True)
class DirectoryItem:
    """A directory. One that is there already keeps its owner, its group or its mode where none is given."""

    path: str
    owner: str = ""
    group: str = ""
    mode: t.Optional[int] = None


@dataclass(frozen=True)
class LinkItem:
    """A symbolic link."""

    path: str
    target: str


@dataclass(frozen=True)
class EditItem:
    """Edits to a file that belongs to the site. `spec` says what `edit` does, so that a change of it is seen."""

    path: str
    edit: t.Callable[[bytes], bytes]
    spec: str
    create: bool = False
    secret: bool = False


@dataclass(frozen=True)
class PackageItem:
    """A package; `version` only where it matters."""

    name: str
    version: str = ""


@dataclass(frozen=True)
class UnitItem:
    """A systemd unit; None leaves as it is. `restart_on` None means every input of this call that could matter."""

    name: str
    active: t.Optional[bool] = None
    enabled: t.Optional[bool] = None
    restart_on: t.Optional[t.Tuple[str, ...]] = None


@dataclass(frozen=True)
class MadeItem:
    """What a program that is about to start will make of a thing by itself. It is recorded before, and never set by us.

    `kind` is sysctl, mount or filter. `value` is what a setting will be; for other kinds it only says what happens.
    """

    kind: str
    name: str
    value: str


@dataclass(frozen=True)
class Desired:
    """All that one role wants of one node."""

    role: str
    packages: t.Tuple[PackageItem, ...] = ()
    modules: t.Tuple[str, ...] = ()
    sysctls: t.Tuple[t.Tuple[str, str], ...] = ()
    directories: t.Tuple[DirectoryItem, ...] = ()
    files: t.Tuple[FileItem, ...] = ()
    edits: t.Tuple[EditItem, ...] = ()
    links: t.Tuple[LinkItem, ...] = ()
    absent: t.Tuple[str, ...] = ()
    units: t.Tuple[UnitItem, ...] = ()
    made: t.Tuple[MadeItem, ...] = ()
    own_files: t.Tuple[str, ...] = ()  # written by us to make sysctls and modules last; no input of a unit


# Found


@dataclass(frozen=True)
class PathState:
    """A path as it is, or as it was."""

    kind: str
    sha256: str = ""
    size: int = 0
    uid: int = 0
    gid: int = 0
    mode: int = 0
    mtime_ns: int = 0
    xattrs: t.Tuple[t.Tuple[str, str], ...] = ()
    target: str = ""
    nlink: int = field(default=1, compare=False)

    def to_json(self) -> JSON:
        """Return it for the record; the number of names is no property of what was there."""
        found = asdict(self)
        del found["nlink"]
        return found

    @staticmethod
    def from_json(data: JSON) -> PathState:
        """Read a state; raise KeyError, TypeError or ValueError for what `to_json` cannot have written."""
        return PathState(**dict(data, xattrs=tuple((str(name), str(value)) for name, value in data["xattrs"])))

    def same_attributes(self, other: PathState) -> bool:
        """Compare owner, mode and extended attributes."""
        return (self.uid, self.gid, self.mode, self.xattrs) == (other.uid, other.gid, other.mode, other.xattrs)


NOTHING = PathState(ABSENT)


@dataclass(frozen=True)
class UnitState:
    """A unit as systemd sees it. `links` are its enablement: names in /etc/systemd/system and where they point.

    `condition_unmet`: systemd would skip a start now, as a condition in the unit file is not met.
    """

    load: str
    active: bool
    failed: bool
    enabled: str
    links: t.Tuple[t.Tuple[str, str], ...] = ()
    needs_reload: bool = field(default=False, compare=False)
    oneshot: bool = field(default=False, compare=False)
    condition_unmet: bool = field(default=False, compare=False)

    @property
    def exists(self) -> bool:
        """There is a unit file, or a mask in its place."""
        return self.load != "not-found"

    def to_json(self) -> JSON:
        """Return it for the record."""
        found = asdict(self)
        for name in ("needs_reload", "oneshot", "condition_unmet"):
            del found[name]
        return found

    @staticmethod
    def from_json(data: JSON) -> UnitState:
        """Read a state; raise KeyError, TypeError or ValueError for what `to_json` cannot have written."""
        return UnitState(**dict(data, links=tuple((str(path), str(target)) for path, target in data["links"])))


State = t.Union[PathState, UnitState, str, bool, None]


# Between


# Steps of these kinds change what is at a path.
PATH_STEPS = ("file", "directory", "link", "absent")


@dataclass(frozen=True)
class Step:
    """One change of one thing. `kind` selects the function that performs it, `text` is what people read."""

    kind: str
    name: str
    verb: str
    text: str
    data: t.Any = None


@dataclass(frozen=True)
class FileWrite:
    """The data of a step that writes a file. `exact`: the time of last change, too."""

    want: PathState
    validate: t.Tuple[str, ...] = ()
    exact: bool = False
    new: bool = False


@dataclass(frozen=True)
class Change:
    """What a diff shows of one thing. `sha256` names the content after, where the caller has that content."""

    name: str
    before: str = ""
    after: str = ""
    sha256: str = ""


def split_key(this: str) -> t.Tuple[str, str]:
    """Split a key into kind and name of a thing."""
    kind, name = this.split(":", 1)
    return kind, name


def key(kind: str, name: str) -> str:
    """Return how the record names a thing."""
    return f"{kind}:{name}"
