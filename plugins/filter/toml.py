# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A filter that writes settings as TOML, as containerd reads them."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.converged.hpc.plugins.module_utils._kube.node import toml


def to_toml(table: t.Any) -> str:
    try:
        return toml.dump(table)
    except (toml.TomlError, AttributeError) as error:
        raise AnsibleFilterError(f"to_toml: {error}") from error


class FilterModule:
    """The filters of this file by their names in templates."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"to_toml": to_toml}
