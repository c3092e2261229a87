# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carries out steps in their order. All new contents are staged and checked before the first takes its place."""

from __future__ import annotations

import os
import typing as t

from ..host.host import Host, reason
from ..host.paths import discard, parents
from ..model.errors import RecordError
from ..model.items import PATH_STEPS, FileWrite, Step
from . import kernel, mount, package, packet_filter, path, unit

_RESTORECON_SECONDS = 120
Chunks = t.Callable[[str], t.Iterable[bytes]]


def check_space(host: Host, steps: t.Sequence[Step]) -> None:
    """Refuse steps for which a file system has no room, or may not be written at all."""
    wanted: t.Dict[int, t.Tuple[str, t.List[int]]] = {}
    for step in steps:
        if step.kind in PATH_STEPS:
            found = [(above, host.lstat(above)) for above in (*parents(step.name), "/")]
            place, device = next((above, state.st_dev) for above, state in found if state is not None)
            size = step.data.want.size if isinstance(step.data, FileWrite) else 0
            wanted.setdefault(device, (place, []))[1].append(size)
    for place, sizes in wanted.values():
        _check_file_system(place, host.space(place), sizes)


def _check_file_system(place: str, found: os.statvfs_result, sizes: t.Sequence[int]) -> None:
    if found.f_flag & os.ST_RDONLY:
        raise RecordError(f"{place}: the file system is mounted read-only: nothing was changed")
    needed = sum(-(-size // found.f_frsize) * found.f_frsize for size in sizes)
    free = found.f_bavail * found.f_frsize
    if needed > free:
        raise RecordError(f"{place}: {needed} bytes are needed, {free} are free: make room; nothing was changed")
    if found.f_files and len(sizes) > found.f_favail:  # file systems that need no inodes tell of none
        raise RecordError(
            f"{place}: {len(sizes)} inodes are needed, {found.f_favail} are free: make room; nothing was changed"
        )


def perform_all(host: Host, steps: t.Sequence[Step], chunks: Chunks) -> None:
    """Perform all steps; stop at the first error, and remove what is staged."""
    staged: t.List[str] = []
    try:
        for step in steps:
            if _is_write(step) and not staged:
                staged = [other.name for other in steps if _is_write(other)]
                _stage_all(host, [other for other in steps if _is_write(other)], chunks)
            perform(host, step)
    except RecordError:
        for name in staged:
            discard(host, name)
        raise
    _settle(host, [step for step in steps if _is_write(step)])


def _is_write(step: Step) -> bool:
    return isinstance(step.data, FileWrite)


def _stage_all(host: Host, steps: t.Sequence[Step], chunks: Chunks) -> None:
    for step in steps:
        _stage(host, step, chunks)
    for step in steps:
        if step.data.validate:
            path.validate(host, step.name, step.data.validate)


def _stage(host: Host, step: Step, chunks: Chunks) -> None:
    write: FileWrite = step.data
    try:
        path.stage(host, step.name, write.want, chunks(write.want.sha256), exact=write.exact)
    except OSError as error:
        raise RecordError(f"{step.name}: cannot write its new content: {reason(error)}") from error


def _settle(host: Host, steps: t.Sequence[Step]) -> None:
    """Write directories to disk, and give new files SELinux's own label."""
    for folder in sorted({os.path.dirname(step.name) for step in steps}):
        host.sync_directory(folder)
    new = [step.name for step in steps if step.data.new]
    if new and host.lstat("/sys/fs/selinux/enforce") is not None:
        host.run(["restorecon", "--", *new], timeout=_RESTORECON_SECONDS)


def perform_write(host: Host, step: Step, chunks: Chunks) -> None:
    """Write one file by itself: stage it and put it in place."""
    _stage(host, step, chunks)
    perform(host, step)
    _settle(host, [step])


def perform(host: Host, step: Step) -> None:
    """Perform one step; a write must have been staged."""
    try:
        _PERFORM[step.kind](host, step)
    except OSError as error:
        raise RecordError(f"{step.name}: cannot {step.verb} it: {reason(error)}") from error


def _file(host: Host, step: Step) -> None:
    if step.verb == "write":
        path.commit(host, step.name)
    else:
        path.set_attributes(host, step.name, step.data, path.read(host, step.name))


def _directory(host: Host, step: Step) -> None:
    path.make_directory(host, step.name, step.data)


def _link(host: Host, step: Step) -> None:
    path.make_link(host, step.name, step.data)


def _absent(host: Host, step: Step) -> None:
    if not path.remove(host, step.name, step.data):
        raise RecordError(f"{step.name}: is not empty, it stays")


def _sysctl(host: Host, step: Step) -> None:
    kernel.write_sysctl(host, step.name, step.data)


def _module(host: Host, step: Step) -> None:
    if step.verb == "load":
        kernel.load_module(host, step.name)
        return
    why = kernel.unload_module(host, step.name)
    if why:
        raise RecordError(f"kernel module {step.name} stays loaded: {why}")


def _mount(host: Host, step: Step) -> None:
    mount.unmount(host, step.name, step.data)


def _filter(host: Host, step: Step) -> None:
    packet_filter.delete(host, step.data)


def _package(host: Host, step: Step) -> None:
    packages = package.manager(host)
    if step.verb == "install":
        packages.install(step.data)
    elif step.verb == "purge":
        packages.purge(step.data)
    else:
        packages.remove(step.data)


def _unit(host: Host, step: Step) -> None:
    if step.verb == "reload":
        unit.reload(host)
    elif step.verb == "reset-failed":
        unit.reset_failed(host, step.name)
    elif step.verb == "links":
        unit.put_links(host, *step.data)
    else:
        unit.act(host, step.verb, step.name)


_PERFORM: t.Dict[str, t.Callable[[Host, Step], None]] = {
    "file": _file,
    "directory": _directory,
    "link": _link,
    "absent": _absent,
    "sysctl": _sysctl,
    "module": _module,
    "mount": _mount,
    "filter": _filter,
    "package": _package,
    "unit": _unit,
}
