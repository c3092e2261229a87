# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""On a real node: any history of roles, site edits and kills, then restore; the listing is the one before, or named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from e2e.record_node import RecordNode
from hypothesis import HealthCheck, Phase, event, given, note, settings
from hypothesis import strategies as st
from testbed import api
from unit.plugins.module_utils._record.fake_node import EFFECTS

UNIT = "[Service]\nExecStart=/bin/sleep {}\n[Install]\nWantedBy=multi-user.target\n"
# Named points at which a run ends: what, the n-th of it, and whether it still happens.
DEATHS = st.tuples(
    st.sampled_from(EFFECTS),
    st.integers(1, 6) | st.integers(1, 30),
    st.sampled_from(["before", "after"]),
)
# Site edits, and what of them a report must name.
SITE = {
    "a service is started": ["systemctl", "start", "site-idle.service"],
    "a file of ours is changed": ["sh", "-c", "test ! -e /srv/ours/a || echo changed >> /srv/ours/a"],
    "an edited file is changed": ["sh", "-c", "echo 'site line' >> /etc/site/lines.conf"],
    "a directory of ours is used": ["sh", "-c", "test ! -d /srv/ours || echo mine > /srv/ours/mine"],
    "a whole file is changed": ["sh", "-c", "echo mine >> /etc/site/one.conf"],
    "a setting is changed": ["sysctl", "-qw", "net.ipv4.ip_nonlocal_bind=0"],
    "a unit is given a drop-in": [
        "sh",
        "-c",
        "mkdir -p /etc/systemd/system/site-runs.service.d;"
        "printf '[Unit]\\nDescription=mine\\n' > /etc/systemd/system/site-runs.service.d/mine.conf;"
        "systemctl daemon-reload",
    ],
}

# What the site wrote into files that were there before us: it is there in the end, or kept.
STAYS = {
    "an edited file is changed": ("site line", "/etc/site/lines.conf"),
    "a whole file is changed": ("mine", "/etc/site/one.conf"),
}
# What differs in the end because the site made it so, where no role ever had it: nobody has to name it.
OWN = {
    "a service is started": ("unit site-idle.service",),
    "an edited file is changed": ("/etc/site/lines.conf",),
    "a directory of ours is used": ("/srv/ours/mine",),
    "a whole file is changed": ("/etc/site/one.conf",),
    "a unit is given a drop-in": (
        "/etc/systemd/system/site-runs.service.d",
        "/etc/systemd/system/site-runs.service.d/mine.conf",
    ),
}
STAYING = ("/etc/site/lines.conf", "/etc/site/one.conf")


@st.composite
def roles(draw: st.DrawFn) -> dict[str, Any]:
    """What a role may ask for."""
    texts = st.sampled_from(["one\n", "ours 1\n", "ours 2\n"])
    own = draw(st.booleans())
    package = draw(st.booleans())
    wanted = {
        path: draw(texts)
        for path in draw(st.sets(st.sampled_from(["/etc/site/one.conf", "/srv/ours/a", "/srv/ours/b"])))
    }
    if own:
        wanted["/etc/systemd/system/ours.service"] = UNIT.format(draw(st.sampled_from(["1000", "2000"])))
    if package and draw(st.booleans()):
        wanted["/etc/probe/probe.conf"] = "ours\n"
    mode = draw(st.sampled_from([None, "0640"]))
    edits = st.sampled_from(
        [
            {"line": "extra"},
            {"line": "Prolog=/ours", "regexp": "^Prolog="},
            {"line": "colour 1", "state": "absent"},
        ]
    )
    places = st.sampled_from(["/etc/site/lines.conf", "/etc/site/bare.conf", "/etc/fresh.conf"])
    state, enabled = st.sampled_from([None, "started", "stopped"]), st.sampled_from([None, True, False])
    units = [
        {"name": name, "state": draw(state), "enabled": draw(enabled), "restart_on": None}
        for name in draw(st.sets(st.sampled_from(["site-runs.service", "site-idle.service"])))
    ]
    units += [{"name": "ours", "state": "started", "enabled": True}] if own else []
    units += [{"name": "probe", "state": draw(st.sampled_from(["started", "stopped"]))}] if package else []
    return {
        "role": "histories",
        "packages": ["probe"] if package else [],
        "sysctls": draw(st.sampled_from([[], [{"name": "net.ipv4.ip_nonlocal_bind", "value": "1"}]])),
        "directories": [{"path": "/srv/ours", "mode": "0750", "group": "games"}],
        "files": [{"path": path, "text": text, "mode": mode} for path, text in sorted(wanted.items())],
        "lines": [dict(draw(edits), path=draw(places), create=True) for _ in range(draw(st.integers(0, 3)))],
        "links": draw(st.sampled_from([[], [{"path": "/etc/ours-link", "target": "site/one.conf"}]])),
        "absent": draw(st.sampled_from([[], ["/etc/site/old.conf"]])),
        "units": units,
    }


@pytest.fixture(scope="module")
def node(bed: api.RunningBed) -> RecordNode:
    return RecordNode(bed, "n1")


few = settings(
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # an example takes seconds: it is not made smaller
    max_examples=max(5, settings().max_examples // 20),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


def unnamed(found: dict[str, Any]) -> list[str]:
    """Return the differences that no report speaks of."""
    reports = [answer for answer in found["answers"] if "site" in answer]
    text = "\n".join(line for report in reports for part in ("site", "left", "kept") for line in report[part])
    stays = reports[-1]["kept"] or reports[-1]["left"]  # then so does the record
    kept = [name for name in found["difference"] if name.startswith("/var/lib/converged") and stays]
    parts = {name: name.split(" ")[-1] for name in found["difference"]}
    return [name for name, part in parts.items() if part not in text and name not in kept]


def only_content(before: list[Any], after: list[Any]) -> bool:
    """A file that differs in what it holds and when that was written, and in nothing else."""
    return before[0] == after[0] == "file" and before[2:-1] == after[2:-1]


@few
@given(wanted=st.lists(roles(), min_size=1, max_size=2), deaths=st.lists(DEATHS, min_size=1, max_size=3))
def test_killed_at_named_points_a_role_is_finished_at_the_next_run_and_the_node_is_as_it_was(
    node: RecordNode, wanted: list[dict[str, Any]], deaths: list[tuple[str, int, str]]
) -> None:
    node.prepare()
    actions: list[dict[str, Any]] = [
        {"converge": arguments, "die": death} for arguments, death in zip(wanted, deaths, strict=False)
    ]
    last = {"converge": wanted[-1]}
    actions += [last, last, {"restore": "", "die": deaths[-1]}, {"restore": ""}]
    found = node.history(actions)
    again, _killed, report = found["answers"][-3:]
    event("killed" if any("killed" in answer for answer in found["answers"]) else "ended before the kill")
    note(json.dumps(found, indent=1))
    assert not [answer["error"] for answer in found["answers"] if "error" in answer]
    assert again == {"changed": False, "steps": []}
    assert report["left"] == []
    assert unnamed(found) == []
    assert report["site"] == []


@few
@given(
    wanted=st.lists(roles(), min_size=1, max_size=2),
    edits=st.lists(st.sampled_from(sorted(SITE)), min_size=1, max_size=3, unique=True),
    death=DEATHS,
)
def test_what_the_site_changes_in_between_stays_or_is_kept_and_is_named(
    node: RecordNode, wanted: list[dict[str, Any]], edits: list[str], death: tuple[str, int, str]
) -> None:
    node.prepare()
    actions: list[dict[str, Any]] = [{"converge": wanted[0], "die": death}]
    actions += [{"site": SITE[edit]} for edit in edits]
    actions += [{"converge": wanted[-1]}, *({"site": SITE[edit]} for edit in edits), {"restore": ""}]
    note(json.dumps(actions, indent=1))
    found = node.history(actions)
    note(json.dumps(found, indent=1))
    assert not [answer["error"] for answer in found["answers"] if "error" in answer]
    for edit in edits:
        if edit in STAYS:
            text, path = STAYS[edit]
            kept = "find /var/lib/converged/record/kept -type f -exec cat {} + 2>/dev/null || true"
            assert text in node.sh(f"cat {path}; {kept}")
    own = {name for edit in edits for name in OWN.get(edit, ())}
    assert [name for name in unnamed(found) if name not in own] == []
    assert all(only_content(*found["difference"][name]) for name in found["difference"] if name.startswith(STAYING))
