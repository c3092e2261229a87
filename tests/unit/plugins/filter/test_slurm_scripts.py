# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The choice between lines of our own and running the site's script, and what the shell makes of it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.converged.hpc.plugins.filter.slurm_scripts import FilterModule, site_function

FILTERS = FilterModule().filters()
OURS = "/etc/converged/slurm"
SITE = {"Prolog": ["/etc/slurm/prolog.sh"], "Epilog": [], "PrologSlurmctld": None}


def plan(release: str, config: dict[str, Any], remembered: dict[str, str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = FILTERS["slurm_scripts"]({"version": release, "config": config}, OURS, remembered)
    return found


@pytest.mark.parametrize(
    ("release", "action", "site"), [("22.05.8", "set", "/etc/slurm/prolog.sh"), ("24.05.0", "add", None)]
)
def test_before_24_05_ours_stands_in_place_of_the_sites_and_from_then_on_beside_it(
    release: str, action: str, site: str | None
) -> None:
    made = plan(release, SITE)
    assert made["settings"][0] == {"key": "Prolog", "value": f"{OURS}/prolog", "action": action}
    assert {item["action"] for item in made["settings"][:4]} == {action}
    assert made["settings"][4] == {"key": "PrologFlags", "value": "Alloc,DeferBatch", "action": "merge"}
    assert made["sites"].get("Prolog") == site
    assert ("prolog.sh" in made["functions"]["prolog"]) is (site is not None)
    assert made["functions"]["epilog"] == "run_site() { :; }"


def test_a_second_run_finds_the_sites_script_by_what_the_first_has_remembered() -> None:
    first = plan("22.05.8", SITE)
    running = {item["key"]: [item["value"]] for item in first["settings"]}
    assert plan("22.05.8", running, first["sites"]) == first
    with pytest.raises(AnsibleFilterError, match="set slurm_share_site_scripts, with Prolog: ''"):
        plan("22.05.8", running)


@pytest.mark.parametrize(
    ("release", "sites", "restart"),
    [
        ("22.05.8", None, "all"),
        ("23.11.0", [], "backups"),
        ("24.11.5", [], "backups"),
        ("22.05.8", ["/opt/own"], "none"),
        ("24.11.5", ["/opt/own"], "none"),
    ],
)
def test_a_first_prolog_slurmctld_needs_a_start_of_each_slurmctld_that_reconfigure_does_not_start(
    release: str, sites: list[str] | None, restart: str
) -> None:
    first = plan(release, {"PrologSlurmctld": sites})
    assert first["restart"] == restart
    ours = [item["value"] for item in first["settings"] if item["key"] == "PrologSlurmctld"]
    running = ours if release < "24.05" else [*(sites or []), *ours]
    remembered = {"Prolog": "", "Epilog": "", "EpilogSlurmctld": "", **first["sites"]}
    again = plan(release, {"PrologSlurmctld": running}, remembered)
    assert again["restart"] == restart, "a run that was killed before is made good"


def test_what_the_site_has_set_since_counts_more_than_what_is_remembered() -> None:
    remembered = plan("22.05.8", SITE)["sites"]
    assert plan("22.05.8", {"Prolog": ["/opt/new"]}, remembered)["sites"]["Prolog"] == "/opt/new"


def test_a_pattern_of_the_site_runs_from_the_last_name_on_and_ends_at_the_first_failure(tmp_path: Path) -> None:
    for name, code in (("10-a", 0), ("20-b", 7), ("30 c", 0)):
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{name}' $# >> {tmp_path}/log\nexit {code}\n")
        (tmp_path / name).chmod(0o755)
    for shell in ("dash", "bash"):
        (tmp_path / "log").unlink(missing_ok=True)
        script = f'{site_function(f"{tmp_path}/[0-9]*")}\nrun_site "$@" || exit\nexit 0\n'
        assert subprocess.run([shell, "-c", script], timeout=120, check=False).returncode == 7
        assert (tmp_path / "log").read_text() == "30 c 0\n20-b 0\n"


@pytest.mark.parametrize("path", ["/a b/it's", "/x/$(touch here)", '/"', "/-rf", "/a;b"])
def test_any_path_is_one_word_for_the_shell(path: str, tmp_path: Path) -> None:
    script = tmp_path / path[1:]
    script.parent.mkdir(exist_ok=True)
    script.write_text("#!/bin/sh\nexit 9\n")
    script.chmod(0o755)
    text = f'{site_function(str(script))}\nrun_site "$@"\n'
    assert subprocess.run(["dash", "-c", text], timeout=120, check=False).returncode == 9


def test_a_pattern_that_the_shell_would_read_otherwise_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="cannot be run around"):
        site_function("/etc/$(x)/*")


@pytest.mark.parametrize(
    ("timeout", "wait"), [("65534 sec", 60), ("30 sec", 25), ("(null)", 60), (None, 60), ("65 sec", 60), ("3", 1)]
)
def test_the_wait_stays_below_the_sites_timeout(timeout: str | None, wait: int) -> None:
    assert FILTERS["slurm_script_wait"]({"PrologEpilogTimeout": timeout}, 60) == wait


def test_each_value_is_put_into_its_one_line() -> None:
    text = "#!/bin/sh\nwait=60\nrun_site() { :; }\n"
    filled = FILTERS["slurm_script"](text, 'run_site() { /a\\1 "$@"; }', {"wait": "a b"})
    assert filled == "#!/bin/sh\nwait='a b'\nrun_site() { /a\\1 \"$@\"; }\n"
    with pytest.raises(AnsibleFilterError, match="0 lines begin with 'other='"):
        FILTERS["slurm_script"](text, "", {"other": 1})


def test_only_hosts_that_have_their_scripts_are_ready() -> None:
    known: dict[str, dict[str, Any]] = {
        "a.x": {"inventory_hostname_short": "a", "__slurm_share_stubs": {"changed": False}},
        "b.x": {"inventory_hostname_short": "b", "__slurm_share_stubs": {"unreachable": True}},
        "c.x": {"inventory_hostname_short": "c", "__slurm_share_stubs": {"failed": True}},
        "d.x": {"inventory_hostname_short": "d"},
        "e.x": {
            "inventory_hostname_short": "e",
            "converged_wlm_node": "node5",
            "__slurm_share_stubs": {"changed": True},
        },
        "f.x": {"inventory_hostname_short": "f", "__slurm_share_stubs": {"changed": False, "would_change": False}},
    }
    assert FILTERS["slurm_share_ready"](known, sorted(known)) == ["a", "node5"]
    assert FILTERS["slurm_share_ready"](known, sorted(known), planned=True) == ["a", "node5", "f"]


def test_a_host_is_named_as_slurm_does() -> None:
    hosts = {
        "a.site": {"inventory_hostname_short": "a"},
        "b.site": {"inventory_hostname_short": "b", "converged_wlm_node": "N7"},
    }
    assert FILTERS["slurm_names"](["a.site", "b.site"], hosts) == ["a", "N7"]
