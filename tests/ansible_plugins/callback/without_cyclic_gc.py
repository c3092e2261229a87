# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs Ansible without Python's search for cycles of objects.

Ansible makes objects by the million and keeps most of them until its end, so that each search looks at all of them in
vain. The search is a quarter of what a run takes of the processor; without it a run of a bed's few hosts takes some
megabytes more. Tests, molecule scenarios and the gate `demo` use this plugin; benchmarks and `make demo` do not.
"""

from __future__ import annotations

import gc

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: without_cyclic_gc
type: aggregate
short_description: Runs Ansible without the cyclic garbage collector
description:
  - A run of a test ends before cycles of objects matter.
"""


class CallbackModule(CallbackBase):
    """Switches the search off when Ansible loads its callbacks; workers are forked later and inherit this."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "without_cyclic_gc"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        gc.disable()
