# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hook by which PBS tells `nodeshare` on each host of a job what the job takes there, and that it is over.

`decide` is pure: an event and the configuration in, one command line out. Only what PBS itself has made gets into it
(id, run, exec_vnode, place, queue), never a text of the user's (see `forged`). The MoM does nothing else while
execjob_begin runs, so the command is bounded. What cannot be done ends in the outcome that the site has chosen: batch
never depends on Kubernetes. Runs on every host of a job, after pbs_cgroups (order 100) whose cpuset it passes on.
PBS keeps a hook as one text and brings nothing else to its MoMs, so all of it is in this file, however long that is.
"""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import time
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

ACCEPT, REQUEUE, DRAIN = "accept", "requeue", "drain"
CODES = {0: ACCEPT, 69: DRAIN, 75: REQUEUE}  # of nodeshare; any other is a failure of nodeshare itself
UNDO_SECONDS = 3.0  # kept back for taking a lease back that a refused begin has left
REAP_SECONDS = 0.5
TRIES = 10  # PBS tries a refused job again at once, mostly on the same host, and holds it for good after its 21st run
MARGIN_SECONDS = 5.0  # nodeshare is told to be done this much earlier than it is killed
# preterm is no end: it comes with qdel, but on sisters also before a normal end, and execjob_end follows either.
EVENTS = ("begin", "end", "abort", "preterm", "postsuspend", "preresume")
VERBS = {"begin": "begin", "postsuspend": "begin", "preresume": "begin", "end": "end", "abort": "end"}
BEGUN, EXITING, SUSPENDED = 41, 50, (43, 45)  # substates of a job: from the first to below the second it runs here
_SIZE = re.compile(r"(\d{1,15})([kKmMgGtTpP]?)([bBwW]?)", re.ASCII)
_Vnode = Tuple[str, List[Tuple[str, str]]]  # its name, and what a chunk has of it
_CHUNK = re.compile(r"\(([^()]+)\)", re.ASCII)
_ID = re.compile(r"\d{1,12}(?:\[\d{1,7}\])?(?:\.[A-Za-z0-9-]+)*", re.ASCII)
_DIGITS = {"ncpus": 12, "mem": 15}  # that nodeshare reads; of a device 6
_JOB = "pbs.event().job"  # with which lines begin that MoM writes of jobs
_PLACED = ("exec_vnode", "exec_host", "exec_host2")
# What is believed of a job, and that whose quotes may swallow lines of PBS's own.
_ONCE = frozenset(("id", "queue", *_PLACED, "run_count", "run_version", "substate", "Variable_List"))


class ForgedError(ValueError):
    """What PBS tells of a job is not PBS's alone."""


class Config(NamedTuple):
    """What the role has imported beside the hook. `sharing` names hosts that are not default_shared."""

    nodeshare: Tuple[str, ...] = ()
    timeout_seconds: float = 20.0
    on_failure: str = ACCEPT
    default_mem: Optional[str] = None
    ignored_queues: Optional[FrozenSet[str]] = frozenset()  # None: they cannot be read
    devices: Mapping[str, str] = {"ngpus": "nvidia.com/gpu"}
    sharing: Mapping[str, str] = {}
    cgroup_prefix: Optional[str] = "pbs_jobs"
    enabled: str = "/etc/converged/enabled"
    wrong: str = ""


class Facts(NamedTuple):
    """What has happened, as plain texts. `names` are those of this host, as `short_name` has them."""

    event: str
    job: str = ""
    run: int = 0
    queue: str = ""
    place: str = ""
    exec_vnode: str = ""
    exec_host: str = ""
    names: FrozenSet[str] = frozenset()


def decide(facts: Facts, config: Config, running: Sequence[Facts] = ()) -> Tuple[str, ...]:
    """Return the words for nodeshare; none if there is nothing to do. A repair makes up for leases that lack."""
    ignored = config.ignored_queues
    if facts.event in ("startup", "periodic"):
        jobs = [one for one in running if ignored is not None and one.queue not in ignored]
        named = [" ".join(["{}/{}".format(one.job, one.run), *_share_words(one, config)]) for one in jobs]
        return ("repair", "--wlm=pbs", *named) if named else ("repair",)
    verb = VERBS.get(facts.event)
    if verb is None or (verb != "end" if ignored is None else facts.queue in ignored):
        return ()
    words = (verb, "--wlm=pbs", "--job=" + facts.job, "--run={}".format(facts.run))
    if verb == "end":
        return words
    limit = max(1, int(config.timeout_seconds - UNDO_SECONDS - MARGIN_SECONDS))
    return (*words, "--limit={}".format(limit), *_share_words(facts, config))


def _share_words(facts: Facts, config: Config) -> List[str]:
    share = share_of(facts, config)
    if share is None:
        return ["--exclusive"]  # it is here, and may have anything
    if config.default_mem is not None:
        share.setdefault("mem", size(config.default_mem))
    share = {name: min(amount, 10 ** _DIGITS.get(name, 6) - 1) for name, amount in share.items()}
    memory_words = ["--mem={}".format(share["mem"])] if "mem" in share else []
    if facts.event == "postsuspend":
        return ["--cpus=0", *memory_words]  # PBS gives its cores away; its processes stay in memory
    words = ["--cpus={}".format(share.get("ncpus", 0)), *memory_words]
    devices = [(device, share[name]) for name, device in sorted(config.devices.items()) if share.get(name)]
    words += ["--device={}={}".format(device, count) for device, count in devices]
    if is_exclusive(facts, config):
        words.append("--exclusive")
    if config.cgroup_prefix:
        words.append("--cgroup={}.service/jobid/{}".format(config.cgroup_prefix, facts.job))
    return words


def share_of(facts: Facts, config: Config) -> Optional[Dict[str, int]]:
    """Return what the job has of this host, over all its chunks and vnodes here; None if that cannot be told."""
    chunks = _chunks_here(facts)
    share = {}  # type: Dict[str, int]
    try:
        for resource, value in (amount for chunk in chunks for _name, amounts in chunk for amount in amounts):
            if resource in ("ncpus", "mem", *config.devices):
                share[resource] = share.get(resource, 0) + size(value)
    except ValueError:
        return None
    return share if chunks else None


def vnodes_here(facts: Facts) -> List[str]:
    """Return the vnodes of this host that the job has something of."""
    return sorted({name for chunk in _chunks_here(facts) for name, _share in chunk})


def _chunks_here(facts: Facts) -> List[List[_Vnode]]:
    """Return this host's chunks: a pair of parentheses is one chunk on one host, and so is a word of exec_host.

    A vnode's name says nothing certain about its host; where the two lists do not match, it has to do.
    """
    chunks = [[_parsed(text) for text in chunk.split("+")] for chunk in _CHUNK.findall(facts.exec_vnode)]
    hosts = [short_name(word.partition("/")[0].partition(":")[0]) for word in facts.exec_host.split("+") if word]
    if len(hosts) == len(chunks) and facts.names.intersection(hosts):
        return [chunk for chunk, host in zip(chunks, hosts) if host in facts.names]
    named = [[vnode for vnode in chunk if short_name(vnode[0].partition("[")[0]) in facts.names] for chunk in chunks]
    return [chunk for chunk in named if chunk]


def _parsed(text: str) -> _Vnode:
    name, *amounts = text.split(":")
    pairs = [amount.partition("=") for amount in amounts]
    return name, [(resource, value) for resource, _sign, value in pairs]


def size(text: str) -> int:
    """Bytes, as PBS counts: a unit is a power of 1024, `w` a word of 8 bytes, and without a letter it is bytes."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError("{} is not a size such as 4gb".format(ascii(text[:40])))
    number, unit, word = found.groups()
    return (int(number) * (8 if word in ("w", "W") else 1)) << (10 * " kmgtp".index(unit.lower() or " "))


def is_exclusive(facts: Facts, config: Config) -> bool:
    """Return whether the job has this host alone. A vnode of several that is taken alone counts as the whole host."""
    words = facts.place.split(":")
    sharing = {how for host, how in config.sharing.items() if short_name(host) in facts.names}
    if sharing.intersection(("force_excl", "force_exclhost")):
        return True
    if sharing.intersection(("default_excl", "default_exclhost")):
        return "shared" not in words
    return "ignore_excl" not in sharing and ("excl" in words or "exclhost" in words)


def short_name(host: str) -> str:
    """Without its domain; an address has none."""
    label = host.lower().partition(".")[0]
    return host if label.isdigit() else label


def parse_config(text: str) -> Config:
    """Read the settings. A wrong key leaves the others as they are; one of another release does nothing.

    It stops a begin alone. Ends, and repairs of what other begins have left, go on with what can be read.
    """
    data = json.loads(text)
    if not isinstance(data, dict):
        raise ValueError("no JSON object")
    known = {name: data[name] for name in _CHECKS if name in data}
    good = {name: value for name, value in known.items() if _CHECKS[name](value)}
    wrong = ["{} cannot be {}".format(name, ascii(known[name])[:80]) for name in known if name not in good]
    if "nodeshare" not in known:
        wrong.append("nodeshare is missing: the command line of the program")
    good["nodeshare"] = tuple(good.get("nodeshare", ()))
    queues = good.get("ignored_queues", () if "ignored_queues" not in known else None)
    good["ignored_queues"] = None if queues is None else frozenset(queues)
    return Config(wrong="; ".join(wrong), **good)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_names(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_fits(r"[A-Za-z0-9:._/-]{1,64}"), value.values()))


def _fits(pattern: str) -> Callable[[Any], Any]:
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value, re.ASCII)


_CHECKS: Dict[str, Callable[[Any], Any]] = {
    "nodeshare": lambda value: _is_texts(value) and value and value[0].startswith("/"),
    "timeout_seconds": lambda value: type(value) in (int, float) and UNDO_SECONDS < value <= 3600,
    "on_failure": lambda value: value in (ACCEPT, REQUEUE, DRAIN),
    "default_mem": lambda value: value is None or _fits(_SIZE.pattern)(value),
    "ignored_queues": _is_texts,
    "devices": _is_names,
    "sharing": _is_names,
    "cgroup_prefix": lambda value: value is None or _fits(r"\w+")(value),
    "enabled": _fits(r"/.+"),
}


def run(argv: Tuple[str, ...], seconds: float) -> Optional[int]:
    """Return the exit code; None if it was killed after this time, with all that it had started."""
    reader, writer = os.pipe()
    try:
        try:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # nodeshare has its own line in the system log
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"},
                pass_fds=(writer,),  # it ends with the child and wakes us at once; wait(timeout) looks now and then
                start_new_session=True,
            )
        finally:
            os.close(writer)
        give_up = time.monotonic() + seconds
        select.select([reader], [], [], seconds)
        # On a busy host an end takes a while from the closed pipe to the exit code: it has what is left of the time.
        return child.wait(max(REAP_SECONDS, give_up - time.monotonic()))
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(REAP_SECONDS)
        return None
    finally:
        os.close(reader)


def forged(text: str) -> FrozenSet[str]:
    """Return jobs of which not all that a hook is told is PBS's own; "": the event's.

    MoM hands a hook its jobs as lines of `name=value` and hardly quotes any. So a newline in what a user wrote (an
    account, a variable) begins a line of that user's, of any job, and three quotes swallow lines of PBS's. PBS says
    each thing of a job once, and quotes the variables of the event's own job only.
    """
    found: Set[str] = set()
    seen: Set[Tuple[str, str, str]] = set()
    for line in text.split("\n"):
        name, equals, value = line.partition("=")
        head, _dot, attribute = name.rpartition(".")
        if not equals or (head != _JOB and not head.startswith(_JOB + "_list")):
            continue
        told = (_bracketed(head), attribute.partition("[")[0], _bracketed(attribute.partition("]")[0] + "]"))
        twice = told in seen and (told[1] in _ONCE or told[1:] == ("Resource_List", "place"))
        if twice or (value.startswith('"""') and (head != _JOB or attribute != "Variable_List")):
            found.add(told[0])
        seen.add(told)
    return frozenset(found)


def _bracketed(text: str) -> str:
    """Return an id or a resource as PBS finds it in brackets: in quotes, or without."""
    inside = text.partition("[")[2]
    quoted = inside.split('"', 2)
    return quoted[1] if len(quoted) == 3 else inside.rpartition("]")[0]


def told_by_mom() -> str:
    """Return the lines that this process of PBS was given; if they are not found, believe what PBS makes of them."""
    with contextlib.suppress(OSError, ValueError):
        with open("/proc/self/cmdline", encoding="latin-1") as stream:
            words = stream.read().split("\0")
        with open(words[words.index("-i") + 1], encoding="latin-1") as stream:
            return stream.read()
    return ""


def facts_of(event: Any, kind: str, local: str) -> Tuple[Facts, List[Facts]]:
    """Of the event, and of the jobs that run here. An event has no attribute that is not its own."""
    names = frozenset(short_name(str(name)) for name in (local, event.requestor_host) if name)
    if kind in EVENTS:
        return _facts_of_job(event.job, kind, names), []
    running = []
    for job in event.job_list.values() if kind == "periodic" else ():
        with contextlib.suppress(AttributeError, TypeError, ValueError):  # one that cannot be read stops no repair
            if BEGUN <= int(job.substate) < EXITING:
                running.append(_facts_of_job(job, "postsuspend" if int(job.substate) in SUSPENDED else "begin", names))
    return Facts(kind), running


def _facts_of_job(job: Any, kind: str, names: FrozenSet[str]) -> Facts:
    """Whatever PBS gives becomes text."""
    if not _ID.fullmatch(str(job.id)):
        raise ValueError("{} is no id of a job".format(ascii(str(job.id))[:80]))
    run_version = job.run_version if job.run_version is not None else job.run_count
    return Facts(
        kind,
        str(job.id),
        int(run_version or 0),
        str(job.queue),
        str(job.Resource_List["place"] or ""),
        str(job.exec_vnode or ""),
        str(job.exec_host2 or job.exec_host or ""),
        names,
    )


def perform(kind: str, words: Tuple[str, ...], config: Config) -> Tuple[str, str]:
    """Return the outcome, which only a job that starts may have, and what there is to say about it."""
    began = time.monotonic()
    try:
        code = run((*config.nodeshare, *words), config.timeout_seconds - UNDO_SECONDS)
        said = "killed" if code is None else "exit={}".format(code)
    except OSError as error:
        code, said = None, 'error="{}: {}"'.format(config.nodeshare[0], error.strerror)
    if kind != "begin":
        return ACCEPT, said
    outcome = config.on_failure if code is None else CODES.get(code, config.on_failure)
    if outcome != ACCEPT:
        end = ("end", *words[1:4])  # PBS runs none on a host that has refused
        with contextlib.suppress(OSError):  # what cannot be started has left no lease
            run((*config.nodeshare, *end), max(0.1, began + config.timeout_seconds - time.monotonic()))
    return outcome, said


def main(pbs: Any) -> None:
    """Accept or reject the event, which leaves the hook."""
    event, began = pbs.event(), time.monotonic()
    kinds = {getattr(pbs, "HOOK_EVENT_EXECJOB_" + name.upper()): name for name in EVENTS}
    kinds.update({pbs.HOOK_EVENT_EXECHOST_STARTUP: "startup", pbs.HOOK_EVENT_EXECHOST_PERIODIC: "periodic"})
    kind = kinds.get(event.type, "other")
    facts, outcome, words = Facts(kind), ACCEPT, ()  # type: Facts, str, Tuple[str, ...]
    config, wrong = Config(), []  # type: Config, List[str]
    try:
        with open(pbs.hook_config_filename or "no configuration was imported") as stream:
            config = parse_config(stream.read())
        if os.path.exists(config.enabled):
            twice = forged(told_by_mom())
            if kind in EVENTS and "" in twice:
                raise ForgedError(
                    "what its owner wrote, such as an account with a newline, reads as if PBS told of this job"
                )
            facts, running = facts_of(event, kind, pbs.get_local_nodename())
            if kind == "begin" and config.ignored_queues is None:
                raise ValueError(config.wrong)  # whose job it is cannot be told: no reason to let it in unseen
            words = decide(facts, config, [one for one in running if one.job not in twice])
            wrong = [config.wrong] if config.wrong else []
            wrong += ["{} is also told of by a user".format(one.job) for one in running if one.job in twice][:5]
        if not words:
            event.accept()
        if config.wrong and (kind == "begin" or not config.nodeshare):
            raise ValueError(config.wrong)
        outcome, said = perform(kind, words, config)
        said += ' wrong="{}"'.format("; ".join(wrong)[:400]) if wrong else ""
    except Exception as error:  # noqa: BLE001 - whatever is wrong here, PBS gets the site's answer
        refused = REQUEUE if isinstance(error, ForgedError) else config.on_failure
        outcome = refused if kind == "begin" else ACCEPT
        said = 'error="{}: {}"'.format(type(error).__name__, ascii(str(error))[1:200])
    if outcome == config.on_failure == REQUEUE and facts.run and facts.run % TRIES == 0:
        outcome = DRAIN
    shown = ["event=" + kind, "run={}".format(facts.run), *(words[4:] if facts.job else ()), said, "outcome=" + outcome]
    line = "converged: {} seconds={:.3f}".format(" ".join(shown), time.monotonic() - began)
    if facts.job:
        pbs.logjobmsg(facts.job, line)
    elif said != "exit=0":
        pbs.logmsg(pbs.LOG_WARNING, line)
    if outcome == ACCEPT:
        event.accept()
    for name in vnodes_here(facts) if outcome == DRAIN else ():
        event.vnode_list[name].state = pbs.ND_OFFLINE
        event.vnode_list[name].comment = line
    event.reject(line)


if __name__ == "builtins":
    import pbs

    main(pbs)
