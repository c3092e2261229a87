# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A clock that is set while the daemon runs, by hand or by NTP, changes nothing that the daemon does.

It stamps what people read, and it is read once at the start, because the API tells deadlines of pods in its time.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import placement

PACKAGE = Path(placement.__file__).parent
SETTABLE = {"time.time", "time.time_ns", "time.localtime", "time.gmtime", "time.strftime"}
SETTABLE |= {
    f"{kind}.{name}" for kind in ("datetime", "datetime.datetime", "date") for name in ("now", "utcnow", "today")
}
# Who reads such a clock, and what for.
STAMPS = {
    "app/process/wiring.py": "once at the start: what the times of the API are in monotonic seconds",
    "app/cli.py": "when a picture was drawn, for its heading",
    "app/telemetry/journal.py": "lines of the journal",
    "app/telemetry/logs.py": "lines of the log",
    "app/telemetry/metrics.py": "how old pods are when they get a node, as a figure",
    "kube/write/event_recorder.py": "times and names of Events",
    "kube/leader_election.py": "renewTime, which no running daemon trusts",
    "kube/write/executor.py": "lastTransitionTime of conditions",
}


def readings(file: Path) -> Iterator[str]:
    """What a file calls, by its dotted name, if that is a clock which can be set."""
    for found in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(found, ast.Attribute) and (name := ast.unparse(found)) in SETTABLE:
            yield name


def test_no_decision_depends_on_a_clock_that_can_be_set() -> None:
    reading = {str(file.relative_to(PACKAGE)) for file in PACKAGE.rglob("*.py") if list(readings(file))}
    assert reading == set(STAMPS)
