# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module `pbs` as a hook on a MoM imports it.

What PBS lets a hook change and the double does not is refused, so that no test passes on a change that went nowhere.
"""

from __future__ import annotations

import sys
import time
import types
import typing as t
from pathlib import Path

from pbs_double import hook_values as values
from pbs_double.cluster import SERVER

EVENTS = {
    "execjob_begin": 0x40,
    "execjob_prologue": 0x80,
    "execjob_epilogue": 0x100,
    "execjob_end": 0x200,
    "execjob_preterm": 0x400,
    "execjob_launch": 0x800,
    "exechost_periodic": 0x1000,
    "exechost_startup": 0x2000,
    "execjob_attach": 0x4000,
    "periodic": 0x8000,
    "execjob_resize": 0x20000,
    "execjob_abort": 0x40000,
    "execjob_postsuspend": 0x80000,
    "execjob_preresume": 0x100000,
}
_UNSET = (
    *("exec_host", "comment", "etime", "qtime", "interactive", "Rerunable", "array", "Priority", "Hold_Types"),
    *("Checkpoint", "Mail_Points", "depend", "group_list", "Output_Path", "Error_Path", "session_id"),
)


class EventIncompatibleError(AttributeError):
    """An event has no such parameter."""


class _ReadOnly:
    """Nothing is set from outside."""

    def __init__(self, **known: t.Any) -> None:
        self.__dict__.update(known)

    def __setattr__(self, attribute: str, value: object) -> None:
        raise NotImplementedError(f"the double does not change {attribute} of {self!r}")


class _Named(_ReadOnly):
    def __str__(self) -> str:
        return str(self.__dict__["name"])


class _queue(_Named):
    """Of it the name is known."""


class _server(_Named):
    """Of it the name is known."""


class _vnode(_Named):
    """A vnode: most is known of those of this host. A hook may take it offline and say why."""

    def __setattr__(self, attribute: str, value: object) -> None:
        if attribute not in ("state", "comment"):
            super().__setattr__(attribute, value)
        self.__dict__["_changed"][attribute] = value


class _job(_ReadOnly):
    """A job as the MoM has it."""

    def __str__(self) -> str:
        return str(self.__dict__["id"])

    def __getattr__(self, attribute: str) -> t.Any:
        raise AttributeError(f"'_job' object has no attribute '{attribute}'")

    def in_ms_mom(self) -> t.Any:
        """A text on the primary host."""
        return "True" if self.__dict__["_primary"] else False

    def rerun(self) -> None:
        """With a rejection: queues it again."""
        self.__dict__["_wish"] = "rerun"

    def delete(self) -> None:
        """With a rejection: ends it for good."""
        self.__dict__["_wish"] = "delete"


class _event:
    """What has happened."""

    def __init__(self, given: t.Mapping[str, t.Any], parameters: dict[str, t.Any]) -> None:
        self.type = EVENTS[given["event"]]
        self.hook_name = given["hook"]
        self.hook_type = "site"
        self.requestor = "pbs_mom"
        self.requestor_host = given["host"]
        self.freq = None
        self._param = parameters
        self.outcome, self.message = "accept", ""

    def accept(self, ecode: int = 0) -> t.NoReturn:
        """Ends the hook."""
        raise SystemExit(str(ecode))

    def reject(self, emsg: str = "", ecode: int = 255) -> t.NoReturn:
        """Ends the hook and refuses the event."""
        job = self._param.get("job")
        self.outcome = (job.__dict__["_wish"] if job else None) or "reject"
        self.message = emsg
        raise SystemExit(str(ecode))

    def __getattr__(self, key: str) -> t.Any:
        if key not in self._param:
            raise EventIncompatibleError(f'"{key}" not found in self._param')
        return self._param[key]


_KINDS: dict[str, t.Callable[[str], t.Any]] = {
    **dict.fromkeys(["euser", "egroup", "Job_Owner", "Account_Name", "exec_host2", "array_id"], values.pbs_str),
    **dict.fromkeys(["run_count", "run_version", "array_index", "substate", "Exit_status"], values.pbs_int),
    "job_state": lambda text: values.job_state(int(text)),
    "queue": lambda text: _queue(name=text),
    "project": values.project,
    "Job_Name": values.name,
    "exec_vnode": values.exec_vnode,
    "schedselect": values.select,
}


def _job_of(told: t.Mapping[str, t.Any]) -> _job:
    known = {name: kind(told[name]) if name in told else None for name, kind in _KINDS.items()}
    return _job(
        **{**dict.fromkeys(_UNSET), **known},
        id=told["id"],
        server=_server(name=SERVER),
        Resource_List=values.pbs_resource(told.get("Resource_List", {})),
        resources_used=values.pbs_resource({}),
        Variable_List=told.get("Variable_List", {}),
        _primary="_msmom" in told,
        _wish=None,
    )


def _vnode_of(name: str, known: t.Mapping[str, t.Any]) -> _vnode:
    return _vnode(
        name=name,
        **dict.fromkeys(["state", "comment", "Mom", "sharing"]),
        pcpus=None if known["pcpus"] is None else values.pbs_int(known["pcpus"]),
        resources_available=values.pbs_resource(known["available"]),
        resources_assigned=values.pbs_resource(known["assigned"]),
        _changed={},
    )


def made(given: t.Mapping[str, t.Any]) -> types.ModuleType:
    """The module for one run of a hook."""
    parameters: dict[str, t.Any] = {
        "vnode_list": {name: _vnode_of(name, known) for name, known in given["vnodes"].items()}
    }
    if "job" in given:
        parameters["job"] = _job_of(given["own"])
    if "jobs" in given:
        parameters["job_list"] = {name: _job_of({**told, "id": name}) for name, told in given["listed"].items()}
    event = _event(given, parameters)

    def log(word: str, name: str, text: object) -> None:
        write_log(Path(given["home"]), "0006" if word == "Hook" else "0008", "pbs_python", word, name, str(text))

    module = types.ModuleType("pbs")
    module.__dict__.update(
        **{each: getattr(values, each) for each in _VALUES},
        **{f"HOOK_EVENT_{name.upper()}": number for name, number in EVENTS.items()},
        **{name.upper(): number for name, number in EVENTS.items()},
        LOG_DEBUG=5,
        LOG_WARNING=6,
        LOG_ERROR=7,
        EVENT_ERROR=1,
        EVENT_DEBUG=128,
        ND_FREE=0,
        ND_OFFLINE=1,
        JOB_STATE_RUNNING=4,
        EventIncompatibleError=EventIncompatibleError,
        event=lambda: event,
        server=lambda: _server(name=SERVER),
        get_local_nodename=lambda: given["host"],
        hook_config_filename=given["config"],
        pbs_conf={"PBS_HOME": given["home"], "PBS_SERVER": SERVER},
        logmsg=lambda level, text: log("Hook", "pbs_python", text),
        logjobmsg=lambda job, text: log("Job", job, text),
    )
    return module


_VALUES = (
    *("pbs_int", "pbs_str", "size", "size_to_kbytes", "duration", "pbs_resource", "exec_vnode", "vchunk"),
    *("name", "project", "place", "select", "job_state"),
)


def write_log(home: Path, kind: str, daemon: str, word: str, name: str, text: str) -> None:
    """A line of the MoM's log."""
    now = time.localtime()
    path = home / "mom_logs" / time.strftime("%Y%m%d", now)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{time.strftime('%m/%d/%Y %H:%M:%S', now)};{kind};{daemon};{word};{name};{text}\n")


def changes(module: types.ModuleType) -> dict[str, dict[str, t.Any]]:
    """What a hook has set, by vnode."""
    vnodes: dict[str, _vnode] = module.event().vnode_list
    return {name: vnode.__dict__["_changed"] for name, vnode in vnodes.items() if vnode.__dict__["_changed"]}


def install(module: types.ModuleType) -> None:
    """So that a hook can import it."""
    sys.modules["pbs"] = module
