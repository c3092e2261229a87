# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guide "Run Spark on shared nodes", followed as it is written: its commands, and the lines of its files to change.

Only names are changed that the guide writes large, and what a test bed lacks of a site is added.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from e2e.handover.sharing import Sharing
from e2e.playing import Said
from e2e.spark_site import EXAMPLE, JAVA
from testbed import spark_image

GUIDE = Path(__file__).resolve().parents[2] / "docs/guides/spark.md"
SECTIONS = ("What the site needs", "Try it")
# Where administrator and user have their copies of the files: on the host that has kubectl.
FOLDER, WATCHER = "/root/spark-guide", "/run/spark-guide.pid"
USER = ("--as=alice", "--as-group=spark-users")
LOG_SECONDS = 900.0


def prose() -> str:
    """Return the sections that are followed, with their lines joined."""
    parts = re.split(r"^## (.*)$", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    return " ".join(" ".join(found[name] for name in SECTIONS).split())


def commands() -> list[str]:
    """Return the commands of these sections."""
    return re.findall(r"`((?:kubectl|srun|ansible-playbook) [^`]*)`", prose())


def result() -> str:
    """Return the number that the example prints, by the guide."""
    (found,) = re.findall(r"prints the sum of 60,000 numbers, (\d+)", prose())
    return str(found)


class Followed:
    """An administrator and a user who do what the guide says. `left` are commands not yet typed."""

    def __init__(self, site: Sharing, folder: Path) -> None:
        self.site, self.folder = site, folder
        self.left = commands()
        self._write("namespace.yml", (EXAMPLE / "namespace.yml").read_text(encoding="utf-8"))

    def words(self, begin: str, **names: str) -> list[str]:
        """Return the words of the one command that begins so, with `names` for words that stand for others."""
        (found,) = [command for command in commands() if command.startswith(begin)]
        if found in self.left:
            self.left.remove(found)
        return [names.get(word, word) for word in shlex.split(found)]

    def administrator(self, begin: str, **names: str) -> str:
        """Type a command of kubectl as the administrator, and return what it prints."""
        return self._kubectl(self.words(begin, **names))

    def user(self, begin: str, *, timeout: float = 300.0) -> str:
        """Type a command of kubectl as a member of the team, and return what it prints."""
        kubectl, *rest = self.words(begin)
        return self._kubectl([kubectl, *USER, *rest], timeout=timeout)

    @contextlib.contextmanager
    def watching(self, begin: str, log: Path) -> Iterator[None]:
        """Type a command that does not end, and end it behind what follows. What it prints goes to a file here."""
        kubectl, *rest = self.words(begin)
        there = f"{WATCHER}.log"
        typed = shlex.join([kubectl, *USER, *rest])
        self.site.node("kube", f"setsid {typed} >{there} 2>&1 & echo $! >{WATCHER}")
        try:
            yield
        finally:
            self.site.node("kube", f"kill $(cat {WATCHER})")
            log.write_text(self.site.node("kube", f"cat {there}"), encoding="utf-8")

    def change_job(self, api_server: str) -> None:
        """Change the lines of job.yml that a user must change, and have Java compile less: a bed has few processors."""
        text = (EXAMPLE / "job.yml").read_text(encoding="utf-8")
        changes = {"registry.example/spark:CHANGE-ME": spark_image.NAME, "https://kubernetes.default.svc": api_server}
        for shipped, own in changes.items():
            assert text.count(shipped) == 1, f"job.yml has {shipped} {text.count(shipped)} times"
            text = text.replace(shipped, own)
        heading, options = "spark.properties: |\n", ("spark.executor.extraJavaOptions", "spark.driver.extraJavaOptions")
        assert text.count(heading) == 1
        text = text.replace(heading, heading + "".join(f"        {name} {JAVA}\n" for name in options))
        self._write("job.yml", text)

    def job(self, begin: str) -> tuple[list[str], str]:
        """Return the options and the command of a batch job, which the caller submits."""
        _program, *words = self.words(begin)
        options = [word for word in words if word.startswith("-")]
        return options, shlex.join(words[len(options) :])

    def verify(self, begin: str, **variables: Any) -> Said:
        """Run the playbook in the folder of the file, with what a test bed adds."""
        _program, _option, _inventory, playbook, *options = self.words(begin)
        with contextlib.chdir(self.folder):
            return self.site.run(playbook, *options, check=False, **variables)

    def _kubectl(self, words: list[str], *, timeout: float = 300.0) -> str:
        return self.site.bed.exec("kube", ["env", f"--chdir={FOLDER}", *words], timeout=timeout).out

    def _write(self, name: str, text: str) -> None:
        """Write a file here, for Ansible, and on the host that has kubectl."""
        (self.folder / name).write_text(text, encoding="utf-8")
        self.site.node("kube", f"mkdir -p {FOLDER} && cat > {FOLDER}/{name}", input=text)
