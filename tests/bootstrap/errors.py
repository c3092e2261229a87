# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What went wrong, in one line: the thing, what was found, what to do."""


class BootstrapError(Exception):
    """The machine could not be prepared; the message is all that is shown."""
