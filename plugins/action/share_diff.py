# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints the diffs of a plan that goes to many hosts: each once, with the hosts that have it; nothing runs on any host.

An action plugin, as it compares what was registered on all hosts, by the lines that are printed. Diffs that differ only
in a host's own names and addresses are one diff, in which the names of these variables stand for their values. So
nothing that differs is hidden: the diff of a host is what is printed, with its own values put back.
"""

from __future__ import annotations

import collections
import difflib
import functools
import json
import re
import typing as t

from ansible import constants as C  # noqa: N812
from ansible_collections.converged.hpc.plugins.module_utils._shared import hostlist
from ansible_collections.converged.hpc.plugins.plugin_utils._judging import JudgingAction, Variables
from ansible_collections.converged.hpc.plugins.plugin_utils._planned import KEPT

# In this order, as one value may be that of several.
OWN = (
    *("inventory_hostname", "inventory_hostname_short", "converged_wlm_node", "converged_kube_node"),
    *("node_kubelet_node_ip", "node_runtime_pod_cidr", "singularity_cri_pod_cidr", "ansible_host"),
)
CONTEXT = 3
FEW = 3
PREPARED = re.compile(r"^\+\+\+ (\S+)", re.MULTILINE)


class Part(t.NamedTuple):
    """One change of one host: the thing it is about, and its two sides, or what a module has compared already."""

    header: str
    before: str
    after: str
    prepared: str


class ActionModule(JudgingAction):
    """Print the diffs."""

    ARGUMENT_SPEC: t.ClassVar[t.Dict[str, t.Any]] = {"hosts": {"type": "list", "elements": "str", "required": True}}

    def judge(self, given: Variables, known: Variables) -> t.Dict[str, t.Any]:
        """Return all diffs with their hosts, and print them."""
        hostvars = known["hostvars"]
        found = {host: hostvars.raw_get(host) for host in given["hosts"]}
        parts = kept(found.values())
        names = {owner: own(found.get(owner, {}), owner, hostvars) for owner in parts}
        shown = together(with_names_where_hosts_differ(parts, names))
        for one in shown:
            self._display.display(f"\n{heading(one)}")
            for line in lines(one["diff"]):
                self._display.display(line, color=shade(line))
        return {"changed": False, "diffs": shown}


def kept(known: t.Iterable[Variables]) -> t.Dict[str, t.List[Part]]:
    """Return the parts of all registered results that change something, by the host on which they ran."""
    parts: t.Dict[str, t.List[Part]] = {}
    # What ran once is registered on every host.
    said: t.Dict[t.Tuple[str, str], t.List[t.Any]] = {}
    for variables in known:
        for name, value in variables.items():
            for result in _results(value):
                one = result.get(KEPT)
                if not isinstance(one, t.Mapping) or not result.get("changed"):
                    continue
                before = said.setdefault((one["host"], name), [])
                if one["changes"] not in before:
                    before.append(one["changes"])
                    parts.setdefault(one["host"], []).extend(_parts(one["changes"]))
    return parts


def _results(value: t.Any) -> t.Iterator[t.Mapping[str, t.Any]]:
    """Yield a registered result, or those of its loop."""
    if isinstance(value, t.Mapping):
        yield value
        results = value.get("results")
        for one in results if isinstance(results, (list, tuple)) else ():
            if isinstance(one, t.Mapping):
                yield one


def _parts(changes: t.Any) -> t.Iterator[Part]:
    for change in changes if isinstance(changes, (list, tuple)) else [changes]:
        before, after = (_text(change.get(side)) for side in ("before", "after"))
        prepared = str(change.get("prepared") or "")
        named = change.get("after_header") or change.get("before_header") or PREPARED.search(prepared)
        yield Part(named[1] if isinstance(named, re.Match) else str(named or ""), before, after, prepared)


def _text(side: t.Any) -> str:
    if isinstance(side, (t.Mapping, list, tuple)):
        return json.dumps(side, sort_keys=True, indent=4, default=str) + "\n"
    return "" if side is None else str(side)


def own(variables: Variables, host: str, hostvars: t.Mapping[str, Variables]) -> t.Dict[str, str]:
    """Return what is a host's own, by value: the name of the first variable that has it."""
    found: t.Dict[str, str] = {}
    for name in OWN:
        value = variables.get(name)
        if isinstance(value, str) and "{{" in value:
            value = hostvars[host][name]
        if isinstance(value, str) and value:
            found.setdefault(value, name)
    return found


def with_names(parts: t.Iterable[Part], names: t.Mapping[str, str]) -> t.List[Part]:
    """Return parts in which the names of variables stand for a host's own values; a text with braces stays as it is."""
    if not names:
        return list(parts)
    longest = sorted(names, key=len, reverse=True)
    value = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, longest))})(?![\w-])")

    def named(text: str) -> str:
        return text if "{{" in text else value.sub(lambda match: f"{{{{ {names[match[0]]} }}}}", text)

    return [Part(*map(named, one)) for one in parts]


def with_names_where_hosts_differ(
    parts: t.Mapping[str, t.Sequence[Part]], names: t.Mapping[str, t.Mapping[str, str]]
) -> t.Dict[str, t.List[Part]]:
    """Return parts in which names of variables stand for values, but as they are where several hosts have one alike.

    A slurm.conf that names all hosts is such a one: with names of variables it would be another on each of them.
    """
    alike = collections.Counter(key for changed in parts.values() for key in {_printed(one) for one in changed})
    return {
        host: [one if alike[_printed(one)] > 1 else with_names([one], names[host])[0] for one in changed]
        for host, changed in parts.items()
    }


@functools.lru_cache(maxsize=None)
def _printed(one: Part) -> t.Tuple[str, ...]:
    """Return what is printed of a part: the thing, and the lines of its diff."""
    return (one.header, *lines({"before": one.before, "after": one.after, "prepared": one.prepared}))


def together(parts: t.Mapping[str, t.Sequence[Part]]) -> t.List[t.Dict[str, t.Any]]:
    """Return each diff once: the hosts that have it, and the things on them that it is about."""
    hosts: t.Dict[t.Tuple[str, ...], t.List[str]] = {}
    first: t.Dict[t.Tuple[str, ...], Part] = {}
    for host in sorted(parts, key=hostlist.natural_key):
        for key, one in {_printed(one): one for one in parts[host]}.items():
            hosts.setdefault(key, []).append(host)
            first.setdefault(key, one)
    things: t.Dict[t.Tuple[t.Tuple[str, ...], t.Tuple[str, ...]], t.List[Part]] = {}
    for key, having in hosts.items():
        things.setdefault((tuple(having), key[1:]), []).append(first[key])
    return [
        {
            "hosts": list(having),
            "things": [one.header for one in ones],
            "diff": {"before": ones[0].before, "after": ones[0].after, "prepared": ones[0].prepared},
        }
        for (having, _lines), ones in things.items()
    ]


def heading(one: t.Mapping[str, t.Any]) -> str:
    """Return the line above a diff."""
    hosts, things = one["hosts"], [thing for thing in one["things"] if thing]
    kinds = {thing.partition(" ")[0] for thing in things}
    if len(things) > FEW and len(kinds) == 1 and all(" " in thing for thing in things):
        things = [f"{kinds.pop()} {folded([thing.partition(' ')[2] for thing in things])}"]
    return f"on {folded(hosts)}, {len(hosts)} host{'s' * (len(hosts) > 1)}: {', '.join(things)}"


def folded(names: t.Sequence[str]) -> str:
    """Return names as a host list, or one behind the other where they are no names of hosts."""
    try:
        return hostlist.fold(sorted(names, key=hostlist.natural_key))
    except hostlist.HostlistError:
        return ",".join(names)


def lines(diff: t.Mapping[str, str]) -> t.List[str]:
    """Return the lines of a diff, without those that say the same as the heading."""
    compared = list(
        difflib.unified_diff(diff["before"].splitlines(), diff["after"].splitlines(), lineterm="", n=CONTEXT)
    )
    return [*compared[2:], *diff["prepared"].splitlines()]


def shade(line: str) -> t.Optional[str]:
    """Return the colour in which Ansible prints a line of a diff."""
    return {"+": C.COLOR_DIFF_ADD, "-": C.COLOR_DIFF_REMOVE, "@": C.COLOR_DIFF_LINES}.get(line[:1])
