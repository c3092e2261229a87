# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A filter that judges the manifests of a Spark application by the site's deadlines."""

from __future__ import annotations

import typing as t

from ansible_collections.converged.hpc.plugins.filter.quantity import quantity_seconds
from ansible_collections.converged.hpc.plugins.plugin_utils import _spark

# The variables by which pods are given time to leave, with the defaults of the role node_share.
DEADLINES = {"node_share_controller_deadline": 45, "node_share_deadline": 60}


def spark_judged(text: str, name: str, hostvars: t.Mapping[str, t.Any], hosts: t.Iterable[str]) -> dict[str, t.Any]:
    """Return what a file says, what is refused, and what to warn of."""
    named = list(hosts)
    deadlines = {
        variable: {host: float(quantity_seconds(hostvars[host].get(variable, default))) for host in named}
        for variable, default in DEADLINES.items()
    }
    judged = _spark.judge(text, name, deadlines)
    return {**judged._asdict(), "refused": list(judged.refused), "warnings": list(judged.warnings)}


class FilterModule:
    """The filters of this file by their names in templates."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"spark_judged": spark_judged}
