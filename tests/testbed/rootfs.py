# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the file system of a node image from a pinned Debian suite, whatever the machine itself runs."""

from __future__ import annotations

import contextlib
import platform
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from testbed import oci, recipe
from testbed.errors import BedError
from testbed.recipe import Recipe
from testbed.run import Completed, failure, run

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR = "http://deb.debian.org/debian"
# Folders of / are links into /usr from the start, so that no package has to make them so, which takes all of perl.
MERGE, MERGED = "/usr/share/mmdebstrap/hooks/merged-usr", "usr-is-merged"
BUILD_TIMEOUT = 1800.0
APT = ("apt-get", "--yes", "--quiet", "--no-install-recommends")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
RETRIES = 'Acquire::Retries "8";'
# What of the machine's own apt configuration decides whether packages can be fetched at all.
FETCH_SETTING = re.compile(r'^Acquire::(https?::(Proxy|CaInfo)|Check-(Valid-Until|Date)|Retries)\b.* ".+";$', re.I)


def confined(argv: Sequence[str]) -> list[str]:
    """`argv` in namespaces of its own: its mounts and its processes end with us, however we end."""
    unshare = ("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child")
    return ["setpriv", "--pdeathsig", "KILL", *unshare, *argv]


def fetch_settings(dump: str) -> list[str]:
    """The lines of `apt-config dump` that a build has to share with the machine.

    Without a setting of the machine for it, apt asks a mirror that fails eight times again, within two minutes.
    """
    found = [line for line in dump.splitlines() if FETCH_SETTING.match(line)]
    return found if any(line.lower().startswith("acquire::retries ") for line in found) else [*found, RETRIES]


def architecture() -> str:
    """Debian's name for this machine's processor."""
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise BedError(f"processor {machine}: node images are built for {' and '.join(ARCHITECTURES)} only")
    return ARCHITECTURES[machine]


def bootstrap(recipe_: Recipe, root: Path) -> None:
    """Install the suite and all packages of a node."""
    install_suite(recipe_.suite, root, variant="minbase", packages=recipe.PACKAGES)
    (root / "etc/apt/apt.conf.d/99mmdebstrap").unlink(missing_ok=True)


def install_suite(suite: str, root: Path, *, variant: str, packages: Sequence[str]) -> None:
    """Install a suite of Debian with these packages into a new folder; `variant` is a word of mmdebstrap."""
    if not KEYRING.exists():
        raise BedError(f"{KEYRING}: not found; type: apt-get install debian-archive-keyring")
    options = ["--mode=root", f"--variant={variant}", "--format=directory", f"--hook-dir={MERGE}"]
    options += [f"--keyring={KEYRING}", f"--include={','.join((MERGED, *packages))}"]
    options += [f"--aptopt={one}" for one in fetch_settings(dump())]
    argv = confined(["mmdebstrap", *options, suite, str(root), MIRROR])
    done = run(argv, timeout=BUILD_TIMEOUT, check=False)
    if done.rc:
        # The last lines are of mmdebstrap, and name options of apt.
        lost = [line.removeprefix("E: ") for line in done.err.splitlines() if line.startswith("E: Failed to fetch ")]
        raise BedError(f"{lost[0]}; can this machine reach {MIRROR}?") if lost else failure("mmdebstrap", done)


def dump() -> str:
    """Return the machine's own apt configuration."""
    return run(["apt-config", "dump"], timeout=30).out


def configure(root: Path) -> None:
    """Make a freshly installed suite a node: its users, files and units."""
    for name, uid in recipe.USERS.items():
        in_root(root, ["useradd", "--create-home", "--shell", "/bin/bash", "--uid", str(uid), name])
    for path, (mode, text) in recipe.FILES.items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
    disable_units(root, (*recipe.DISABLED_UNITS, *recipe.DISABLED_TIMERS))
    run(["systemctl", f"--root={root}", "mask", *recipe.MASKED_UNITS], timeout=60)
    (root / "var/log/slurm").mkdir(exist_ok=True)
    for key in root.glob("etc/ssh/ssh_host_*"):
        key.unlink()


def disable_units(root: Path, units: Sequence[str]) -> None:
    """Keep units from starting at boot; those the release does not have are not missed."""
    present = [unit for unit in units if any((root / "lib/systemd/system").glob(unit))]
    run(["systemctl", f"--root={root}", "disable", *present], timeout=60)


@contextlib.contextmanager
def online(root: Path) -> Iterator[None]:
    """apt in `root` reaches the suite's own mirror, and no trace of that remains."""
    sources, settings = root / "etc/apt/sources.list", root / "etc/apt/apt.conf.d/00build"
    parked = root / "etc/apt/sources.list.d/debian.list.disabled"
    local = root / "etc/apt/sources.list.d/testbed.list"
    hidden = local.with_suffix(".off")
    if parked.exists():
        parked.rename(sources)
    if local.exists():
        local.rename(hidden)
    settings.write_text("\n".join(fetch_settings(dump())) + "\n")
    shutil.copyfile("/etc/resolv.conf", root / "etc/resolv.conf")
    in_root(root, [*APT, "update"])
    try:
        yield
    finally:
        settings.unlink()
        sources.rename(parked)
        if hidden.exists():
            hidden.rename(local)
        (root / "etc/resolv.conf").write_text("")


def download(root: Path, packages: Sequence[str], into: Path) -> None:
    """Fetch packages with whatever they need and `root` has not."""
    in_root(root, ["apt-get", "clean"])
    in_root(root, [*APT, "install", "--download-only", *packages])
    into.mkdir(parents=True)
    for package in sorted((root / "var/cache/apt/archives").glob("*.deb")):
        shutil.move(package, into / package.name)


def store_uncompressed(folder: Path, work: Path) -> None:
    """Replace each package by one without compression, because every conversion of a test node unpacks them."""
    for package in sorted(folder.glob("*.deb")):
        run(["dpkg-deb", "--raw-extract", str(package), str(work)], timeout=120)
        run(["dpkg-deb", "-Znone", "--build", str(work), str(package)], timeout=120)
        shutil.rmtree(work)


def index_packages(folder: Path) -> None:
    """Make a folder of packages an apt repository."""
    stanzas = []
    for package in sorted(folder.glob("*.deb")):
        control = run(["dpkg-deb", "--field", str(package)], timeout=30).out.strip()
        digest = run(["sha256sum", str(package)], timeout=60).out.split()[0]
        stanzas.append(f"{control}\nFilename: ./{package.name}\nSize: {package.stat().st_size}\nSHA256: {digest}\n")
    (folder / "Packages").write_text("\n".join(stanzas))


def container_images(root: Path, work: Path, into: Path) -> None:
    """The pause and busybox images, from Debian's static programs."""
    download(root, tuple(recipe.STATIC_PROGRAMS), work / "static")
    into.mkdir(parents=True)
    programs = {}
    for package, path in recipe.STATIC_PROGRAMS.items():
        archive = next((work / "static").glob(f"{package}_*.deb"))
        run(["dpkg-deb", "--extract", str(archive), str(work / package)], timeout=60)
        # From Debian 13 on, packages have nothing outside /usr.
        places = (work / package / path, work / package / "usr" / path)
        programs[package] = next(place for place in places if place.exists()).read_bytes()
    (into / "pause.tar").write_bytes(oci.pause_image(programs["catatonit"], architecture=architecture()))
    (into / "busybox.tar").write_bytes(oci.busybox_image(programs["busybox-static"], architecture=architecture()))


def know_local_packages(root: Path, debs: Path) -> None:
    """Read the local repository once, so that `apt-get install containerd` on a node needs no update first."""
    mounted = root / "opt/testbed/debs"
    shutil.copytree(debs, mounted)
    shutil.rmtree(root / "var/lib/apt/lists")
    (root / "var/lib/apt/lists/partial").mkdir(parents=True)
    in_root(root, [*APT, "update"])
    shutil.rmtree(mounted)
    in_root(root, ["apt-get", "clean"])


def install(root: Path, packages: Sequence[str]) -> None:
    """Add packages to `root` without starting anything."""
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    in_root(root, [*APT, "install", *packages])
    policy.unlink()


def in_root(root: Path, argv: Sequence[str]) -> Completed:
    """Run a command of the image, in the image."""
    environment = ("env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
    return run(confined(["chroot", str(root), *environment, *argv]), timeout=BUILD_TIMEOUT)


def accounts(root: Path) -> dict[str, tuple[int, int]]:
    """User name → numeric user and group, as the packages of this image happened to get them."""
    lines = [line.split(":") for line in (root / "etc/passwd").read_text().splitlines()]
    return {fields[0]: (int(fields[2]), int(fields[3])) for fields in lines}


def pack(root: Path, archive: Path) -> None:
    """The file system as one tar."""
    # /dev stays: what is installed on top of this image needs /dev/null.
    excluded = [f"--exclude=./{folder}/*" for folder in ("proc", "sys", "run", "tmp")]
    run(["tar", "--create", f"--file={archive}", f"--directory={root}", "--numeric-owner", *excluded, "."], timeout=600)


def unpack(archive: Path, root: Path) -> None:
    """The reverse of `pack`."""
    root.mkdir()
    run(["tar", "--extract", f"--file={archive}", f"--directory={root}", "--numeric-owner", "-p"], timeout=600)
