# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment of tools, and what the bootstrap installs when."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from bootstrap import cli, packages, venvs
from bootstrap.checks import CODE_ONLY, DEMO, TESTS, Need
from bootstrap.environment import places, variables
from bootstrap.errors import BootstrapError
from bootstrap.machine import read_machine
from bootstrap.run import run
from testbed.kube_go import work_folder

ONE = places(Path("/home/eve/one"), {})
TWO = places(Path("/home/eve/two"), {})


def test_the_cache_lies_outside_the_checkout_unless_it_is_moved() -> None:
    assert ONE.cache == Path("/var/cache/converged-hpc")
    assert places(Path("/src"), {"CONVERGED_CACHE": "/big"}).cache == Path("/big")


def test_a_cache_in_the_checkout_is_refused_before_it_is_made(tmp_path: Path) -> None:
    where = places(tmp_path, {"CONVERGED_CACHE": str(tmp_path / "relative")})
    with pytest.raises(BootstrapError, match=r"relative is in the checkout; type: export CONVERGED_CACHE=/a/folder"):
        cli.own_cache(where, read_machine(where, {}))
    assert list(tmp_path.iterdir()) == []


def test_two_checkouts_share_environments_and_nothing_else() -> None:
    assert ONE.venv("x") == TWO.venv("x")
    assert ONE.own != TWO.own
    assert ONE.collections != TWO.collections


def test_settings_of_the_user_that_change_runs_of_ansible_are_kept_out() -> None:
    given = {"ANSIBLE_STDOUT_CALLBACK": "oneline", "PYTHONUNBUFFERED": "1", "HOME": "/home/eve", "PATH": "/usr/bin"}

    environ = variables(ONE, venv=Path("/v"), environ=given)

    assert not {"ANSIBLE_STDOUT_CALLBACK", "PYTHONUNBUFFERED"} & {*environ}
    assert environ["ANSIBLE_COLLECTIONS_PATH"] == str(ONE.collections)
    assert environ["HOME"] == "/home/eve"
    assert environ["PATH"].startswith("/v/bin:/usr/bin")


def test_every_cache_of_a_tool_is_below_the_cache_folder() -> None:
    environ = variables(ONE, venv=Path("/v"), environ={})

    assert {name for name, value in environ.items() if value.startswith(str(ONE.checkout))} == {
        "PYTHONPATH",
        "ANSIBLE_CONFIG",
        "ANSIBLE_CALLBACK_PLUGINS",
    }


def test_a_program_finds_the_same_packages_as_a_test() -> None:
    checkout = Path(__file__).parents[3]
    tested = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    environ = variables(places(checkout, {}), venv=Path("/v"), environ={})
    assert environ["PYTHONPATH"].split(":") == [str(checkout / folder) for folder in tested["pythonpath"]]


def test_a_proxy_never_stands_between_the_machines_of_a_test_bed() -> None:
    with_proxy = variables(ONE, venv=Path("/v"), environ={"https_proxy": "http://p:1", "no_proxy": "example.org"})

    assert with_proxy["NO_PROXY"].split(",")[:3] == ["example.org", "localhost", "127.0.0.1"]
    assert "NO_PROXY" not in variables(ONE, venv=Path("/v"), environ={})


def test_only_missing_packages_are_installed_in_their_order() -> None:
    assert packages.missing(("a", "b", "c"), ["b", "x"]) == ["a", "c"]


def test_unit_tests_need_no_container_engine() -> None:
    assert "podman" not in packages.needed(test_bed=False)
    assert "podman" in packages.needed(test_bed=True)


def test_only_tests_need_an_emulator() -> None:
    assert "qemu-system-x86" in packages.needed(test_bed=True, machines=True)
    assert not [name for name in packages.needed(test_bed=True) if name.startswith("qemu")]
    assert {name for name, target in cli.TARGETS.items() if target.need.machines} == {"bench", "gate", "soak", "test"}


def test_a_dependency_group_is_read_with_the_groups_it_includes() -> None:
    groups = {"dev": ["a==1", {"include-group": "more"}], "more": ["b==2"]}

    assert venvs.requirements(groups, "dev") == ("a==1", "b==2")
    with pytest.raises(BootstrapError, match="no dependency group 'docs'; it has dev, more"):
        venvs.requirements(groups, "docs")


def test_another_python_or_another_pin_is_another_environment(tmp_path: Path) -> None:
    def folder(pin: str, version: str) -> Path:
        text = f'[dependency-groups]\ninstaller = ["pip==1"]\ndev = ["a=={pin}", "b==1", "c==1", "d==1"]\n'
        (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
        return venvs.planned(places(tmp_path, {}), group="dev", python="/usr/bin/python3", version=version).folder

    assert len({folder("1", "3.11"), folder("2", "3.11"), folder("1", "3.12")}) == 3
    program = (
        "import sys; from pathlib import Path; from bootstrap import venvs; from bootstrap.environment import places; "
        "where = places(Path(sys.argv[1]), {}); "
        "print(venvs.planned(where, group='dev', python='/usr/bin/python3', version='3.11').folder)"
    )
    wanted = str(folder("1", "3.11"))
    for seed in ("1", "2"):  # by which Python orders sets: another process must find the environment that this one made
        environ = {**os.environ, "PYTHONHASHSEED": seed}
        argv = [sys.executable, "-c", program, str(tmp_path)]
        done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=300, check=True)
        assert done.stdout.strip() == wanted


def test_an_environment_counts_as_made_only_with_its_stamp(tmp_path: Path) -> None:
    venv = venvs.Venv(group="dev", requirements=(), installer=(), folder=tmp_path)

    assert not venv.ready()
    (tmp_path / venvs.STAMP).touch()
    assert venv.ready()


def test_an_environment_that_nobody_started_for_long_is_removed(tmp_path: Path) -> None:
    for name, used in (("old", 0.0), ("new", 1e9)):
        (tmp_path / name).mkdir()
        (tmp_path / name / venvs.STAMP).touch()
        os.utime(tmp_path / name / venvs.STAMP, (used, used))

    venvs.remove_unused(tmp_path, now=1e9 + 60)

    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_a_link_is_pointed_elsewhere_in_one_step(tmp_path: Path) -> None:
    name = tmp_path / "deep" / "link"

    venvs.link(name, tmp_path / "a")
    venvs.link(name, tmp_path / "b")

    assert name.readlink() == tmp_path / "b"
    assert sorted(path.name for path in name.parent.iterdir()) == ["link"]


@pytest.mark.parametrize("arguments", [[], ["dmeo"], ["exec"]])
def test_an_unknown_target_is_a_usage_error_that_names_the_known_ones(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    assert "demo|demo-spark|test|check" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["test", "check", "soak", "bench", "gate"])
@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("FRESH", "maybe", "FRESH is 'maybe'; it takes 1 (run everything) or 0 (believe runs on the same files)."),
        ("CONVERGED_SEED", "1.5", "CONVERGED_SEED is '1.5'; it takes a number from 0 to 4294967295."),
    ],
)
def test_a_value_that_the_gates_would_refuse_is_refused_before_the_machine_is_prepared(
    target: str,
    name: str,
    value: str,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CONVERGED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(name, value)

    def prepare(*_arguments: object) -> None:
        raise BootstrapError("the machine is being prepared")

    monkeypatch.setattr(cli, "prepare", prepare)

    assert cli.main([target]) == 2
    assert capsys.readouterr().err == f"error: {expected}\n"
    monkeypatch.setenv(name, "1")
    assert (cli.main([target]), capsys.readouterr().err) == (1, "error: the machine is being prepared\n")


def test_a_folder_with_other_files_is_never_taken_for_a_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.tex").touch()
    monkeypatch.setenv("CONVERGED_CACHE", str(tmp_path))

    assert cli.main(["clean"]) == 1
    assert (tmp_path / "thesis.tex").exists()
    assert cli.main(["exec", "true"]) == 1
    assert capsys.readouterr().err.count("\n") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_nothing_is_left_of_a_cache_and_of_a_build_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, memory = tmp_path / "cache", tmp_path / "memory"
    monkeypatch.setattr("testbed.kube_go.MEMORY_DISK", memory)
    monkeypatch.setenv("CONVERGED_CACHE", str(cache))
    cache.mkdir()
    (cache / cli.CACHE_TAG).touch()
    (work_folder(cache) / "go-build1").mkdir(parents=True)
    (memory / "of-others").mkdir()
    assert cli.main(["clean"]) == 0
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["memory", "of-others"]


def test_a_command_that_fails_shows_the_end_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "logs/bootstrap.log"

    with pytest.raises(BootstrapError, match="'sh -c echo why; exit 3' ended with status 3; the end of .*\nwhy$"):
        run(["sh", "-c", "echo why; exit 3"], timeout=120, log=log)
    with pytest.raises(BootstrapError, match="did not end within 0 s"):
        run(["sleep", "900"], timeout=0.1, log=log)
    with pytest.raises(BootstrapError, match="'no-such-tool' cannot be started"):
        run(["no-such-tool"], timeout=1, log=log)


def test_a_command_without_a_log_shows_what_it_says(capfd: pytest.CaptureFixture[str]) -> None:
    run(["echo", "seen"], timeout=120, log=None)

    assert capfd.readouterr().out == "seen\n"


def test_a_cache_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CONVERGED_CACHE", str(tmp_path / "file/cache"))

    assert cli.main(["exec", "true"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_each_target_asks_for_what_it_starts() -> None:
    needs = {name: target.need for name, target in cli.TARGETS.items()}
    assert needs.pop("demo") == needs.pop("demo-spark") == DEMO
    assert {name for name, need in needs.items() if need == TESTS} == {"test", "soak", "bench", "gate"}
    assert {name for name, need in needs.items() if need == CODE_ONLY} == {"check", "docs", "shared"}


@pytest.mark.parametrize(
    ("name", "gates", "need"),
    [
        ("gate", ["lint"], CODE_ONLY),
        ("gate", ["lint", "e2e-share"], TESTS),
        ("gate", ["nonsense"], CODE_ONLY),
        ("soak", [], TESTS),
        ("soak", ["vm"], TESTS),
        ("soak", ["churn"], TESTS),
        ("soak", ["soak-unit"], TESTS),
        ("soak", ["nonsense"], CODE_ONLY),
        ("test", [], TESTS),
        ("demo", ["--keep"], DEMO),
    ],
)
def test_packages_for_beds_are_for_gates_on_beds_alone(name: str, gates: list[str], need: Need) -> None:
    assert cli.target_of(name, gates).need == need


def test_a_build_that_has_not_ended_is_none(tmp_path: Path) -> None:
    (tmp_path / "bin/amd64-1/.new-7").mkdir(parents=True)
    (tmp_path / "bin/amd64-1/.new-7/kubelet").touch()
    assert not cli.programs_built(tmp_path)
    (tmp_path / "bin/amd64-1/kubelet").touch()
    assert cli.programs_built(tmp_path)
