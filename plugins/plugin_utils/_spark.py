# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges manifests of a Spark application before it runs on shared nodes. Pure.

PRIVATE to the collection.
"""

from __future__ import annotations

import re
import typing as t

import yaml

GRACE = "spark.kubernetes.executor.terminationGracePeriodSeconds"
DEFAULT_GRACE = 30
DECOMMISSIONING = ("spark.decommission.enabled", "spark.storage.decommission.enabled")
REATTEMPT = "spark.storage.decommission.replicationReattemptInterval"
DEFAULT_REATTEMPT, LONGEST_REATTEMPT = "30s", 5
ATTEMPTS, RETAINED = "spark.stage.maxConsecutiveAttempts", "spark.scheduler.maxRetainedRemovedDecommissionExecutors"
DEFAULT_ATTEMPTS, FEWEST_ATTEMPTS = "4", 20
PROPERTIES = "spark.properties"
# What an image of an example is called before the site's own is named.
UNNAMED = re.compile(r"registry\.example/|CHANGE-ME")
UNITS = {"us": 1e-6, "ms": 1e-3, "": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
# What has options of spark-submit behind it: its names, and the word by which an image of Spark starts it.
LAUNCHERS = ("spark-submit", "org.apache.spark.deploy.SparkSubmit", "driver")
# Options of spark-submit that have no word behind them.
FLAGS = ("--verbose", "-v", "--supervise", "--help", "-h", "--version")


class Judged(t.NamedTuple):
    """What a file says: the driver's namespace, the executors' grace in seconds, and what is wrong, a line each."""

    namespace: str
    grace: int
    refused: t.Tuple[str, ...]
    warnings: t.Tuple[str, ...]


def judge(text: str, name: str, deadlines: t.Mapping[str, t.Mapping[str, float]]) -> Judged:
    """Judge the text of a file called `name`.

    `deadlines` has for each variable of the site the seconds that it is on each host.
    """
    try:
        documents = [one for one in yaml.safe_load_all(text) if one is not None]
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f" line {where.line + 1}" if where is not None else ""
        return Judged("", DEFAULT_GRACE, (f"{name}{line}: this is not YAML",), ())
    lists = [
        one["items"] if isinstance(one, dict) and isinstance(one.get("items"), list) else [one] for one in documents
    ]
    known = [
        one for objects in lists for one in objects if isinstance(one, dict) and isinstance(one.get("metadata"), dict)
    ]
    drivers = [(one, spec) for one in known for spec in [_driver(one)] if spec is not None]
    if len(drivers) != 1:
        found = f"{len(drivers)} Jobs or Pods with the label spark-role: driver"
        return Judged("", DEFAULT_GRACE, (f"{name}: found {found}, expected one",), ())
    ((owner, pod),) = drivers
    what = f"{name}: {owner['kind']} {owner['metadata'].get('name')}"
    refused = [f"{what}: {fault}" for fault in _images(pod)]
    namespace = owner["metadata"].get("namespace") or ""
    if not namespace:
        refused.append(f"{what}: names no namespace; expected one that has a ResourceQuota")
    settings = {**_settings(known), **_arguments(pod)}
    seconds = _seconds(settings.get(GRACE, str(DEFAULT_GRACE)))
    if seconds is None:
        refused.append(f"{name}: {GRACE} is {settings[GRACE]!r}; expected seconds, such as 40 or 40s")
        return Judged(namespace, DEFAULT_GRACE, tuple(refused), ())
    grace = int(seconds)
    warnings = [f"{name}: {fault}" for fault in (*_unread(pod), *_losses(settings))]
    for variable, hosts in sorted(deadlines.items()):
        host = min(sorted(hosts), key=lambda one: hosts[one], default="")
        if host and hosts[host] < grace:
            warnings.append(
                f"{variable} is {hosts[host]:g} s on {host}, and executors of {name} may need {grace} s to leave"
                f" ({GRACE}): raise the one to {grace} s or lower the other"
            )
    return Judged(namespace, grace, tuple(refused), tuple(warnings))


def _driver(found: t.Mapping[str, t.Any]) -> t.Optional[t.Mapping[str, t.Any]]:
    """Return the spec of the driver's pod, where this object is one or makes one."""
    pod: t.Any = found
    if found.get("kind") == "Job":
        pod = (found.get("spec") or {}).get("template") or {}
    elif found.get("kind") != "Pod":
        return None
    labels = (pod.get("metadata") or {}).get("labels") or {}
    return (pod.get("spec") or {}) if labels.get("spark-role") == "driver" else None


def _images(pod: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    containers = pod.get("containers") or []
    if not containers:
        yield "has no container; expected one with an image of Spark"
    for container in containers:
        image = container.get("image") or ""
        if not image:
            yield f"container {container.get('name')} has no image; expected one of Spark 4.1 or newer"
        elif UNNAMED.search(image):
            yield f"container {container.get('name')} has the image of the example, {image}; expected one of your site"


def _settings(objects: t.Sequence[t.Mapping[str, t.Any]]) -> t.Dict[str, str]:
    """Return Spark's settings from all ConfigMaps, the last of a name as Spark does."""
    found: t.Dict[str, str] = {}
    for one in objects:
        if one.get("kind") == "ConfigMap":
            for line in str((one.get("data") or {}).get(PROPERTIES) or "").splitlines():
                words = re.split(r"[\s=:]+", line.strip(), maxsplit=1)
                if len(words) == 2 and not line.strip().startswith(("#", "!")):
                    found[words[0]] = words[1].strip()
    return found


def _arguments(pod: t.Mapping[str, t.Any]) -> t.Dict[str, str]:
    """Return Spark's settings from the options of spark-submit. Words behind the program are the program's own."""
    found: t.Dict[str, str] = {}
    for container in pod.get("containers") or []:
        words = _options(container) or []
        while words and words[0].startswith("-"):
            option, equals, value = words.pop(0).partition("=")
            if not equals and option not in FLAGS and words:
                value = words.pop(0)
            if option in ("--conf", "-c"):
                name, _equals, setting = value.partition("=")
                found[name.strip()] = setting.strip()
    return found


def _words(container: t.Mapping[str, t.Any]) -> t.List[str]:
    return [str(word) for word in [*(container.get("command") or []), *(container.get("args") or [])]]


def _options(container: t.Mapping[str, t.Any]) -> t.Optional[t.List[str]]:
    """Return the words behind spark-submit. None: it is not there, or behind options of another program."""
    words = _words(container)
    while words and not words[0].startswith("-"):
        if words.pop(0).rpartition("/")[2] in LAUNCHERS:
            return words
    return None


def _unread(pod: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    """Warn where the settings on the driver's command line cannot be read. The first container is the driver."""
    containers = pod.get("containers") or []
    if containers and _words(containers[0]) and all(_options(one) is None for one in containers):
        name, program = _shown(str(containers[0].get("name"))), _shown(_words(containers[0])[0])
        yield (
            f"container {name} runs {program}, so Spark's settings on its command line cannot be read; they can behind"
            " spark-submit, or behind the word driver for Spark's own entry point"
        )


def _shown(text: str) -> str:
    """Return a user's text for one line on a terminal."""
    return "".join(sign if sign.isprintable() else "?" for sign in " ".join(text.split())[:60])


def _losses(settings: t.Mapping[str, str]) -> t.Iterator[str]:
    """Say which settings let an application lose more than it must when nodes are taken."""
    off = [one for one in DECOMMISSIONING if settings.get(one, "false").lower() != "true"]
    for one in off:
        yield f"{one} is not true, so executors that leave a node lose their blocks"
    interval = settings.get(REATTEMPT, DEFAULT_REATTEMPT)
    if not off and (_seconds(interval) or 0) > LONGEST_REATTEMPT:
        yield f"{REATTEMPT} is {interval}, so executors with nothing left to do may stay as long: set 1s"
    attempts = settings.get(ATTEMPTS, DEFAULT_ATTEMPTS)
    if attempts.isdecimal() and int(attempts) < FEWEST_ATTEMPTS and settings.get(RETAINED, "0") == "0":
        what = f"{ATTEMPTS} is {attempts}, so an application ends whose nodes are taken so often in one stage"
        yield f"{what}: set 100, or {RETAINED}"


def _seconds(text: str) -> t.Optional[float]:
    found = re.fullmatch(r"(\d{1,9})(us|ms|s|m|min|h|d)?", text)
    return int(found[1]) * UNITS[found[2] or ""] if found else None
