# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mark of tests that repeat what others do, so many times that they cost a processor seconds."""


def oldest_python_only(test):
    """Have a test run under the oldest Python alone: another test runs the same code under the newest too."""
    test.oldest_python_only = True
    return test
