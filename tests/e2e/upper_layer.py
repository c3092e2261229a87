# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a bed's host, listed without reading its image again.

A host is an overlay: what is neither in its upper layer nor mounted is the image's, byte for byte. So the image is
listed once and kept in the cache. Of a host only the names in its upper layer and its mounts are looked at, through the
root of its first process, so that their states are those that the host itself sees.

Reading another container's files takes root: tests that are not root call this file as a program. As a program it
also writes the whole listing of a host: `python -m e2e.upper_layer BED HOST FILE`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import stat
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))

from e2e import listing  # noqa: E402
from testbed import api  # noqa: E402
from testbed.down import podman_of  # noqa: E402
from testbed.paths import cache_dir  # noqa: E402
from testbed.run import run  # noqa: E402

SECONDS = 300.0
# A directory that was renamed as a whole has this attribute, and its files are in the layers below by another name.
REDIRECT = "trusted.overlay.redirect"


@dataclass(frozen=True, slots=True)
class Seen:
    """What differs, or may differ, from the image.

    `names` has the directories of the upper layer and what is in each; `whole` the directories of which nothing is the
    image's; `states` what was looked at.
    """

    names: dict[str, list[str]] = field(default_factory=dict)
    whole: list[str] = field(default_factory=list)
    states: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Image:
    """The listing of the layers below, and the names in each of their directories."""

    states: Mapping[str, Any]
    names: Mapping[str, list[str]]

    @classmethod
    def of(cls, states: Mapping[str, Any]) -> Image:
        """Return the image that has been listed so."""
        names: dict[str, list[str]] = {}
        for path in states:
            folder, _slash, name = path.rpartition("/")
            names.setdefault(folder or "/", []).append(name)
        return cls(states, names)

    def below(self, folder: str) -> Iterator[str]:
        """Yield every path of the image below a folder."""
        for name in self.names.get(folder, ()):
            path = os.path.join(folder, name)
            yield path
            yield from self.below(path)

    def with_upper_layer(self, seen: Seen) -> dict[str, Any]:
        """Return the listing of a host of this image."""
        found = dict(self.states)
        gone = [*seen.whole, *(path for path in seen.states if not is_directory(seen.states[path]))]
        for folder, there in seen.names.items():
            for path in (os.path.join(folder, name) for name in {*self.names.get(folder, ())}.difference(there)):
                found.pop(path, None)
                gone.append(path)
        for folder in gone:
            for path in self.below(folder):
                found.pop(path, None)
        return {**found, **seen.states}


def is_directory(state: Sequence[Any]) -> bool:
    """Return whether a state of a listing is that of a directory."""
    return bool(state[0] == oct(stat.S_IFDIR))


def look(
    root: str, layer: str, mounts: Sequence[str], digests: dict[str, str], automounts: Collection[str] = ()
) -> Seen:
    """Look at all names of a layer and below all mounts but automounts, as they are in the host's tree at `root`."""
    seen = Seen()
    for place, names, others in os.walk(layer):
        folder = place[len(layer) :] or "/"
        if REDIRECT in os.listxattr(place):
            names.clear()
            look_at_whole(root, folder, digests, seen, automounts)
            continue
        try:
            seen.names[folder] = os.listdir(root + folder)
        except FileNotFoundError:  # it has been removed meanwhile, which its own directory shows
            names.clear()
            continue
        paths = [os.path.join(folder, name) for name in (*names, *others)]
        wanted = [path for path in paths if not listing.is_left_out(path) and path not in mounts]
        names[:] = [name for name in names if os.path.join(folder, name) in wanted]
        for path in wanted:
            look_at(root, path, digests, seen)
    for mount in mounts:
        look_at(root, mount, digests, seen)
        look_at_whole(root, mount, digests, seen, automounts)
    return seen


def look_at(root: str, path: str, digests: dict[str, str], seen: Seen) -> None:
    """Take down one state. A name without one stands for a removed file, or went away meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        seen.states[path] = listing.state_of(root + path, digests)


def look_at_whole(
    root: str, folder: str, digests: dict[str, str], seen: Seen, automounts: Collection[str] = ()
) -> None:
    """Take down all that is below a folder of which nothing is the image's."""
    seen.whole.append(folder)
    seen.states.update(listing.files(digests, root=root, top=folder, automounts=automounts))


def mounts_of(mountinfo: str) -> list[str]:
    """Return where something is mounted, outermost only and without what listings leave out."""
    points = {line.split()[4].encode().decode("unicode_escape") for line in mountinfo.splitlines()} - {"/"}
    points -= listing.automounts_of(mountinfo)
    kept: list[str] = []
    for point in sorted(points):
        parts = Path(point)
        out = any(listing.is_left_out(str(part)) for part in (parts, *parts.parents))
        if not out and not any(part in kept for part in map(str, parts.parents)):
            kept.append(point)
    return kept


def image_file(lower: str) -> Path:
    """Return where the listing of these layers is kept. A layer's folder is named after what it holds."""
    key = hashlib.sha256(lower.encode() + Path(listing.__file__).read_bytes()).hexdigest()[:16]
    return cache_dir() / "listings" / f"{key}.json"


@functools.cache
def read_image(path: str) -> Image:
    """Return a kept listing, which never changes."""
    return Image.of(json.loads(Path(path).read_text(encoding="utf-8")))


def list_image(lower: str, file: Path) -> None:
    """Keep the listing of an image's layers; needs root, and a mount namespace that ends with this process."""
    with tempfile.TemporaryDirectory() as folder:
        nothing, root = Path(folder, "nothing"), Path(folder, "root")
        nothing.mkdir()
        root.mkdir()
        # An overlay has two layers at least.
        run(["mount", "-t", "overlay", "-o", f"ro,lowerdir={nothing}:{lower}", "none", str(root)], timeout=SECONDS)
        try:
            states = listing.files({}, root=str(root))
        finally:
            run(["umount", str(root)], timeout=SECONDS)
    file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    new = file.with_suffix(f".{os.getpid()}")
    new.write_text(json.dumps(states), encoding="utf-8")
    new.replace(file)


def look_at_host(pid: int, upper: str, lower: str) -> dict[str, Any]:
    """Return what is different on a host, and where the listing of its image is; needs root."""
    image = image_file(lower)
    if not image.exists():
        run(["unshare", "--mount", sys.executable, __file__, "image", lower, str(image)], timeout=SECONDS)
    root = f"/proc/{pid}/root"
    kept = Path(root + listing.SEEN)
    digests = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    mountinfo = Path(f"/proc/{pid}/mountinfo").read_text(encoding="utf-8")
    seen = look(root, upper, mounts_of(mountinfo), digests, listing.automounts_of(mountinfo))
    kept.write_text(json.dumps(digests), encoding="utf-8")
    return {"image": str(image), "seen": asdict(seen)}


def files(bed: api.RunningBed, host: str) -> dict[str, Any]:
    """Return the state of every file of a host, as `listing.files` would there."""
    container = podman_of(bed.bed).inspect(bed.bed.host(host).container)
    assert container is not None, host
    layers = container["GraphDriver"]["Data"]
    words = [str(container["State"]["Pid"]), layers["UpperDir"], layers["LowerDir"]]
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    variables = [f"{name}={os.environ[name]}" for name in ("CONVERGED_CACHE", "PATH") if name in os.environ]
    command = [*prefix, "env", "PYTHONDONTWRITEBYTECODE=1", *variables, sys.executable, __file__, "host", *words]
    found = json.loads(run(command, timeout=SECONDS).out)
    return read_image(found["image"]).with_upper_layer(Seen(**found["seen"]))


def everything(bed: api.RunningBed, host: str) -> dict[str, Any]:
    """Return everything on a host, as `listing.py` prints it there."""
    source = Path(listing.__file__).read_text(encoding="utf-8")
    rest = bed.exec(host, ["python3", "-", "rest"], input=source, timeout=SECONDS)
    return {**files(bed, host), **json.loads(rest.out)}


def main(arguments: Sequence[str]) -> None:
    """Do what root is asked for, or write the listing of a host."""
    match arguments:
        case ["image", lower, file]:
            list_image(lower, Path(file))
        case ["host", pid, upper, lower]:
            json.dump(look_at_host(int(pid), upper, lower), sys.stdout)
        case [bed, host, file]:
            Path(file).write_text(json.dumps(everything(api.find(bed), host)), encoding="utf-8")
        case _:
            raise SystemExit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
