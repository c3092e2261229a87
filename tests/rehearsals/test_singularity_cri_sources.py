# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of the engine and of sycri, from a web server: what is not what the site asked for never gets to a node.

The node of these plays cannot be reached, so a play that goes past the downloads ends there and says so.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from rehearsals.fork_server import ansible_playbook

CONTENT = {"sycri": b"#!/bin/sh\necho sycri\n", "engine": b"the archive of a prefix\n"}
SUMS = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}
WRONG = "0" * 64
AT_THE_NODE = "UNREACHABLE"


class Quiet(SimpleHTTPRequestHandler):
    """Serve a folder and write nothing."""

    def log_message(self, *words: Any) -> None:
        """Leave a request without a line."""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Serve both programs on the loopback."""
    served = tmp_path / "served"
    served.mkdir()
    for name, content in CONTENT.items():
        (served / name).write_bytes(content)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(served))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def asked(address: str, **given: str) -> dict[str, str]:
    """Return the variables of a site that has both programs from the web server, with these instead."""
    return {
        "singularity_cri_url": f"{address}/sycri",
        "singularity_cri_checksum": SUMS["sycri"],
        "singularity_cri_engine_url": f"{address}/engine",
        "singularity_cri_engine_checksum": SUMS["engine"],
        "singularity_cri_engine_folder": "/opt/singularity",
        **given,
    }


def played(folder: Path, variables: dict[str, str]) -> str:
    """Play the whole role for a node that cannot be reached; return what the play said when it failed."""
    inventory = {
        "all": {"hosts": {"n1": {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_connection": "ssh"}}}
    }
    play = {"hosts": "n1", "gather_facts": False, "roles": ["converged.hpc.singularity_cri"]}
    (folder / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
    (folder / "play.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    given = {**variables, "singularity_cri_cache": str(folder / "cache")}
    words = ["-i", str(folder / "hosts.yml"), str(folder / "play.yml"), "-e", json.dumps(given)]
    done = ansible_playbook(words, folder)
    assert done.returncode != 0, "the node of this play cannot be reached"
    return done.stdout + done.stderr


def kept(folder: Path) -> dict[str, bytes]:
    """Return what the cache of the controller has, by the names of its files."""
    return {path.name: path.read_bytes() for path in (folder / "cache").iterdir()}


BOTH = {f"{name}-{SUMS[name]}": content for name, content in CONTENT.items()}


def test_both_programs_are_fetched_by_address_and_only_then_the_node_is_spoken_to(tmp_path: Path, address: str) -> None:
    assert AT_THE_NODE in played(tmp_path, asked(address))
    assert kept(tmp_path) == BOTH


@pytest.mark.parametrize("name", ["sycri", "engine"])
@pytest.mark.parametrize("fault", ["checksum", "address"])
def test_what_is_wrong_or_not_there_is_refused_before_anything_is_replaced(
    tmp_path: Path, address: str, name: str, fault: str
) -> None:
    prefix = "singularity_cri_engine" if name == "engine" else "singularity_cri"
    wrong = {f"{prefix}_checksum": WRONG}
    if fault == "address":
        wrong[f"{prefix}_url"] = f"{address}/none"
    (tmp_path / "cache").mkdir()
    for file, content in BOTH.items():
        (tmp_path / "cache" / file).write_bytes(content)

    said = played(tmp_path, asked(address, **wrong))

    assert ("did not match" if fault == "checksum" else "404") in said
    assert AT_THE_NODE not in said, "the node is not spoken to"
    assert kept(tmp_path) == BOTH, "what was fetched before is as it was, and nothing wrong is kept"
