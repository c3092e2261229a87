# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PBS's placement sets as a topology: vnodes with one value of a resource are one set.

PBS lets a vnode have several values of such a resource, and so be in several sets. Then there is no tree, and the
topology is refused.
"""

from collections.abc import Mapping

from placement.graph.topology import Path, Topology, TopologyError, check_name


def read_placement_sets(
    resources: Mapping[str, Mapping[str, str]],
    keys: tuple[str, ...],
    source: str,
    levels: tuple[str, ...] | None = None,
    labels: tuple[str, ...] = (),
) -> Topology:
    """Return the topology of the vnodes by their `resources_available`, from the outermost key to the innermost.

    The levels are called as the keys unless they are given. A vnode without a key is in no set of that level nor of the
    levels below. TopologyError names the vnode.
    """
    paths: dict[str, Path] = {}
    for vnode, available in resources.items():
        check_name(vnode, source)
        path: list[str | None] = []
        for key in keys:
            values = [value.strip() for value in available.get(key, "").split(",")]
            values = [value for value in dict.fromkeys(values) if value]
            if len(values) > 1:
                raise TopologyError(f"{source}: vnode {vnode} is in two sets of {key}: {values[0]} and {values[1]}")
            if not values:
                break
            path.append(check_name(values[0], f"{source}: vnode {vnode}: {key}"))
        paths[vnode] = (*path, *(None for _key in keys[len(path) :]))
    return Topology(levels=keys if levels is None else levels, labels=labels, paths=paths, source=source)
