# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plugins of the site, found by the entry points of the packages that are installed beside the daemon.

Only the entry points that the policy names are loaded, so an installed package does nothing by itself.
"""

from importlib.metadata import entry_points
from typing import Final

from placement.policy.plugins.site_check import PluginError, plugin_type
from placement.policy.plugins.site_filter import said_of
from placement.policy.plugins.site_plugin import SitePlugin

GROUP: Final = "converged_placement.plugins"


def find_plugin(name: str) -> type[SitePlugin] | None:
    """Return the class that an entry point of this name stands for, None if there is none; PluginError says why not."""
    found = {point.value: point for point in entry_points(group=GROUP, name=name)}
    if not found:
        return None
    if len(found) > 1:
        raise PluginError(f"several entry points have this name: {', '.join(sorted(found))}; uninstall all but one")
    (point,) = found.values()
    try:
        loaded = point.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001 -- said in one line
        raise PluginError(
            f"entry point {point.value} cannot be loaded: {said_of(error)}; mend or reinstall its package"
        ) from None
    return plugin_type(loaded)
