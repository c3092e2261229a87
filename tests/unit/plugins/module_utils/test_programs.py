# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the batch system's programs are, where no variable says it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.converged.hpc.plugins.module_utils import _command, _programs
from ansible_collections.converged.hpc.plugins.module_utils._slurm.client import Slurm
from ansible_collections.converged.hpc.plugins.module_utils._slurm.errors import NoProgramsError

UNITS = """\
ExecStart={ path=/opt/slurm/sbin/slurmctld ; argv[]=/opt/slurm/sbin/slurmctld --systemd ; ignore_errors=no ; pid=0 }

ExecStart={ path=/usr/sbin/slurmd ; argv[]=/usr/sbin/slurmd --systemd ; ignore_errors=no }
"""


def installed(folder: Path, *names: str) -> Path:
    """Make programs in a folder, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\nexit 0\n")
        (folder / name).chmod(0o755)
    return folder


def test_units_say_where_daemons_are() -> None:
    assert _programs.executables(UNITS) == ["/opt/slurm/sbin/slurmctld", "/usr/sbin/slurmd"]
    assert _programs.executables("ExecStart=\n") == []


def test_the_programs_are_beside_a_daemon(tmp_path: Path) -> None:
    bin_dir = installed(tmp_path / "opt/slurm/bin", "scontrol", "squeue")
    daemons = [str(tmp_path / "elsewhere/sbin/slurmd"), str(tmp_path / "opt/slurm/sbin/slurmctld")]
    assert _programs.beside(daemons, "scontrol", is_safe=lambda _path: True) == str(bin_dir)
    assert _programs.beside(daemons, "sinfo", is_safe=lambda _path: True) is None


def test_a_program_in_a_folder_that_another_user_may_change_is_not_run(tmp_path: Path) -> None:
    installed(tmp_path / "slurm/bin", "scontrol")
    (tmp_path / "slurm").chmod(0o777)
    assert _programs.beside([str(tmp_path / "slurm/sbin/slurmd")], "scontrol") is None


def test_only_a_path_of_root_is_roots(tmp_path: Path) -> None:
    assert _programs.is_roots("/bin/sh")
    assert not _programs.is_roots("/no/such/program")
    open_to_all = installed(tmp_path, "x")
    open_to_all.chmod(0o777)
    assert not _programs.is_roots(str(open_to_all / "x"))
    (tmp_path / "link").symlink_to("/bin/sh")  # whoever may write beside it may turn it to another program
    assert not _programs.is_roots(str(tmp_path / "link"))


def test_the_given_folder_is_not_doubted() -> None:
    assert _programs.slurm_bin_dir("/srv/slurm/bin") == "/srv/slurm/bin"
    assert _programs.pbs_bin_dir("/srv/pbs/bin") == "/srv/pbs/bin"


def test_a_program_on_the_search_path_is_found_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = installed(tmp_path / "bin", "scontrol")
    monkeypatch.setattr(_command, "PATH", f"{folder}:{_command.PATH}")
    assert _programs.slurm_bin_dir(None) == str(folder)
    assert _programs.slurm_bin_dir("") == str(folder)


@pytest.mark.parametrize(
    ("text", "folder", "home"),
    [
        ("", "/opt/pbs/bin", "/var/spool/pbs"),
        ("PBS_EXEC=/srv/pbs/\nPBS_HOME=/var/lib/pbs\n", "/srv/pbs/bin", "/var/lib/pbs"),
        ("# PBS_EXEC=/old\nPBS_EXEC='/a'\nPBS_EXEC=/b\n", "/b/bin", "/var/spool/pbs"),
        ("PBS_EXEC=relative\nPBS_HOME=\n", "/opt/pbs/bin", "/var/spool/pbs"),
    ],
)
def test_pbs_says_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, folder: str, home: str
) -> None:
    (tmp_path / "pbs.conf").write_text(text)
    monkeypatch.setattr(_programs, "PBS_CONF", str(tmp_path / "pbs.conf"))
    assert (_programs.pbs_bin_dir(None), _programs.pbs_home()) == (folder, home)


def test_programs_that_are_nowhere_are_asked_of_the_administrator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_command, "PATH", str(tmp_path))
    with pytest.raises(NoProgramsError, match="set slurm_bin_dir to their folder, such as /opt/slurm/bin"):
        Slurm().nodes()
    with pytest.raises(NoProgramsError, match="/no/such is what slurm_bin_dir or bin_dir says: correct it"):
        Slurm(bin_dir="/no/such").nodes()


def test_a_daemon_that_runs_without_a_unit_is_found(tmp_path: Path) -> None:
    daemon = tmp_path / "sbin/slurmd"
    daemon.parent.mkdir()
    shutil.copy("/bin/sleep", daemon)
    with subprocess.Popen([str(daemon), "600"]) as running:
        try:
            assert str(daemon) in set(_programs.daemons())
        finally:
            running.kill()
