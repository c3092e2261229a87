# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How our scripts come to run beside those of the site: by lines of their own, or around the site's script.

Before 24.05 Slurm takes one Prolog line and silently drops an earlier one; from then on it runs all of them in order.
"""

from __future__ import annotations

import re
import shlex
import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.converged.hpc.plugins.module_utils._slurm import ours, version
from ansible_collections.converged.hpc.plugins.module_utils._slurm.conf import kept
from ansible_collections.converged.hpc.plugins.module_utils._slurm.conf.model import SCRIPT_KEYS
from ansible_collections.converged.hpc.plugins.module_utils._slurm.errors import SlurmError
from ansible_collections.converged.hpc.plugins.plugin_utils import _planned

FILES = ours.FILES
MARGIN = 5  # what the site's own script may take of PrologEpilogTimeout before ours is cut short
_PATTERN = frozenset("*?[")
_EXPANDABLE = re.compile(r"/[A-Za-z0-9/._@%+,*?\[\]-]*")
# Slurm before 24.05 runs what a pattern finds from the last name on, and ends at the first failure.
_EACH = 'set --; for script in {}; do set -- "$script" "$@"; done; for script; do "$script" || return; done'


class Plan(t.NamedTuple):
    """Settings for slurm.conf, the site's script to run around by key, and a shell function for each of our files.

    `restart` says which slurmctlds ("all", "backups" or "none") are to be restarted: one that had no PrologSlurmctld
    when it started shows a later one, and never runs it.
    """

    settings: list[dict[str, str]]
    sites: dict[str, str]
    functions: dict[str, str]
    restart: str


def slurm_scripts(
    info: t.Mapping[str, t.Any], folder: str, remembered: t.Mapping[str, str] | None = None
) -> dict[str, t.Any]:
    """Plan the scripts of a cluster that `slurm_info` described. `remembered` is `sites` of the run before."""
    try:
        release = version.parse(f"slurm {info['version']}")
    except SlurmError as error:
        raise AnsibleFilterError(f"slurm_scripts: {error}") from error
    repeated = release >= version.REPEATED_SCRIPTS
    sites: dict[str, str] = {}
    if not repeated:
        for key in SCRIPT_KEYS:
            sites[key] = _site(key, info["config"].get(key) or [], f"{folder}/{FILES[key]}", remembered or {})
    action = "add" if repeated else "set"
    settings = [{"key": key, "value": f"{folder}/{name}", "action": action} for key, name in FILES.items()]
    settings.append({"key": "PrologFlags", "value": "Alloc,DeferBatch", "action": "merge"})
    functions = {name: site_function(sites.get(key, "")) for key, name in FILES.items()}
    running = info["config"].get("PrologSlurmctld") or []
    had_one = sites.get("PrologSlurmctld") or set(running) - {f"{folder}/{FILES['PrologSlurmctld']}"}
    restart = "none" if had_one else "backups" if release >= version.RECONFIGURE_STARTS_ANEW else "all"
    return Plan(settings, sites, functions, restart)._asdict()


def site_function(script: str) -> str:
    """Write the shell function that runs the site's script with our arguments and environment."""
    if not script:
        return "run_site() { :; }"
    if not _PATTERN.intersection(script):
        return f'run_site() {{ {shlex.quote(script)} "$@"; }}'
    if not _EXPANDABLE.fullmatch(script):
        raise AnsibleFilterError(f"slurm_scripts: {script!a}: a pattern with such characters cannot be run around")
    return f"run_site() {{ {_EACH.format(script)}; }}"


def slurm_script_wait(config: t.Mapping[str, t.Any], wanted: int) -> int:
    """Seconds to wait for an answer: below PrologEpilogTimeout, which also covers the site's own script."""
    found = re.match(r"\d+", str(config.get("PrologEpilogTimeout") or ""))
    limit = int(found.group()) - MARGIN if found else wanted
    return max(1, min(int(wanted), limit))


def slurm_script(text: str, function: str, values: t.Mapping[str, t.Any]) -> str:
    """One of our scripts with the site's function and values put into its lines."""
    lines = {f"{name}=": f"{name}={shlex.quote(str(value))}" for name, value in values.items()}
    lines["run_site() "] = function
    for start, line in lines.items():
        text, count = re.subn(rf"(?m)^{re.escape(start)}.*$", lambda _found, line=line: line, text)
        if count != 1:
            raise AnsibleFilterError(f"slurm_script: {count} lines begin with {start!a}, not one")
    return text


def slurm_share_ready(hostvars: t.Mapping[str, t.Any], hosts: t.Iterable[str], *, planned: bool = False) -> list[str]:
    """List the hosts that have got their scripts in this run, or will by its plan, by their names in Slurm."""
    ready = []
    for host in hosts:
        known = hostvars[host]
        answer = known.get("__slurm_share_stubs") or {"failed": True}
        # A host that was lost behind the plan still has the plan's answer.
        only_planned = _planned.WOULD_CHANGE in answer and not planned
        if not only_planned and not answer.get("failed") and not answer.get("unreachable"):
            ready.append(_name(known))
    return ready


def slurm_calls_ours(config: t.Mapping[str, t.Any], folder: str) -> bool:
    """Return whether Slurm calls every script of ours already."""
    return ours.is_called(config, folder)


def slurm_conf_mode(hostvars: t.Mapping[str, t.Any], hosts: t.Iterable[str], controllers: t.Container[str]) -> str:
    """Return how the site keeps slurm.conf, from what was read on each host of the play."""
    found = {}
    for host in hosts:
        known = hostvars[host]
        read = (known.get("__share_preflight_host") or {}).get("found") or {}
        kept_here = (read.get("slurm") or {}).get("kept") or (known.get("__slurm_share_host") or {}).get(
            "host", {}
        ).get("kept")
        if kept_here:
            found[host] = kept_here
    try:
        return kept.mode(found, controllers)
    except SlurmError as error:
        raise AnsibleFilterError(str(error)) from error


def slurm_names(hosts: t.Iterable[str], hostvars: t.Mapping[str, t.Any]) -> list[str]:
    """Translate hosts of the inventory into their names in Slurm."""
    return [_name(hostvars[host]) for host in hosts]


def _name(known: t.Mapping[str, t.Any]) -> str:
    return str(known.get("converged_wlm_node") or known["inventory_hostname_short"])


def _site(key: str, running: t.Sequence[str], ours: str, remembered: t.Mapping[str, str]) -> str:
    if ours not in running:
        return "".join(running[-1:])
    if key not in remembered:
        raise AnsibleFilterError(
            f"slurm_scripts: {key} is {ours} already, and nothing says what the site ran there before: "
            f"set slurm_share_site_scripts, with {key}: '' where it was nothing"
        )
    return str(remembered[key])


class FilterModule:
    """The filters of this file by their names in templates."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "slurm_scripts": slurm_scripts,
            "slurm_script": slurm_script,
            "slurm_script_wait": slurm_script_wait,
            "slurm_calls_ours": slurm_calls_ours,
            "slurm_share_ready": slurm_share_ready,
            "slurm_conf_mode": slurm_conf_mode,
            "slurm_names": slurm_names,
        }
