# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A role's arguments, checked beyond their types and turned into what `plan` works on."""

from __future__ import annotations

import hashlib
import os
import re
import typing as t
from dataclasses import replace

from ..host import paths
from ..host.host import Host
from ..model import line_edits
from ..model.errors import RecordError
from ..model.items import JSON, Desired, DirectoryItem, EditItem, FileItem, LinkItem, PackageItem, UnitItem

_ROLE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_PACKAGE = re.compile(r"([A-Za-z0-9][A-Za-z0-9+._-]*)(?:=([A-Za-z0-9.+:~_-]+))?")
_MODULE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SYSCTL = re.compile(r"[A-Za-z0-9_-]+(?:[./][A-Za-z0-9_:@-]+)+")
_UNIT = re.compile(
    r"[A-Za-z0-9:_.\\-]+(?:@[A-Za-z0-9:_.\\-]+)?\.(?:service|socket|timer|target|path|mount|automount|slice|swap)"
)
_MODE = re.compile(r"[0-7]{3,4}")


def role_name(text: str) -> str:
    """Return the name of a section of the record, checked."""
    return _match(_ROLE, text, "role", "lower-case letters, digits and underscores").group(0)


def parse(arguments: JSON, *, inline: t.Dict[str, bytes]) -> Desired:
    """Read a role's arguments; raise RecordError for what cannot be meant. Contents made here go into `inline`."""
    role = role_name(arguments["role"])
    modules = tuple(_module(name) for name in arguments.get("kernel_modules") or ())
    sysctls = tuple(_sysctl(item) for item in arguments.get("sysctls") or ())
    lasting = _lasting_files(role, modules, sysctls, inline)
    edits: t.Dict[str, t.List[JSON]] = {}
    for item in arguments.get("lines") or ():
        edits.setdefault(paths.check(item["path"]), []).append(item)
    desired = Desired(
        role=role,
        packages=tuple(_package(text) for text in arguments.get("packages") or ()),
        modules=modules,
        sysctls=sysctls,
        directories=tuple(_directory(item) for item in arguments.get("directories") or ()),
        files=(*(_file(item) for item in arguments.get("files") or ()), *lasting),
        edits=tuple(_edit(path, items) for path, items in edits.items()),
        links=tuple(_link(item) for item in arguments.get("links") or ()),
        absent=tuple(paths.check(path) for path in arguments.get("absent") or ()),
        units=tuple(_unit(item) for item in arguments.get("units") or ()),
        own_files=tuple(item.path for item in lasting),
    )
    _refuse_twice("package", [item.name for item in desired.packages])
    _refuse_twice("sysctl", [item[0] for item in desired.sysctls])
    _refuse_twice("unit", [item.name for item in desired.units])
    return desired


def resolve(host: Host, desired: Desired) -> Desired:
    """Return the same with every path where it really is, and each named once."""

    def real(path: str) -> str:
        return paths.resolve(host, path, follow_last=True)

    def named(path: str) -> str:
        return paths.resolve(host, path, follow_last=False)

    found = replace(
        desired,
        directories=tuple(replace(item, path=real(item.path)) for item in desired.directories),
        files=tuple(replace(item, path=real(item.path)) for item in desired.files),
        edits=tuple(replace(item, path=real(item.path)) for item in desired.edits),
        links=tuple(replace(item, path=named(item.path)) for item in desired.links),
        absent=tuple(named(path) for path in desired.absent),
        units=tuple(
            item
            if item.restart_on is None
            else replace(item, restart_on=tuple(named(path) for path in item.restart_on))
            for item in desired.units
        ),
        made=tuple(replace(item, name=real(item.name)) if item.kind == "mount" else item for item in desired.made),
    )
    groups: t.Tuple[t.Sequence[t.Any], ...] = (found.files, found.edits, found.directories, found.links)
    _refuse_twice("path", [*(item.path for group in groups for item in group), *found.absent])
    return found


def _match(pattern: t.Pattern[str], text: str, what: str, expected: str) -> t.Match[str]:
    found = pattern.fullmatch(text)
    if found is None:
        raise RecordError(f"{what} {text!r}: expected {expected}")
    return found


def _refuse_twice(what: str, names: t.Sequence[str]) -> None:
    seen: t.Set[str] = set()
    for name in names:
        if name in seen:
            raise RecordError(f"{what} {name} is named twice in this call: say once what it should be")
        seen.add(name)


def _package(text: str) -> PackageItem:
    found = _match(_PACKAGE, text, "package", "a name, or name=version")
    return PackageItem(found.group(1), found.group(2) or "")


def _module(name: str) -> str:
    return _match(_MODULE, name, "kernel module", "letters, digits, '_' and '-'").group(0).replace("-", "_")


def _sysctl(item: JSON) -> t.Tuple[str, str]:
    name, value = item["name"], " ".join(str(item["value"]).split())
    _match(_SYSCTL, name, "sysctl", "a name such as net.ipv4.ip_forward")
    if not value.isprintable() or not value:
        raise RecordError(f"sysctl {name}: value {item['value']!r}: expected one line of text")
    return name, value


def _lasting_files(
    role: str, modules: t.Sequence[str], sysctls: t.Sequence[t.Tuple[str, str]], inline: t.Dict[str, bytes]
) -> t.List[FileItem]:
    """Return what makes sysctls and modules last over a reboot: a file of ours for each."""
    made = []
    head = "# Written by converged.hpc.node_state; a restore removes it.\n"
    for folder, rows in (
        ("/etc/modules-load.d", list(modules)),
        ("/etc/sysctl.d", [f"{name} = {value}" for name, value in sysctls]),
    ):
        if rows:
            data = (head + "\n".join(rows) + "\n").encode()
            sha256 = hashlib.sha256(data).hexdigest()
            inline[sha256] = data
            path = f"{folder}/90-converged-{role.replace('_', '-')}.conf"
            made.append(FileItem(path, sha256, len(data), mode=0o644))
    return made


def _mode(text: t.Optional[str], path: str) -> t.Optional[int]:
    if text is None:
        return None
    return int(_match(_MODE, text, f"{path}: mode", "three or four octal digits in quotes, such as '0644'").group(0), 8)


def _directory(item: JSON) -> DirectoryItem:
    path = paths.check(item["path"])
    return DirectoryItem(path, item.get("owner") or "", item.get("group") or "", _mode(item.get("mode"), path))


def _file(item: JSON) -> FileItem:
    path = paths.check(item["path"])
    validate = tuple(item.get("validate") or ())
    if validate and not any("%s" in word for word in validate):
        raise RecordError(f"{path}: validate {list(validate)}: expected '%s' where the file's name goes")
    return FileItem(
        path=path,
        sha256=item["sha256"],
        size=int(item["size"]),
        owner=item.get("owner") or "",
        group=item.get("group") or "",
        mode=_mode(item.get("mode"), path),
        secret=bool(item.get("secret")),
        validate=validate,
    )


def _link(item: JSON) -> LinkItem:
    path, target = paths.check(item["path"]), item["target"]
    if not target or not target.isprintable():
        raise RecordError(f"{path}: target {target!r}: expected where the link points")
    return LinkItem(path, target)


def _edit(path: str, items: t.Sequence[JSON]) -> EditItem:
    edits = []
    for item in items:
        line, regexp, present = item.get("line") or "", item.get("regexp") or "", item.get("state") != "absent"
        if "\n" in line or (not line and (present or not regexp)):
            shown = "(secret)" if item.get("secret") else repr(line)
            raise RecordError(f"{path}: line {shown}: expected one line of text without its end")
        try:
            re.compile(regexp)
        except re.error as error:
            raise RecordError(f"{path}: regexp {regexp!r}: {error}") from error
        edits.append(line_edits.LineEdit(line, regexp, present))
    return EditItem(
        path=path,
        edit=lambda text: line_edits.apply_edits(path, edits, text),
        spec=hashlib.sha256(line_edits.spec(edits).encode()).hexdigest(),
        create=any(item.get("create") for item in items),
        secret=any(item.get("secret") for item in items),
    )


def _unit(item: JSON) -> UnitItem:
    name = item["name"] if "." in os.path.basename(item["name"]) else f"{item['name']}.service"
    _match(_UNIT, name, "unit", "the name of a unit, a template with its instance")
    active = {"started": True, "stopped": False, None: None}[item.get("state")]
    restart_on = item.get("restart_on")
    return UnitItem(
        name=name,
        active=active,
        enabled=item.get("enabled"),
        restart_on=None if restart_on is None else tuple(paths.check(path) for path in restart_on),
    )
