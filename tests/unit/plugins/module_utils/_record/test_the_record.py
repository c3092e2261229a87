# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record on disk: what is damaged is named and never guessed at, one holder at a time, and a copy is whole."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._record.host.host import Host
from ansible_collections.converged.hpc.plugins.module_utils._record.model.errors import RecordError
from ansible_collections.converged.hpc.plugins.module_utils._record.run.session import Session
from ansible_collections.converged.hpc.plugins.module_utils._record.store import controller_copy as copying
from ansible_collections.converged.hpc.plugins.module_utils._record.store.lock import locked
from ansible_collections.converged.hpc.plugins.module_utils._record.store.store import Store
from unit.plugins.module_utils._record.fake_node import FakeNode, Killed, Mortal, World
from unit.plugins.module_utils._record.site_node import RECORD, call, restore, world_in_a_folder

WANTED = {"role": "main", "files": [{"path": "/etc/old.conf", "text": "ours\n"}, {"path": "/etc/new", "text": "n"}]}


@pytest.fixture
def world() -> t.Iterator[World]:
    with world_in_a_folder() as made:
        call(made, FakeNode(made), WANTED)
        yield made


def part(world: World, name: str) -> str:
    return world.at(f"{RECORD}/live/{name}")


def old_blob(world: World) -> str:
    return next(name for name in Store(FakeNode(world), RECORD).parts() if name.startswith("blobs/"))


def cut(path: str, at: int) -> None:
    with open(path, "rb+") as file:
        file.truncate(at)


def flip(path: str, at: int) -> None:
    with open(path, "rb+") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))


@pytest.mark.parametrize("harm", [lambda path: cut(path, 2), lambda path: flip(path, 2)])
@pytest.mark.parametrize("name", ["format", "baseline/000001", "a blob"])
def test_a_damaged_part_is_named_and_nothing_is_changed(world: World, name: str, harm: t.Callable[[str], None]) -> None:
    name = old_blob(world) if name == "a blob" else name
    harm(part(world, name))
    before = world.text("/etc/old.conf"), world.text("/etc/new")
    with pytest.raises(RecordError, match=f"{name} is damaged"):
        restore(FakeNode(world))
    assert (world.text("/etc/old.conf"), world.text("/etc/new")) == before


def test_a_changed_line_of_the_journal_is_named(world: World) -> None:
    flip(part(world, "journal"), 30)
    with pytest.raises(RecordError, match="live/journal is damaged: line 1: its checksum does not match"):
        restore(FakeNode(world))


def test_a_line_of_the_journal_that_is_missing_is_noticed(world: World) -> None:
    with open(part(world, "journal"), "rb") as file:
        lines = file.readlines()
    with open(part(world, "journal"), "wb") as file:
        file.writelines(lines[1:])
    with pytest.raises(RecordError, match="live/journal is damaged: line 1: is event 2: lines are missing"):
        restore(FakeNode(world))


def test_the_line_that_a_crash_cut_short_was_of_a_change_that_never_began(world: World) -> None:
    size = os.path.getsize(part(world, "journal"))
    with open(part(world, "journal"), "ab") as file:
        file.write(b'0123456789abcdef {"event": "wri')
    call(world, FakeNode(world), dict(WANTED, absent=["/etc/app/one.conf"]))
    assert os.path.getsize(part(world, "journal")) > size
    assert restore(FakeNode(world)).left == []


def test_baselines_are_written_once(world: World) -> None:
    with open(part(world, "baseline/000001"), "rb") as file:
        first = file.read()
    call(world, FakeNode(world), {"role": "main", "files": [{"path": "/etc/old.conf", "text": "ours 2\n"}]})
    with open(part(world, "baseline/000001"), "rb") as file:
        assert file.read() == first


def test_everything_in_the_record_is_for_root_alone(world: World) -> None:
    for folder, names, files in os.walk(world.at(RECORD)):
        assert {os.stat(os.path.join(folder, name)).st_mode & 0o777 for name in names} <= {0o700}
        assert {os.stat(os.path.join(folder, name)).st_mode & 0o777 for name in files} <= {0o600}


@pytest.mark.parametrize("folder", ["record", "/var/lib/../record", "/var/lib/record/", "/"])
def test_a_record_lies_at_one_absolute_path(world: World, folder: str) -> None:
    with pytest.raises(RecordError, match="expected an absolute, normalised path"):
        Session(FakeNode(world), folder)


def test_a_restore_names_the_roles_that_the_record_knows(world: World) -> None:
    call(world, FakeNode(world), {"role": "second", "files": [{"path": "/etc/app/two.conf", "text": "2"}]})
    assert restore(FakeNode(world), "unknown").roles == ["main", "second"]
    assert restore(FakeNode(world), "second").roles == ["main", "second"]
    assert restore(FakeNode(world), "second").roles == ["main", "second"]  # known, though it holds nothing any more


def test_who_comes_second_is_told_who_holds_the_lock(world: World) -> None:
    host = FakeNode(world)
    store = Store(host, RECORD)
    says = r"record/lock is held by alice@head1 \(role main\), process \d+ since"
    with locked(host, store, holder="alice@head1 (role main)", wait=0), pytest.raises(RecordError, match=says):
        Session(FakeNode(world), RECORD, holder="bob@head2", wait=0.2).restore()


def test_a_program_that_outlives_a_killed_run_still_holds_the_lock(tmp_path: t.Any) -> None:
    host = Host(str(tmp_path))
    (tmp_path / "state").mkdir()
    child = os.fork()
    if child == 0:
        try:
            with locked(host, Store(host, "/state/record"), holder="killed", wait=0):
                host.run(["sh", "-c", f"kill -9 {os.getpid()}; sleep 1"], timeout=120)
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    with pytest.raises(RecordError, match="record/lock is held by killed"):
        Session(host, "/state/record", wait=0).restore()
    assert Session(host, "/state/record", wait=10).restore().left == []


def test_a_full_disk_is_an_error_and_nothing_is_changed(world: World) -> None:
    class Full(FakeNode):
        def make_file(self, path: str, chunks: t.Iterable[bytes]) -> str:
            if "/etc/" in path:
                raise OSError(28, "No space left on device")
            return super().make_file(path, chunks)

    before = world.text("/etc/old.conf")
    with pytest.raises(RecordError, match="/etc/old.conf: cannot write its new content: no space left"):
        call(world, Full(world), {"role": "main", "files": [{"path": "/etc/old.conf", "text": "ours 2\n"}]})
    assert world.text("/etc/old.conf") == before


def test_a_file_that_the_site_changes_before_it_is_copied_is_left_as_it_is(world: World) -> None:
    class Busy(FakeNode):
        def make_file(self, path: str, chunks: t.Iterable[bytes]) -> str:
            if path.endswith("/blobs/.new"):
                self.world.write("/etc/bare.conf", "of the site\n")
            return super().make_file(path, chunks)

    with pytest.raises(RecordError, match="/etc/bare.conf: changed while it was read: run again"):
        call(world, Busy(world), {"role": "main", "files": [{"path": "/etc/bare.conf", "text": "ours\n"}]})
    assert world.text("/etc/bare.conf") == "of the site\n"


class Small(FakeNode):
    """What is written lies on a file system with 10 blocks of 4 KiB and few inodes, or with none to count."""

    inodes = 3
    counted = 99
    flags = 0

    def space(self, path: str) -> os.statvfs_result:
        return os.statvfs_result((4096, 4096, 10, 10, 10, self.counted, self.inodes, self.inodes, self.flags, 255))


def texts(*sizes: int) -> t.Dict[str, t.Any]:
    return {"role": "main", "files": [{"path": f"/etc/app/{at}", "text": "x" * size} for at, size in enumerate(sizes)]}


@pytest.mark.parametrize(
    ("asked", "odd", "says"),
    [
        (texts(40961), {}, "/etc/app: 45056 bytes are needed, 40960 are free: make room; nothing was changed"),
        (texts(20481, 20480), {}, "/etc/app: 45056 bytes are needed, 40960 are free"),
        (texts(1, 1, 1, 1), {}, "/etc/app: 4 inodes are needed, 3 are free: make room; nothing was changed"),
        (texts(1), {"flags": os.ST_RDONLY}, "/etc/app: the file system is mounted read-only: nothing was changed"),
    ],
)
def test_room_is_looked_for_before_anything_is_written(
    world: World, asked: t.Dict[str, t.Any], odd: t.Dict[str, int], says: str
) -> None:
    restore(FakeNode(world))
    before = world.listing()
    host = Small(world)
    vars(host).update(odd)
    for check in (True, False):
        with pytest.raises(RecordError, match=says):
            call(world, host, asked, check=check)
    assert world.listing() == before


@pytest.mark.parametrize(("sizes", "odd"), [((20480, 20480), {}), ((1, 1, 1, 1), {"inodes": 0, "counted": 0})])
def test_what_just_fits_is_written(world: World, sizes: t.Tuple[int, ...], odd: t.Dict[str, int]) -> None:
    host = Small(world)
    vars(host).update(odd)
    assert call(world, host, texts(*sizes)).changed


@pytest.mark.parametrize("place", ["format", "blobs", "baseline"])
def test_a_record_that_could_not_be_begun_leaves_nothing(world: World, place: str) -> None:
    class Full(FakeNode):
        def make_file(self, path: str, chunks: t.Iterable[bytes]) -> str:
            if f"/{place}" in path.replace("/.", "/"):
                raise OSError(28, "No space left on device")
            return super().make_file(path, chunks)

    restore(FakeNode(world))
    before = world.listing()
    with pytest.raises(RecordError, match="no space left on the file system"):
        call(world, Full(world), WANTED)
    assert world.listing() == before


def test_a_lost_record_comes_back_from_its_copy(world: World, tmp_path: t.Any) -> None:
    copy = copied(world, str(tmp_path / "copy"))
    shutil.rmtree(world.at(RECORD))
    Session(FakeNode(world), RECORD).adopt(copy.read(), even_unchanged=False)
    assert restore(FakeNode(world)).left == []
    assert world.text("/etc/old.conf") == "old\n"


@pytest.mark.parametrize("life", range(5, 40, 3))
def test_a_killed_adoption_blocks_nothing(world: World, tmp_path: t.Any, life: int) -> None:
    copy = copied(world, str(tmp_path / "copy"))
    with world_in_a_folder() as fresh:
        before = fresh.listing()
        with contextlib.suppress(Killed):
            Session(Mortal(fresh, life), RECORD).adopt(copy.read(), even_unchanged=False)
        call(fresh, FakeNode(fresh), WANTED)
        assert restore(FakeNode(fresh)).left == []
        assert fresh.listing() == before


def test_a_copy_is_not_taken_by_a_node_that_was_installed_anew(world: World, tmp_path: t.Any) -> None:
    copy = copied(world, str(tmp_path / "copy"))
    with world_in_a_folder() as fresh:
        Session(FakeNode(fresh), RECORD).adopt(copy.read(), even_unchanged=False)
        assert not Store(FakeNode(fresh), RECORD).exists()


def test_the_copy_of_an_older_record_is_set_aside(world: World, tmp_path: t.Any) -> None:
    copy = copied(world, str(tmp_path / "copy"))
    first = copy.identity()
    restore(FakeNode(world))
    call(world, FakeNode(world), WANTED)
    copied(world, str(tmp_path / "copy"))
    assert copy.identity() != first
    assert copying.LocalCopy(str(tmp_path / "copy.older-now")).identity() == first


def test_a_name_from_the_node_leads_nowhere_else(tmp_path: t.Any) -> None:
    copying.pack(str(tmp_path / "bundle"), {"../../escape": b"x"})
    with pytest.raises(RecordError, match=r"'../../escape' is no part of a record"):
        copying.unpack(str(tmp_path / "bundle"))


def test_a_content_that_is_not_what_its_name_says_is_no_part_of_a_copy(tmp_path: t.Any) -> None:
    copy = copying.LocalCopy(str(tmp_path / "copy"))
    with pytest.raises(RecordError, match="does not hold what was written"):
        copy.merge("1", {f"blobs/{'0' * 64}": b"x"}, stamp="now")


def copied(world: World, folder: str) -> copying.LocalCopy:
    store = Store(FakeNode(world), RECORD)
    store.load()
    copy = copying.LocalCopy(folder)
    copy.merge(store.id, {name: store.part(name) for name in store.parts()}, stamp="now")
    assert copy.is_complete(store.id, copying.fingerprint(store.id, store.parts()))
    return copy
