# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input and odd nodes: one clear line, and nothing is changed."""

from __future__ import annotations

import contextlib
import os
import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._record.model.errors import RecordError
from ansible_collections.converged.hpc.plugins.module_utils._record.run.session import Session
from unit.plugins.module_utils._record.fake_node import MOUNTED, MOUNTINFO, FakeNode, Killed, Mortal, Package, World
from unit.plugins.module_utils._record.site_node import MADE, RECORD, call, restore, world_in_a_folder


@pytest.fixture
def world() -> t.Iterator[World]:
    with world_in_a_folder() as made:
        yield made


def file(path: str, text: str = "x\n", **more: t.Any) -> t.Dict[str, t.Any]:
    return {"files": [dict({"path": path, "text": text}, **more)]}


NF_TABLES = "kernel/net/netfilter/nf_tables"
DEPENDENCIES = "/lib/modules/6.1.0-9/modules.dep"
KERNEL = {"/proc/sys/kernel/osrelease": "6.1.0-9\n"}
# What is asked, and what the refusal says.
REFUSED: t.List[t.Tuple[t.Dict[str, t.Any], str]] = [
    ({"role": "Bad Role"}, "role 'Bad Role': expected lower-case"),
    (file("relative/path"), "path 'relative/path': expected an absolute"),
    (file("/etc/../etc/x"), "expected an absolute, normalised path"),
    (file("/etc/x\nroot"), "control characters"),
    (file("/"), "expected an absolute"),
    (file("/etc/x", mode="rw-r--r--"), "/etc/x: mode 'rw-r--r--': expected three or four octal digits"),
    (file("/etc/x", owner="nobody-knows"), "/etc/x: user 'nobody-knows' does not exist on this node"),
    (file("/etc/x", group="nobody-knows"), "/etc/x: group 'nobody-knows' does not exist on this node"),
    (file("/etc/x", validate=["check"]), "expected '%s' where the file's name goes"),
    (file("/etc/x", text="bad\n", validate=["check", "%s"]), "/etc/x: its new content is refused: .*line 1: bad"),
    (file("/etc/app"), "/etc/app: wanted a file, found a directory"),
    (file("/etc/missing/x"), "/etc/missing/x: /etc/missing is missing: name it in directories"),
    (file("/etc/old.conf/x"), "/etc/old.conf/x: /etc/old.conf is a file, not a directory"),
    (file("/etc/dangling"), "/etc/dangling: is a link to /nowhere, where nothing is"),
    (file("/etc/users_link"), "/etc/users_link is a link that user 12345 made"),
    (file("/etc/loop"), "/etc/loop is a link that leads to itself"),
    (file("/etc/twice"), "/etc/twice: has 2 names"),
    ({"files": [{"path": "/etc/x", "text": "1"}, {"path": "/etc/x", "text": "2"}]}, "path /etc/x is named twice"),
    (
        dict(file("/etc/site.conf"), lines=[{"path": "/etc/site.conf", "line": "x"}]),
        "path /etc/site.conf is named twice",
    ),
    ({"lines": [{"path": "/etc/none", "line": "x"}]}, "/etc/none: there is no such file to edit"),
    ({"lines": [{"path": "/etc/site.conf", "line": "x", "regexp": "("}]}, "/etc/site.conf: regexp '\\('"),
    ({"lines": [{"path": "/etc/site.conf", "line": "a\nb"}]}, "expected one line of text"),
    ({"lines": [{"path": "/etc/site.conf", "line": "x", "regexp": "."}]}, "matches lines 1, 2, 4"),
    ({"links": [{"path": "/etc/old.conf", "target": "x"}]}, "found a file that is not ours"),
    ({"links": [{"path": "/etc/dangling", "target": "x"}]}, "found a link to /nowhere that is not ours"),
    ({"directories": [{"path": "/etc/old.conf"}]}, "/etc/old.conf: wanted a directory, found a file"),
    ({"absent": ["/etc/app"]}, "/etc/app: is a directory that holds one.conf"),
    ({"sysctls": [{"name": "net.no.such", "value": "1"}]}, "sysctl net.no.such: this kernel has no such setting"),
    ({"sysctls": [{"name": "../../x", "value": "1"}]}, "sysctl '../../x': expected a name"),
    ({"sysctls": [{"name": "a.b", "value": "1"}, {"name": "a.b", "value": "2"}]}, "sysctl a.b is named twice"),
    ({"kernel_modules": ["-r x"]}, "kernel module '-r x': expected"),
    ({"packages": ["--purge"]}, "package '--purge': expected a name"),
    ({"packages": ["unknown"]}, "Unable to locate package unknown"),
    ({"packages": ["base=2.0"]}, "package base: version 1.0 is the site's, wanted 2.0"),
    ({"units": [{"name": "no-such", "state": "started"}]}, "unit no-such.service: there is no such unit"),
    ({"units": [{"name": "hidden", "state": "started"}]}, "unit hidden.service: the site has masked it"),
    ({"units": [{"name": "template@.service", "state": "started"}]}, "unit 'template@.service': expected"),
    ({"units": [{"name": "a.service"}, {"name": "a"}]}, "unit a.service is named twice"),
]


@pytest.mark.parametrize(("asked", "says"), REFUSED, ids=[case[-1] for case in REFUSED])
def test_what_cannot_be_done_is_refused_in_one_line_and_nothing_is_changed(
    world: World, asked: t.Dict[str, t.Any], says: str
) -> None:
    os.symlink("/nowhere", world.at("/etc/dangling"))
    os.symlink("old.conf", world.at("/etc/users_link"))
    os.lchown(world.at("/etc/users_link"), 12345, 12345)
    os.symlink("loop", world.at("/etc/loop"))
    os.link(world.at("/etc/old.conf"), world.at("/etc/twice"))
    os.symlink("/dev/null", world.at("/etc/systemd/system/hidden.service"))
    before = untouched(world)
    with pytest.raises(RecordError, match=says) as refused:
        call(world, FakeNode(world), dict({"role": "main"}, **asked))
    assert "\n" not in str(refused.value)
    assert untouched(world) == before
    restore(FakeNode(world))
    assert untouched(world) == before


def untouched(world: World) -> t.Dict[str, t.Any]:
    return {name: what for name, what in world.listing().items() if not name.startswith("/var/lib/converged")}


# What the first role has, what the second asks for, and what the refusal names.
CLAIMED: t.List[t.Tuple[t.Dict[str, t.Any], t.Dict[str, t.Any], str]] = [
    (file("/etc/x"), file("/etc/x"), "role second wants it as file, but role first has it as file"),
    (file("/etc/x"), {"absent": ["/etc/x"]}, "role second wants it as absent, but role first has it as file"),
    (file("/etc/x"), {"lines": [{"path": "/etc/x", "line": "y"}]}, "role second wants it as lines"),
    (
        {"sysctls": [{"name": "net.ipv4.ip_forward", "value": "1"}]},
        {"sysctls": [{"name": "net.ipv4.ip_forward", "value": "2"}]},
        "sysctl net.ipv4.ip_forward: role first set it to 1, wanted 2",
    ),
    (
        {"lines": [{"path": "/etc/site.conf", "line": "Prolog=/first", "regexp": "^Prolog="}]},
        {"lines": [{"path": "/etc/site.conf", "line": "Prolog=/second", "regexp": "^Prolog="}]},
        "role second would undo a line of role first: 'Prolog=/first'",
    ),
]


@pytest.mark.parametrize(("first", "second", "says"), CLAIMED, ids=[case[-1] for case in CLAIMED])
def test_two_roles_that_want_different_things_are_both_named(
    world: World, first: t.Dict[str, t.Any], second: t.Dict[str, t.Any], says: str
) -> None:
    call(world, FakeNode(world), dict({"role": "first"}, **first))
    before = untouched(world)
    with pytest.raises(RecordError, match=says):
        call(world, FakeNode(world), dict({"role": "second"}, **second))
    assert untouched(world) == before


def test_two_roles_share_directories_packages_and_files_whose_lines_they_edit(world: World) -> None:
    before = world.listing()
    for role, line in (("first", "line 1"), ("second", "line 2")):
        asked = {
            "role": role,
            "packages": ["daemon"],
            "directories": [{"path": "/srv/shared"}],
            "lines": [{"path": "/etc/site.conf", "line": line}],
        }
        call(world, FakeNode(world), asked)
    report = restore(FakeNode(world), "first")
    assert "line 1" not in world.text("/etc/site.conf")
    assert "line 2" in world.text("/etc/site.conf")
    assert "path:/srv/shared" in report.shared
    assert "daemon" in world.installed
    restore(FakeNode(world), "second")
    assert world.listing() == before


def test_a_call_that_has_nothing_to_do_or_is_refused_leaves_no_trace_of_a_record(world: World) -> None:
    before = world.listing()
    assert not call(world, FakeNode(world), {"role": "main"}).changed
    assert world.listing() == before
    with pytest.raises(RecordError, match="/etc/no is missing"):
        call(world, FakeNode(world), dict({"role": "main"}, **file("/etc/no/such")))
    assert world.listing() == before
    assert restore(FakeNode(world)).steps == []
    assert world.listing() == before


def test_a_file_behind_a_link_of_root_is_written_and_the_link_stays(world: World) -> None:
    os.symlink("old.conf", world.at("/etc/link.conf"))
    call(world, FakeNode(world), dict({"role": "main"}, **file("/etc/link.conf", "ours\n")))
    assert os.readlink(world.at("/etc/link.conf")) == "old.conf"
    assert world.text("/etc/old.conf") == "ours\n"


def test_a_rewritten_file_keeps_owner_mode_and_attributes(world: World) -> None:
    path = world.at("/etc/app/one.conf")
    os.chown(path, 12, 34)
    call(world, FakeNode(world), dict({"role": "main"}, **file("/etc/app/one.conf", "ours\n")))
    state = os.stat(path)
    assert (state.st_uid, state.st_gid, state.st_mode & 0o7777) == (12, 34, 0o604)
    assert os.getxattr(path, "user.site") == b"kept"


@pytest.mark.parametrize("put", [os.symlink, os.link])
def test_nothing_that_is_put_in_place_of_a_staged_file_gets_its_mode(
    world: World, put: t.Callable[[str, str], None]
) -> None:
    class Raced(FakeNode):
        def make_file(self, path: str, chunks: t.Iterable[bytes]) -> str:
            sha256 = super().make_file(path, chunks)
            if path == "/etc/.new.converged-new":
                os.unlink(self.at(path))
                put(self.at("/etc/shadow"), self.at(path))
            return sha256

    world.write("/etc/shadow", "hush\n", mode=0o600)
    with pytest.raises(RecordError, match="/etc/new: cannot write its new content: is a link or has other names"):
        call(world, Raced(world), dict({"role": "main"}, **file("/etc/new", mode="0666")))
    assert os.stat(world.at("/etc/shadow")).st_mode & 0o777 == 0o600


def test_the_sites_version_of_a_whole_file_is_kept_and_named(world: World) -> None:
    call(world, FakeNode(world), dict({"role": "main"}, **file("/etc/old.conf", "ours\n")))
    world.write("/etc/old.conf", "mine\n")
    report = restore(FakeNode(world))
    assert world.text("/etc/old.conf") == "old\n"
    assert [world.text(path) for path in report.kept] == ["mine\n"]


@pytest.mark.parametrize("asked", [file("/etc/old.conf", "ours 2\n"), {"absent": ["/etc/old.conf"]}])
def test_what_the_site_made_of_a_file_of_ours_is_kept_before_it_is_changed_again(
    world: World, asked: t.Dict[str, t.Any]
) -> None:
    call(world, FakeNode(world), dict({"role": "main"}, **file("/etc/old.conf", "ours 1\n")))
    assert call(world, FakeNode(world), dict({"role": "main"}, **file("/etc/old.conf", "ours 0\n"))).kept == []
    world.write("/etc/old.conf", "mine\n")
    foretold = call(world, FakeNode(world), dict({"role": "main"}, **asked), check=True)
    done = call(world, FakeNode(world), dict({"role": "main"}, **asked))
    assert foretold.steps == done.steps
    assert done.steps[0] == "keep your version of /etc/old.conf aside"
    assert [world.text(path) for path in done.kept] == ["mine\n"]
    assert [world.text(path) for path in restore(FakeNode(world)).kept] == ["mine\n"]
    assert world.text("/etc/old.conf") == "old\n"


def test_a_directory_of_ours_that_the_site_uses_stays_and_is_named(world: World) -> None:
    os.mkdir(world.at("/srv"))
    call(world, FakeNode(world), {"role": "main", "directories": [{"path": "/srv/ours"}]})
    world.write("/srv/ours/mine", "mine\n")
    assert restore(FakeNode(world)).left == ["/srv/ours: still holds mine"]
    os.unlink(world.at("/srv/ours/mine"))
    assert restore(FakeNode(world)).left == []
    assert not os.path.exists(world.at("/srv/ours"))
    assert not os.path.exists(world.at("/var/lib/converged"))


def test_a_package_that_one_of_the_sites_needs_stays_and_is_named(world: World) -> None:
    call(world, FakeNode(world), {"role": "main", "packages": ["daemon"]})
    world.offered["editor"].needs = ("library",)
    world.installed.add("editor")
    world.write("/usr/bin/editor", "e")
    assert restore(FakeNode(world)).left == ["library: is needed by editor, which is the site's"]
    assert world.installed == {"base", "editor", "library"}


def test_a_package_that_was_not_there_is_purged_and_one_of_which_the_site_kept_the_configuration_is_not(
    world: World,
) -> None:
    before = world.listing()
    call(world, FakeNode(world), {"role": "main", "packages": ["daemon", "tool"]})
    report = restore(FakeNode(world))
    assert [step for step in report.steps if "packages" in step] == [
        "remove packages tool library daemon",
        "purge packages library daemon",
    ]
    assert world.configured == {"tool"}
    assert world.listing() == before


@pytest.mark.parametrize("life", range(40))
def test_configuration_that_the_site_has_changed_outlives_the_purge_wherever_it_is_killed(
    world: World, life: int
) -> None:
    call(world, FakeNode(world), {"role": "main", "packages": ["daemon"]})
    world.write("/etc/daemon/more.conf", "as the site has it\n", mode=0o640)
    with contextlib.suppress(Killed):
        restore(Mortal(world, life))
    report = restore(FakeNode(world))
    assert (world.installed, world.configured, report.left) == ({"base"}, {"tool"}, [])
    assert world.text("/etc/daemon/more.conf") == "as the site has it\n"
    assert os.stat(world.at("/etc/daemon/more.conf")).st_mode & 0o777 == 0o640
    assert os.listdir(world.at("/etc/daemon")) == ["more.conf"]
    assert not os.path.exists(world.at(f"{RECORD}/live"))


def test_a_file_of_the_site_that_is_as_we_want_it_outlives_the_package_that_has_it_too(world: World) -> None:
    world.write("/etc/daemon/daemon.conf", "ours\n")
    before = world.listing()
    call(
        world,
        FakeNode(world),
        dict({"role": "main", "packages": ["daemon"]}, **file("/etc/daemon/daemon.conf", "ours\n")),
    )
    assert restore(FakeNode(world)).left == []
    assert world.listing() == before


def test_configuration_that_stays_is_named(world: World) -> None:
    call(world, FakeNode(world), {"role": "main", "packages": ["daemon"]})
    world.write("/etc/daemon/more.conf", "as the site has it\n")
    named = ["/etc/daemon/more.conf: stays as you have it, though package daemon is purged"]
    assert Session(FakeNode(world), RECORD).restore(check=True).site == named
    assert restore(FakeNode(world)).site == named


def test_configuration_of_our_own_package_that_a_later_role_takes_over_goes_with_the_package(world: World) -> None:
    before = world.listing()
    call(world, FakeNode(world), {"role": "first", "packages": ["daemon"], "units": [{"name": "daemon"}]})
    call(world, FakeNode(world), dict({"role": "second"}, **file("/etc/daemon/daemon.conf", "ours\n")))
    assert restore(FakeNode(world)).left == []
    assert world.listing() == before


def test_what_a_program_made_by_itself_goes_back_and_what_the_site_made_since_stays(world: World) -> None:
    """The site has set one thing anew, has a rule in a table that came since, and has mounted a disk."""
    before = world.listing()
    call(world, FakeNode(world), {"role": "main", "made": MADE})
    world.change_the_node()
    assert world.listing() != before
    foretold = Session(FakeNode(world), RECORD).restore(check=True).steps
    steps = [
        f"unmount {MOUNTED} from itself",
        "delete from the packet filter: ip filter INPUT, ip mangle",
        "set kernel.panic = 0",
    ]
    assert sorted(foretold) == sorted(steps)
    assert sorted(restore(FakeNode(world)).steps) == sorted(steps)
    assert {**world.listing(), MOUNTINFO: ""} == {**before, MOUNTINFO: ""}

    call(world, FakeNode(world), {"role": "main", "made": MADE})
    world.change_the_node()
    world.write("/proc/sys/kernel/panic", "60\n")
    world.tables["ip mangle"]["PREROUTING"] = True
    world.write(MOUNTINFO, world.text(MOUNTINFO).replace("/volume/var/lib/kubelet", "/disk"))
    report = restore(FakeNode(world))
    assert report.left == []
    assert report.site == [
        "packet filter: ip mangle came since, and holds rules of others",
        "sysctl kernel.panic: is 60, which the site set since; before us it was 0",
    ]
    assert "/disk" in world.text(MOUNTINFO)


def test_a_kernel_module_that_is_in_use_by_now_stays_loaded_and_is_named(world: World) -> None:
    call(world, FakeNode(world), {"role": "main", "kernel_modules": ["overlay"]})
    world.write("/sys/module/overlay/refcnt", "2\n")
    (left,) = restore(FakeNode(world)).left
    assert left == "overlay: kernel module overlay stays loaded: it is in use (2 times)"
    assert world.text("/sys/module/overlay/refcnt") == "2\n"


def test_a_packet_filter_that_cannot_be_read_is_left_and_not_taken_for_empty(world: World) -> None:
    call(world, FakeNode(world), {"role": "main", "made": MADE})
    world.change_the_node()

    class Silent(FakeNode):
        def _nft(self, words: t.Sequence[str]) -> t.Tuple[int, str]:
            return 1, "Protocol not supported"

    (left,) = restore(Silent(world)).left
    assert left.startswith("ruleset: nft does not tell what the packet filter holds")
    assert restore(FakeNode(world)).left == []


@pytest.mark.parametrize(
    ("files", "asked"),
    [
        ({}, True),  # a container sees neither: only nft tells
        ({"/proc/sys/kernel/osrelease": "6.1.0-9\n"}, True),  # the running kernel's modules were removed by an update
        ({**KERNEL, DEPENDENCIES: "kernel/net/netfilter/x_nf_tables.ko:\n"}, True),  # it may be built in
        ({**KERNEL, DEPENDENCIES: f"{NF_TABLES}.ko: kernel/libcrc32c.ko\n"}, False),
        ({**KERNEL, DEPENDENCIES: f"kernel/a.ko:\n{NF_TABLES}.ko.xz:\n"}, False),
        ({**KERNEL, DEPENDENCIES: f"{NF_TABLES}.ko:\n", "/sys/module/nf_tables/refcnt": "9\n"}, True),
    ],
)
def test_nft_is_not_asked_where_that_would_load_the_module_and_there_are_no_tables_then(
    world: World, files: t.Dict[str, str], asked: bool
) -> None:
    for path, text in files.items():
        world.write(path, text)
    asking: t.List[t.Sequence[str]] = []

    class Listening(FakeNode):
        def _nft(self, words: t.Sequence[str]) -> t.Tuple[int, str]:
            asking.append(words)
            return super()._nft(words)

    call(world, Listening(world), {"role": "main", "made": MADE})
    assert bool(asking) == asked
    # What makes tables later has the module loaded by then.
    world.change_the_node()
    world.write("/sys/module/nf_tables/refcnt", "9\n")
    assert restore(FakeNode(world)).left == []


def test_a_setting_that_is_right_already_is_not_recorded_and_one_that_another_role_has_set_waits_for_both(
    world: World,
) -> None:
    setting = {"sysctls": [{"name": "kernel.panic", "value": "10"}]}
    call(world, FakeNode(world), {"role": "first", **setting})
    call(world, FakeNode(world), {"role": "second", "made": MADE[:1]})
    assert restore(FakeNode(world), "first").shared == ["sysctl:kernel.panic"]
    assert world.text("/proc/sys/kernel/panic") == "10\n"
    restore(FakeNode(world), "second")
    assert world.text("/proc/sys/kernel/panic") == "0\n"
    world.write("/proc/sys/kernel/panic", "10\n")
    call(world, FakeNode(world), {"role": "second", "made": MADE[:1]})
    assert not os.path.exists(world.at(f"{RECORD}/live"))


def test_a_setting_of_which_the_kernel_makes_another_value_is_an_error_with_that_value(world: World) -> None:
    class Rounds(FakeNode):
        def write_value(self, path: str, value: str) -> None:
            super().write_value(path, "8")

    with pytest.raises(RecordError, match="sysctl net.ipv4.ip_forward: set to '1', but the kernel says '8'"):
        call(world, Rounds(world), {"role": "main", "sysctls": [{"name": "net.ipv4.ip_forward", "value": "1"}]})


def test_a_role_may_set_what_a_program_makes_otherwise(world: World) -> None:
    call(world, FakeNode(world), {"role": "second", "made": MADE[:1]})
    assert call(world, FakeNode(world), {"role": "first", "sysctls": [{"name": "kernel.panic", "value": "5"}]}).changed
    assert world.text("/proc/sys/kernel/panic") == "5\n"
    restore(FakeNode(world))
    assert world.text("/proc/sys/kernel/panic") == "0\n"


def test_a_package_that_a_killed_run_left_unpacked_is_ended_and_removed(world: World) -> None:
    before = world.listing()
    call(world, FakeNode(world), {"role": "main", "packages": ["daemon"]})
    world.installed.remove("daemon")
    world.unpacked.add("daemon")
    assert restore(FakeNode(world)).left == []
    assert world.listing() == before


def cut_while_unpacking(world: World, name: str) -> None:
    """Install packages of a role, and have the power go while one of them is unpacked."""

    class Cut(FakeNode):
        def _unpack(self, package: Package) -> None:
            if package.name == name:
                self.cut_while_unpacking(package)
                raise Killed
            super()._unpack(package)

    with pytest.raises(Killed):
        call(world, Cut(world), {"role": "main", "packages": ["daemon"]})
    assert world.half == {name}


def test_a_package_that_a_power_cut_left_half_unpacked_is_removed_with_its_files(world: World) -> None:
    before = world.listing()
    cut_while_unpacking(world, "daemon")
    assert world.listing() != before
    assert restore(FakeNode(world)).left == []
    assert world.listing() == before


def test_the_next_run_plans_and_ends_what_a_power_cut_left_half_unpacked(world: World) -> None:
    before = world.listing()
    wanted = {"role": "main", "packages": ["daemon"]}
    cut_while_unpacking(world, "daemon")
    assert call(world, FakeNode(world), wanted, check=True).changed
    call(world, FakeNode(world), wanted)
    assert (world.half, "daemon" in world.installed) == (set(), True)
    assert not call(world, FakeNode(world), wanted).changed
    assert restore(FakeNode(world)).left == []
    assert world.listing() == before


def test_a_half_unpacked_package_without_a_source_keeps_only_packages_from_going_back(world: World) -> None:
    before = world.listing()
    call(world, FakeNode(world), dict({"role": "first"}, **file("/etc/x")))
    cut_while_unpacking(world, "daemon")
    source = world.offered.pop("daemon")
    report = restore(FakeNode(world))
    assert [line for line in report.left if "give this node a package source that has them, and run again" in line]
    assert not os.path.lexists(world.at("/etc/x"))
    world.offered["daemon"] = source
    assert restore(FakeNode(world)).left == []
    assert world.listing() == before


WRONG = "package editor is half-installed, and not by us: end that first, as by `apt-get install --reinstall editor`"


def test_what_the_site_left_half_unpacked_keeps_only_apt_away(world: World) -> None:
    """It is not ended with ours. All that needs no installation is done, and all goes back."""
    before = world.listing()
    call(world, FakeNode(world), dict({"role": "main", "packages": ["daemon"]}, **file("/etc/x")))
    world.half.add("editor")
    for path, check in (("/etc/y", True), ("/etc/y", False)):
        assert call(world, FakeNode(world), dict({"role": "main", "packages": ["daemon"]}, **file(path)), check=check)
    assert os.path.lexists(world.at("/etc/y"))
    lock = f"{RECORD}/lock"
    told = dict(world.listing(), **{lock: None})
    for check in (True, False):
        with pytest.raises(RecordError, match=WRONG):
            call(world, FakeNode(world), {"role": "main", "packages": ["daemon", "tool"]}, check=check)
    assert dict(world.listing(), **{lock: None}) == told
    assert restore(FakeNode(world)).left == []
    assert (world.half, world.listing()) == ({"editor"}, before)


def test_what_the_site_left_half_unpacked_is_named_where_one_of_ours_is_to_be_ended_too(world: World) -> None:
    """Packages of ours stay until the site has ended its own: the cut one needs the others to be unpacked again."""
    before = world.listing()
    cut_while_unpacking(world, "daemon")
    world.half.add("editor")
    for check in (True, False):
        with pytest.raises(RecordError, match=WRONG):
            call(world, FakeNode(world), {"role": "main", "packages": ["library"]}, check=check)
    assert restore(FakeNode(world)).left == [f"daemon: {WRONG}", f"library: {WRONG}"]
    assert (world.half, world.installed) == ({"daemon", "editor"}, {"base", "library"})
    world.half.remove("editor")
    assert restore(FakeNode(world)).left == []
    assert world.listing() == before


def test_packages_go_though_one_is_to_be_purged_that_another_one_needs_which_is_only_removed(world: World) -> None:
    before = world.listing()
    world.offered["tool"].needs = ("library",)
    call(world, FakeNode(world), {"role": "main", "packages": ["tool"]})
    assert restore(FakeNode(world)).left == []
    assert world.listing() == before


def test_a_package_that_one_of_the_sites_needs_is_left_though_a_role_named_that_one(world: World) -> None:
    world.installed.add("editor")
    call(world, FakeNode(world), {"role": "main", "packages": ["daemon", "editor"]})
    world.offered["editor"].needs = ("library",)
    report = restore(FakeNode(world))
    assert report.left == ["library: is needed by editor, which is the site's"]
    assert report.shared == []


def test_what_a_role_no_longer_asks_for_goes_back(world: World) -> None:
    before = untouched(world)
    call(world, FakeNode(world), dict({"role": "main", "absent": ["/etc/old.conf"]}, **file("/etc/x")))
    foretold = call(world, FakeNode(world), {"role": "main"}, check=True)
    assert sorted(foretold.steps) == ["put back /etc/old.conf", "remove /etc/x"]
    assert call(world, FakeNode(world), {"role": "main"}).changed
    assert untouched(world) == before


def test_check_mode_takes_for_granted_what_earlier_roles_would_bring(world: World) -> None:
    asked = {
        "role": "main",
        "files": [{"path": "/etc/coming/x", "text": "x", "owner": "coming"}],
        "sysctls": [{"name": "net.coming", "value": "1"}],
        "units": [{"name": "coming", "state": "started", "enabled": True}],
        "lines": [{"path": "/etc/coming/y", "line": "y"}],
    }
    steps = call(world, FakeNode(world), asked, check=True).steps
    assert "start coming.service" in steps
    assert "write /etc/coming/x (1 bytes)" in steps
    assert not os.path.exists(world.at(RECORD))


def test_secrets_are_in_no_step_and_no_diff(world: World) -> None:
    asked = {
        "role": "main",
        "files": [{"path": "/etc/key", "text": "hush 1", "secret": True}],
        "lines": [{"path": "/etc/site.conf", "line": "hush 2", "secret": True}],
    }
    outcome = call(world, FakeNode(world), asked)
    assert "hush" not in str(outcome)
    assert os.stat(world.at("/etc/key")).st_mode & 0o777 == 0o600
    world.write("/etc/site.conf", world.text("/etc/site.conf").replace("hush 2", "hush 3"))
    assert "hush" not in str(restore(FakeNode(world)))


def test_check_mode_refuses_packages_that_the_node_could_not_install(world: World) -> None:
    """Else the plan of a conversion is in order, and its canary fails when slurm.conf names our scripts already."""
    asked = {"role": "main", "packages": ["daemon", "kubelet"]}
    with pytest.raises(RecordError, match="packages daemon, kubelet cannot be installed: E: Unable to locate package"):
        call(world, FakeNode(world), asked, check=True)
    assert call(world, FakeNode(world), {"role": "main", "packages": ["daemon"]}, check=True).changed
    assert not world.installed & {"daemon", "kubelet"}
    assert [command for command in world.log if "apt-get" in command] == []
