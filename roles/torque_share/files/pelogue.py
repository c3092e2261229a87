# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the site's own prologue or epilogue of Torque, and tell `nodeshare` that a job begins or ends on this host.

Usage: pelogue.py NAME ARGUMENTS..., where NAME is the file of mom_priv that Torque has run; or pelogue.py sweep. The
exit code that Torque is to get is written to descriptor 3 as `exit=N`. Without that line the caller answers 0.

Torque starts a job again at once and without end when its prologue fails on the first host, and takes a node down when
one fails on another host. So a job is refused only where the site's script or the site's settings say so. A user can
choose which of these files runs as root (`qsub -T`): the part of this host is read from PBS_NODENUM, never from NAME.
Of what a user writes, only counts and sizes reach a command line.
"""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

SETTINGS = "/etc/converged/torque/pelogue.json"
ACCEPT, REQUEUE = "accept", "requeue"
FREE, DRAIN_CODE, REQUEUE_CODE = 0, 69, 75  # of nodeshare
REFUSED = 2  # Torque tries the job again; 1 would end it
TRIES = 10  # then the job starts beside pods: Torque itself would go on for ever
LONGEST_PAUSE = 30.0
PROLOGALARM, ALARM_HEAD = 300, 10  # seconds; Torque takes the second from a `$prologalarm` that is longer
MARGIN = 5.0  # seconds before Torque's alarm at which all is done
UNDO_SECONDS = 3.0
END_SECONDS = 5.0
LEAST_SECONDS = 2.0  # that a begin gets, however late it is: enough for its lease
REAP_SECONDS = 0.5
TELL_SECONDS = 2.0
LONGEST_NODEFILE = 8 << 20
LONGEST_FILE = 61  # characters that Torque takes of an id into the name of a file
_ID = re.compile(r"\d{1,12}(?:\[\d{1,7}\])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9])?)*", re.ASCII)
_JOB_FILE = re.compile(r"(\d{1,12})(?:-(\d{1,7}))?((?:\.[A-Za-z0-9_-]+)*)\.JB", re.ASCII)
_ALARM = re.compile(r"^[ \t]*\$prologalarm[ \t]+(\d{1,9})[ \t]*$", re.ASCII | re.MULTILINE)
_SIZE = re.compile(r"(\d{1,15})([kmgtp]?)([bw]?)", re.ASCII | re.IGNORECASE)
_SAID_ONCE = ("nodes", "mem", "pmem", "ncpus")
_UNSAFE = re.compile(r"[^0-9A-Za-z-]", re.ASCII)
_OF_USERS = re.compile(r"(?:prologue|epilogue)\.(?:user|precancel)(?:\..*)?", re.ASCII)


class Settings(NamedTuple):
    """What the role has written for this host. `names` are the names by which Torque may know it."""

    nodeshare: Tuple[str, ...] = ("/usr/local/sbin/nodeshare",)
    mom_priv: str = "/var/spool/torque/mom_priv"
    site: str = "/etc/converged/torque/site"
    leases: str = "/run/converged/nodeshare"
    state: str = "/run/converged/torque"
    timeout_seconds: float = 60.0
    on_failure: str = ACCEPT
    default_mem: Optional[str] = None
    devices: Mapping[str, str] = {"gpus": "nvidia.com/gpu"}
    names: Tuple[str, ...] = ()


class Facts(NamedTuple):
    """What Torque has told this script, as plain text. `slots` is what the list of hosts says of this one, or None."""

    name: str
    job: str = ""
    is_sister: bool = False
    resources: str = ""
    slots: Optional[int] = None
    all_slots: int = 0


class Answer(NamedTuple):
    """What Torque is told about a begin: the exit code, after a pause in seconds."""

    code: int
    pause: float = 0.0


def is_prologue(name: str) -> bool:
    """Return whether a file of this name runs before a job."""
    return name.startswith("prologue")


def own_script(name: str, *, is_sister: bool) -> str:
    """Return the site's script that runs as root here, whichever file the job's type has made Torque choose."""
    kind = "prologue" if is_prologue(name) else "epilogue"
    plain = kind + ".parallel" if is_sister else kind
    if name in (kind, kind + ".parallel") or _OF_USERS.fullmatch(name):
        return plain
    return name


def alarm_seconds(config: str) -> float:
    """Return the time in seconds that Torque gives a script, by the text of mom_priv/config."""
    found = [int(text) for text in _ALARM.findall(config)]
    shortest = min(found) if found else PROLOGALARM
    return float(shortest - ALARM_HEAD if shortest > ALARM_HEAD else shortest)


def seconds_left(settings: Settings, alarm: float, spent: float) -> float:
    """Return the time in seconds that nodeshare has for a begin, after `spent` seconds of the script."""
    return max(LEAST_SECONDS, min(settings.timeout_seconds, alarm - MARGIN - spent))


def answer(code: Optional[int], settings: Settings, *, is_sister: bool, tries: int, left: float) -> Answer:
    """Return what Torque is told for an exit code of nodeshare; None stands for one that was killed or not started.

    A sister that refuses goes down in Torque, so it is not tried again. The first host pauses longer with each try.
    """
    refused = code in (REQUEUE_CODE, DRAIN_CODE) or (code != FREE and settings.on_failure == REQUEUE)
    if not refused or (not is_sister and tries >= TRIES):
        return Answer(0)
    if is_sister:
        return Answer(REFUSED)
    return Answer(REFUSED, max(0.0, min(2.0**tries, LONGEST_PAUSE, left)))


def file_part(job: str) -> str:
    """Return the job's part of the names that nodeshare gives to its files."""
    return "torque." + _UNSAFE.sub(lambda found: "={:02X}".format(ord(found.group())), job)


def runs(job: str, entries: Iterable[str]) -> Tuple[List[int], List[int]]:
    """Return the runs of a job that have a lease here, and those that have ended, by the names of nodeshare's files."""
    found = re.compile(re.escape(file_part(job)) + r"\.r(\d{1,9})\.(lease|ended)", re.ASCII)
    matches = [match for match in map(found.fullmatch, entries) if match]
    having = {kind: sorted(int(one.group(1)) for one in matches if one.group(2) == kind) for kind in ("lease", "ended")}
    return having["lease"], having["ended"]


def run_that_begins(job: str, entries: Iterable[str]) -> int:
    """Return the run that a prologue begins: Torque tells none, so it is the one after the last that ended here."""
    held, ended = runs(job, entries)
    return held[-1] if held else (ended[-1] if ended else 0) + 1


def runs_that_end(job: str, entries: Iterable[str]) -> List[int]:
    """Return the runs that an epilogue ends; one that never began is the next, so that its late begin is known."""
    held, _ended = runs(job, entries)
    return held or [run_that_begins(job, ())]


def run_that_lasts(job: str, entries: Iterable[str]) -> int:
    """Return the run of a job that is here. One that has just ended is not begun again by a sweep."""
    held, ended = runs(job, entries)
    return (held or ended or [1])[-1]


def words(facts: Facts, settings: Settings, run: int, limit: int) -> List[str]:
    """Return the command line of a begin behind the program's name."""
    told = ["begin", "--wlm=torque", "--job=" + facts.job, "--run={}".format(run), "--limit={}".format(limit)]
    return told + share_arguments(facts, settings)


def share_arguments(facts: Facts, settings: Settings) -> List[str]:
    """Return what the job has of this host, in nodeshare's words; `--exclusive` where that is not certain."""
    resources = parse_resources(facts.resources)
    if resources is None:
        return ["--exclusive"]
    spec = resources.get("nodes", "")
    try:
        slots = facts.slots if facts.slots is not None else _named_slots(spec, settings.names)
        if not slots:
            return ["--exclusive"]
        is_single_host = facts.all_slots == slots
        cores = max(slots, int(resources.get("ncpus") or 0)) if is_single_host else slots
        told = ["--cpus={}".format(cores)]
        memory = _memory(resources, slots, max(facts.all_slots, slots), settings.default_mem)
        told += ["--mem={}".format(memory)] if memory else []
        return told + _devices(spec, slots, settings.devices)
    except ValueError:
        return ["--exclusive"]


def parse_resources(text: str) -> Optional[Dict[str, str]]:
    """Return Resource_List by name; None where something is said twice, as a value of a user's may hold a comma."""
    found: Dict[str, str] = {}
    for item in text.split(","):
        name, _equals, value = item.partition("=")
        if name in found and name in _SAID_ONCE:
            return None
        found[name] = value
    return found


def _named_slots(spec: str, names: Sequence[str]) -> Optional[int]:
    """Return the slots of a host that the request names; None where Torque chose it, as it does not say how many."""
    counted = None  # type: Optional[int]
    for part in spec.split("+"):
        host, *properties = part.split(":")
        if short_name(host) in names:
            ppn = [int(one[4:]) for one in properties if re.fullmatch(r"ppn=\d{1,6}", one, re.ASCII)]
            counted = (counted or 0) + (ppn[0] if ppn else 1)
    return counted if all(part and not part[0].isdigit() for part in spec.split("+")) else None


def _memory(resources: Mapping[str, str], slots: int, all_slots: int, default: Optional[str]) -> int:
    """Return bytes on this host. `mem` is of the whole job, so a host has of it what it has of its slots."""
    if "mem" in resources:
        return -(-size(resources["mem"]) * slots // all_slots)
    if "pmem" in resources:
        return size(resources["pmem"]) * slots
    return size(default) if default else 0


def _devices(spec: str, slots: int, devices: Mapping[str, str]) -> List[str]:
    told = []
    for resource, device in sorted(devices.items()):
        found = re.findall(r"(?:^|:){}=(\d{{1,6}})(?=:|\+|$)".format(re.escape(resource)), spec, re.ASCII)
        if found and "+" in spec:
            raise ValueError("Torque does not say which of several chunks is here")
        if found:
            ppn = re.search(r":ppn=(\d{1,6})(?=:|$)", spec, re.ASCII)
            chunks = max(1, slots // max(1, int(ppn.group(1)) if ppn else 1))
            told.append("--device={}={}".format(device, int(found[0]) * chunks))
    return told


def size(text: str) -> int:
    """Return bytes, as Torque counts: a unit is a power of 1024, `w` a word of 8 bytes."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError("{} is not a size such as 4gb".format(ascii(text[:40])))
    number, unit, word = found.groups()
    return (int(number) * (8 if word in ("w", "W") else 1)) << (10 * " kmgtp".index(unit.lower() or " "))


def short_name(host: str) -> str:
    """Return a host's name without its domain."""
    return host.lower().partition(".")[0]


def jobs_in(entries: Iterable[str]) -> List[str]:
    """Return the ids of the jobs that this MoM has, by the names in mom_priv/jobs: 31-1.srv.JB is 31[1].srv.

    A name that Torque may have cut is left out: it tells no id.
    """
    whole = (name for name in sorted(entries) if len(name) - len(".JB") < LONGEST_FILE)
    matches = [match for match in map(_JOB_FILE.fullmatch, whole) if match]
    return [one.group(1) + ("[{}]".format(one.group(2)) if one.group(2) else "") + one.group(3) for one in matches]


def parse_settings(text: str) -> Settings:
    """Return the settings; a value that cannot be is an error, as is one of another release."""
    data = json.loads(text)
    if not isinstance(data, dict) or not set(data) <= set(Settings._fields):
        raise ValueError("no object of " + ", ".join(Settings._fields))
    wrong = sorted(name for name, value in data.items() if not _CHECKS[name](value))
    if wrong:
        raise ValueError("{} cannot be {}".format(wrong[0], ascii(data[wrong[0]])[:80]))
    for name in ("nodeshare", "names"):
        if name in data:
            data[name] = tuple(data[name])
    return Settings(**data)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("/")


_CHECKS: Dict[str, Callable[[Any], bool]] = {
    "nodeshare": lambda value: _is_texts(value) and value[0].startswith("/"),
    "mom_priv": _is_path,
    "site": _is_path,
    "leases": _is_path,
    "state": _is_path,
    "timeout_seconds": lambda value: type(value) in (int, float) and 0 < value <= 3600,
    "on_failure": lambda value: value in (ACCEPT, REQUEUE),
    "default_mem": lambda value: value is None or (isinstance(value, str) and bool(_SIZE.fullmatch(value))),
    "devices": lambda value: isinstance(value, dict) and all(isinstance(one, str) for one in value.values()),
    "names": _is_texts,
}


# From here on the world: each function reads or does one thing.


def facts_of(name: str, argv: Sequence[str], environ: Mapping[str, str], names: Sequence[str]) -> Facts:
    """Return what Torque has told. An id that is none is empty, and never part of a command."""
    is_sister = environ.get("PBS_NODENUM", "0") != "0"
    job = argv[0] if argv and len(argv[0]) <= 120 and _ID.fullmatch(argv[0]) else ""
    place = 4 if is_prologue(name) else 5
    hosts = _text(environ.get("PBS_NODEFILE", "")).split()
    here = sum(1 for host in hosts if short_name(host) in names)
    np_told = environ.get("PBS_NP", "")
    all_slots = len(hosts) or (int(np_told) if re.fullmatch(r"\d{1,7}", np_told, re.ASCII) else 0)
    resources = argv[place] if len(argv) > place else ""
    return Facts(name, job, is_sister, resources, here or None, all_slots)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read(LONGEST_NODEFILE)
    except (OSError, ValueError):
        return ""


def _listed(folder: str) -> List[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def run(argv: Sequence[str], seconds: float) -> Optional[int]:
    """Return the exit code of a command; None where it could not be started or was killed after this time.

    It has a session of its own: Torque's alarm ends the script, and what nodeshare has begun it finishes.
    """
    try:
        reader, writer = os.pipe()
    except OSError:
        return None
    try:
        try:
            child = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"},
                pass_fds=(writer,),  # it closes when the child ends, and wakes us at once; wait(timeout) polls
                start_new_session=True,
            )
        except OSError:
            return None
        finally:
            os.close(writer)
        return _exit_code_within(child, reader, seconds)
    finally:
        os.close(reader)


def _exit_code_within(child: "subprocess.Popen[bytes]", ends: int, seconds: float) -> Optional[int]:
    """Return the exit code of a child that closes `ends` when it ends; None where it was killed after this time.

    On a busy host an end takes a while from the closed pipe to the exit code: it has what is left of the time.
    """
    give_up = time.monotonic() + seconds
    select.select([ends], [], [], seconds)
    try:
        code = child.wait(max(REAP_SECONDS, give_up - time.monotonic()))
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(REAP_SECONDS)
        return None
    return code if code >= 0 else None


def start_site(path: str, argv: Sequence[str]) -> Optional["subprocess.Popen[bytes]"]:
    """Start the site's own script as Torque would; None where there is none that can be run."""
    if not os.path.isfile(path) or not os.access(path, os.X_OK):
        return None
    try:
        return subprocess.Popen([path, *argv])
    except OSError as error:
        _tell("{} cannot be run: {}".format(path, error.strerror))
        return None


def exit_code(code: int) -> int:
    """Return what Torque makes of an end: death by a signal counts as success."""
    return max(0, code)


class Tries:
    """How often a job was refused on this host, in a file that the boot forgets."""

    def __init__(self, settings: Settings, job: str) -> None:
        self.path = os.path.join(settings.state, file_part(job) + ".tries")

    def count(self) -> int:
        """Return the refusals so far; those of another day do not count."""
        try:
            fresh = time.time() - os.stat(self.path).st_mtime < 86400
        except OSError:
            return 0
        text = _text(self.path).strip()
        return int(text) if fresh and re.fullmatch(r"\d{1,6}", text, re.ASCII) else 0

    def note(self, count: int) -> None:
        """Write the number; one that cannot be written leaves Torque's own pace."""
        try:
            os.makedirs(os.path.dirname(self.path), mode=0o755, exist_ok=True)
            with open(self.path, "w", encoding="ascii") as stream:
                stream.write(str(count))
        except OSError:
            pass

    def forget(self) -> None:
        """Remove the file."""
        with contextlib.suppress(OSError):
            os.remove(self.path)


def prologue(facts: Facts, argv: Sequence[str], settings: Settings, began: float) -> Tuple[int, str]:
    """Run the site's script, and then begin. Return the exit code, and what there is to tell the log."""
    site = start_site(os.path.join(settings.site, own_script(facts.name, is_sister=facts.is_sister)), argv)
    refused = exit_code(site.wait()) if site else 0
    if refused:
        return refused, "the site's script ended with {}".format(refused)
    if not facts.job:
        return 0, "{} is no id of a job: it starts beside pods".format(ascii((argv[0] if argv else "")[:60]))
    alarm = alarm_seconds(_text(os.path.join(settings.mom_priv, "config")))
    left = seconds_left(settings, alarm, time.monotonic() - began)
    limit = max(1, int(left - UNDO_SECONDS))
    begun = run_that_begins(facts.job, _listed(settings.leases))
    code = run([*settings.nodeshare, *words(facts, settings, begun, limit)], left)
    tries = Tries(settings, facts.job)
    count = tries.count()
    rest = alarm - MARGIN - UNDO_SECONDS - (time.monotonic() - began)
    told = answer(code, settings, is_sister=facts.is_sister, tries=count, left=rest)
    said = "" if code == FREE else "begin {}".format("was not done" if code is None else "ended with {}".format(code))
    if not told.code:
        tries.forget()
        return 0, said and said + ": the job starts all the same"
    # Torque runs no epilogue on a sister that refuses.
    run([*settings.nodeshare, "end", "--wlm=torque", "--job=" + facts.job, "--run={}".format(begun)], UNDO_SECONDS)
    if not facts.is_sister:
        tries.note(count + 1)
        time.sleep(told.pause)
    return told.code, said + ": the job is refused, try {}".format(count + 1)


def epilogue(facts: Facts, argv: Sequence[str], settings: Settings, began: float) -> Tuple[int, str]:
    """Run the site's script, and end the job's leases before Torque's alarm, also where that script goes on."""
    site = start_site(os.path.join(settings.site, own_script(facts.name, is_sister=facts.is_sister)), argv)
    alarm = alarm_seconds(_text(os.path.join(settings.mom_priv, "config")))
    hanging = ""
    if site:
        try:
            site.wait(max(REAP_SECONDS, alarm - MARGIN - END_SECONDS - (time.monotonic() - began)))
        except subprocess.TimeoutExpired:
            hanging = "the site's script goes on"
    failed = [] if facts.job else ["{} is no id of a job".format(ascii((argv[0] if argv else "")[:60]))]
    for one in runs_that_end(facts.job, _listed(settings.leases)) if facts.job else ():
        words_of_end = ["end", "--wlm=torque", "--job=" + facts.job, "--run={}".format(one)]
        if run([*settings.nodeshare, *words_of_end], END_SECONDS) != FREE:
            failed.append("end of run {} was not done".format(one))
    return exit_code(site.wait()) if site else 0, "; ".join(filter(None, [hanging, *failed]))


def sweep(settings: Settings) -> None:
    """Have leases for jobs that are here and have none: a prologue that a signal killed counts as success in Torque."""
    entries = _listed(settings.leases)
    jobs = jobs_in(_listed(os.path.join(settings.mom_priv, "jobs")))
    named = ["{}/{}".format(job, run_that_lasts(job, entries)) for job in jobs]
    if named and run([*settings.nodeshare, "repair", "--wlm=torque", *named], settings.timeout_seconds) != FREE:
        _tell("sweep of {} jobs was not done".format(len(named)))


def _load() -> Tuple[Settings, str]:
    try:
        with open(SETTINGS, encoding="utf-8") as stream:
            return parse_settings(stream.read()), ""
    except (OSError, ValueError) as error:
        return Settings(), "{}: {}".format(SETTINGS, ascii(str(error))[1:200])


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Play one script of Torque, or a sweep. Return the exit code for Torque: 0 for every accident."""
    began = time.monotonic()
    name, *rest = argv
    said = ""
    try:
        settings, said = _load()
        if name == "sweep":
            sweep(settings)
            code, more = 0, ""
        else:
            names = tuple(map(short_name, (*settings.names, os.uname()[1])))
            settings = settings._replace(names=names)
            facts = facts_of(name, rest, environ, names)
            code, more = (prologue if is_prologue(name) else epilogue)(facts, rest, settings, began)
        said = "; ".join(filter(None, (said, more)))
    except Exception as error:  # noqa: BLE001 - whatever is wrong here, Torque must not start the job anew for ever
        code, said = 0, "{}: {}".format(type(error).__name__, ascii(str(error))[1:200])
    if said:
        _tell("script={} job={} exit={} {}".format(ascii(name[:40]), ascii((rest[:1] or [""])[0][:60]), code, said))
    return code


def _tell(text: str) -> None:
    """Tell the system log, for TELL_SECONDS at most: a log that takes nothing must hold up no job."""
    import syslog

    ticks: List[int] = []

    def tick(_number: int, _frame: object) -> None:
        ticks.append(1)
        if len(ticks) == 3:
            raise TimeoutError

    signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, TELL_SECONDS, 0.1)
    try:
        syslog.openlog("converged-torque")
        syslog.syslog(syslog.LOG_WARNING, text)
    except TimeoutError:
        pass  # the job goes on without a line
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


if __name__ == "__main__":
    CODE = main(sys.argv[1:], os.environ)
    if sys.argv[1:2] != ["sweep"]:
        os.write(3, "exit={}".format(CODE).encode("ascii"))
