# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a job goes from one state to the next: the hooks that its hosts run first, and what their refusal does.

Where no hook wants the event, a step takes no time. One step always does: a job that was sent for execution has no
start time until the MoM of its primary host has taken it up.
"""

from __future__ import annotations

import time
import typing as t

from pbs_double.callers import caller
from pbs_double.cluster import SERVER
from pbs_double.state import Job, State, Task

ND_OFFLINE = 1
_TRIES = 21
_REFUSED_BY_SISTER, _DELETED_BY_HOOK, _RERUN, _MOM_RESTARTED = -3, -19, -11, -4


def begin(state: State, job: Job) -> None:
    """Send a job for execution: to the primary host first, then to all others."""
    job.runs += 1
    job.comment = f"Job was sent for execution at {_when()} on {job.exec_vnode}"
    primary, *sisters = job.hosts
    stages = [[(primary, "execjob_begin")], [(host, "execjob_begin") for host in sisters]]
    _go(state, job, stages, "begun")


def end(state: State, job: Job, *, substate: int, status: int, said: str) -> None:
    """A job that is over: on other hosts than the primary preterm runs here too."""
    job.final, job.exit_status, job.ends = substate, status, None
    job.comment += said
    _go(state, job, [[(host, "execjob_preterm") for host in job.hosts[1:]], _on_all(job, "execjob_end")], "ended")


def delete(state: State, job: Job) -> None:
    """As `qdel` does; a job that never ran has no status. Of one that ends already, the primary host alone hears it."""
    ends = job.after == "ended"
    job.final, job.ends = 91, None
    if job.started is not None:
        job.exit_status = job.exit_status if ends else 271
        job.comment = f"{job.comment.partition(' and ')[0]} and terminated by {caller()}@{SERVER}"
    heard = [(host, "execjob_preterm") for host in job.hosts]
    if ends:
        _add_task(state, job, *heard[0])
    else:
        _go(state, job, [heard[:1], heard[1:], _on_all(job, "execjob_end")], "ended")


def hears_of_end(state: State, job: Job) -> bool:
    """Whether preterm runs, or is to run, on the primary host."""
    wanted = (job.id, "execjob_preterm")
    return any((task.job, task.event) == wanted and task.host == job.hosts[0] for task in state.tasks)


def forget(state: State, job: Job) -> None:
    """As `qdel -W force` does: nobody is asked, and a MoM that comes back finds the job it had."""
    _drop_tasks(state, job)
    job.stages, job.final, job.exit_status = [], 91, None
    job.comment += " and terminated"
    for host in job.hosts:
        _add_task(state, job, host, "execjob_end")
    _AFTER["ended"](state, job)


def release(state: State, job: Job) -> None:
    """All hosts but the primary are given back: for them the job is over."""
    for host in job.hosts[1:]:
        _add_task(state, job, host, "execjob_end")
    job.shares = [share for share in job.shares if share.host == job.hosts[0]]


def rerun(state: State, job: Job, status: int = _RERUN) -> None:
    job.exit_status, job.ends = status, None
    stages = [[(host, "execjob_preterm") for host in job.hosts[1:]], _on_all(job, "execjob_end")]
    _go(state, job, stages if status == _RERUN else stages[1:], "queued")


def suspend(state: State, job: Job) -> None:
    job.state, job.substate, job.resuming = "S", 43, False
    _go(state, job, [_on_all(job, "execjob_postsuspend")], "suspended")


def resume(state: State, job: Job) -> None:
    """Its cores are its own again from here on."""
    job.state, job.resuming = "R", False
    _go(state, job, [_on_all(job, "execjob_preresume")], "resumed")


def reported(state: State, task: Task, outcome: str, hook: str) -> None:
    """A MoM has run the hooks of a task; ``hook`` is the one that did not accept."""
    if task not in state.tasks:
        return
    state.tasks.remove(task)
    job = state.jobs.get(task.job)
    if task.event == "execjob_begin":
        _may_take_offline(state, task.host, hook, outcome)
    if job is None or job.runs != task.seen["run_count"]:
        return
    if task.event == "execjob_begin" and outcome != "accept":
        _refused(state, job, task.host, outcome)
    else:
        _next(state, job)


def mom_came_back(state: State, host: str) -> None:
    """What it was about is lost, and the jobs it was the primary of start anew."""
    for task in [task for task in state.tasks if task.host == host and task.taken]:
        reported(state, task, "reject", "")
    for job in list(state.jobs.values()):
        if job.state in "RSE" and job.hosts[:1] == [host] and not job.after:
            rerun(state, job, _MOM_RESTARTED)


def host_started(state: State, host: str, hook: str, outcome: str) -> None:
    """What hooks had done to the node is undone, where fail_action says so."""
    _may_take_offline(state, host, hook, outcome)
    if outcome == "accept" and "clear_vnodes_upon_recovery" in _fail_actions(state, hook):
        state.nodes[host].pop("offline_by_mom", None)
        if state.nodes[host].get("comment", "").startswith("offlined by hook "):
            del state.nodes[host]["comment"]


def set_by_hook(state: State, changes: t.Mapping[str, t.Mapping[str, t.Any]]) -> None:
    """Nodes that a hook has taken offline."""
    for vnode, changed in changes.items():
        if vnode in state.nodes:
            node = state.nodes[vnode]
            node.update({"comment": str(changed["comment"])} if "comment" in changed else {})
            node.update({"offline_by_mom": "1"} if changed.get("state") == ND_OFFLINE else {})


def _may_take_offline(state: State, host: str, hook: str, outcome: str) -> None:
    if outcome in ("error", "alarm") and "offline_vnodes" in _fail_actions(state, hook):
        state.nodes[host].update(offline_by_mom="1", comment=f"offlined by hook '{hook}' due to hook error")


def _fail_actions(state: State, hook: str) -> list[str]:
    return state.hooks[hook].attributes["fail_action"].split(",") if hook in state.hooks else []


def _refused(state: State, job: Job, host: str, outcome: str) -> None:
    """It is tried again at once, wherever there is room, and held in the end."""
    _drop_tasks(state, job)
    job.stages = []
    if outcome == "delete":
        job.final, job.exit_status = 93, _DELETED_BY_HOOK
        _AFTER["ended"](state, job)
    elif host != job.hosts[0]:
        job.exit_status = _REFUSED_BY_SISTER
        primary = job.hosts[0]
        _go(state, job, [[(primary, "execjob_abort")], [(primary, "execjob_end")]], "queued")
    else:
        _AFTER["queued"](state, job)


def _on_all(job: Job, event: str) -> list[tuple[str, str]]:
    return [(host, event) for host in job.hosts]


def _go(state: State, job: Job, stages: list[list[tuple[str, str]]], after: str) -> None:
    job.stages, job.after = list(stages), after
    _next(state, job)


def _next(state: State, job: Job) -> None:
    while not any(task.job == job.id for task in state.tasks):
        if not job.stages:
            after, job.after = job.after, ""
            if after:
                _AFTER[after](state, job)
            return
        stage = job.stages.pop(0)
        if any(event == "execjob_end" for _host, event in stage):
            job.state, job.substate = "E", 50
        for host, event in stage:
            _add_task(state, job, host, event)


def _add_task(state: State, job: Job, host: str, event: str) -> None:
    wanted = [hook for hook in state.hooks.values() if event in hook.attributes["event"].split(",")]
    is_sent = event == "execjob_begin" and host == job.hosts[0]
    if is_sent or any(hook.attributes["enabled"] == "true" for hook in wanted):
        state.next_task += 1
        state.tasks.append(Task(state.next_task, host, event, job.id, seen(job, host, event)))


def _drop_tasks(state: State, job: Job) -> None:
    state.tasks = [task for task in state.tasks if task.job != job.id]


def seen(job: Job, host: str, event: str) -> dict[str, t.Any]:
    """The job as a hook sees it there."""
    primary = host == job.hosts[0]
    states = {"execjob_begin": (0, 0) if primary else (4, 41), "execjob_preterm": (4, 42)}
    ends = 53 if job.exit_status in (_RERUN, _MOM_RESTARTED) else 58
    states |= {"execjob_end": (5, ends if primary else 50), "execjob_abort": (5, 50)}
    states |= {"exechost_periodic": (4, job.substate)}
    job_state, substate = states.get(event, (4, 43))
    sub_job = {"array_id": f"{job.number}[].{SERVER}", "array_index": job.index} if job.index is not None else {}
    return {
        "id": job.id,
        "primary": primary,
        "queue": job.queue,
        "Job_Name": job.name,
        "Account_Name": job.account,
        "owner": job.owner,
        "project": job.project,
        "run_count": job.runs,
        "exec_vnode": job.exec_vnode,
        "exec_host2": "+".join(part.replace("/", ":15002/") for part in job.exec_host.split("+")),
        "schedselect": job.select,
        "resources": {name: value for name, value in job.resources.items() if name not in ("select", "nodect")},
        "variables": dict(pair.partition("=")[::2] for pair in job.variables.split(",")),
        "shares": [(share.vnode, {**share.amounts, "ncpus": str(share.ncpus)}) for share in job.shares],
        "job_state": job_state,
        "substate": substate,
        "Exit_status": job.exit_status if event in ("execjob_end", "execjob_abort") else None,
        **sub_job,
    }


def _begun(_state: State, job: Job) -> None:
    now = time.time()
    job.started, job.substate = now, 41
    job.comment = f"Job run at {_when()} on {job.exec_vnode}"
    words = job.command[1:] if job.command[:1] in (["/bin/sleep"], ["sleep"]) else ["0"]
    job.ends = now + float(words[0])


def _ended(state: State, job: Job) -> None:
    job.state, job.substate, job.ends, job.after = "F", job.final, None, ""
    if not state.history and (job.index is None or job.deleted):
        del state.jobs[job.id]


def _queued(_state: State, job: Job) -> None:
    job.state, job.substate, job.after, job.deleted = "Q", 10, "", False
    job.shares, job.started, job.ends, job.exit_status = [], None, None, None
    if job.runs >= _TRIES and not job.held:
        job.held, job.comment = "s", "job held, too many failed attempts to run"
    if job.held:
        job.state, job.substate = "H", 20


def _suspended(_state: State, _job: Job) -> None:
    """It stays as it is."""


def _resumed(_state: State, job: Job) -> None:
    job.substate = 42


_AFTER = {"begun": _begun, "ended": _ended, "queued": _queued, "suspended": _suspended, "resumed": _resumed}


def _when() -> str:
    return time.strftime("%a %b %d at %H:%M")
