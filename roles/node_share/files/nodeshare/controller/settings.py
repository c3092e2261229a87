# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's own settings: one JSON file, checked as a whole like the node's."""

from typing import Any, Dict, FrozenSet, Mapping, NamedTuple

from ..model import settings
from ..model.settings import ABSOLUTE, matching, seconds
from ..store import settings_file
from .batch.maintenance import MAINTENANCE

PATH = "/etc/converged/controller.json"


class ControllerSettings(NamedTuple):
    """Times are seconds.

    `host` is this machine's name in SlurmctldHost, or as PBS's server has it, and `names` where a node's two names
    differ. Jobs in `ignored_queues` of PBS are those of pods. Pods leave nodes in a state of `evict_on`, and those on
    which Slurm plans a start within `drain_ahead`.
    """

    host: str
    kubeconfig: str = "/etc/converged/controller.kubeconfig"
    socket: str = "/run/converged/controller.sock"
    group: str = ""
    wlm: str = "slurm"
    squeue: str = "/usr/bin/squeue"
    sinfo: str = "/usr/bin/sinfo"
    scontrol: str = "/usr/bin/scontrol"
    qstat: str = "/opt/pbs/bin/qstat"
    pbsnodes: str = "/opt/pbs/bin/pbsnodes"
    pbs_rstat: str = "/opt/pbs/bin/pbs_rstat"
    names: Mapping[str, str] = {}
    ignored_queues: FrozenSet[str] = frozenset()
    deadline: float = 45.0
    period: float = 30.0
    connections: int = 16
    api_timeout: float = 5.0
    evict_on: FrozenSet[str] = frozenset()
    drain_ahead: float = 0.0


def _names(value: Any) -> Dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(name, str) and name for name in value.values()):
        raise ValueError("an object: the batch system's node name, and the Node's name")
    return dict(value)


def _queues(value: Any) -> FrozenSet[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        raise ValueError("a list of names")
    return frozenset(value)


def _states(value: Any) -> FrozenSet[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) and name in MAINTENANCE for name in value):
        raise ValueError("a list of " + ", ".join(sorted(MAINTENANCE)))
    return frozenset(value)


def _connections(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 64:
        raise ValueError("a number from 1 to 64")
    return value


CHECKS = {
    "host": matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}", "a host name as in SlurmctldHost, or as of PBS's server"),
    "kubeconfig": ABSOLUTE,
    "socket": matching(r"/[^\0\n]{1,100}", "an absolute path of at most 100 characters"),
    "group": matching(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]{0,31})?", "a group's name, or empty: root only"),
    "wlm": matching("slurm|pbs|torque", "slurm, pbs or torque"),
    "squeue": ABSOLUTE,
    "sinfo": ABSOLUTE,
    "scontrol": ABSOLUTE,
    "qstat": ABSOLUTE,
    "pbsnodes": ABSOLUTE,
    "pbs_rstat": ABSOLUTE,
    "names": _names,
    "ignored_queues": _queues,
    "deadline": seconds(0, 3600),
    "period": seconds(0.1, 600),
    "connections": _connections,
    "api_timeout": seconds(0.1, 60),
    "evict_on": _states,
    "drain_ahead": seconds(0, 86400),
}


def load(path: str) -> ControllerSettings:
    return judged(settings_file.read(path, role="node_share (tasks_from: controller)"), path)


def judged(data: Mapping[str, Any], path: str) -> ControllerSettings:
    """Return settings of a file's values, as `settings.judged` does."""
    values = settings.checked(data, CHECKS, path)
    if "host" not in values:
        raise settings.SettingsError("{}: host is missing: this machine's name in the batch system".format(path))
    return ControllerSettings(**values)
