# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which engines Singularity-CRI can drive, and what is said of the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._kube.errors import KubeError
from ansible_collections.converged.hpc.plugins.module_utils._kube.node import engine

USAGE = """\
Flags:
  -b, --bundle string        specify the OCI bundle path (required)
      --empty-process        run container without executing container process
      --log-path string      specify the log file path
  -s, --sync-socket string   specify the path to unix socket for state synchronization
"""


@pytest.mark.parametrize(
    "version",
    [
        "singularity version 3.1.0",
        "singularity version 3.8.7",
        "singularity-ce version 3.9.9",
        "singularity-ce version 3.9.9+12-gabc-dirty",
        "apptainer version 1.0.0",
        "apptainer version 1.5.3-1.el9",
    ],
)
def test_engines_with_the_flags_that_it_needs_are_taken(version: str) -> None:
    engine.judge(version, USAGE)


@pytest.mark.parametrize(
    ("version", "usage", "reason"),
    [
        ("singularity-ce version 3.10.0", USAGE, "engine singularity-ce 3.10: from 3.10 on its command oci is a front"),
        ("singularity-ce version 4.3.1", USAGE, "from 3.10 on"),
        ("singularity version 3.0.3", USAGE, "older than the command oci"),
        ("apptainer version 2.0.0", USAGE, "apptainer 2.0: is of a line that has not been tried"),
        ("podman version 4.3.1", USAGE, "expected the release of an engine, found 'podman version 4.3.1'"),
        ("", USAGE, "expected the release of an engine, found ''"),
        ("apptainer version 1.2.0", USAGE.replace("--sync-socket", "--sync"), "lacks --sync-socket,"),
        ("apptainer version 1.2.0", "unknown command oci", "lacks --empty-process, --sync-socket, --log-path"),
    ],
)
def test_other_engines_are_refused_with_the_reason(version: str, usage: str, reason: str) -> None:
    with pytest.raises(KubeError, match=reason):
        engine.judge(version, usage)


def test_a_path_without_an_engine_says_how_to_name_one(tmp_path: Path) -> None:
    with pytest.raises(KubeError, match=r"no singularity in .*: name its packages in singularity_cri_engine_packages"):
        engine.see(str(tmp_path))


def test_an_engine_without_the_folder_of_its_mounts_is_refused_with_what_to_make(tmp_path: Path) -> None:
    session, program = tmp_path / "session", tmp_path / "singularity"
    cases = f"--version) echo singularity-ce version 3.9.9 ;; buildcfg) echo {session} ;; oci) cat {tmp_path}/usage ;;"
    program.write_text(f"#!/bin/sh\ncase $1 in {cases} esac\n", encoding="utf-8")
    program.chmod(0o755)
    (tmp_path / "usage").write_text(USAGE, encoding="utf-8")
    path = f"{tmp_path}:/usr/bin:/bin"
    with pytest.raises(KubeError, match=f"the folder {session}, in which it mounts its containers, is missing"):
        engine.see(path)
    session.mkdir()
    engine.see(path)


def test_the_engine_of_the_path_of_the_unit_is_the_one_that_is_judged(tmp_path: Path) -> None:
    program = tmp_path / "singularity"
    program.write_text("#!/bin/sh\necho singularity-ce version 4.1.3\n", encoding="utf-8")
    program.chmod(0o755)
    with pytest.raises(KubeError, match=r"engine singularity-ce 4\.1: from 3\.10 on"):
        engine.see(f"{tmp_path}:/usr/bin:/bin")
