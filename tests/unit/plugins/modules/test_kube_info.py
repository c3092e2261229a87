# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What module kube_info says of a kubeconfig that does not name one cluster."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.converged.hpc.plugins.modules import kube_info

# As kubectl 1.32 says it.
NO_CONTEXT = "error: current-context must exist in order to minify"
GONE_CONTEXT = "error: cannot locate context nope"
NO_SERVER = "The connection to the server localhost:8080 was refused - did you specify the right host or port?"
KUBECTL = """#!/bin/sh
case "$*" in *" config view "*) echo '{of_config}' >&2 ;; *) echo '{of_api}' >&2 ;; esac
exit 1
"""


@pytest.mark.parametrize(
    ("of_config", "expected"),
    [
        (NO_CONTEXT, "has no current context that names a cluster; set one with kubectl config use-context"),
        (GONE_CONTEXT, "has no current context that names a cluster; set one with kubectl config use-context"),
        ("error: open admin.conf: permission denied", "open admin.conf: permission denied"),
    ],
)
def test_a_kubeconfig_without_a_current_context_is_named_with_what_helps(
    of_config: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "kubectl"
    program.write_text(KUBECTL.format(of_config=of_config, of_api=NO_SERVER), encoding="utf-8")
    program.chmod(0o755)
    given = {"kubeconfig": "/etc/kubernetes/admin.conf", "kubectl": str(program)}
    with patch_module_args(given), pytest.raises(SystemExit):
        kube_info.main()
    result: dict[str, t.Any] = json.loads(capsys.readouterr().out)
    assert result["failed"]
    assert expected in result["msg"]
    assert ("/etc/kubernetes/admin.conf: has no" in result["msg"]) == ("context" in of_config)
