# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process that may not open enough files does not begin, and says what it needs."""

import re
import subprocess
import sys

import pytest
import yaml

# As a process of its own, because limits cannot be raised again. The kubeconfig is looked at after them.
START = """
import resource, sys
limits = tuple(int(number) for number in sys.argv[1:3])
resource.setrlimit(resource.RLIMIT_NOFILE, limits)
from placement.app.cli import main
status = main(["run", "--settings", sys.argv[3]])
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
sys.exit(status)
"""


@pytest.fixture
def started(tmp_path):
    def start(soft: int, hard: int, **settings: object) -> subprocess.CompletedProcess:
        file = tmp_path / "settings.yml"
        chosen = {"kubeconfig": str(tmp_path / "nowhere"), "socket": "", "listen": "", **settings}
        file.write_text(yaml.safe_dump(chosen))
        return subprocess.run(
            [sys.executable, "-c", START, str(soft), str(hard), str(file)],
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return start


def test_too_few_open_files_are_refused_in_one_line_that_says_what_to_do(started):
    done = started(64, 64)
    assert done.returncode == 1
    words = (
        r"placement: 48 binders need \d+ open files, and the limit is 64: "
        r"raise it \(LimitNOFILE= of the unit, ulimit -n\), or set fewer binders\n"
    )
    assert re.fullmatch(words, done.stderr)


def test_what_the_system_allows_is_taken(started):
    done = started(64, 4096)
    assert "nowhere" in done.stderr
    assert 100 < int(done.stdout) < 200


def test_with_fewer_binders_it_begins(started):
    done = started(90, 90, binders=2)
    assert "nowhere" in done.stderr
    assert done.stdout == "90\n"
