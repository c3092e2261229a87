# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The site's choices: one JSON file. Each key is read by itself, and what cannot be read is named.

A job must not wait for a spelling mistake, and a mistake must not end the pods of a node. A key that is unknown, for
example after a downgrade, or whose value is not allowed, costs that key alone. The share mode has no default that is
safe, so without it nothing is done to services and pods.
"""

import re
from typing import Any, Callable, Dict, Mapping, NamedTuple, Tuple

PATH = "/etc/converged/nodeshare.json"
HANDOVER, PLACEHOLDER = "handover", "placeholder"  # share modes
CORES, SPLIT, COUNTS = "cores", "split", "counts"  # what keeps pods off the jobs' cores


class SettingsError(ValueError):
    """One line: the file, the key, what was found, what is allowed."""


class ApiSettings(NamedTuple):
    """Where the API is and with what the node identifies itself; all empty: read from `kubeconfig`."""

    server: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""


class Settings(NamedTuple):
    """Times are seconds. `run_dir` is in memory and ends with the boot; `state_dir` is on disk."""

    node: str = ""
    kubeconfig: str = "/etc/kubernetes/kubelet.conf"
    api: ApiSettings = ApiSettings()
    api_timeout: float = 2.0
    run_dir: str = "/run/converged/nodeshare"
    state_dir: str = "/var/lib/converged/nodeshare"
    services: Tuple[str, ...] = ("kubelet.service", "containerd.service")
    return_unit: str = "converged-nodeshare-return.service"
    handover: str = "quiesce"
    housekeeping_cpus: str = "0"
    deadline: float = 60.0
    limit: float = 90.0
    linger: float = 30.0
    mark_life: float = 300.0
    on_failure: str = "accept"
    after_deadline: str = "job_wins"
    squeue: str = ""
    qstat: str = ""
    pbs_home: str = ""
    torque_home: str = ""
    mode: str = HANDOVER
    manifests: str = "/run/converged-placeholders"
    pause_image: str = "registry.k8s.io/pause:3.10"
    fence: str = CORES
    pod_cpus: str = ""


def _one_of(*allowed: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in allowed:
            raise ValueError("one of " + ", ".join(allowed))
        return str(value)

    return check


def matching(pattern: str, meaning: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value, re.ASCII):
            raise ValueError(meaning)
        return value

    return check


def seconds(lowest: float, highest: float) -> Callable[[Any], float]:
    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not lowest <= value <= highest:
            raise ValueError("seconds from {:g} to {:g}".format(lowest, highest))
        return float(value)

    return check


def _list_of(check_one: Callable[[Any], str]) -> Callable[[Any], Tuple[str, ...]]:
    def check(value: Any) -> Tuple[str, ...]:
        if not isinstance(value, list):
            raise ValueError("a list")
        return tuple(check_one(item) for item in value)

    return check


ABSOLUTE = matching(r"/[^\0\n]{1,4000}", "an absolute path")


def _api(value: Any) -> ApiSettings:
    if not isinstance(value, dict) or set(value) != set(ApiSettings._fields):
        raise ValueError("an object with " + ", ".join(ApiSettings._fields))
    matching(r"https://[A-Za-z0-9.:\[\]-]{1,253}", "server: https://HOST:PORT")(value["server"])
    return ApiSettings(value["server"], *(ABSOLUTE(value[name]) for name in ApiSettings._fields[1:]))


def _cpus(value: Any) -> str:
    from .cpu_list import CpusetError, parse_cpus

    try:
        if isinstance(value, str) and parse_cpus(value):
            return value
    except CpusetError:
        pass
    raise ValueError("a CPU list such as 0-1,32")


_UNIT = matching(r"[A-Za-z0-9:_.@-]{1,200}\.(?:service|socket)", "a systemd unit name ending in .service or .socket")
CHECKS: Dict[str, Callable[[Any], Any]] = {
    "node": matching(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", "a Node name"),
    "kubeconfig": ABSOLUTE,
    "api": _api,
    "api_timeout": seconds(0.1, 30),
    "run_dir": ABSOLUTE,
    "state_dir": ABSOLUTE,
    "services": _list_of(_UNIT),
    "return_unit": matching(r"(?:[A-Za-z0-9:_.@-]{1,200}\.service)?", "a systemd service, or empty for none"),
    "handover": _one_of("quiesce", "stop"),
    "housekeeping_cpus": _cpus,
    "deadline": seconds(0, 3600),
    "limit": seconds(1, 7200),
    "linger": seconds(0, 3600),
    "mark_life": seconds(1, 3600),
    "on_failure": _one_of("accept", "requeue", "drain"),
    "after_deadline": _one_of("job_wins", "job_waits"),
    "squeue": matching(r"(?:/[^\0\n]{1,4000})?", "an absolute path, or empty: never ask"),
    "qstat": matching(r"(?:/[^\0\n]{1,4000})?", "an absolute path, or empty: never ask"),
    "pbs_home": matching(r"(?:/[^\0\n]{1,4000})?", "an absolute path, or empty: no PBS here"),
    "torque_home": matching(r"(?:/[^\0\n]{1,4000})?", "an absolute path, or empty: no Torque here"),
    "mode": _one_of(HANDOVER, PLACEHOLDER),
    "manifests": ABSOLUTE,
    "pause_image": matching(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,400}", "the name of an image"),
    "fence": _one_of(CORES, SPLIT, COUNTS),
    "pod_cpus": lambda value: "" if value == "" else _cpus(value),
}


class Loaded(NamedTuple):
    """The settings that could be read, one line about what could not, and whether the share mode is known."""

    settings: Settings
    remark: str = ""
    mode_known: bool = True


def judged(data: Mapping[str, Any], path: str) -> Settings:
    """Return settings of a file's values; the role judges by this what it is about to write to `path`.

    Raises SettingsError, which names all that is wrong.
    """
    loaded = _loaded(data, path)
    if loaded.remark:
        raise SettingsError(loaded.remark)
    return loaded.settings


def _loaded(data: Mapping[str, Any], path: str) -> Loaded:
    values, wrong = _judge(data, CHECKS)
    if not values.get("node"):
        wrong.setdefault("node", "node is missing: the name of this machine's Node object")
    if values.get("fence") == SPLIT and not values.get("pod_cpus"):
        wrong.setdefault("pod_cpus", "pod_cpus is missing: the CPUs of pods, which a fence by split needs")
        del values["fence"]
    if "mode" not in data:
        wrong["mode"] = "mode is missing: must be one of {}, {}".format(HANDOVER, PLACEHOLDER)
    remark = "{}: {}".format(path, "; ".join(wrong.values())) if wrong else ""
    return Loaded(Settings(**values), remark, mode_known="mode" in values)


def checked(data: Mapping[str, Any], checks: Mapping[str, Callable[[Any], Any]], path: str) -> Dict[str, Any]:
    """Return the values, each judged by its own check. Raises SettingsError for the first that is wrong."""
    values, wrong = _judge(data, checks)
    for why in wrong.values():
        raise SettingsError("{}: {}".format(path, why))
    return values


def _judge(
    data: Mapping[str, Any], checks: Mapping[str, Callable[[Any], Any]]
) -> Tuple[Dict[str, Any], Dict[str, str]]:
    """Return the values that pass their check, and by key why another does not."""
    values: Dict[str, Any] = {}
    wrong: Dict[str, str] = {}
    for name, value in data.items():
        if name not in checks:
            wrong[name] = "unknown key {}".format(ascii(name)[:80])
            continue
        try:
            values[name] = checks[name](value)
        except ValueError as error:
            wrong[name] = "{} is {}: must be {}".format(name, ascii(value)[:80], error)
    return values, wrong
