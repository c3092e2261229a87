# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""slurm.conf with its Includes: order, where relative names lead, and which line of a key counts."""

from __future__ import annotations

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._slurm.conf.model import (
    Conf,
    inlined_text,
    load,
    loaded_from,
)
from ansible_collections.converged.hpc.plugins.module_utils._slurm.errors import ConfError
from ansible_collections.converged.hpc.plugins.module_utils._slurm.version import Version

OLD = Version(22, 5, 8)
NEW = Version(24, 11, 5)
PATH = "/etc/slurm/slurm.conf"


def conf(text: str, *, release: Version = NEW, **others: str) -> Conf:
    files = {PATH: text, **{f"/etc/slurm/{name.replace('__', '/')}.conf": body for name, body in others.items()}}

    def read(path: str) -> bytes:
        if path not in files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return files[path].encode()

    return load(PATH, release=release, read=read)


def test_the_last_line_of_a_key_counts_in_the_order_in_which_files_are_included() -> None:
    site = conf("Epilog=/a\nInclude more.conf\nMessageTimeout=20\n", more="messagetimeout=10\nEPILOG=/b\n", release=OLD)
    assert site.value("Epilog") == "/b"
    assert site.value("MessageTimeout") == "20"
    assert site.value("Prolog") is None
    assert [statement.place for statement in site.of("epilog")] == [f"{PATH} line 1", "/etc/slurm/more.conf line 2"]


@pytest.mark.parametrize(("release", "values"), [(OLD, ["/b"]), (Version(23, 11, 10), ["/b"]), (NEW, ["/a", "/b"])])
@pytest.mark.parametrize("key", ["Prolog", "Epilog", "PrologSlurmctld", "EpilogSlurmctld"])
def test_repeated_script_lines_count_from_24_05_on(release: Version, values: list[str], key: str) -> None:
    assert conf(f"{key}=/a\n{key}=/b\n", release=release).values(key) == values


@pytest.mark.parametrize(("release", "value"), [(OLD, "inner"), (NEW, "outer")])
def test_a_nested_include_is_looked_for_where_the_release_looks(release: Version, value: str) -> None:
    site = conf(
        "Include d/one.conf\n", d__one="Include two.conf\n", d__two="A=inner\n", two="A=outer\n", release=release
    )
    assert site.value("A") == value


def test_the_cluster_name_in_an_include_is_put_in_in_lower_case() -> None:
    assert conf("ClusterName=Alpha\nInclude %c.conf\n", alpha="A=1\n").value("A") == "1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Include none.conf\n", r"/etc/slurm/none.conf \(included by /etc/slurm/slurm.conf\) cannot be read: No such"),
        ("Include *.conf\n", r"line 1: Include '\*.conf' is a pattern"),
        ("Include %c.conf\n", "stands before ClusterName"),
        ("Include slurm.conf\n", "includes itself"),
        ("Include more.conf\nInclude more.conf\n", "is included twice"),
        ("Include more.conf\nwords\n", "slurm.conf line 2: 'words'"),
    ],
)
def test_an_odd_configuration_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ConfError, match=message):
        conf(text, more="A=1\n")


def test_a_relative_path_of_slurm_conf_is_refused() -> None:
    with pytest.raises(ConfError, match="must be absolute"):
        load("slurm.conf", release=NEW, read=lambda path: b"")


@pytest.mark.parametrize(
    "line",
    [
        "NodeName=n[1-9999999]",
        "NodeName=n1 NodeAddr=10.0.0.[1-9999999]",
        "PartitionName=p Nodes=n[1-9999999]",
        "DownNodes=n[1-9999999] State=DOWN",
        "NodeSet=s Nodes=n[1-9999999]",
    ],
)
def test_too_many_nodes_in_one_line_are_refused_with_its_place(line: str) -> None:
    with pytest.raises(ConfError, match=r"slurm.conf line 2: .*longer than 65536"):
        conf(f"A=1\n{line}\n")


def test_what_is_no_list_of_nodes_is_not_read_as_one() -> None:
    text = "NodeName=DEFAULT CPUs=4\nPartitionName=p[1- Nodes=ALL\nAccountingStorageHost=h[1-9999999]\n"
    assert conf(text).value("PartitionName") == "p[1-"


def test_the_flat_text_says_the_same_in_one_file() -> None:
    site = conf("A=1\n# note\nInclude more.conf\nB=\\\n3\n", more="A=2")
    assert inlined_text(site) == "A=1\nA=2\nB=\\\n3\n"


def test_a_changed_file_replaces_what_was_read() -> None:
    site = conf("Include more.conf\n", more="A=1\n")
    assert loaded_from(site, {"/etc/slurm/more.conf": "A=2\n"}).value("A") == "2"
    with pytest.raises(ConfError, match="must not make slurm.conf include another file"):
        loaded_from(site, {PATH: "Include other.conf\n"})
