# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m bootstrap TARGET`: judges the machine, installs what is missing, then becomes the target's program.

With nothing to do this takes a fifth of a second, so every make target goes through it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from gates import asked
from testbed.kube_go import work_folder

from bootstrap import checks, packages, venvs
from bootstrap.checks import CODE_ONLY, DEMO, TESTS, Need
from bootstrap.environment import DEFAULT_CACHE, Places, places, variables
from bootstrap.errors import BootstrapError
from bootstrap.machine import Machine, read_machine
from bootstrap.run import run, step


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a make target needs, and the program it ends in (started with the environment's Python)."""

    program: tuple[str, ...]
    need: Need = CODE_ONLY
    groups: tuple[str, ...] = ("dev",)


TARGETS = {
    "demo": Target(program=("-m", "demo"), need=DEMO),
    "demo-spark": Target(program=("-m", "e2e.spark_demo"), need=DEMO),
    "test": Target(program=("-m", "gates", "test"), need=TESTS, groups=("dev", "importer")),
    "check": Target(program=("-m", "gates", "check")),
    "soak": Target(program=("-m", "gates", "soak"), need=TESTS),
    "bench": Target(program=("-m", "gates", "bench"), need=TESTS),
    "gate": Target(program=("-m", "gates", "only"), need=TESTS, groups=("dev", "importer")),
    "docs": Target(program=("-m", "gates.reference")),
    "shared": Target(program=("-m", "gates.shared")),
}
# Gates on beds, and their groups, have names that begin with one of these words.
GATES_ON_BEDS = {"bench", "churn", "demo", "e2e", "molecule", "soak", "supplies", "vm"}
CACHE_TAG = "CACHEDIR.TAG"
PROGRAMS = "bin/*/kubelet"
USAGE = f"usage: tests/bootstrap/enter.sh {'|'.join(TARGETS)}|exec COMMAND ...|clean"


def main(arguments: list[str]) -> int:
    """Prepares the machine and replaces this process by the target's program."""
    name, *rest = arguments or [""]
    where = places(Path(__file__).resolve().parents[2], os.environ)
    try:
        if name == "clean":
            return clean(where)
        if name == "exec" and rest:
            target, argv = Target(program=()), rest
        elif name in TARGETS:
            target, argv = target_of(name, rest), []
        else:
            wrong = "exec: no command given" if name == "exec" else f"unknown target '{name}'"
            print(f"error: {wrong}\n{USAGE}", file=sys.stderr)
            return 2
        if "gates" in target.program:
            check_values(os.environ)
        environ = prepare(where, target, os.environ)
        become(argv or [os.path.join(environ["VIRTUAL_ENV"], "bin", "python"), *target.program, *rest], environ)
    except asked.UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BootstrapError as error:
        print(f"error: {error}", file=sys.stderr)
    except OSError as error:
        # A full disk, a folder that may not be written: the name and the reason are all there is to say.
        print(f"error: {error.filename or 'a file'}: {error.strerror}", file=sys.stderr)
    return 1


def target_of(name: str, gates: list[str]) -> Target:
    """Return what is started. Where the first word of no gate named is one of gates on beds, no packages for beds.

    The program itself refuses names that there are not.
    """
    on_beds = GATES_ON_BEDS.intersection(gate.partition("-")[0] for gate in gates)
    if on_beds or (name, gates) == ("soak", []) or name not in ("gate", "soak"):
        return TARGETS[name]
    return replace(TARGETS[name], need=CODE_ONLY)


def check_values(environ: Mapping[str, str]) -> None:
    """Raise UsageError for a seed or another value that the gates would refuse, before minutes are spent."""
    asked.seed_of(environ)
    asked.is_fresh(environ)


def become(argv: list[str], environ: Mapping[str, str]) -> NoReturn:
    """Replaces this process."""
    command = shutil.which(argv[0], path=environ["PATH"])
    if command is None:
        raise BootstrapError(f"command '{argv[0]}' is not on PATH.")
    os.execve(command, argv, environ)


def prepare(where: Places, target: Target, environ: Mapping[str, str]) -> dict[str, str]:
    """Makes the machine ready and returns the environment for the target."""
    wanted = [venvs.planned(where, group=group, python=sys.executable, version=sys.version) for group in target.groups]
    result = variables(where, venv=wanted[0].folder, environ=environ)
    packages_needed = packages.needed(test_bed=target.need.test_bed, machines=target.need.machines)
    to_install = packages.missing(packages_needed, packages.installed_now(packages_needed))
    fresh = bool(to_install) or not all(venv.ready() for venv in wanted)
    machine = judge(where, target, environ, fresh=fresh)
    own_cache(where, machine)
    log = where.logs / "bootstrap.log"
    if to_install:
        packages.install(to_install, machine=machine, environ=result, log=log)
    for venv in wanted:
        venvs.make(venv, environ=result, log=log)
        result[f"CONVERGED_{venv.group.upper()}_VENV"] = str(venv.folder)
    venvs.link(where.cache / "venv", wanted[0].folder)
    venvs.link(where.collections / "ansible_collections" / "converged" / "hpc", where.checkout)
    return result


def judge(where: Places, target: Target, environ: Mapping[str, str], *, fresh: bool) -> Machine:
    """Refuses what cannot work; notes are shown once, when something is installed."""
    machine = read_machine(where, environ)
    findings = checks.check(machine, target.need.cached() if programs_built(where.cache) else target.need)
    refusals = [finding.text for finding in findings if finding.refused]
    if refusals:
        raise BootstrapError("\nerror: ".join(refusals))
    if fresh:
        for finding in findings:
            print(f"  note: {finding.text}", file=sys.stderr)
    return machine


def programs_built(cache: Path) -> bool:
    """Return whether Kubernetes' programs were built in this cache; they come into it all at once."""
    return any(cache.glob(PROGRAMS))


def own_cache(where: Places, machine: Machine) -> None:
    """The cache folder, owned by the user who runs this: only the test bed's parts in it are root's."""
    if where.checkout in (where.cache, *where.cache.parents):
        raise BootstrapError(f"{where.cache} is in the checkout; type: export CONVERGED_CACHE=/a/folder/with/room")
    if not where.cache.exists():
        try:
            where.cache.mkdir(parents=True, mode=0o755)
        except PermissionError:
            owner = f"{os.geteuid()}:{os.getegid()}"
            mine = ["-o", str(os.geteuid()), "-g", str(os.getegid())]
            if not machine.sudo:
                raise BootstrapError(
                    f"{where.cache} cannot be made; type: sudo install -d -o {owner} {where.cache}"
                ) from None
            run(["sudo", "-n", "install", "-d", "-m", "0755", *mine, str(where.cache)], timeout=30, log=None)
        except OSError as error:
            raise BootstrapError(
                f"{where.cache} cannot be made ({error.strerror}); set CONVERGED_CACHE to a folder that can."
            ) from None
    tag = where.cache / CACHE_TAG
    if not tag.exists():
        # `make clean` removes the whole folder, so it must never be one that holds something else.
        if any(where.cache.iterdir()) and where.cache != Path(DEFAULT_CACHE):
            raise BootstrapError(
                f"{where.cache} holds other files; set CONVERGED_CACHE to a folder that is empty or new."
            )
        tag.write_text("Signature: 8a477f597d28d172789f06886806bc55\n# The cache of converged.hpc.\n", encoding="ascii")
    where.own.mkdir(parents=True, exist_ok=True)


def clean(where: Places) -> int:
    """Takes the test beds down and removes the cache folder."""
    if not where.cache.exists():
        print(f"nothing to clean: {where.cache} does not exist")
        return 0
    if not (where.cache / CACHE_TAG).exists():
        raise BootstrapError(f"{where.cache} has no {CACHE_TAG} of this project, so it is left as it is.")
    beds = where.cache / "beds"
    environ = variables(where, venv=where.cache / "venv", environ=os.environ)
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if beds.is_dir() and any(beds.iterdir()):
        python = where.cache / "venv/bin/python"
        argv = [str(python) if python.exists() else sys.executable, "-m", "testbed", "down", "--all"]
        done = subprocess.run(argv, env=environ, stdin=subprocess.DEVNULL, timeout=600, check=False)
        if done.returncode != 0:
            raise BootstrapError(f"a test bed could not be taken down; {where.cache} is left as it is.")
    with step(f"removing {where.cache}"):
        # Parts of it are root's: the test bed's images, volumes and binaries.
        folders = [str(where.cache), str(work_folder(where.cache))]
        run([*as_root, "rm", "-rf", "--one-file-system", *folders], timeout=600, log=None)
    return 0
