# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Contents on the controller: what one item stands for, and what a diff shows of it."""

from __future__ import annotations

import os
import tarfile
import typing as t
from pathlib import Path

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._record.model.errors import RecordError
from ansible_collections.converged.hpc.plugins.module_utils._record.request.contents import Contents
from ansible_collections.converged.hpc.plugins.module_utils._record.request.sources import Source, expand


def test_what_is_not_text_is_written_as_json() -> None:
    ((path, source),) = expand("/etc/x.json", None, {"b": 1, "a": [True]})
    assert path == "/etc/x.json"
    assert source is not None
    assert source.shown() == '{\n  "a": [\n    true\n  ],\n  "b": 1\n}\n'


def test_a_directory_stands_for_everything_below_it_and_names_its_directories(tmp_path: Path) -> None:
    (tmp_path / "sub/__pycache__").mkdir(parents=True)
    (tmp_path / "sub/__pycache__/x.pyc").write_bytes(b"x")
    (tmp_path / "sub/b").write_text("b")
    (tmp_path / "a").write_text("a")
    found = [(path, source.size if source else None) for path, source in expand("/opt/x", str(tmp_path), None)]
    assert found == [("/opt/x", None), ("/opt/x/a", 1), ("/opt/x/sub", None), ("/opt/x/sub/b", 1)]


def test_a_link_in_a_directory_is_refused(tmp_path: Path) -> None:
    os.symlink("/etc/passwd", tmp_path / "link")
    with pytest.raises(RecordError, match="link: is a link: name links in links"):
        list(expand("/opt/x", str(tmp_path), None))


def test_a_source_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="missing: cannot read it: No such file"):
        list(expand("/opt/x", str(tmp_path / "missing"), None))


@pytest.mark.parametrize("data", [b"\0\1", b"\xff\xfe", b"x" * 100_000])
def test_what_a_diff_cannot_show_is_shown_by_its_digest(data: bytes) -> None:
    source = Source.of_bytes(data)
    assert source.shown() == f"sha256 {source.sha256}, {len(data)} bytes\n"


def test_a_bundle_gives_back_what_was_put_in(tmp_path: Path) -> None:
    sources = [Source.of_bytes(b"one"), Source.of_bytes(b"")]
    with tarfile.open(tmp_path / "bundle", "w:") as archive:
        for source in sources:
            source.add_to(archive, source.sha256)
    contents = Contents(bundle=str(tmp_path / "bundle"))
    assert [b"".join(contents.chunks(source.sha256)) for source in sources] == [b"one", b""]
    with pytest.raises(RecordError, match="was not sent: run again"):
        list(contents.chunks("0" * 64))


@pytest.mark.parametrize("harm", [lambda data: data[:100], lambda data: b"", lambda data: b"x" * 600])
def test_a_bundle_that_did_not_arrive_is_an_error(tmp_path: Path, harm: t.Callable[[bytes], bytes]) -> None:
    with tarfile.open(tmp_path / "bundle", "w:") as archive:
        Source.of_bytes(b"one").add_to(archive, "name")
    (tmp_path / "bundle").write_bytes(harm((tmp_path / "bundle").read_bytes()))
    with pytest.raises(RecordError, match="cannot be read: .*: run again"):
        Contents(bundle=str(tmp_path / "bundle"))
