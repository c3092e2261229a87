# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mark of tests that run the same code again and again, and so cost a processor seconds."""


def lengthy(test):
    """Have a test run under the oldest Python alone: what it calls is called by others under the newest too."""
    test.lengthy = True
    return test
