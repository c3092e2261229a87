# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings file: YAML, checked whole before anything starts.

What is not known, or has a value it cannot have, is refused with file and line. The policy (`actions` and `tiers`) is
a file of its own in kube-batch's format, named by `policy`.
"""

import dataclasses
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from placement.app.settings.site_plugins import find_plugin
from placement.kube.leader_election import Terms
from placement.kube.write.dispatcher import BINDERS
from placement.kube.write.event_recorder import MOST_WAITING
from placement.ledger.identity import expression_error
from placement.ledger.pbs import read_names, read_properties
from placement.policy.framework.session import PARTIAL_GANG_SECONDS
from placement.policy.plugins import configuration
from placement.policy.plugins.configuration import Configuration, ConfigurationError
from placement.policy.queues.reservations import RESERVE_AFTER

MOST_BINDERS: Final = 512


class SettingsError(Exception):
    """The file cannot be used; the message names file, line and what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings; the names are those in the file."""

    scheduler_name: str = "placement"
    # Empty in a pod: the service account's.
    kubeconfig: str = ""
    default_queue: str = "default"
    # kube-batch's configuration; empty is kube-batch's default.
    policy: str = ""
    leader_election: bool = True
    lease_namespace: str = "kube-system"
    lease_name: str = "converged-placement"
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    # Metrics and health; empty serves none.
    listen: str = "127.0.0.1:10290"
    socket: str = "/run/placement/placement.sock"
    journal: str = ""
    journal_megabytes: int = 64
    journal_files: int = 4
    binders: int = BINDERS
    events_per_second: float = 400.0
    # While bindings wait for a connection.
    events_per_second_busy: float = 50.0
    events_waiting: int = MOST_WAITING
    slice_milliseconds: float = 8.0
    # How long a gang that has never been whole may be bound in part.
    half_gang_seconds: float = PARTIAL_GANG_SECONDS
    # How long the first job of a queue waits before nodes are kept for it on which pods have no known end.
    reserve_after_seconds: float = RESERVE_AFTER
    log_level: str = "info"
    # The levels of the tree of nodes from the outermost to the innermost, with their labels: `zone=KEY, rack=KEY`.
    topology_levels: str = ""
    # Slurm's topology.conf, or JGF; empty takes the labels.
    topology_file: str = ""
    # Where PBS's programs are; empty where no queue is backed by PBS.
    pbs_bin_dir: str = ""
    # JMESPath over `namespace.name`, `namespace.labels` and `queue`.
    pbs_queue: str = "'pods'"
    pbs_account: str = ""
    pbs_project: str = ""
    # As whom jobs are submitted, through sudo, and the least uid that may be; empty is the daemon's own user.
    pbs_user: str = ""
    pbs_least_uid: int = 1000
    pbs_place: str = "free"
    # What each node of a job must be besides, of those that PBS has: `converged=True, ...`.
    pbs_chunk: str = ""
    # What becomes of fractions of a core: `round_up`, or `pack` within a gang.
    pbs_cores: str = "round_up"
    # PBS's names of resources and of node labels: `nvidia.com/gpu=ngpus, ...`.
    pbs_resources: str = "nvidia.com/gpu=ngpus"
    pbs_labels: str = ""
    # How long pods may take to end before their job does, and containers of a pod that was deleted by force.
    pbs_grace_seconds: float = 60.0
    pbs_linger_seconds: float = 30.0
    # How long a node has been unreachable before pods that hang there are lost, if PBS says too that it is down.
    pbs_lost_seconds: float = 300.0
    pbs_timeout: float = 20.0
    # Whether pods in the way of PBS's other jobs are asked to leave before the nodes themselves ask.
    pbs_make_room: bool = True
    configuration: Configuration = field(default=configuration.DEFAULT)

    def terms(self, identity: str) -> Terms:
        """Return the terms of the Lease."""
        return Terms(
            namespace=self.lease_namespace,
            name=self.lease_name,
            identity=identity,
            duration=self.lease_duration,
            deadline=self.renew_deadline,
            retry=self.retry_period,
        )

    def address(self) -> tuple[str, int] | None:
        """Where metrics are served."""
        if not self.listen:
            return None
        host, _unused, port = self.listen.rpartition(":")
        return host.strip("[]"), int(port)


# Changes of these need a restart; a reload with another value for them is refused.
FIXED: Final = frozenset(
    {
        *("scheduler_name", "kubeconfig", "leader_election", "lease_namespace", "lease_name", "lease_duration"),
        *("renew_deadline", "retry_period", "listen", "socket", "journal", "journal_megabytes", "journal_files"),
        *("binders", "events_waiting", "default_queue", "log_level"),
        *("topology_levels", "topology_file"),
        *("pbs_bin_dir", "pbs_queue", "pbs_account", "pbs_project", "pbs_place", "pbs_cores", "pbs_resources"),
        *("pbs_chunk", "pbs_user", "pbs_least_uid", "pbs_labels", "pbs_grace_seconds", "pbs_linger_seconds"),
        *("pbs_timeout", "pbs_make_room", "pbs_lost_seconds"),
    }
)


def _between(least: float, most: float) -> Callable[[object], str]:
    return lambda value: "" if isinstance(value, int | float) and least <= value <= most else f"{least:g} to {most:g}"


def _listen(value: object) -> str:
    host, colon, port = str(value).rpartition(":")
    good = not value or (host and colon and port.isascii() and port.isdigit() and 0 <= int(port) < 65536)
    return "" if good else "HOST:PORT"


def _named(value: object) -> str:
    text = str(value)
    good = 0 < len(text) <= 253 and all(c.isascii() and (c.isalnum() or c in "-.") for c in text)
    return "" if good else "a name of letters, digits, '-' and '.'"


def _expression(value: object) -> str:
    error = expression_error(str(value)) if value else ""
    return f"a JMESPath expression: {error}" if error else ""


def _place(value: object) -> str:
    good = re.fullmatch(r"(free|pack|scatter|vscatter)(:(excl|exclhost|shared))?(:group=[A-Za-z]\w*)?", str(value))
    return "" if good else "a placement of PBS: free, pack, scatter or vscatter, then :excl, :exclhost, :group=..."


def _check_readable(read: Callable[[str], object], what: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        try:
            read(str(value))
        except ValueError as error:
            return f"{what}: {error}"
        return ""

    return check


def read_levels(text: str) -> list[tuple[str, str]]:
    """Return levels with their labels from `LEVEL=LABEL, LEVEL, ...`; ValueError says what is wrong."""
    found = []
    for word in filter(None, (word.strip() for word in text.split(","))):
        level, equals, label = word.partition("=")
        if not re.fullmatch(r"[A-Za-z0-9._-]+", level) or (equals and not re.fullmatch(r"[A-Za-z0-9./_-]+", label)):
            raise ValueError(f"{word!r} is not LEVEL=LABEL")
        found.append((level, label))
    return found


def _level(value: object) -> str:
    return "" if value in ("debug", "info", "warning", "error") else "debug, info, warning or error"


# By key, what says which value was expected; nothing where the value is good.
_CHECKS: Final[dict[str, Callable[[object], str]]] = {
    "scheduler_name": _named,
    "default_queue": _named,
    "lease_namespace": _named,
    "lease_name": _named,
    "lease_duration": _between(2, 3600),
    "renew_deadline": _between(1, 3600),
    "retry_period": _between(0.1, 600),
    "listen": _listen,
    "journal_megabytes": _between(1, 1 << 20),
    "journal_files": _between(1, 1000),
    "binders": _between(1, MOST_BINDERS),
    "events_per_second": _between(1, 100_000),
    "events_per_second_busy": _between(1, 100_000),
    "events_waiting": _between(100, 10_000_000),
    "slice_milliseconds": _between(0.5, 100),
    "half_gang_seconds": _between(1, 86_400),
    "reserve_after_seconds": _between(1, 604_800),
    "log_level": _level,
    "topology_levels": _check_readable(read_levels, "a list of levels"),
    "pbs_queue": _expression,
    "pbs_account": _expression,
    "pbs_project": _expression,
    "pbs_user": _expression,
    "pbs_least_uid": _between(1, 1 << 31),
    "pbs_place": _place,
    "pbs_chunk": _check_readable(read_properties, "a list of resources"),
    "pbs_cores": lambda value: "" if value in ("round_up", "pack") else "round_up or pack",
    "pbs_resources": _check_readable(read_names, "a list of names"),
    "pbs_labels": _check_readable(read_names, "a list of names"),
    "pbs_grace_seconds": _between(0, 86_400),
    "pbs_linger_seconds": _between(0, 86_400),
    "pbs_lost_seconds": _between(10, 604_800),
    "pbs_timeout": _between(1, 600),
}
_TYPES: Final = {item.name: item.type for item in dataclasses.fields(Settings) if item.name != "configuration"}


def read_settings(path: Path, *, with_policy: bool = True) -> Settings:
    """Read the settings of a file, with the policy it names. Raise SettingsError with what is wrong."""
    try:
        root = yaml.compose(_text(path), Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise SettingsError(f"{path}:{mark.line + 1 if mark else 1}: {getattr(error, 'problem', 'not YAML')}") from None
    except RecursionError:
        raise SettingsError(f"{path}:1: nested too deep") from None
    if root is None:
        return Settings()
    if not isinstance(root, yaml.MappingNode):
        raise SettingsError(f"{path}:1: expected keys and values")
    values: dict[str, object] = {}
    lines: dict[str, int] = {}
    for key_node, node in root.value:
        key, line = str(key_node.value), key_node.start_mark.line + 1
        if key in ("actions", "tiers"):
            raise SettingsError(f"{path}:{line}: a policy of kube-batch; name its file by `policy: FILE`")
        if key not in _TYPES:
            raise SettingsError(f"{path}:{line}: unknown key {key!r}; known are {', '.join(_TYPES)}")
        if key in values:
            raise SettingsError(f"{path}:{line}: key {key!r} stands twice")
        lines[key] = line
        values[key] = _value(path, key, node)
    _check_times(path, values, lines)
    policy = str(values.get("policy", "")) if with_policy else ""
    chosen = read_policy(path.parent / policy) if policy else configuration.DEFAULT
    return Settings(**values, configuration=chosen)  # type: ignore[arg-type] # checked by _value


def read_policy(path: Path) -> Configuration:
    """Read a configuration of kube-batch."""
    try:
        return configuration.load(_text(path), str(path), find_plugin)
    except ConfigurationError as error:
        raise SettingsError(str(error)) from None


def is_policy(path: Path) -> bool:
    """Whether the file is a policy rather than settings."""
    try:
        root = yaml.safe_load(_text(path))
    except (yaml.YAMLError, RecursionError):
        return False
    return isinstance(root, dict) and bool({"actions", "tiers"} & set(root))


def changed_fixed(old: Settings, new: Settings) -> list[str]:
    """Keys that differ and cannot be changed while the daemon runs."""
    return sorted(name for name in FIXED if getattr(old, name) != getattr(new, name))


def identity(unique: str) -> str:
    """Name this replica: the host, and this very process."""
    return f"{socket.gethostname()}_{unique}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8: {error.reason} at byte {error.start}") from None


def _value(path: Path, key: str, node: yaml.Node) -> object:
    where = f"{path}:{node.start_mark.line + 1}: {key}"
    if not isinstance(node, yaml.ScalarNode):
        raise SettingsError(f"{where}: expected a single value")
    kind = _TYPES[key]
    value = yaml.SafeLoader("").construct_object(node) if node.tag != "tag:yaml.org,2002:str" else node.value
    if kind is str:
        value = "" if value is None else str(node.value)
    elif kind is bool:
        if not isinstance(value, bool):
            raise SettingsError(f"{where}: {node.value!r} is neither true nor false")
    elif isinstance(value, bool) or not isinstance(value, int | float) or (kind is int and not isinstance(value, int)):
        raise SettingsError(f"{where}: {node.value!r} is not {'an integer' if kind is int else 'a number'}")
    wanted = _CHECKS[key](value) if key in _CHECKS else ""
    if wanted:
        raise SettingsError(f"{where}: {node.value!r} is not {wanted}")
    return float(value) if kind is float and isinstance(value, int) else value


_TIMES: Final = ("lease_duration", "renew_deadline", "retry_period")


def _check_times(path: Path, values: dict[str, object], lines: dict[str, int]) -> None:
    """As client-go: a leader must notice that it has lost before another takes over, and try several times."""
    defaults = Settings()
    duration, deadline, retry = (float(str(values.get(key, getattr(defaults, key)))) for key in _TIMES)
    line = next((lines[key] for key in ("renew_deadline", "lease_duration", "retry_period") if key in lines), 1)
    if not duration > deadline > 1.2 * retry:
        raise SettingsError(
            f"{path}:{line}: lease_duration {duration:g} must be more than renew_deadline {deadline:g},"
            f" and that more than 1.2 times retry_period {retry:g}"
        )
