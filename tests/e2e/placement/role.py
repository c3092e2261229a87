# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role's own variables, as Ansible would render them: its objects and rights at the API."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from jinja2.nativetypes import NativeEnvironment

ROLE = Path(__file__).resolve().parents[3] / "roles/placement"


class RoleVariables(Mapping[str, Any]):
    """The role's variables, rendered one by one as they are asked for, as Ansible does."""

    def __init__(self, **given: Any) -> None:
        self._given = given
        self._texts = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))
        self._jinja = NativeEnvironment()

    def __getitem__(self, name: str) -> Any:
        return self._given[name] if name in self._given else self._rendered(self._texts[name])

    def __iter__(self) -> Iterator[str]:
        return iter({**self._texts, **self._given})

    def __len__(self) -> int:
        return len({**self._texts, **self._given})

    def _rendered(self, value: Any) -> Any:
        if isinstance(value, str) and "{{" in value:
            return self._evaluated(value)
        if isinstance(value, list):
            return [self._rendered(item) for item in value]
        if isinstance(value, dict):
            return {key: self._rendered(item) for key, item in value.items()}
        return value

    def _evaluated(self, text: str) -> Any:
        # Only what the text names: everything else may need what only a play has.
        names = {name: self[name] for name in self if re.search(rf"\b{name}\b", text)}
        return self._jinja.from_string(text).render(names)
