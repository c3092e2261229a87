# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_state through real Ansible, ssh and sudo: what is done, what travels, what is shown, and what comes back."""

from __future__ import annotations

import json
import random
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e import playing
from e2e.record_node import RecordNode
from testbed import api

SECRETS = ("hush-file", "hush-line", "hush-site")


class Site(playing.Site):
    """An administrator's folder with an inventory and plays, and the node they are for."""

    def __init__(self, bed: api.RunningBed, folder: Path) -> None:
        super().__init__(bed, folder)
        self.record = RecordNode(bed, "n1")
        self.record.prepare()
        (folder / "files").mkdir()

    def play(self, *options: str, name: str = "play.yml") -> tuple[str, int]:
        """What a person sees, and the exit status."""
        own = self.folder / name
        said = self.run(str(own) if own.exists() else name, *options, check=False)
        return said.out + said.err, said.rc

    def write(self, arguments: dict[str, Any], name: str = "play.yml") -> None:
        """A play with one call, which leaves its answer in a file."""
        arguments.setdefault("record_copy_dir", str(self.folder / "record"))
        task = {"name": "Change", "converged.hpc.node_state": arguments, "register": "answer"}
        tell = {
            "name": "Tell",
            "ansible.builtin.copy": {"content": "{{ answer | to_json }}", "dest": str(self.folder / "answer.json")},
            "delegate_to": "localhost",
            "become": False,
            "check_mode": False,
            "diff": False,
            "vars": {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"},
        }
        play = {"hosts": "n1", "gather_facts": False, "become": True, "tasks": [task, tell]}
        (self.folder / name).write_text(yaml.safe_dump([play]))

    def answer(self, *options: str) -> tuple[str, dict[str, Any]]:
        """What a person sees, and what the module answered."""
        shown, status = self.play(*options)
        assert status == 0, shown
        found: dict[str, Any] = json.loads((self.folder / "answer.json").read_text())
        return shown, found


@pytest.fixture
def site(bed: api.RunningBed, tmp_path: Path) -> Site:
    return Site(bed, tmp_path)


def wanted() -> dict[str, Any]:
    return {
        "role": "e2e",
        "directories": [{"path": "/srv/ours"}],
        "files": [
            {"path": "/srv/ours/a", "content": "visible text\n"},
            {"path": "/srv/ours/key", "content": "hush-file\n", "secret": True},
            {"path": "/srv/ours/tree", "src": "tree"},
        ],
        "lines": [
            {"path": "/etc/site/lines.conf", "line": "Prolog=/ours", "regexp": "^Prolog="},
            {"path": "/etc/site/bare.conf", "line": "password hush-line", "secret": True},
        ],
        "units": [{"name": "site-runs", "state": "started", "restart_on": ["/srv/ours/a"]}],
    }


def test_check_run_check_run_and_back(site: Site) -> None:
    (site.folder / "files/tree/sub").mkdir(parents=True)
    (site.folder / "files/tree/sub/blob").write_bytes(random.Random(0).randbytes(300_000))
    before = site.record.history([])
    assert before["difference"] == {}
    site.write(wanted())

    shown, foretold = site.answer("--check", "--diff")
    assert foretold["changed"]
    assert foretold["uploaded"] == {"contents": 0, "bytes": 0}
    assert "+visible text" in shown
    assert "-Prolog=/site/prolog" in shown
    assert "300000 bytes" in shown
    assert site.record.sh("ls /srv/ours /var/lib/converged 2>/dev/null || true") == ""

    _, done = site.answer()
    assert done["plan"] == foretold["plan"]
    assert done["uploaded"] == {"contents": 3, "bytes": 300_000 + len("visible text\n") + len("hush-file\n")}
    assert done["restarted"] == ["site-runs.service"]

    for options in (("--check",), ()):
        _, again = site.answer(*options)
        assert not again["changed"]
        assert again["uploaded"]["contents"] == 0

    changed = wanted()
    changed["files"][0]["content"] = "other text\n"
    site.write(changed)
    _, done = site.answer()
    assert done["uploaded"] == {"contents": 1, "bytes": len("other text\n")}

    site.write({"state": "restored"})
    _, back = site.answer()
    assert back["report"]["left"] == []
    assert back["report"]["site"] == []
    assert len(back["report"]["proved"]) >= 8
    assert site.record.sh("cat /etc/site/lines.conf; ls -d /srv/ours /var/lib/converged 2>/dev/null || true") == (
        "# the site\nProlog=/site/prolog\n\ncolour 1\n"
    )
    assert [path.name.split("-")[0] for path in (site.folder / "record").iterdir()] == ["n1.ended"]


def test_no_secret_is_shown_however_much_one_asks(site: Site) -> None:
    (site.folder / "files/tree").mkdir()
    site.write(wanted())
    text = site.play("-vvvvv", "--diff")[0]
    site.record.sh("echo hush-site >> /srv/ours/key; echo hush-site >> /etc/site/bare.conf")
    text += site.play("-vvvvv", "--diff", "--check")[0]
    site.write({"state": "restored"})
    text += site.play("-vvvvv", "--diff")[0]
    assert "visible text" in text
    # The play itself and its answer are the administrator's own files.
    assert [secret for secret in SECRETS if secret in text] == []
    assert "hush" not in site.record.sh("journalctl --no-pager")


# In every change the next test has the copy put a node back, and _record/test_the_record takes it for a lost record.
@pytest.mark.soak
def test_a_node_without_its_record_is_put_back_from_the_controllers_copy(site: Site) -> None:
    (site.folder / "files/tree").mkdir()
    site.write(wanted())
    site.answer()
    site.record.sh("rm -r /var/lib/converged")
    _, again = site.answer()
    assert not again["changed"]
    site.record.sh("rm -r /var/lib/converged")
    site.write({"state": "restored"})
    _, back = site.answer()
    assert back["report"]["left"] == []
    assert site.record.sh("cat /etc/site/bare.conf; ls /srv/ours 2>/dev/null || true") == "no end"


def test_what_a_failed_run_changed_is_in_the_controllers_copy(site: Site) -> None:
    unit = "[Service]\nType=oneshot\nExecStart=/bin/false\n"
    files = [{"path": "/etc/site/old.conf", "content": "ours\n"}]
    files += [{"path": "/etc/systemd/system/ours.service", "content": unit}]
    site.write({"role": "e2e", "files": files, "units": [{"name": "ours", "state": "started"}]})
    shown, status = site.play()
    assert status != 0
    assert "unit ours.service: start failed" in shown
    assert site.record.sh("cat /etc/site/old.conf; rm -r /var/lib/converged") == "ours\n"
    site.write({"state": "restored"})
    _, back = site.answer()
    assert back["report"]["left"] == []
    assert site.record.sh("cat /etc/site/old.conf; ls /etc/systemd/system/ours.service || true") == "old\n"


def test_two_at_once_on_one_node_are_told_of_each_other(site: Site) -> None:
    go = "/run/e2e-record-go"
    until_told = f"/bin/sh -c 'until test -e {go}; do sleep 0.2; done'"
    unit = f"[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart={until_told}\n"
    files = [{"path": "/etc/systemd/system/ours.service", "content": unit}]
    site.write({"role": "e2e", "files": files, "units": [{"name": "ours", "state": "started"}]})
    with ThreadPoolExecutor(max_workers=1) as pool:
        first = pool.submit(site.answer)
        try:
            site.until("n1", "systemctl is-active ours | grep -q activating")
            (second,) = site.record.answers([{"restore": ""}])
        finally:
            site.node("n1", f"touch {go}")
        answer = first.result()[1]
    assert re.search(r"record/lock is held by \S+@\S+ \(role e2e\), process \d+ since 20", second["error"]), second
    assert answer["restarted"] == ["ours.service"]
    assert site.record.answers([{"restore": ""}])[0]["left"] == []


def test_an_error_is_one_line_that_names_the_thing(site: Site) -> None:
    site.write({"role": "e2e", "files": [{"path": "/etc/no/such", "content": "x"}]})
    shown, status = site.play()
    assert status != 0
    assert "/etc/no/such: /etc/no is missing: name it in directories" in shown
    assert "Traceback" not in shown


# In every change test_site_life has the playbook's proof, and _record/test_the_record a role that no record knows.
@pytest.mark.soak
def test_the_playbook_restores_and_prints_the_proof(site: Site) -> None:
    site.ask_kubernetes_from_here()
    (site.folder / "files/tree").mkdir()
    site.write(wanted())
    site.answer()
    shown, status = site.play("-e", "converged_restore_role=typo", name="converged.hpc.restore")
    assert status != 0
    assert "role typo: no record knows it, and nothing was put back; known are e2e" in shown
    shown, status = site.play(name="converged.hpc.restore")
    assert status == 0, shown
    assert "things are as they were" in shown
    assert site.record.sh("ls -d /srv/ours /var/lib/converged 2>/dev/null || true") == ""
    shown, status = site.play(name="converged.hpc.restore")
    assert status == 0, shown
    assert "no record in /var/lib/converged/record" in shown


@pytest.mark.parametrize("playbook", ["restore", "status"])
def test_a_playbook_that_is_about_no_host_fails(site: Site, playbook: str) -> None:
    site.hosts = {"others": {"hosts": {"somewhere": {}}}}
    shown, status = site.play(name=f"converged.hpc.{playbook}")
    assert status != 0
    assert "no host of the inventory is in converged_nodes:converged_controllers" in shown
