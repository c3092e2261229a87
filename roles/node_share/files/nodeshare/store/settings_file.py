# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of settings: what is in it, and what could be read of it."""

import json
from typing import Any, Dict

from ..model.settings import Loaded, Settings, SettingsError, _loaded
from . import files


def load(path: str) -> Loaded:
    """Read the settings of a node; what cannot be read has its default, and is named in the remark."""
    try:
        return _loaded(read(path, role="node_share"), path)
    except SettingsError as error:
        return Loaded(Settings(), str(error), mode_known=False)


def read(path: str, *, role: str) -> Dict[str, Any]:
    """Return what is in the file. Raises SettingsError where it cannot be read, or is no JSON object."""
    try:
        content = files.read(path)
    except files.StoreError as error:
        raise SettingsError(str(error)) from error
    if content is None:
        raise SettingsError("{}: no such file; it is written by the role {}".format(path, role))
    try:
        data = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise SettingsError("{}: not JSON: {}".format(path, error)) from error
    if not isinstance(data, dict):
        raise SettingsError("{}: not a JSON object".format(path))
    return data
