# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What preflight says of nodes whose pods Singularity-CRI is to run: what it refuses, and the limits that it names."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._preflight.gather import parse
from unit.plugins.module_utils._preflight.spoiled_site import said, setting, settled, several

WANTED = several(setting("wanted", "runtime", "singularity_cri"), setting("found", "cgroup", "v1"))


def test_limits_are_named_in_plain_words_and_refuse_nothing() -> None:
    (finding,) = said(WANTED, "n1", "Its restart ends all pods of the node")
    assert finding == ("warn", "cri_limits")
    assert said(several(WANTED, setting("found", "cgroup", "v2")), "n2", "archived") == []


def test_a_kubelet_of_today_is_no_reason_against_it_as_the_bridge_stands_between() -> None:
    assert said(WANTED, "n1", "CRI v1alpha2") == []


def test_it_needs_neither_packages_of_containerd_nor_a_runtime_of_the_site() -> None:
    spoiled = several(
        WANTED,
        setting("found", "family", ""),
        setting("found", "nvidia_in_config", True),
        setting("wanted", "runtime_manage", False),
    )
    assert said(spoiled, "n1", "node_runtime") == said(spoiled, "n1", "no container runtime listens") == []


@pytest.mark.parametrize(
    ("spoil", "code", "text"),
    [
        (setting("found", "cgroup", "v2"), "cri_cgroup", "with cgroup v1 alone"),
        (setting("wanted", "share_mode", "placeholder"), "cri", "served where pods and jobs take turns"),
        (settled(kubelet="1.38.0"), "cri", "the bridge has what kubelets up to 1.37 need"),
        (
            setting("wanted", "services", ["kubelet.service", "containerd.service"]),
            "services",
            "names containerd.service, and the kubelet's runtime is sycri",
        ),
    ],
)
def test_what_it_cannot_serve_is_refused_with_the_reason(spoil: t.Any, code: str, text: str) -> None:
    assert ("refuse", code) in said(several(WANTED, spoil), "n1", text)


def test_a_cgroup_that_was_never_tried_can_be_accepted() -> None:
    spoiled = several(WANTED, setting("found", "cgroup", "v2"), settled(accepted=("cri_cgroup",)))
    assert said(spoiled, "n1", "with cgroup v1 alone") == [("warn", "cri_cgroup")]


@pytest.mark.parametrize(
    ("config", "flags", "socket"),
    [
        ('cgroupDriver: cgroupfs\ncontainerRuntimeEndpoint: "unix:///run/a.sock"\n', "", "unix:///run/a.sock"),
        ("containerRuntimeEndpoint: unix:///run/a.sock\n", "", "unix:///run/a.sock"),
        ("", 'KUBELET_KUBEADM_ARGS="--v=2 --container-runtime-endpoint=unix:///run/b.sock"\n', "unix:///run/b.sock"),
        ('containerRuntimeEndpoint: ""\n', "", ""),
        ("", "", ""),
    ],
)
def test_the_runtime_that_a_kubelet_uses_is_read_from_its_files(config: str, flags: str, socket: str) -> None:
    assert parse.runtime_endpoint(config, flags) == socket
