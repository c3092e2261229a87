# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every variable is said somewhere in the documentation, and the few that a site must set stand together."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/guides/variables.md"
# Groups, facts and names of files that look like variables.
NO_VARIABLES = {"converged_hook", "converged_share"}
GROUPS = re.compile(
    r"converged_(nodes|controllers|kube|excepted|done|pending|waiting|planned|skipped|converted|left_out)"
)
# How names of variables begin.
PREFIXES = ("converged_", "node_", "pbs_share_", "share_preflight_", "slurm_", "torque_")
pytestmark = pytest.mark.prose


def defaults() -> set[str]:
    """Return the public variables of all roles."""
    files = ROOT.glob("roles/*/defaults/main.yml")
    return {name for path in files for name in yaml.safe_load(path.read_text(encoding="utf-8")) or {}}


def of_playbooks() -> set[str]:
    """Return the variables of the site that playbooks and roles read."""
    files = [*ROOT.glob("playbooks/*.yml"), *ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("roles/*/vars/*.yml")]
    found = {name for path in files for name in re.findall(r"\bconverged_[a-z_]+\b", path.read_text(encoding="utf-8"))}
    return {name for name in found - NO_VARIABLES if not GROUPS.fullmatch(name)} | {"slurm_bin_dir", "pbs_bin_dir"}


def named(text: str) -> set[str]:
    """Return what a text has between backquotes."""
    return set(re.findall(r"`([a-z]+(?:_[a-z0-9]+)+)`", text))


def tier(number: int) -> str:
    """Return the text of one tier of the page."""
    return re.split(r"^## \d\. ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[number]


def test_every_variable_is_in_a_guide_or_a_readme() -> None:
    texts = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("roles/*/README.md"), ROOT / "README.md"]
    said = {name for path in texts for name in re.findall(r"\w+", path.read_text(encoding="utf-8"))}
    assert (defaults() | of_playbooks()) - said == set()


def test_the_page_of_variables_names_none_that_no_role_has() -> None:
    rows = re.findall(r"^\| (`.*?) \|", tier(3), re.MULTILINE)
    known = defaults() | of_playbooks() | {"converged_record_copy_dir"}
    assert {name for row in rows for name in named(row)} - known == set()


def test_a_site_must_say_five_things_at_most() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", tier(1), re.MULTILINE)
    assert set(rows) >= {"converged_wlm", "converged_kubeconfig"}
    assert len(rows) <= 5


def test_what_most_sites_look_at_are_variables_that_exist() -> None:
    words = {name for name in named(tier(2)) if name.startswith(("converged_", "slurm_", "pbs_", "node_", "share_"))}
    assert words
    assert words - defaults() - of_playbooks() == set()


@pytest.mark.parametrize("page", ["docs/guides/inventory.md", "roles/node_share/README.md"])
def test_a_page_for_the_first_reading_names_only_variables_that_exist(page: str) -> None:
    words = {name for name in named((ROOT / page).read_text(encoding="utf-8")) if name.startswith(PREFIXES)}
    assert words
    groups = {name for name in words if GROUPS.fullmatch(name)} | NO_VARIABLES
    assert (
        words - defaults() - of_playbooks() - groups - {"converged_record_copy_dir", "torque_bin_dir", "torque_home"}
        == set()
    )
