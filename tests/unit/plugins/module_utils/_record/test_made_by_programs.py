# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mounts and packet filters as the kernel tells them: what came since, and what of it holds nothing."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._record.kinds.mount import mounted_on_itself
from ansible_collections.converged.hpc.plugins.module_utils._record.kinds.packet_filter import Tables, parse, to_delete
from ansible_collections.converged.hpc.plugins.module_utils._record.model.errors import RecordError

ROOT = "20 1 254:0 / / rw - ext4 /dev/vda rw"
KUBELET = "/var/lib/kubelet"
DISK = f"30 20 8:1 / {KUBELET} rw - ext4 /dev/sda1 rw"
VOLUME = f"30 20 254:0 /volumes/n1/kubelet {KUBELET} rw - ext4 /dev/vda rw"


@pytest.mark.parametrize(
    ("mounts", "times"),
    [
        ([ROOT], 0),
        ([ROOT, DISK], 0),
        ([ROOT, VOLUME], 0),
        ([ROOT, f"40 20 254:0 {KUBELET} {KUBELET} rw shared:1 - ext4 /dev/vda rw"], 1),
        ([ROOT, DISK, f"40 30 8:1 / {KUBELET} rw shared:1 - ext4 /dev/sda1 rw"], 1),
        ([ROOT, VOLUME, f"40 30 254:0 /volumes/n1/kubelet {KUBELET} rw shared:1 - ext4 /dev/vda rw"], 1),
        (
            [
                ROOT,
                f"40 20 254:0 {KUBELET} {KUBELET} rw - ext4 x rw",
                f"41 40 254:0 {KUBELET} {KUBELET} rw - ext4 x rw",
            ],
            2,
        ),
        ([ROOT, f"40 20 254:0 {KUBELET} {KUBELET} rw - ext4 x rw", f"41 40 8:1 / {KUBELET} rw - ext4 /dev/sda1 rw"], 1),
        ([f"40 20 254:0 {KUBELET} {KUBELET} rw - ext4 the mount below is not to be seen"], 0),
    ],
)
def test_a_directory_that_is_mounted_on_itself_is_told_from_a_disk_that_is_mounted_there(
    mounts: t.List[str], times: int
) -> None:
    assert mounted_on_itself("\n".join(mounts), KUBELET) == times


def test_names_with_blanks_are_read_as_the_kernel_writes_them() -> None:
    mounts = [ROOT, r"40 20 254:0 /srv/a\040b /srv/a\040b rw - ext4 /dev/vda rw"]
    assert mounted_on_itself("\n".join(mounts), "/srv/a b") == 1


def ruleset(*items: t.Dict[str, t.Any]) -> Tables:
    return parse(json.dumps({"nftables": [{"metainfo": {"version": "1.0.6"}}, *items]}))


def table(name: str, family: str = "ip") -> t.Dict[str, t.Any]:
    return {"table": {"family": family, "name": name, "handle": 1}}


def chain(of: str, name: str, **more: t.Any) -> t.Dict[str, t.Any]:
    return {"chain": {"family": "ip", "table": of, "name": name, "handle": 2, **more}}


def base(of: str, name: str, policy: str = "accept") -> t.Dict[str, t.Any]:
    return chain(of, name, type="filter", hook=name.lower(), prio=0, policy=policy)


RULE = {"rule": {"family": "ip", "table": "filter", "chain": "INPUT", "handle": 3, "expr": []}}


@pytest.mark.parametrize(
    ("items", "going", "staying"),
    [
        ([], [], []),
        ([table("filter")], ["ip filter"], []),
        ([table("filter"), base("filter", "INPUT")], ["ip filter", "ip filter INPUT"], []),
        ([table("filter"), base("filter", "INPUT"), RULE], [], ["ip filter"]),
        ([table("filter"), base("filter", "INPUT", "drop")], [], ["ip filter"]),
        (
            [table("filter"), base("filter", "OUTPUT"), base("filter", "INPUT"), RULE],
            ["ip filter OUTPUT"],
            ["ip filter"],
        ),
        ([table("filter"), chain("filter", "DOCKER-USER")], [], ["ip filter"]),
        ([table("filter"), {"set": {"family": "ip", "table": "filter", "name": "x"}}], [], ["ip filter"]),
        ([table("a;flush")], [], ["ip a;flush"]),
        ([table("kube-proxy"), chain("kube-proxy", "services")], ["ip kube-proxy"], []),
    ],
)
def test_only_what_came_since_and_holds_nothing_goes(
    items: t.List[t.Dict[str, t.Any]], going: t.List[str], staying: t.List[str]
) -> None:
    now = ruleset(table("site", "inet"), *items)
    found = to_delete(now, ruleset(table("site", "inet")).state)
    assert (sorted(found[0]), found[1]) == (going, [*staying])
    assert to_delete(now, now.state) == ([], [])


def test_all_of_an_empty_packet_filter_is_what_came_since() -> None:
    assert to_delete(ruleset(table("filter")), ruleset().state) == (["ip filter"], [])


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"nftables": [{}]}', '{"nftables": [{"table": {}}]}'])
def test_an_answer_of_nft_that_makes_no_sense_is_an_error(text: str) -> None:
    with pytest.raises(RecordError, match="nft: cannot read its list of rules"):
        parse(text)
