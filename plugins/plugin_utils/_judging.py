# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the actions share that judge a whole site on the controller and reach no host: one result for all hosts.

PRIVATE to the collection.
"""

from __future__ import annotations

import abc
import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.converged.hpc.plugins.module_utils._preflight import report
from ansible_collections.converged.hpc.plugins.module_utils._preflight.model import REFUSE, Finding

Variables = t.Mapping[str, t.Any]


class JudgingAction(ActionBase):
    """Check the arguments by ``ARGUMENT_SPEC``, and return what ``judge`` returns."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    ARGUMENT_SPEC: t.ClassVar[t.Dict[str, t.Any]] = {}

    def run(self, tmp: t.Any = None, task_vars: t.Optional[t.Dict[str, t.Any]] = None) -> t.Dict[str, t.Any]:
        """Return the result of the task; Ansible calls this."""
        super().run(tmp, task_vars)
        return self.judge(self.validate_argument_spec(self.ARGUMENT_SPEC)[1], task_vars or {})

    @abc.abstractmethod
    def judge(self, given: Variables, known: Variables) -> t.Dict[str, t.Any]:
        """Return the result, from the arguments and the variables of the task."""


def refused(found: t.Mapping[str, t.Sequence[Finding]]) -> str:
    """Return the message of a task that refuses: how many hosts and by what, as each finding is printed before."""
    return f"Refused, and nothing was touched: {report.summary(found, REFUSE)}; see above."
