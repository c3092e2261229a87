# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate: ansible-test sanity, with a HOME of its own and the interpreters that are really there."""

from __future__ import annotations

import contextlib
import fcntl
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ansible_test._util.target.common import constants  # type: ignore[import-untyped]

from gates.artifact import tree_for_ansible_test
from gates.file_sets import load
from gates.gate import Context, GateFailure
from gates.interpreters import Version, interpreters, of_every_change, version_of
from gates.skips import ALLOWED, Skip, allowed_reasons, refused, report

SKIPPED = re.compile(r'Skipping sanity test "(?P<test>[^"]+)"(?P<python> on Python [\d.]+)? (?P<reason>.+)')
# What ansible-test downloads when it makes an environment, in a form that needs no download.
STAND_IN = """\
import sys
import sysconfig

WHEEL = {wheel!r}
sys.path.insert(0, WHEEL)
from pip._internal.cli.main import main

sys.exit(main(["install", "--no-index", "--no-deps", "--disable-pip-version-check", WHEEL]))
"""
# The sets of scopes.toml that hold documentation and the changelog.
TEXTS = ("changelogs", "prose")
# The tests of ansible-test that look at documentation and the changelog: at their names, their bytes, or as YAML.
PROSE_TESTS = (
    "changelog",
    "line-endings",
    "no-illegal-filenames",
    "no-smart-quotes",
    "shebang",
    "symlinks",
    "yamllint",
)
# The linters among them, which take most of the time. In every change ruff looks at the same files, with fewer rules.
LINTERS = ("pep8", "pylint")


def run_sanity(context: Context) -> None:
    """Run sanity tests on a copy of the collection that has no documentation: `sanity-prose` looks at that.

    What is compiled and imported is tried by the oldest Python, the newest, and the one that runs ansible-test.
    """
    _run_on_what_ships(context, of_every_change(_interpreters(context)), *_words("--skip-test", LINTERS))


def run_sanity_everywhere(context: Context) -> None:
    """Compile and import the same under every Python that there is, and run the linters."""
    _run_on_what_ships(context, _interpreters(context), *_words("--test", ("compile", "import", *LINTERS)))


def _words(option: str, values: Iterable[str]) -> list[str]:
    """Return the option once for each value."""
    return [word for value in values for word in (option, value)]


def _interpreters(context: Context) -> dict[Version, Path]:
    """Return those that ansible-test knows: it passes over all others in silence."""
    known = {
        version_of(text) for text in (*constants.REMOTE_ONLY_PYTHON_VERSIONS, *constants.CONTROLLER_PYTHON_VERSIONS)
    }
    found = interpreters(context.environ, lowest=min(known))
    return {version: path for version, path in found.items() if version in known}


def _run_on_what_ships(context: Context, found: Mapping[Version, Path], *options: str) -> None:
    files = load()
    folder = tree_for_ansible_test(context, "sanity", lambda path: files.set_of(path) not in TEXTS)
    context.say(f"SHOW interpreters: {', '.join('{}.{}'.format(*version) for version in found)}")
    _run_ansible_test(context, folder, [str(path.parent) for path in found.values()], *options)


def run_sanity_of_prose(context: Context) -> None:
    """Run the sanity tests that look at documentation and the changelog, on these alone."""
    files = load()
    folder = tree_for_ansible_test(context, "sanity-prose", lambda path: files.set_of(path) in TEXTS)
    _run_ansible_test(context, folder, [], *_words("--test", PROSE_TESTS))


def _run_ansible_test(context: Context, folder: Path, bins: list[str], *options: str) -> None:
    tool = Path(sys.executable).with_name("ansible-test")
    with a_home(context) as home:
        provide_pip(context, home)
        env = {
            "PATH": ":".join([str(Path(sys.executable).parent), *bins, "/usr/bin", "/bin"]),
            "HOME": str(home),
            "PYTHONPATH": "",
            "ANSIBLE_COLLECTIONS_PATH": str(folder.parents[2]),
        }
        context.run([tool, "sanity", "--color", "no", *options], cwd=folder, env=env)
    judge_skips(context, skips_in(context.log.read_text(encoding="utf-8")))


@contextlib.contextmanager
def a_home(context: Context) -> Iterator[Path]:
    """Yield a home for ansible-test, which keeps its environments there: minutes to make, the same for all checkouts.

    ansible-test does not expect a second run in the same home. While another checkout has the common one, this checkout
    takes its own.
    """
    common = context.cache / context.log.stem / Path(sys.prefix).name
    common.mkdir(parents=True, exist_ok=True)
    with (common / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield context.own / f"{context.log.stem}-home"
        else:
            yield common


def skips_in(said: str) -> list[Skip]:
    """The tests that ansible-test left out, which it says in a warning and passes over."""
    return [Skip(match["test"] + (match["python"] or ""), match["reason"]) for match in SKIPPED.finditer(said)]


def judge_skips(context: Context, skips: list[Skip]) -> None:
    """The rule for skips holds here too."""
    reasons = allowed_reasons(ALLOWED.read_text(encoding="utf-8"))
    for line in report(skips, reasons):
        context.say(f"SHOW {line}")
    if refused(skips, reasons):
        raise GateFailure("ansible-test skipped what tests/allowed-skips.txt does not allow")


def provide_pip(context: Context, home: Path) -> None:
    """Puts a stand-in where ansible-test would download its get-pip.py to.

    ansible-test fetches that file from a host of its own, which many networks do not let through; the same pip
    comes from the package index like everything else.
    """
    version = wanted_pip()
    target = home / ".ansible/test/cache" / f"get_pip_{version.replace('.', '_')}.py"
    wheels = context.cache / "wheels"
    wheel = wheels / f"pip-{version}-py3-none-any.whl"
    if not wheel.exists():
        fresh = context.scratch / "pip-download"
        shutil.rmtree(fresh, ignore_errors=True)
        context.run([sys.executable, "-m", "pip", "download", "--no-deps", "--dest", fresh, f"pip=={version}"])
        wheels.mkdir(parents=True, exist_ok=True)
        (fresh / wheel.name).replace(wheel)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(STAND_IN.format(wheel=str(wheel)), encoding="utf-8")


def wanted_pip() -> str:
    """The pip version that this ansible-test pins."""
    program = Path(sysconfig.get_path("purelib")) / "ansible_test/_internal/python_requirements.py"
    match = re.search(r"\bpip='([\d.]+)'", program.read_text(encoding="utf-8"))
    if match is None:
        raise GateFailure(f"{program} does not name its pip version as it used to")
    return match[1]
