# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a busy machine makes likely in the double: hooks that run at once, and hooks that take long."""

from __future__ import annotations

import json
import subprocess
import threading
import typing as t
from pathlib import Path, PosixPath

import pytest
from pbs.converged_on_pbs import PROGRAM, Told
from pbs_double import double, homes
from pbs_double.cluster import HOSTS
from pbs_double.mom import Mom
from pbs_double.state import Hook, opened

ENDS = 8


class Together(PosixPath):
    """A folder: each thread names a file in it, and goes on when all have done so."""

    turn = threading.Barrier(ENDS, timeout=60)

    def __truediv__(self, name: str) -> Path:
        self.turn.wait()
        return Path(self, name)


def test_hooks_that_run_at_once_each_have_their_own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = homes.home(tmp_path, HOSTS[0])
    (home / "mom_priv/hooks/tmp").mkdir(parents=True)
    monkeypatch.setattr(homes, "home", lambda _folder, _host: Together(home))
    mom = Mom(tmp_path, HOSTS[0])
    mom._hooks["converged"] = Hook({"alarm": "30"})
    said: dict[str, t.Any] = {}

    def hook(argv: list[str], **_given: t.Any) -> None:
        """As a hook that says which job it was told of."""
        told = json.loads(Path(argv[-1]).read_text())["vnodes"]
        Path(argv[argv.index("-o") + 1]).write_text(json.dumps({"outcome": "accept", "message": told}))

    def ends(job: str) -> None:
        said[job] = mom._run_hook("converged", "execjob_end", {"vnodes": job})["message"]

    monkeypatch.setattr(subprocess, "run", hook)
    monkeypatch.setattr("pbs_double.hook_input.written", str)
    jobs = [str(number) for number in range(ENDS)]
    threads = [threading.Thread(target=ends, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert said == dict(zip(jobs, jobs, strict=True))


def test_qdel_of_an_array_returns_after_all_sub_jobs_have_ended_preterm(tmp_path: Path) -> None:
    """Otherwise a second qdel has preterm run again, and jobs that are deleted again and again never end."""
    with double.started(tmp_path) as pbs:
        assert pbs.call("qmgr", "-c", "set server job_history_enable = True").rc == 0
        hook = Told(pbs, tmp_path, PROGRAM)
        hook.make("converged", 200)
        hook.start()
        array = hook.submit("-J", "1-2", "-l", "select=1:ncpus=1:host=pbs-n1", "--", "/bin/sleep", "300")
        for index in (1, 2):
            hook.until_runs(array.replace("[]", f"[{index}]"))
        assert pbs.call("qdel", array).rc == 0
        with opened(tmp_path) as state:
            assert [task.event for task in state.tasks if task.event == "execjob_preterm"] == []
            assert {job.state for job in state.jobs.values() if job.index is not None} <= {"E", "F"}
