# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration under which kube-batch ran its end-to-end tests, with other actions where a test wants them."""

ACTIONS = "reclaim, allocate, backfill, preempt"
_TIERS = """
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""


def policy(actions: str = ACTIONS) -> str:
    """The text of its file."""
    return f'actions: "{actions}"{_TIERS}'
