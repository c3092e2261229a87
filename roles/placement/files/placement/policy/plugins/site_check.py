# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check of a site's plugin before anything is decided by it: its class, its methods, and an answer to a trial.

The trial has three nodes and a pod that no cluster has. What a plugin does later is judged by `site_filter`.
"""

import inspect
from collections.abc import Mapping
from typing import Final

import numpy as np

from placement.model.amounts.quantity import CPU, MEMORY, PODS
from placement.model.messages.event import Upserted
from placement.model.objects.node import Node
from placement.model.objects.pod import PodSpec
from placement.policy.plugins.site_filter import METHODS, checked, has_own, said_of
from placement.policy.plugins.site_plugin import Asking, Nodes, Rooms, SitePlugin
from placement.state.cluster import Cluster

_OFFERED: Final = ((CPU, 4000), (MEMORY, 1 << 33), (PODS, 110))
_REQUEST: Final = ((CPU, 1000), (MEMORY, 1 << 30))


class PluginError(ValueError):
    """A plugin of the site cannot be used; the message says what was found and what to do."""


def plugin_type(found: object) -> type[SitePlugin]:
    """Return what an entry point has loaded, if it is a plugin whose methods can be called; else PluginError."""
    if not (isinstance(found, type) and issubclass(found, SitePlugin)):
        shown = f"the class {found.__qualname__}" if isinstance(found, type) else f"of type {type(found).__name__}"
        raise PluginError(f"its entry point is {shown}; let it name a class derived from SitePlugin")
    own = [method for method in METHODS if has_own(found, method)]
    if not own:
        raise PluginError(f"class {found.__qualname__} decides nothing; override {', '.join(METHODS)} or one of them")
    for method in own:
        _check_signature(found, method)
    wrong = [key for key, value in dict(found.arguments).items() if not isinstance(value, int) or not str(key)]
    if wrong:
        raise PluginError(f"the default of argument {wrong[0]!r} is neither bool nor int; give it one that is")
    labels: object = found.labels
    if not isinstance(labels, tuple) or not all(isinstance(key, str) for key in labels):
        raise PluginError(f"labels is {labels!r}; expected a tuple of label keys")
    return found


def _check_signature(found: type[SitePlugin], method: str) -> None:
    expected = list(inspect.signature(getattr(SitePlugin, method)).parameters)
    own = inspect.signature(getattr(found, method))
    try:
        own.bind(*expected)
    except TypeError:
        raise PluginError(f"its method is {method}{own}; expected {method}({', '.join(expected)})") from None


def made(kind: type[SitePlugin], arguments: Mapping[str, int | bool]) -> SitePlugin:
    """Return a plugin with these arguments that has stood the trial; else PluginError."""
    try:
        plugin = kind(arguments)
    except (Exception, SystemExit) as error:  # noqa: BLE001 -- said in one line
        raise PluginError(f"it cannot be made: {said_of(error)}; mend its __init__") from None
    cluster = Cluster()
    for name in ("trial-1", "trial-2", "trial-3"):
        cluster.apply(Upserted(Node(uid=name, name=name, version=1, allocatable=_OFFERED)))
    spec, some = PodSpec(), np.arange(2)
    labels = dict.fromkeys(kind.labels, "trial")
    cluster.labelsets.read(kind.labels)
    asking = Asking(namespace="trial", labels=labels, spec=spec, request=_REQUEST)
    left = np.array([[3000, 3000], [1 << 30, 1 << 30]], np.int64)
    _try(plugin, "mask", (spec, _REQUEST), Nodes(cluster))
    _try(plugin, "allowed", (asking,), Rooms(cluster, labels=kind.labels))
    # Scores are asked for some nodes, too.
    _try(plugin, "score", (spec, _REQUEST), Rooms(cluster))
    _try(plugin, "score", (spec, _REQUEST), Rooms(cluster, some, left))
    return plugin


def _try(plugin: SitePlugin, method: str, asked: tuple[object, ...], nodes: Nodes) -> None:
    try:
        checked(getattr(plugin, method)(*asked, nodes), method, len(nodes))
    except (Exception, SystemExit) as error:  # noqa: BLE001 -- said in one line
        raise PluginError(f"{method} failed on trial: {said_of(error)}; mend it") from None
