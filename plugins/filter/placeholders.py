# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A filter that finds the pods which stand for a batch job, and sees that they are of its size."""

from __future__ import annotations

import json
import typing as t

from ansible.errors import AnsibleFilterError

LEASE = "converged.hpc/lease"


def placeholders(pods: t.Iterable[t.Mapping[str, t.Any]], job: str) -> dict[str, dict[str, str]]:
    """By Node, what the placeholder of this job asks for; one with other cores than the job has is an error.

    A job of the whole node has what there is of it, and with a split of cores none of them counts in Kubernetes.
    """
    found: dict[str, dict[str, str]] = {}
    for pod in pods:
        lease = json.loads((pod["metadata"].get("annotations") or {}).get(LEASE, "{}"))
        if lease.get("job") != job or "deletionTimestamp" in pod["metadata"]:
            continue
        node, asks = str(pod["spec"]["nodeName"]), dict(pod["spec"]["containers"][0]["resources"].get("requests") or {})
        whole = lease.get("exclusive") or lease.get("cores") is None
        if not whole and asks.get("cpu", str(lease["cores"])) != str(lease["cores"]):
            raise AnsibleFilterError(
                f"placeholders: node {node}: job {job} has {lease['cores']} cores, and stands with cpu {asks['cpu']}"
            )
        found[node] = asks
    return found


class FilterModule:
    """The filters of this file by their names in templates."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"placeholders": placeholders}
