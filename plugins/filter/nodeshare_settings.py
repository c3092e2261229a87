# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A filter by which the program nodeshare judges its settings before they are written to any host."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.converged.hpc.plugins.plugin_utils import _values


def nodeshare_settings(content: t.Mapping[str, t.Any], module: str = "model.settings") -> t.Mapping[str, t.Any]:
    """Return the settings as they are; `module` is the one of the program that reads them."""
    program = _values.program(module)
    try:
        program.judged(content, program.PATH)
    except ValueError as error:
        raise AnsibleFilterError(f"nodeshare_settings: {error}") from error
    return content


class FilterModule:
    """The filters of this file by their names in templates."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"nodeshare_settings": nodeshare_settings}
