# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way back of role pbs_share where the file is lost that says what of PBS is ours."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml
from pbs.converged_on_pbs import PROGRAM
from pbs_double.cluster import Cluster

SITES = "import pbs\n# The hook of the site tells `nodeshare` nothing.\npbs.event().accept()\n"


@pytest.fixture
def site(pbs: Cluster, tmp_path: Path) -> t.Iterator[Cluster]:
    """A hook of ours under a name of the site's choice, two of the site's, one of them empty; a queue of nobody's."""
    (tmp_path / "sites.py").write_text(SITES)
    for name, program in (("shared", PROGRAM), ("sites", tmp_path / "sites.py")):
        assert pbs.call("qmgr", "-c", f"create hook {name}").rc == 0
        assert pbs.call("qmgr", "-c", f"import hook {name} application/x-python default {program}").rc == 0
    assert pbs.call("qmgr", "-c", "create hook planned").rc == 0
    assert pbs.call("qmgr", "-c", "create queue pods queue_type = execution").rc == 0
    yield pbs
    for thing in ("hook shared", "hook sites", "hook planned", "queue pods"):
        pbs.call("qmgr", "-c", f"delete {thing}")


def undone(pbs: Cluster, folder: Path, **more: t.Any) -> subprocess.CompletedProcess[str]:
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = {"converged_controllers": {"hosts": {"ctl": here}}}
    role = {"name": "converged.hpc.pbs_share", "tasks_from": "unconfigure"}
    play = {"hosts": "ctl", "gather_facts": False, "tasks": [{"ansible.builtin.import_role": role}]}
    for name, content in (("hosts.yml", inventory), ("play.yml", [play])):
        (folder / name).write_text(yaml.safe_dump(content))
    given = {"pbs_share_bin_dir": str(pbs.bin_dir), "converged_record_dir": str(folder / "record"), **more}
    given["_pbs_share_memory"] = str(folder / "pbs.json")
    argv = [
        str(Path(sys.executable).parent / "ansible-playbook"),
        "-i",
        "hosts.yml",
        "play.yml",
        "-e",
        json.dumps(given),
    ]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def test_our_hook_is_known_by_its_program_and_a_queue_that_may_be_ours_is_named(site: Cluster, tmp_path: Path) -> None:
    done = undone(site, tmp_path, pbs_share_queue="pods")
    said = " ".join(done.stdout.split())
    assert done.returncode != 0, said
    # OpenPBS has hooks of its own among those that stay.
    assert re.search(r"these hooks are, and go: shared\. These stay: ([\w, ]+, )?planned, ([\w, ]+, )?sites\.", said), (
        said
    )
    assert "qmgr -c 'delete queue pods'" in said
    assert [site.call("qmgr", "-c", f"list hook {name}").rc for name in ("shared", "sites", "planned")] == [1, 0, 0]
    assert site.call("qmgr", "-c", "delete queue pods").rc == 0
    again = undone(site, tmp_path, pbs_share_queue="pods")
    assert again.returncode == 0, again.stdout
    assert "changed=0" in again.stdout
