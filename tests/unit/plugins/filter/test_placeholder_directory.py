# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where placeholders stand, by what is read of the kubelet: a node that 1.0.0 has converted keeps its directory."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from ansible_collections.converged.hpc.plugins.filter.placeholder_directory import FilterModule

IN_MEMORY, ON_DISK = "/run/converged-placeholders", "/var/lib/converged/placeholders"


def slurped(text: str) -> dict[str, str]:
    return {"content": base64.b64encode(text.encode()).decode()}


def preflight(**fields: str) -> dict[str, Any]:
    return {"found": {"kubelet_file": fields}}


@pytest.mark.parametrize(
    ("read", "directory"),
    [
        (preflight(staticPodPath=ON_DISK), ON_DISK),
        (preflight(staticPodPath=ON_DISK + "/"), ON_DISK),
        (preflight(staticPodPath=IN_MEMORY), IN_MEMORY),
        (preflight(staticPodPath="/etc/kubernetes/manifests"), IN_MEMORY),
        (preflight(), IN_MEMORY),
        ({"found": {}}, IN_MEMORY),
        (slurped(f'kind: KubeletConfiguration\nstaticPodPath: "{ON_DISK}"\n'), ON_DISK),
        (slurped(f"staticPodPath: {ON_DISK}  # ours\n"), ON_DISK),
        (slurped(f"# staticPodPath: {ON_DISK}\nstaticPodPath: {IN_MEMORY}\n"), IN_MEMORY),
        (slurped("kind: KubeletConfiguration\n"), IN_MEMORY),
        ({"failed": False, "msg": "file not found: /var/lib/kubelet/config.yaml"}, IN_MEMORY),
        ({"failed": False, "msg": "File not found: /var/lib/kubelet/config.yaml"}, IN_MEMORY),
        ({"failed": True, "msg": "file is not readable: /var/lib/kubelet/config.yaml"}, ""),
        ({"failed": True, "msg": "The module interpreter '/opt/python' was not found."}, ""),
        ({"unreachable": True, "msg": "Connection timed out"}, ""),
        ({"skipped": True}, ""),
        ({}, ""),
    ],
)
def test_a_kubelet_that_reads_the_directory_on_disk_goes_on_others_have_one_in_memory_and_nobody_guesses(
    read: dict[str, Any], directory: str
) -> None:
    assert FilterModule().filters()["placeholder_directory"]([{}, read]) == directory


def test_the_first_reading_that_tells_is_taken() -> None:
    directory = FilterModule().filters()["placeholder_directory"]
    assert directory([preflight(staticPodPath=ON_DISK), slurped(f"staticPodPath: {IN_MEMORY}\n")]) == ON_DISK
    assert directory([{"msg": "timed out"}, slurped(f"staticPodPath: {ON_DISK}\n")]) == ON_DISK
