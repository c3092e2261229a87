# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One script of a job on a host: which file it is, whether it may be run, and how it is run.

Its outcome is an exit code; one that is killed by a signal has succeeded, as in Torque.
"""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import typing as t
from pathlib import Path

from torque_double import sessions
from torque_double.cluster import USERS
from torque_double.state import Job

NOT_ALLOWED, TIMED_OUT = -1, -4
_ROOT_MODE = stat.S_IRUSR | stat.S_IXUSR
_OF_USERS = ("prologue.user", "prologue.user.parallel", "epilogue.user", "epilogue.user.parallel", "epilogue.precancel")
_TO_NOTHING = ("prologue.parallel", "prologue.user.parallel", "epilogue.precancel", "presetup")


class Settings(t.NamedTuple):
    """What of mom_priv/config means something here."""

    alarm: int = 300
    presetup: str = ""
    status_seconds: int = 45
    reduced_checks: bool = False


class Place(t.NamedTuple):
    """A host on which scripts of a job run; its mother superior has the number 0."""

    home: Path
    number: int
    settings: Settings


def read_settings(home: Path) -> Settings:
    """The lines of mom_priv/config."""
    words: dict[str, str] = {}
    config = home / "mom_priv/config"
    for line in config.read_text().splitlines() if config.exists() else []:
        name, _blank, value = line.strip().partition(" ")
        words[name] = value.strip()
    return Settings(
        alarm=int(words.get("$prologalarm", 300)),
        presetup=words.get("$presetup_prologue", ""),
        status_seconds=int(words.get("$status_update_time", 45)),
        reduced_checks=words.get("$reduce_prolog_checks", "").lower() in ("true", "1", "yes"),
    )


def chosen(home: Path, name: str, job: Job, settings: Settings) -> str:
    """The file that Torque takes for a name. A user's jobtype stands before the plain one."""
    if name == "presetup":
        return settings.presetup
    if name == "-l prologue":
        return job.prologue
    if name == "-l epilogue":
        return job.epilogue
    plain = home / "mom_priv" / name
    typed = plain.with_name(f"{name}.{job.jobtype}")
    return str(typed if job.jobtype and typed.exists() else plain)


def run(name: str, job: Job, place: Place) -> tuple[int, str]:
    """The exit code, and what the MoM has to tell of it; 0 where there is no such script."""
    path = chosen(place.home, name, job, place.settings)
    if not path or not os.path.exists(path):
        return 0, ""
    code, text = NOT_ALLOWED, "permission Error"
    try:
        if _allowed(path, name, job, reduced=place.settings.reduced_checks):
            code = _run(path, name, job, place)
            text = "nonzero p/e exit status" if code > 0 else "prolog/epilog timeout occurred, child cleaned up"
    except FileNotFoundError:
        return 0, ""  # it was removed a moment ago; that ends no MoM
    return code, f"ERROR: prolog/epilog failed, file: {path}, exit: {code}, {text}" if code else ""


def _allowed(path: str, name: str, job: Job, *, reduced: bool) -> bool:
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        return False
    if reduced:
        return bool(found.st_mode & 0o111)
    owner = uid_of(job.owner) if name.startswith("-l ") else os.geteuid()
    needed = _ROOT_MODE | (stat.S_IROTH | stat.S_IXOTH if name in _OF_USERS else 0)
    return found.st_uid == owner and found.st_mode & needed == needed and not found.st_mode & 0o022


def _run(path: str, name: str, job: Job, place: Place) -> int:
    user = name in _OF_USERS or name.startswith("-l ")
    where = home_of(job.owner) if user else str(place.home / "mom_priv")
    out, err = _streams(name, job, place.home)
    closed = name in ("epilogue.parallel", "epilogue.user.parallel")

    def prepare() -> None:
        os.umask(0o077 if name == "prologue" else 0o022)
        if user:
            become(job.owner)
        if closed:
            os.close(1)
            os.close(2)

    seconds = place.settings.alarm - 10 if place.settings.alarm > 10 else place.settings.alarm
    with open(os.devnull, "rb") as null:
        process = subprocess.Popen(
            [path, *_arguments(name, job, place)],
            cwd=where,
            env=_environment(job, place),
            stdin=null,
            stdout=out,
            stderr=err,
            start_new_session=True,
            preexec_fn=prepare,  # noqa: PLW1509 - a MoM has no threads
        )
    for stream in (out, err):
        if stream >= 0:
            os.close(stream)
    try:
        code = process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        sessions.end(process.pid)
        process.wait()
        return TIMED_OUT
    return max(code, 0)


def _streams(name: str, job: Job, home: Path) -> tuple[int, int]:
    if name in _TO_NOTHING or name in ("epilogue.parallel", "epilogue.user.parallel"):
        return subprocess.DEVNULL, subprocess.DEVNULL
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    paths = [spool(home, job, suffix) for suffix in ("OU", "ER")]
    opened = [os.open(path, flags, 0o600) for path in paths]
    if os.geteuid() == 0:
        for descriptor in opened:
            os.fchown(descriptor, uid_of(job.owner), uid_of(job.owner))
    return opened[0], opened[1]


def spool(home: Path, job: Job, suffix: str) -> Path:
    """Where the output of a job is until its end."""
    return home / "spool" / f"{job.file}.{suffix}"


def _arguments(name: str, job: Job, place: Place) -> list[str]:
    first = [job.id, job.owner, job.owner, job.name]
    needed = {**job.resources, "neednodes": job.resources.get("nodes", "1")}
    limits = ",".join(f"{key}={value}" for key, value in needed.items())
    script = str(place.home / "mom_priv/jobs" / f"{job.file}.SC")
    if name in ("presetup", "prologue", "prologue.user", "prologue.parallel", "prologue.user.parallel", "-l prologue"):
        more = [",".join(reversed(job.hosts))] if name == "presetup" else []
        return [*first, limits, job.queue, job.account or "", script, *more]
    on_first = place.number == 0
    status = str(job.exit_status or 0) if on_first and name != "epilogue.precancel" else "0"
    used = "cput=00:00:00,mem=0kb,vmem=0kb,walltime=00:00:00"
    session = str(job.session) if on_first else "0"
    return [*first, session, limits, used, job.queue, job.account or "", status, script]


def _environment(job: Job, place: Place) -> dict[str, str]:
    count = sum(len(slots) for _host, slots in job.slots)
    found = {"PATH": "/bin:/usr/bin", "LANG": "C"}
    standard = place.home / "pbs_environment"
    for line in standard.read_text().splitlines() if standard.exists() else []:
        name, _mark, value = line.partition("=")
        found[name] = value
    found.update(PBS_MSHOST=job.hosts[0], PBS_NODENUM=str(place.number), PBS_NP=str(count))
    found.update(PBS_NUM_NODES=str(len(job.slots)), PBS_NUM_PPN=str(len(job.slots[0][1])))
    found.update(PBS_RESOURCE_NODES=job.resources.get("nodes", "1"), PBS_O_WORKDIR=job.directory)
    if place.number == 0:
        found["PBS_NODEFILE"] = str(node_file(place.home, job))
    return found


def node_file(home: Path, job: Job) -> Path:
    """The list of hosts, a line for each slot, which only the mother superior has."""
    return home / "aux" / job.file


def become(user: str) -> None:
    """Take a user's identity, as far as this process may."""
    if os.geteuid() == 0:
        uid = uid_of(user)
        os.setgroups([uid])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)


def home_of(user: str) -> str:
    """A user's home, or the root folder."""
    try:
        found = pwd.getpwnam(user).pw_dir
    except KeyError:
        return "/"
    return found if os.path.isdir(found) else "/"


def uid_of(user: str) -> int:
    """The number of a user; without root, each user is the one that runs this."""
    if os.geteuid() != 0:
        return os.geteuid()
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return USERS.get(user, 65534)
