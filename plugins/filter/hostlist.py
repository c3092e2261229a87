# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters between names and Slurm's host lists, so that playbooks never take them apart in Jinja."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.converged.hpc.plugins.module_utils._shared import hostlist


def hostlist_expand(text: t.Any, limit: int = hostlist.MAX_HOSTS) -> list[str]:
    if not isinstance(text, str):
        raise AnsibleFilterError(f"hostlist_expand: expected text, found {type(text).__name__}")
    try:
        return hostlist.expand(text, limit=limit)
    except hostlist.HostlistError as error:
        raise AnsibleFilterError(f"hostlist_expand: {error}") from error


def hostlist_fold(names: t.Any, sort: bool = False) -> str:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise AnsibleFilterError("hostlist_fold: expected a list of host names")
    try:
        return hostlist.fold(sorted(set(names), key=hostlist.natural_key) if sort else names)
    except hostlist.HostlistError as error:
        raise AnsibleFilterError(f"hostlist_fold: {error}") from error


class FilterModule:
    """The filters of this file by their names in templates."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"hostlist_expand": hostlist_expand, "hostlist_fold": hostlist_fold}
