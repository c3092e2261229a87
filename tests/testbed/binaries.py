# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Kubernetes programs of the test bed: taken from a given folder, or built once from one go.mod.

No image registry is needed and nothing is taken from the machine but a Go tool chain: everything that runs is pinned
by tests/testbed/go/go.sum. The result lies in `<cache>/bin/<key>/`; the key changes with whatever changes the result.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed import kube_manifest as manifest
from testbed.errors import BedError
from testbed.kube_go import Go, build_settings, find_go, go_environment, places
from testbed.paths import binaries_dir, cache_dir
from testbed.progress import say, step
from testbed.run import run
from testbed.state import file_lock

GO_FOLDER = Path(__file__).with_name("go")
SOURCES = ("go.mod", "go.sum", "tools.go")
BIN_DIR_VARIABLE = "CONVERGED_BIN_DIR"
BUILD_LOG = "build.log"
BUILD_SECONDS = 3600
BUILD_BYTES = 8 * 1024**3
"""A cold build was seen to leave 3.9 GB in Go's caches and 0.6 GB of programs; its work folder had 3 GB."""
REBUILD_BYTES = 2 * 1024**3
"""What some of the programs need where others were built before."""


@dataclass(frozen=True, slots=True)
class Program:
    """One program: where its source is, and how it tells its version."""

    name: str
    package: str
    module: str = "k8s.io/kubernetes"
    version_argv: tuple[str, ...] = ("--version",)

    @property
    def built_as(self) -> str:
        """The file name that Go gives it: the last part of the package's path that is no version."""
        return [part for part in self.package.split("/") if not re.fullmatch(r"v\d+", part)][-1]


PROGRAMS = (
    Program("etcd", "go.etcd.io/etcd/server/v3", module="go.etcd.io/etcd/server/v3"),
    Program("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    Program("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    Program("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
    Program("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
    Program("kubeadm", "k8s.io/kubernetes/cmd/kubeadm", version_argv=("version", "-o", "short")),
    Program("kubectl", "k8s.io/kubernetes/cmd/kubectl", version_argv=("version", "--client")),
    Program("kwok", "sigs.k8s.io/kwok/cmd/kwok", module="sigs.k8s.io/kwok"),
)
KWOK = "kwok"
ALL = frozenset(program.name for program in PROGRAMS)
# What a bed starts; kwok waits for nodes for load, which few beds ever have.
STARTED = ALL - {KWOK}


def pinned_versions(go_mod: str) -> dict[str, str]:
    """Module -> version (without the v) of what go.mod requires."""
    return dict(re.findall(r"^\s*(?:require\s+)?(\S+) v(\S+)$", go_mod, flags=re.MULTILINE))


def wanted_versions() -> dict[str, str]:
    """Program -> version; go.mod is the only place where one is written."""
    pinned = pinned_versions((GO_FOLDER / "go.mod").read_text(encoding="utf-8"))
    return {program.name: pinned[program.module] for program in PROGRAMS}


def build_flags(kubernetes: str) -> list[str]:
    """The flags of every build; Kubernetes' own default version would be v0.0.0-master, in its audit log too."""
    stamps = [f"-X k8s.io/{part}version.gitVersion=v{kubernetes}" for part in ("component-base/", "client-go/pkg/")]
    return ["-mod=readonly", "-modcacherw", "-buildvcs=false", "-trimpath", "-ldflags", " ".join(["-s -w", *stamps])]


def build_key(go: Go, sources: Mapping[str, bytes], flags: list[str]) -> str:
    """Name the folder by all that decides the programs' content."""
    digest = hashlib.sha256()
    for part in (go.version, go.arch, *flags):
        digest.update(part.encode() + b"\0")
    for name in sorted(sources):
        digest.update(name.encode() + b"\0" + hashlib.sha256(sources[name]).digest())
    return f"{go.arch}-{digest.hexdigest()[:16]}"


def build_binaries(*, given: Path | None = None, names: Collection[str] = STARTED) -> Path:
    """Return a folder that holds the programs `names` in the pinned versions, building what is not there.

    `given` (or the environment's CONVERGED_BIN_DIR) is used as it is when it has all PROGRAMS in the right versions;
    nothing is built or written then. A program in the cache that no longer is what was built is named and built again.
    """
    named = given or (Path(os.environ[BIN_DIR_VARIABLE]) if os.environ.get(BIN_DIR_VARIABLE) else None)
    if named is not None:
        return check_given(named.absolute())
    go = find_go(cache=cache_dir(), among=places())
    sources = {name: (GO_FOLDER / name).read_bytes() for name in SOURCES}
    flags = build_flags(wanted_versions()["kubelet"])
    folder = binaries_dir() / build_key(go, sources, flags)
    if complete(folder, names):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    what = "build the Kubernetes programs"
    with step(what), file_lock("binaries", timeout=BUILD_SECONDS, what=what):
        build_missing(folder, names, go=go, flags=flags)
    return folder


def verify_cache() -> list[str]:
    """Hash all programs in the cache, and say which are no longer what was built."""
    folders = sorted(path.parent for path in binaries_dir().glob(f"*/{manifest.MANIFEST}"))
    return [
        f"{folder / fault.name} {fault.found}"
        for folder in folders
        for fault in manifest.faults(folder, manifest.load(folder), full=True)
    ]


def complete(folder: Path, names: Collection[str]) -> bool:
    """Return whether all of `names` are in a folder, and nothing in it is damaged."""
    entries = manifest.load(folder)
    return entries.keys() >= set(names) and not manifest.faults(folder, entries)


def check_given(folder: Path) -> Path:
    """Accept a folder whose programs all are there and of the right version."""
    absent = [program.name for program in PROGRAMS if not os.access(folder / program.name, os.X_OK)]
    if absent:
        raise BedError(f"{folder} has no program {', '.join(absent)}; add it, or leave --bin-dir out to have all built")
    wanted = wanted_versions()
    for program in PROGRAMS:
        check_version(folder / program.name, program, wanted[program.name])
    return folder


def check_version(path: Path, program: Program, wanted: str) -> None:
    """Run a program and compare the version that it tells."""
    try:
        answer = run([str(path), *program.version_argv], timeout=30, check=False)
    except OSError as error:
        raise BedError(f"{path} does not run ({error.strerror}); replace it by one for this machine") from None
    found = re.search(r"\bv?(\d+\.\d+\.\d+\S*)", answer.out)
    if answer.rc != 0 or not found:
        argv = " ".join(program.version_argv)
        raise BedError(f"{path} {argv} tells no version; replace it by {program.name} {wanted}")
    if found[1] != wanted:
        raise BedError(f"{path} has version {found[1]}, but the test bed needs {wanted}; replace it")


def build_missing(folder: Path, names: Collection[str], *, go: Go, flags: list[str]) -> None:
    """Build all programs that have no good file yet; each is in place as a whole, or is not."""
    entries = manifest.load(folder)
    for fault in manifest.faults(folder, entries):
        say(f"{folder / fault.name} {fault.found}: building it again")
        del entries[fault.name]
    for stale in folder.glob(".new-*"):
        shutil.rmtree(stale)
    missing = [program for program in PROGRAMS if program.name in names and program.name not in entries]
    if missing:
        check_space(cache_dir(), need=REBUILD_BYTES if entries else BUILD_BYTES)
        temporary = folder / f".new-{os.getpid()}"
        temporary.mkdir()
        try:
            begun = time.monotonic()
            with step(f"build {' '.join(program.name for program in missing)} with {go.version}"):
                build(missing, temporary, log=folder / BUILD_LOG, go=go, flags=flags)
            seconds = (time.monotonic() - begun) / len(missing)
            for program in missing:
                entries[program.name] = take_in(program, temporary / program.built_as, folder, seconds=seconds)
                manifest.save(folder, entries)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    manifest.refresh(folder, entries)


def check_space(cache: Path, *, need: int) -> None:
    free = shutil.disk_usage(cache).free
    if free < need:
        raise BedError(
            f"{cache} has {free / 1024**3:.1f} GB free, but building the Kubernetes programs needs"
            f" {need / 1024**3:.0f}; free some, or set CONVERGED_CACHE to a larger file system"
        )


def build(programs: Sequence[Program], into: Path, *, log: Path, go: Go, flags: list[str]) -> None:
    """Build programs in one go, so that one is linked while others are compiled; Go names the files."""
    packages = [program.package for program in programs]
    argv = [str(go.program), "build", "-C", str(GO_FOLDER), *flags, "-o", f"{into}/", *packages]
    with build_settings() as settings:
        answer = run(argv, timeout=BUILD_SECONDS, check=False, env=go_environment(cache_dir()) | settings)
    if answer.rc != 0:
        log.write_text(answer.out + answer.err, encoding="utf-8")
        reason = (answer.err.strip() or "no message").splitlines()[-1]
        names = " ".join(program.name for program in programs)
        raise BedError(f"go build of {names} failed: {reason}; all of it is in {log}")


def take_in(program: Program, built: Path, folder: Path, *, seconds: float) -> manifest.Entry:
    """Check, sync and rename one program; a crash leaves it absent, never half there."""
    version = wanted_versions()[program.name]
    check_version(built, program, version)
    with built.open("rb") as stream:
        os.fsync(stream.fileno())
    entry = manifest.describe(built, version=version, seconds=seconds)
    built.replace(folder / program.name)
    return entry
