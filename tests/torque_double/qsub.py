# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`qsub` of the double."""

from __future__ import annotations

import copy
import getopt
import os
import re
import shlex
import sys
import time

from torque_double import callers, schedule
from torque_double.cluster import SERVER
from torque_double.state import Job, Refused, State

_OPTIONS = "N:q:l:A:v:VT:t:P:W:nho:e:d:j:F:S:k:m:M:p:r:a:c:zw:"
_RESOURCES = frozenset(
    [
        *("nodes", "mem", "vmem", "pmem", "pvmem", "walltime", "cput", "ncpus", "procs", "file", "nice", "software"),
        *("other", "gres", "select", "host", "arch", "size", "neednodes"),
    ]
)
_ARRAY = re.compile(r"([\d,-]+)(?:%(\d+))?")


def main(state: State, arguments: list[str]) -> int:
    """Submit a script from a file or from standard input."""
    given, words = getopt.getopt(arguments, _OPTIONS)
    if callers.caller() == "root" and not any(option == "-P" for option, _value in given):
        print("qsub can not be run as root", file=sys.stderr)
        return 1
    if words and words[0] != "-":
        try:
            with open(words[0], encoding="utf-8", errors="surrogateescape") as stream:
                script = stream.read()
        except OSError:
            print(f"qsub: script file '{words[0]}' cannot be loaded - No such file or directory", file=sys.stderr)
            return 1
    else:
        script = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    directives = [line[4:].strip() for line in script.splitlines() if line.startswith("#PBS ")]
    inner = [option for line in directives for option in getopt.getopt(shlex.split(line), _OPTIONS)[0]]
    options = dict([*inner, *given])
    limits = [value for option, value in [*inner, *given] if option == "-l"]
    more = [value for option, value in [*inner, *given] if option == "-W"]
    try:
        job = _made(state, options, limits, more, script, words, arguments)
    except Refused as refusal:
        state.next_job += 1  # a refused one uses up a number
        print(f"qsub: submit error ({refusal.text})", file=sys.stderr)
        return refusal.status
    state.next_job += 1
    for each in _with_elements(job, options.get("-t", "")):
        state.jobs[each.id] = each
    print(job.id)
    return 0


def _made(
    state: State,
    options: dict[str, str],
    limits: list[str],
    more: list[str],
    script: str,
    words: list[str],
    arguments: list[str],
) -> Job:
    user, proxy = callers.caller(), ""
    if "-P" in options:
        wanted = options["-P"].partition(":")[0]
        if not callers.is_manager(state) or wanted == "root":
            raise Refused(callers.BAD_USER, "Bad UID for job execution MSG=user does not have proxy rights")
        user, proxy = wanted, wanted
    elif not _may_submit_here(state):
        text = f"MSG=ruserok failed validating {user}/{user} from {callers.host()}"
        raise Refused(callers.BAD_USER, f"Bad UID for job execution {text}")
    queue = options.get("-q", state.server.get("default_queue", "")).partition("@")[0]
    attributes = state.queues.get(queue)
    if attributes is None:
        raise Refused(15020, f"Unknown queue MSG=cannot locate queue {queue}")
    if attributes.get("enabled") != "True":
        raise Refused(15023, f"Queue is not enabled MSG=queue is disabled: user {user}@{SERVER}, queue {queue}")
    if attributes.get("acl_user_enable") == "True":
        users = [name.partition("@")[0] for name in attributes.get("acl_users", "").split(",")]
        if user not in users:
            raise Refused(callers.PERM, f"Unauthorized Request  MSG=user not in queue's list: {queue}")
    job = Job(
        number=state.next_job,
        name=options.get("-N") or (os.path.basename(words[0])[:15] if words and words[0] != "-" else "STDIN"),
        owner=user,
        queue=queue,
        resources={},
        script=script,
        variables=_variables(options, queue),
        submitted=time.time(),
        directory=options.get("-d") or os.getcwd(),
        out=options.get("-o", "").partition(":")[2] or options.get("-o", ""),
        err=options.get("-e", "").partition(":")[2] or options.get("-e", ""),
        arguments=options.get("-F", ""),
        jobtype=options.get("-T", ""),
        account=options.get("-A"),
        exclusive="-n" in options,
        proxy=proxy,
        suffix=_suffix(state),
        holds="u" if "-h" in options else "",
        state="H" if "-h" in options else "Q",
    )
    for value in more:
        if value.lower().startswith("x="):
            job.extension = value[2:]
    _limit(job, limits)
    for name, value in attributes.items():
        kind, _dot, resource = name.partition(".")
        if kind == "resources_default":
            job.resources.setdefault(resource, value)
    if "procs" not in job.resources:
        schedule.check_feasible(state, job)
    return job


def _suffix(state: State) -> str:
    """Return what stands behind the number of a new job."""
    shown = [SERVER] if state.server.get("display_job_server_suffix", "True") == "True" else []
    return "".join(f".{part}" for part in (*shown, state.server.get("job_suffix_alias")) if part)


def _may_submit_here(state: State) -> bool:
    hosts = state.server.get("submit_hosts", "").split(",")
    return callers.host() in hosts or state.server.get("allow_node_submit") == "True"


def _limit(job: Job, limits: list[str]) -> None:
    for part in [part for text in limits for part in text.split(",")]:
        name, mark, value = part.partition("=")
        if name in ("prologue", "epilogue"):
            setattr(job, name, value)
        elif name not in _RESOURCES or not mark:
            raise Refused(15037, f"Unknown resource type  {name}")
        elif name in ("walltime", "cput"):
            seconds = schedule.seconds_of(value)
            if seconds is None:
                raise Refused(15016, f"Illegal attribute or resource value for Resource_List.{name}")
            whole = int(seconds)
            job.resources[name] = f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
        else:
            job.resources[name] = value


def _variables(options: dict[str, str], queue: str) -> list[tuple[str, str]]:
    found = [("PBS_O_QUEUE", queue), ("PBS_O_HOME", os.environ.get("HOME", "/")), ("PBS_O_LOGNAME", callers.caller())]
    found += [("PBS_O_PATH", os.environ.get("PATH", "")), ("PBS_O_SHELL", "/bin/sh"), ("PBS_O_HOST", callers.host())]
    found += [("PBS_O_SERVER", SERVER), ("PBS_O_WORKDIR", options.get("-d") or os.getcwd())]
    for word in re.split(r"(?<!\\),", options.get("-v", "")):
        name, _mark, value = word.partition("=")
        if name:
            found = [pair for pair in found if pair[0] != name]
            found.append((name, value or os.environ.get(name, "")))
    return found


def _with_elements(job: Job, text: str) -> list[Job]:
    match = _ARRAY.fullmatch(text)
    if match is None:
        return [job]
    indices: list[int] = []
    for part in match[1].split(","):
        first, _dash, last = part.partition("-")
        indices += range(int(first), int(last or first) + 1)
    at_once = int(match[2] or 0)

    parts = []
    for place, index in enumerate(indices):
        part = copy.deepcopy(job)
        part.index, part.name = index, f"{job.name}-{index}"
        if at_once and place >= at_once:
            part.state, part.holds = "H", "l"
        parts.append(part)
    job.indices, job.at_once = tuple(indices), at_once
    return [job, *parts]
