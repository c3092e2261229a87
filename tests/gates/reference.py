# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate and command: the documentation of plugins and roles is well-formed, and a reference can be made from it.

The reference is generated when it is wanted (`make docs`, or `ansible-doc` on an installed collection) and not kept in
the repository, where it would only lag behind.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from gates.gate import Context, GateFailure

LINK = re.compile(r"\[[^\]]*\]\(([^)#:\s]+)(?:#[^)]*)?\)")


def check_docs(context: Context) -> None:
    """antsibull-docs on every plugin and role, links between guides, and the README's lists."""
    context.run(["antsibull-docs", "lint-collection-docs", "--plugin-docs", "--skip-rstcheck", "."])
    generate(context, context.scratch / "reference")
    pages = context.files("README.md", "docs/**.md", "docs/*.md", "roles/*/README.md")
    readme = (context.checkout / "README.md").read_text(encoding="utf-8")
    problems = [*broken_links(context.checkout, pages), *unlisted(readme, content_names(context))]
    for problem in problems:
        context.say(problem)
    if problems:
        raise GateFailure(f"{len(problems)} problems, the first: {problems[0]}")


def generate(context: Context, into: Path) -> None:
    """Writes the reference of all modules, filters and roles, as reStructuredText."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    argv = ["antsibull-docs", "collection", "--use-current", "--squash-hierarchy", "--fail-on-error"]
    context.run([*argv, "--dest-dir", str(into), "converged.hpc"])


def content_names(context: Context) -> list[str]:
    """The modules, filters, roles and playbooks that the README must list."""
    modules = [path.stem for path in context.files("plugins/modules/*.py", "playbooks/*.yml")]
    roles = sorted({path.parts[1] for path in context.files("roles/*/tasks/main.yml")})
    return [*modules, *roles]


def unlisted(readme: str, names: Iterable[str]) -> Iterator[str]:
    """What the collection has and the README does not name."""
    return (f"README.md does not list {name}" for name in names if not re.search(rf"\b{re.escape(name)}\b", readme))


def broken_links(root: Path, pages: Iterable[Path]) -> Iterator[str]:
    """Links of Markdown pages to files that are not there."""
    for page in pages:
        for target in LINK.findall((root / page).read_text(encoding="utf-8")):
            if not (root / page.parent / target).exists():
                yield f"{page}: the link to {target} leads nowhere"


def main() -> int:
    """`make docs`: generates the reference into the cache and names the folder."""
    checkout = Path(__file__).resolve().parents[2]
    folder = Path(os.environ["CONVERGED_OWN_CACHE"]) / "reference"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    argv = ["antsibull-docs", "collection", "--use-current", "--squash-hierarchy", "--fail-on-error"]
    done = subprocess.run([*argv, "--dest-dir", str(folder), "converged.hpc"], cwd=checkout, timeout=600, check=False)
    print(f"the reference is in {folder}" if done.returncode == 0 else "the reference could not be made")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
