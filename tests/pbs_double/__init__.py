# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PBS for tests: a double that answers as OpenPBS does, and the real one where it is installed.

The double knows nothing of the collection. What it says is written down from the real one, and the tests of the double
run unchanged on the real one; a test that passes on one of them only is a fault of the double.
"""
