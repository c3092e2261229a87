# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the values of all variables of a site at once, before any host is touched.

The specifications are the roles' own (`meta/argument_specs.yml`); ranges are those of the program that reads a value.
Hosts have most values in common, so each value is judged once however many hosts have it.

PRIVATE to the collection.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
import typing as t
from pathlib import Path

import yaml
from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.converged.hpc.plugins.module_utils import _quantity, _runtime, _share_mode
from ansible_collections.converged.hpc.plugins.module_utils._preflight.model import Finding, refuse

Spec = t.Mapping[str, t.Any]
Check = t.Callable[[t.Any], t.Any]

ROLES = Path(__file__).parents[2] / "roles"
# An option is a duration where its description begins with this word.
DURATION = "Duration"
DURATIONS = "seconds (90), or text such as 30m or 1d12h"
# Variables of the playbooks, which no role has. A test compares them with what the playbooks read.
RUN: dict[str, Spec] = {
    "converged_after_canary": {"type": "str", "choices": ["stop", "go_on"]},
    "converged_api_server": {"type": "str"},
    "converged_convert": {"type": "str"},
    "converged_drain": {"type": "str", "choices": ["when_needed", "always", "never"]},
    "converged_drain_timeout": {"type": "str", "description": DURATION},
    "converged_hosts": {"type": "str"},
    "converged_kube_node": {"type": "str"},
    "converged_kubeconfig": {"type": "path"},
    "converged_kubectl": {"type": "path"},
    "converged_max_fail_percentage": {"type": "float"},
    "converged_record_copy_dir": {"type": "path"},
    "converged_record_dir": {"type": "path"},
    "converged_restore_role": {"type": "str"},
    "converged_runtime": {"type": "str", "choices": list(_runtime.RUNTIMES)},
    "converged_serial": {"type": "raw"},
    # Preflight judges it for each node, beside its batch system.
    "converged_share_mode": {"type": "str"},
    "converged_take_lock": {"type": "bool"},
    "converged_verify_command": {"type": "list"},
    "converged_verify_image": {"type": "str"},
    "converged_verify_nodes": {"type": "list"},
    "converged_verify_options": {"type": "list"},
    "converged_verify_spark": {"type": "path"},
    "converged_verify_user": {"type": "str"},
    "converged_verify_wait": {"type": "str", "description": DURATION},
    "converged_wlm": {"type": "str", "choices": list(_share_mode.SERVED)},
    "converged_wlm_node": {"type": "str"},
}
# Inventory variables of these names do not reach the keywords of plays that read them.
ONLY_BY_E = ("converged_convert", "converged_max_fail_percentage", "converged_serial")
# A fact that a site may keep in a cache, beside the variables of the inventory.
_FACTS = ("converged_share",)


class Known(t.NamedTuple):
    """What variables there are: their specifications by name, and how the names of each role's begin."""

    options: t.Mapping[str, Spec]
    prefixes: t.Tuple[str, ...]
    checks: t.Mapping[str, Check]


def known(roles: t.Mapping[str, t.Collection[str]]) -> Known:
    """Return what these roles read; of a role with no entry points named, all of them."""
    options: dict[str, Spec] = {}
    for role, wanted in roles.items():
        text = (ROLES / role / "meta/argument_specs.yml").read_text(encoding="utf-8")
        entries = yaml.safe_load(text)["argument_specs"]
        for entry in wanted or entries:
            options.update((entries.get(entry) or {}).get("options") or {})
    return Known({**options, **RUN}, (*(f"{role}_" for role in roles), "converged_"), programs_checks())


def programs_checks() -> dict[str, Check]:
    """Return, by variable, the check by which nodeshare or its controller judges that setting."""
    node, controller = program("model.settings"), program("controller.settings")
    return {
        **{f"node_share_{key}": check for key, check in node.CHECKS.items()},
        **{f"node_share_controller_{key}": check for key, check in controller.CHECKS.items()},
    }


def program(module: str) -> t.Any:
    """Import a module of the program as it is copied to nodes; it needs the standard library alone."""
    name, folder = "_converged_nodeshare", ROLES / "node_share/files/nodeshare"
    if name not in sys.modules:
        found = importlib.util.spec_from_file_location(
            name, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        if found is None or found.loader is None:
            raise ImportError(f"{folder}: no Python package")
        package = importlib.util.module_from_spec(found)
        sys.modules[name] = package
        found.loader.exec_module(package)
    kept, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # the role copies the whole folder
    try:
        return importlib.import_module(f"{name}.{module}")
    finally:
        sys.dont_write_bytecode = kept


def judge(
    given: t.Mapping[str, t.Mapping[str, t.Any]],
    evaluate: t.Callable[[str, str], t.Any],
    known: Known,
    *,
    unknown: bool = True,
) -> dict[str, list[Finding]]:
    """Return, by host, what is wrong with its variables.

    `given` has the variables of each host as they were written; `evaluate(host, name)` returns the value of one that is
    a template. With `unknown` a variable that no role has, and that is named as if one had, is wrong as well.
    """
    judged: dict[tuple[str, str], tuple[Finding, ...]] = {}
    found: dict[str, list[Finding]] = {}
    for host, variables in given.items():
        for name in variables:
            if not name.startswith(known.prefixes) or name in _FACTS:
                continue
            value = variables[name]
            if is_template(value):
                try:
                    value = evaluate(host, name)
                except Exception as error:  # noqa: BLE001 - whatever a template of the site ends in
                    problem = refuse("value", f"{name}: {' '.join(str(error).split())}", "correct the template")
                    found.setdefault(host, []).append(problem)
                    continue
            key = (name, repr(value))
            if key not in judged:
                judged[key] = tuple(_judge(name, value, known, unknown=unknown))
            found.setdefault(host, []).extend(judged[key])
    return {host: findings for host, findings in found.items() if findings}


def is_template(value: t.Any) -> bool:
    """Return whether a value, or a part of it, is to be evaluated."""
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    if isinstance(value, t.Mapping):
        return any(is_template(one) for pair in value.items() for one in pair)
    return isinstance(value, (list, tuple)) and any(is_template(one) for one in value)


def _judge(name: str, value: t.Any, known: Known, *, unknown: bool) -> t.Iterator[Finding]:
    option = known.options.get(name)
    if option is None:
        if unknown:
            alike = difflib.get_close_matches(name, known.options, 1, 0.8)
            advice = f"write {alike[0]}" if alike else "see the README of the role, or rename a variable of your own"
            yield refuse("unknown_variable", f"{name}: no role has such a variable", advice)
        return
    problem = wrong(name, value, option, known.checks.get(name))
    if problem:
        yield refuse("value", f"{name} is {_shown(value)}: expected {problem}", f"correct {name}")


def wrong(name: str, value: t.Any, option: Spec, check: t.Optional[Check] = None) -> str:
    """Return what was expected instead of this value; "" where it is right."""
    if value is None:
        return "a value, or no such variable at all" if "default" in option else ""
    if "default" in option and value == option["default"]:
        return ""  # the role knows what it puts in the place of an empty one
    if is_duration(option):
        try:
            value = _quantity.seconds(str(value) if _is_whole(value) else value)
        except _quantity.QuantityError:
            return f"a duration: {DURATIONS}"
        return _by_program(value, check)
    named = value if option.get("type") == "list" and isinstance(value, (list, tuple)) else [value]
    if option.get("choices") and any(one not in option["choices"] for one in named):
        return f"one of {', '.join(map(str, option['choices']))}"
    kind = option.get("type", "str")
    expected = _KINDS[kind](value) if kind in _KINDS else ""
    # The playbooks make truth of what is written on the command line, which is text; roles take it as it is.
    if kind == "bool" and isinstance(value, str) and name.startswith("converged_"):
        expected = "" if _is_boolean(value) else expected
    return expected or _by_program(value, check)


def is_duration(option: Spec) -> bool:
    """Return whether an option is a duration, by its description."""
    text = option.get("description") or ""
    return str(text[0] if isinstance(text, list) and text else text).startswith(DURATION)


def _by_program(value: t.Any, check: t.Optional[Check]) -> str:
    try:
        if check is not None:
            check(value)
    except ValueError as error:
        quotes = (
            " (as text: write it in quotes)" if isinstance(value, (int, float)) and "seconds" not in str(error) else ""
        )
        return f"{error}{quotes}"
    return ""


def _is_boolean(text: str) -> bool:
    try:
        boolean(text)
    except TypeError:
        return False
    return True


def _whole(value: t.Any) -> str:
    return "" if _is_whole(value) or (isinstance(value, str) and value.strip().isdigit()) else "a whole number"


def _is_whole(value: t.Any) -> bool:
    """Return whether this is a whole number; those of an inventory are of a class of Ansible's own."""
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: t.Any) -> str:
    try:
        float(value)
    except (TypeError, ValueError):
        return "a number"
    return "a number" if isinstance(value, bool) else ""


def _text(value: t.Any) -> str:
    return "text" if isinstance(value, (list, dict)) else ""


_KINDS: dict[str, t.Callable[[t.Any], str]] = {
    "bool": lambda value: "" if isinstance(value, bool) else "true or false, which -e takes as JSON alone",
    "dict": lambda value: "" if isinstance(value, t.Mapping) else "a dictionary",
    "float": _number,
    "int": _whole,
    "list": lambda value: "" if isinstance(value, (list, tuple)) else "a list",
    "path": _text,
    "str": _text,
}


def _shown(value: t.Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
