# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scratch copy of the checkout, so that no fault ever gets into the checkout itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bootstrap.environment import Places, variables
from bootstrap.venvs import link

from mutations.faults import Fault, FaultError, with_fault

CHECKOUT = Path(__file__).resolve().parents[2]
# The list's own tests fail for every fault by design; what they say is not about the product.
LEFT_OUT = ("tests/mutations/", "tests/unit/mutations/")


@dataclass(frozen=True, slots=True)
class Tree:
    """A copy of the checkout below `folder`, with tool caches of its own beside it."""

    folder: Path

    @property
    def checkout(self) -> Path:
        """Where the copied files are."""
        return self.folder / "converged"

    def fill(self, source: Path = CHECKOUT) -> None:
        """Copy the tracked files, and new ones that git does not ignore, and make a git repository of the copy."""
        argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(argv, cwd=source, capture_output=True, text=True, timeout=60, check=True).stdout
        for name in sorted(filter(None, listed.split("\0"))):
            if name.startswith(LEFT_OUT) or not (source / name).is_file():
                continue
            (self.checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, self.checkout / name, follow_symlinks=False)
        for words in (["init", "--quiet"], ["add", "--all"]):  # some tests ask git for the files
            subprocess.run(["git", *words], cwd=self.checkout, capture_output=True, timeout=60, check=True)

    @contextmanager
    def broken(self, fault: Fault) -> Iterator[None]:
        """Have the fault in the copy for as long as the context lasts."""
        path = self.checkout / fault.file
        before = self.apply(fault)
        try:
            yield
        finally:
            path.write_text(before, encoding="utf-8")

    def apply(self, fault: Fault) -> str:
        """Put the fault into the copy, and return the file's text without it."""
        path = self.checkout / fault.file
        if not path.is_file():
            raise FaultError(f"{fault.id}: there is no file {fault.file}")
        before = path.read_text(encoding="utf-8")
        path.write_text(with_fault(fault, before), encoding="utf-8")
        return before

    def environ(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the environment for tools in the copy: that of enter.sh, with caches that go with the copy."""
        where = _Beside(checkout=self.checkout, cache=Path(given["CONVERGED_CACHE"]))
        link(where.collections / "ansible_collections" / "converged" / "hpc", self.checkout)
        # All runs draw by the seeds of the repository: a fault must not be found by luck.
        left_out = ("CONVERGED_SEED", "PYTHONPATH")
        kept = {name: value for name, value in given.items() if name not in left_out}
        return {
            **variables(where, venv=Path(given["VIRTUAL_ENV"]), environ=kept),
            "CONVERGED_LOGS": str(self.folder / "logs"),
            "PYTHONHASHSEED": "0",
        }

    def remove(self) -> None:
        """Remove the copy and its caches."""
        shutil.rmtree(self.folder, ignore_errors=True)


class _Beside(Places):
    """Places whose part of the cache lies beside the copy."""

    @property
    def own(self) -> Path:
        """Return the folder for tool caches."""
        return self.checkout.parent / "own"


def scratch_tree(given: Mapping[str, str]) -> Tree:
    """Return a new tree, filled, in this checkout's part of the cache."""
    folder = Path(given["CONVERGED_OWN_CACHE"]) / "mutations" / str(os.getpid())
    tree = Tree(folder)
    tree.remove()
    tree.fill()
    return tree
