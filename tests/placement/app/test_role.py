# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role installs and declares is what the daemon needs."""

import tomllib
from pathlib import Path

import yaml
from placement.kube.dialects import DIALECTS

CHECKOUT = Path(__file__).resolve().parents[3]
ROLE = CHECKOUT / "roles/placement"


def test_the_role_installs_what_the_daemon_is_tested_with():
    groups = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["dependency-groups"]
    wanted = yaml.safe_load((ROLE / "defaults/main.yml").read_text())["placement_requirements"]
    pinned = [item for name in ("daemon", "dev-indirect") for item in groups[name] if isinstance(item, str)]
    assert set(wanted) <= set(pinned)
    assert set(groups["daemon"]) <= set(wanted)


def test_the_role_gives_rights_in_every_dialect():
    named = yaml.safe_load((ROLE / "vars/main.yml").read_text())["_placement_dialects"]
    assert {dialect.name.partition("/")[0] for dialect in DIALECTS} == set(named)


def test_every_api_below_k8s_io_that_we_ship_has_its_annotation():
    crds = yaml.safe_load((ROLE / "files/crds/crds.yml").read_text())["items"]
    assert len(crds) == 5
    for crd in crds:
        protected = crd["spec"]["group"].endswith(".k8s.io")
        assert ("api-approved.kubernetes.io" in crd["metadata"].get("annotations", {})) is protected
