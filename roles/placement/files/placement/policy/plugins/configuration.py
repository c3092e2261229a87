# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The policy's configuration, as kube-batch and Volcano write it: `actions` and `tiers` of plugins.

The whole file is checked before anything starts. What is not known is refused with file and line; what means something
else here than in kube-batch is said in a report.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import yaml

from placement.policy.plugins.site_check import PluginError, made
from placement.policy.plugins.site_filter import METHODS, has_own
from placement.policy.plugins.site_plugin import SitePlugin

ACTIONS: Final = ("enqueue", "allocate", "backfill", "preempt", "reclaim")

# The default of kube-batch when there is no file.
DEFAULT_TEXT: Final = """\
actions: "allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""

# Options of a plugin by their key; all are on where none is given.
OPTIONS: Final = {
    "enableJobOrder": "job_order",
    "enableJobReady": "job_ready",
    "enableJobPipelined": "job_pipelined",
    "enableTaskOrder": "task_order",
    "enablePreemptable": "preemptable",
    "enableReclaimable": "reclaimable",
    "enableQueueOrder": "queue_order",
    "enablePredicate": "predicate",
    "enableNodeOrder": "node_order",
}

# Arguments by plugin and key: the default, whose type is the argument's.
ARGUMENTS: Final[dict[str, dict[str, int | bool]]] = {
    "gang": {},
    "priority": {},
    "drf": {},
    "proportion": {},
    "conformance": {},
    "predicates": {
        "predicate.MemoryPressureEnable": False,
        "predicate.DiskPressureEnable": False,
        "predicate.PIDPressureEnable": False,
    },
    "nodeorder": {
        "leastrequested.weight": 1,
        "mostrequested.weight": 0,
        "nodeaffinity.weight": 1,
        "podaffinity.weight": 1,
        "balancedresource.weight": 1,
    },
}
# What can be switched off of a site's plugin: its mask and `allowed`, and its score.
_SITE_OPTIONS: Final = ("enablePredicate", "enableNodeOrder")
# What cannot be switched off here, by plugin and key, and why.
_KEPT_ON: Final = {
    ("predicates", "enablePredicate"): "the kubelet would reject the pods",
    ("gang", "enableJobPipelined"): "pods leave only for all of a gang's minimum",
    ("gang", "enablePreemptable"): "a gang is never left with a part of its minimum",
    ("gang", "enableReclaimable"): "a gang is never left with a part of its minimum",
    ("conformance", "enablePreemptable"): "leave the plugin out to have the cluster's own pods evicted",
    ("conformance", "enableReclaimable"): "leave the plugin out to have the cluster's own pods evicted",
}
_MAX_WEIGHT: Final = 1000
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,9}")
# What Go's ParseBool takes, which is what kube-batch reads arguments with.
_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
_FALSE: Final = ("0", "f", "F", "false", "FALSE", "False")
# What YAML 1.1 takes besides, which is what it reads options with.
_YES: Final = frozenset({"y", "yes", "on"})
_NO: Final = frozenset({"n", "no", "off"})
_NULL: Final = "tag:yaml.org,2002:null"
_KINDS: Final = {yaml.ScalarNode: "a single value", yaml.SequenceNode: "a list", yaml.MappingNode: "keys and values"}


class ConfigurationError(ValueError):
    """The file cannot be used; the message names file, line and what is wrong."""


@dataclass(frozen=True, slots=True)
class PluginChoice:
    """One plugin of a tier: what is switched off, and its arguments."""

    name: str
    off: frozenset[str] = frozenset()
    arguments: Mapping[str, int | bool] = field(default_factory=dict)
    # The plugin itself, if it is one of the site's.
    site: SitePlugin | None = None

    def on(self, option: str) -> bool:
        """Whether the extension point is in use."""
        return option not in self.off


@dataclass(frozen=True, slots=True)
class Configuration:
    """Actions in order, and tiers of plugins."""

    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginChoice, ...], ...]
    # What differs from kube-batch, one sentence each.
    report: tuple[str, ...] = ()

    def plugins(self) -> Iterator[PluginChoice]:
        """All plugins in order."""
        for tier in self.tiers:
            yield from tier

    def has(self, name: str) -> bool:
        """Whether the plugin is in some tier."""
        return any(plugin.name == name for plugin in self.plugins())


# Finds a plugin of the site by its name; PluginError says why one cannot be used.
Find = Callable[[str], type[SitePlugin] | None]


def _none_found(_name: str) -> None:
    return None


def load(text: str, source: str, find: Find = _none_found) -> Configuration:
    """Return the configuration in a file's text, with the plugins of the site that it names, or ConfigurationError."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        problem = getattr(error, "problem", None) or "not YAML"
        raise ConfigurationError(f"{source}:{line}: {problem}") from None
    except RecursionError:
        raise ConfigurationError(f"{source}:1: nested too deep") from None
    return _Reader(source, find).configuration(root)


class _Reader:
    """Walks the YAML nodes, which know their lines."""

    def __init__(self, source: str, find: Find) -> None:
        self._source = source
        self._find = find
        # Plugins of the site, and where they stand.
        self._site: dict[str, tuple[type[SitePlugin], yaml.Node]] = {}

    def configuration(self, root: yaml.Node | None) -> Configuration:
        if root is None:
            raise ConfigurationError(f"{self._source}:1: the file is empty; it needs `actions`")
        entries = self._mapping(root, "the configuration", ("actions", "tiers"))
        if "actions" not in entries:
            raise self._error(root, "`actions` is missing")
        actions = self._actions(entries["actions"])
        nodes = self._sequence(entries["tiers"], "tiers") if "tiers" in entries else []
        tiers = tuple(self._tier(node) for node in nodes)
        # As in kube-batch a plugin may stand in several tiers, and is made once, from the last arguments.
        last = {choice.name: choice.arguments for tier in tiers for choice in tier}
        site = {name: self._made(name, last[name]) for name in self._site}
        chosen = tuple(
            tuple(replace(choice, arguments=last[choice.name], site=site.get(choice.name)) for choice in tier)
            for tier in tiers
        )
        return Configuration(actions, chosen, tuple(_report(actions, chosen)))

    def _actions(self, node: yaml.Node) -> tuple[str, ...]:
        names = [name.strip() for name in self._text(node, "actions").split(",")]
        for name in names:
            if name not in ACTIONS:
                raise self._error(node, f"unknown action {name!r}; known are {', '.join(ACTIONS)}")
        return tuple(names)

    def _tier(self, node: yaml.Node) -> list[PluginChoice]:
        entries = self._mapping(node, "a tier", ("plugins",))
        if "plugins" not in entries:
            raise self._error(node, "a tier needs `plugins`")
        return [self._plugin(plugin) for plugin in self._sequence(entries["plugins"], "plugins")]

    def _plugin(self, node: yaml.Node) -> PluginChoice:
        entries = self._mapping(node, "a plugin", ("name", "arguments", *OPTIONS))
        if "name" not in entries:
            raise self._error(node, "a plugin needs a `name`")
        name = self._text(entries["name"], "name")
        known = ARGUMENTS[name] if name in ARGUMENTS else self._site_arguments(name, entries)
        off = frozenset(
            option
            for key, option in OPTIONS.items()
            if _is_given(entries.get(key)) and not self._option(entries[key], f"{key} of {name}")
        )
        arguments = dict(known)
        if _is_given(entries.get("arguments")):
            for key, value in self._mapping(entries["arguments"], f"arguments of {name}", tuple(arguments)).items():
                arguments[key] = self._argument(value, key, arguments[key])
        return PluginChoice(name, off, arguments)

    def _site_arguments(self, name: str, entries: Mapping[str, yaml.Node]) -> Mapping[str, int | bool]:
        """Return the arguments of a plugin of the site, with their defaults."""
        try:
            found = self._find(name)
        except PluginError as error:
            raise self._error(entries["name"], f"plugin {name!r}: {error}") from None
        if found is None:
            known = ", ".join(sorted(ARGUMENTS))
            raise self._error(
                entries["name"],
                f"unknown plugin {name!r}; known are {known}, and no installed package has one of its own",
            )
        for key in entries:
            if key in OPTIONS and key not in _SITE_OPTIONS:
                raise self._error(entries[key], f"{key} is not for plugin {name!r}; {' and '.join(_SITE_OPTIONS)} are")
        self._site[name] = found, entries["name"]
        return found.arguments

    def _made(self, name: str, arguments: Mapping[str, int | bool]) -> SitePlugin:
        kind, node = self._site[name]
        try:
            return made(kind, arguments)
        except PluginError as error:
            raise self._error(node, f"plugin {name!r}: {error}") from None

    def _argument(self, node: yaml.Node, key: str, default: int | bool) -> int | bool:
        if isinstance(node, yaml.ScalarNode) and (not _is_given(node) or not node.value):
            # kube-batch takes an empty one for one that is not given, too.
            return default
        if isinstance(default, bool):
            return self._boolean(node, key)
        text = self._text(node, key)
        if not _INTEGER.fullmatch(text) or not 0 <= int(text) <= _MAX_WEIGHT:
            raise self._error(node, f"{key}: {text!r} is not an integer from 0 to {_MAX_WEIGHT}")
        return int(text)

    def _option(self, node: yaml.Node, what: str) -> bool:
        word = self._text(node, what).lower()
        return word in _YES if word in _YES | _NO else self._boolean(node, what)

    def _boolean(self, node: yaml.Node, what: str) -> bool:
        text = self._text(node, what)
        if text not in (*_TRUE, *_FALSE):
            raise self._error(node, f"{what}: {text!r} is neither true nor false")
        return text in _TRUE

    def _text(self, node: yaml.Node, what: str) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self._error(node, f"{what}: expected text, found {_KINDS[type(node)]}")
        return str(node.value).strip()

    def _sequence(self, node: yaml.Node, what: str) -> list[yaml.Node]:
        if not _is_given(node):
            return []
        if not isinstance(node, yaml.SequenceNode):
            raise self._error(node, f"{what}: expected a list, found {_KINDS[type(node)]}")
        return list(node.value)

    def _mapping(self, node: yaml.Node, what: str, known: tuple[str, ...]) -> dict[str, yaml.Node]:
        if not isinstance(node, yaml.MappingNode):
            raise self._error(node, f"{what}: expected keys and values, found {_KINDS[type(node)]}")
        entries: dict[str, yaml.Node] = {}
        for key_node, value in node.value:
            key = self._text(key_node, f"key of {what}")
            if key not in known:
                raise self._error(key_node, f"unknown key {key!r} in {what}; known are {', '.join(known) or 'none'}")
            if key in entries:
                raise self._error(key_node, f"key {key!r} stands twice in {what}")
            entries[key] = value
        return entries

    def _error(self, node: yaml.Node, problem: str) -> ConfigurationError:
        return ConfigurationError(f"{self._source}:{node.start_mark.line + 1}: {problem}")


def _is_given(node: yaml.Node | None) -> bool:
    """Whether a key stands there with a value: with all that it had commented out, it has none."""
    return node is not None and node.tag != _NULL


def _report(actions: tuple[str, ...], tiers: tuple[tuple[PluginChoice, ...], ...]) -> Iterator[str]:
    """Yield what a kube-batch user should know."""
    choices = [choice for tier in tiers for choice in tier]
    plugins = {choice.name: choice for choice in choices}
    if "enqueue" in actions:
        yield "enqueue: groups are let in when their minResources are free; kube-batch does not have this action"
    if "backfill" in actions:
        yield "backfill: places pods that request nothing, as in kube-batch; it makes no reservations"
    else:
        yield "backfill: not among the actions, so pods that request nothing are never placed, as in kube-batch"
    if {"preempt", "reclaim"} & set(actions):
        yield "preempt, reclaim: pods leave through the Eviction API, so a disruption budget can hold them"
        yield "preempt, reclaim: a gang loses all of its pods or those beyond its minimum, never a part of the minimum"
        yield from _about_tiers(actions, plugins)
    for choice in choices:
        for key, why in ((key, why) for (name, key), why in _KEPT_ON.items() if name == choice.name):
            if not choice.on(OPTIONS[key]):
                yield f"{choice.name}: {key}: false has no effect: {why}"
    yield from (_about_site(name, choice.site) for name, choice in plugins.items() if choice.site is not None)
    if "predicates" not in plugins:
        yield "predicates: always on, because the kubelet would reject the pods; the plugin is not in the file"
    elif any(plugins["predicates"].arguments.values()):
        yield "predicates: pressure of memory, disk and PIDs is read from the node's taints, whatever the switch says"
    if "gang" not in plugins:
        yield "gang: not in the file, so the pods of a group start one by one"
    if "nodeorder" in plugins:
        yield "nodeorder: among equal nodes the choice is always the same; kube-batch draws lots"
    if "proportion" in plugins:
        yield "proportion: capability, guarantee and the hierarchy of queues are enforced; kube-batch only reads them"


def _about_site(name: str, plugin: SitePlugin) -> str:
    own = [method for method in METHODS if has_own(type(plugin), method)]
    kind = type(plugin)
    return f"{name}: a plugin of this site, {kind.__module__}.{kind.__qualname__}, with {', '.join(own)}"


def _about_tiers(actions: tuple[str, ...], plugins: Mapping[str, PluginChoice]) -> Iterator[str]:
    """Where kube-batch's tiers, which intersect what their plugins answer, would choose other victims."""
    yield (
        "tiers: only their order counts, and gang and conformance protect pods in whatever tier they stand; kube-batch"
        " takes the victims on which all plugins of the first tier with an answer agree"
    )
    if "preempt" in actions and plugins.keys() >= {"priority", "drf"}:
        yield "preempt: priority and drf are asked one after the other, and either is enough, also within one tier"
    if "preempt" in actions and "drf" in plugins:
        yield "drf: takes room only from jobs of the same priority; kube-batch looks at shares alone"
    if "reclaim" in actions and "proportion" in plugins:
        yield "reclaim: proportion decides which queues give room back, in whatever tier it stands"


DEFAULT: Final = load(DEFAULT_TEXT, "built-in configuration")
