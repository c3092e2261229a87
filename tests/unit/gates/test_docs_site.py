# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation site has the pages of the repository, and its links lead where they lead there."""

from __future__ import annotations

from pathlib import Path

from gates.reference import SITE_FILES, assemble


def test_links_between_pages_stay_and_links_to_other_files_lead_to_the_repository(tmp_path: Path) -> None:
    checkout, source = tmp_path / "checkout", tmp_path / "source"
    (checkout / "docs/docsite").mkdir(parents=True)
    for name in SITE_FILES:
        (checkout / "docs/docsite" / name).write_text("")
    (checkout / "galaxy.yml").write_text("repository: https://example.org/hpc\n")
    (checkout / "COPYING").write_text("")
    (checkout / "docs/one.md").write_text("[two](two.md#part) [licence](../COPYING) [gone](gone.md)")
    (checkout / "docs/two.md").write_text("")
    assemble(checkout, [Path("docs/one.md"), Path("docs/two.md")], source)
    assert (source / "docs/one.md").read_text() == (
        "[two](two.md#part) [licence](https://example.org/hpc/tree/main/COPYING) [gone](gone.md)"
    )
    assert (source / "docs/two.md").is_file()
