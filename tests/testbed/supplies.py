# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What beds are made of, from the caches: Kubernetes programs and node images, built side by side where they lack."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pbs_double.real import installation

from testbed import binaries, cgroups, down, images, machine_disks, machine_recipe, machines, rootfs
from testbed.cgroups import Way
from testbed.errors import BedError, UsageError
from testbed.images import CachedImage
from testbed.layout import Request
from testbed.machine_disks import MachineDisks
from testbed.machine_recipe import DiskRecipe
from testbed.parallel import side_by_side
from testbed.podman import Podman
from testbed.progress import step
from testbed.recipe import ACCOUNTING, DEFAULT_DEBIAN, OPENPBS, SUITES, Recipe
from testbed.state import bed_names

# Program → the package that has it. The engine's helpers are found by the engine itself.
PROGRAMS = {
    "podman": "podman",
    "netavark": "netavark",
    "mmdebstrap": "mmdebstrap",
    "ssh-keygen": "openssh-client",
    "ip": "iproute2",
    "setpriv": "util-linux",
    "dpkg-deb": "dpkg",
}
RUNTIMES = {Way.V1: "runc", Way.V2: "crun", Way.PRIVATE_V2: "crun"}
HELPER_FOLDERS = "/usr/lib/podman:/usr/libexec/podman:/usr/local/lib/podman:/usr/local/libexec/podman"


PURPOSES = ("demo", "all")


@dataclass(frozen=True, slots=True)
class Supplies:
    """What a bed is made of."""

    base: CachedImage
    controller_image: CachedImage
    node_image: CachedImage
    binaries: Path | None
    disks: MachineDisks | None = None


def check_programs(way: Way, *, vm: bool = False) -> None:
    """Say which package is missing before anything is made."""
    if vm and rootfs.architecture() != machine_recipe.ARCHITECTURE:
        raise BedError(f"--vm: machines are {machine_recipe.ARCHITECTURE}, this host is {rootfs.architecture()}")
    runtime = RUNTIMES[way]
    for program, package in {**PROGRAMS, runtime: runtime, **(machines.PROGRAMS if vm else {})}.items():
        if shutil.which(program) is None and shutil.which(program, path=HELPER_FOLDERS) is None:
            raise BedError(f"{program}: not found on this machine; type: apt-get install {package}")


def fetch(request: Request, podman: Podman, given: Path | None) -> Supplies:
    """Return programs and images for one bed; build those that the caches do not have."""
    base = Recipe(request.debian)
    controller = node = base
    if request.slurmdbd:
        controller = Recipe(request.debian, ACCOUNTING)
    if request.pbs_exec:
        controller = node = Recipe(request.debian, OPENPBS)
    programs = list[Path]()

    def build() -> None:
        programs.append(binaries.build_binaries(given=given))

    side_by_side([*([build] if request.kube else []), *image_work({base: podman, controller: podman, node: podman})])
    built = programs[0] if programs else None
    return Supplies(
        base=images.cached(base),
        controller_image=images.cached(controller),
        node_image=images.cached(node),
        binaries=built,
        disks=machine_disks.ensure(DiskRecipe(bool(request.security)), binaries=built) if request.vm else None,
    )


def image_work(wanted: dict[Recipe, Podman]) -> list[Callable[[], None]]:
    """Return what makes these images: Debian releases side by side, layers after what they lie on."""

    def of_release(recipes: Sequence[Recipe]) -> None:
        for recipe in recipes:
            images.ensure(recipe, wanted[recipe])

    ordered = sorted(wanted, key=lambda recipe: recipe.layer)
    releases = {recipe.debian: [one for one in ordered if one.debian == recipe.debian] for recipe in ordered}
    return [partial(of_release, recipes) for recipes in releases.values()]


def fill(purpose: str) -> None:
    """Have in the caches whatever beds of the demo, or of all tests, are made of."""
    if purpose not in PURPOSES:
        raise UsageError(f"--for {purpose}: unknown; give one of {', '.join(PURPOSES)}")
    names, recipes = wanted_for(purpose)
    version = cgroups.host_version()
    engines = {recipe: Podman(cgroups.choose(version=version, debian=recipe.debian)) for recipe in recipes}
    for podman in engines.values():
        check_programs(podman.way)
        podman.configure()
    with step(f"supplies for {purpose}: {len(names)} programs, {len(recipes)} images"):
        side_by_side([partial(build_programs, names), *image_work(engines)])
        if purpose == "all" and rootfs.architecture() == machine_recipe.ARCHITECTURE:
            machine_disks.ensure(DiskRecipe(), binaries=None)
    if not bed_names():
        down.release_storage()


def build_programs(names: Collection[str]) -> None:
    binaries.build_binaries(names=names)


def wanted_for(purpose: str) -> tuple[Collection[str], list[Recipe]]:
    """Return the names of programs, and the images."""
    if purpose == "demo":
        return binaries.STARTED, [Recipe(DEFAULT_DEBIAN)]
    layers = [ACCOUNTING, *([OPENPBS] if installation() else [])]
    return binaries.ALL, [*map(Recipe, SUITES), *(Recipe(DEFAULT_DEBIAN, layer) for layer in layers)]
