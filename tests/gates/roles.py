# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gate: a role's defaults and its argument_specs name the same variables and values, and it describes itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from gates.gate import Context, GateFailure

# Of the site, besides converged_*: what all roles ask the batch systems with.
SHARED = frozenset(["slurm_bin_dir", "pbs_bin_dir", "torque_bin_dir", "torque_home"])


def check_roles(context: Context) -> None:
    """Judges every role of the collection."""
    roles = sorted(path for path in (context.checkout / "roles").glob("*") if path.is_dir())
    # Payloads may be there before the role that installs them.
    roles = [role for role in roles if (role / "meta").is_dir() or (role / "tasks").is_dir()]
    problems = [problem for role in roles for problem in _judge_folder(role)]
    for problem in problems:
        context.say(problem)
    context.say(f"{len(roles)} roles")
    if problems:
        raise GateFailure(f"{len(problems)} problems, the first: {problems[0]}")


def _judge_folder(role: Path) -> Iterator[str]:
    if not (role / "README.md").is_file():
        yield f"{role.name}: README.md is missing"
    about = _yaml(role / "meta/main.yml").get("galaxy_info") or {}
    if not about.get("description"):
        yield f"{role.name}: meta/main.yml has no galaxy_info.description"
    yield from judge(role.name, _yaml(role / "defaults/main.yml"), _yaml(role / "meta/argument_specs.yml"))


def judge(role: str, defaults: Mapping[str, Any], specs: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong between a role's defaults and its argument_specs.

    An option without a default in the specs must be required; shared variables (converged_*) are documented by every
    role that reads them and have their default where they are decided, so they are not looked for.
    """
    options: dict[str, Any] = {}
    for entry in (specs.get("argument_specs") or {}).values():
        options.update(entry.get("options") or {})
    if not specs.get("argument_specs"):
        yield f"{role}: meta/argument_specs.yml is missing or empty"
    own = {name: option for name, option in options.items() if not name.startswith("converged_") and name not in SHARED}
    for name in sorted(set(defaults) - set(options)):
        yield f"{role}: {name} is in defaults/main.yml and not in meta/argument_specs.yml"
    for name, option in sorted(own.items()):
        if option.get("required") or ("default" not in option and name not in defaults):
            if name in defaults:
                yield f"{role}: {name} is required, and defaults/main.yml sets it"
            elif not option.get("required"):
                yield f"{role}: {name} has no default and is not required"
        elif name not in defaults:
            yield f"{role}: {name} has a default in meta/argument_specs.yml and not in defaults/main.yml"
        elif "default" in option and option["default"] != defaults[name]:
            yield f"{role}: {name} is {defaults[name]!r} in defaults/main.yml and {option['default']!r} in the specs"
    for name in sorted(own):
        if not name.startswith(role + "_"):
            yield f"{role}: {name} does not begin with the role's name"


def _yaml(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8")) or {} if path.is_file() else {}
