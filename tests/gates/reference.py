# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate and command: the documentation is well-formed, and the site with guides and reference can be built from it.

The site is built when it is wanted (`make docs`) and not kept in the repository, where it would only lag behind. Sphinx
builds it: the reference of plugins and roles by antsibull-docs, the guides as they are on GitHub by MyST.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from gates.gate import Context, GateFailure, listed_files

# Patterns of git, in which `*` stays within a folder.
PAGES = tuple(f":(glob){pattern}" for pattern in ("*.md", "docs/*.md", "docs/guides/*.md", "roles/*/README.md"))
SITE_FILES = ("conf.py", "index.md", "roles.md", "ansible.rst")
LINK = re.compile(r"\[[^\]]*\]\(([^)#:\s]+)(?:#[^)]*)?\)")


def check_docs(context: Context) -> None:
    """Check the documentation of plugins and roles, links, the README's lists, and that the site can be built."""
    context.run(["antsibull-docs", "lint-collection-docs", "--plugin-docs", "--skip-rstcheck", "."])
    pages = context.files(*PAGES)
    readme = (context.checkout / "README.md").read_text(encoding="utf-8")
    problems = [*broken_links(context.checkout, pages), *unlisted(readme, content_names(context))]
    for problem in problems:
        context.say(problem)
    if problems:
        raise GateFailure(f"{len(problems)} problems, the first: {problems[0]}")
    source = context.scratch / "site-source"
    assemble(context.checkout, pages, source)
    for argv in commands(source, context.scratch / "site"):
        context.run(argv)


def assemble(checkout: Path, pages: Iterable[Path], source: Path) -> None:
    """Copy the pages into a new folder, in the layout of the repository, so that links between them hold.

    A link to a file that is no page of the site leads to the repository.
    """
    shutil.rmtree(source, ignore_errors=True)
    (source / "reference").mkdir(parents=True, mode=0o755)  # antsibull-docs takes no folder that others may write to
    known = set(pages)
    repository = re.search(r"^repository: (\S+)$", (checkout / "galaxy.yml").read_text(encoding="utf-8"), re.MULTILINE)
    if repository is None:
        raise GateFailure("galaxy.yml has no repository")

    for page in known:
        where = page.parent

        def lead(found: re.Match[str], where: Path = where) -> str:
            path = Path(os.path.normpath(where / found[1]))
            if path in known or not (checkout / path).exists():
                return found[0]
            return found[0].replace(f"({found[1]}", f"({repository[1]}/tree/main/{path}")

        target = source / page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(LINK.sub(lead, (checkout / page).read_text(encoding="utf-8")), encoding="utf-8")
    for name in SITE_FILES:
        shutil.copy(checkout / "docs/docsite" / name, source / name)


def commands(source: Path, into: Path) -> list[list[str]]:
    """Return what writes the reference of plugins and roles into the site's source, and what builds the site."""
    reference = ["antsibull-docs", "collection", "--use-current", "--squash-hierarchy", "--fail-on-error"]
    return [
        [*reference, "--dest-dir", str(source / "reference"), "converged.hpc"],
        [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", str(source), str(into)],
    ]


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
    """Build the site into the cache and name its first page (`make docs`)."""
    checkout = Path(__file__).resolve().parents[2]
    folder = Path(os.environ["CONVERGED_OWN_CACHE"])
    shutil.rmtree(folder / "site", ignore_errors=True)
    assemble(checkout, listed_files(checkout, *PAGES), folder / "site-source")
    for argv in commands(folder / "site-source", folder / "site"):
        if subprocess.run(argv, cwd=checkout, timeout=600, check=False).returncode != 0:
            print("the site could not be built")
            return 1
    print(f"the site is built; its first page is {folder / 'site/index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
