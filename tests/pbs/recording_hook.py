# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hook that writes down what it sees, and does what its configuration says for an event on a host."""

import json
import os
import time

import pbs


def shown(value):
    """A value with its type; of a mapping all that is in it."""
    if hasattr(value, "keys"):
        return {str(key): shown(value[key]) for key in value.keys()}  # noqa: SIM118  PBS's cannot be iterated
    return value if value is None else f"{type(value).__name__} {value}"


def tried(text, event):
    """What comes of an expression, or how it fails."""
    try:
        return shown(eval(text, dict(globals(), event=event)))
    except Exception as error:  # noqa: BLE001  the failure is the answer
        return f"{type(error).__name__}: {error}"


def of_job(job):
    """What hooks of a job read of it."""
    names = (
        "id",
        "queue",
        "server",
        "euser",
        "Job_Owner",
        "Account_Name",
        "project",
        "Job_Name",
        "run_count",
        "comment",
    )
    names += (
        "run_version",
        "exec_host",
        "exec_host2",
        "exec_vnode",
        "job_state",
        "substate",
        "array_id",
        "array_index",
    )
    found = {name: shown(getattr(job, name)) for name in (*names, "Resource_List", "schedselect", "Exit_status")}
    found["chunks"] = [[chunk.vnode_name, shown(chunk.chunk_resources)] for chunk in job.exec_vnode.chunks]
    found["primary"] = shown(job.in_ms_mom())
    return found


def of_vnode(vnode):
    """What hooks read of a vnode."""
    names = ("name", "state", "comment", "pcpus", "resources_available", "resources_assigned")
    return {name: shown(getattr(vnode, name)) for name in names}


def main():
    event = pbs.event()
    events = ("begin", "end", "preterm", "abort", "postsuspend", "preresume")
    kinds = {getattr(pbs, "HOOK_EVENT_EXECJOB_" + name.upper()): name for name in events}
    kinds.update({pbs.EXECHOST_STARTUP: "startup", pbs.EXECHOST_PERIODIC: "periodic"})
    host = pbs.get_local_nodename()
    with open(pbs.hook_config_filename) as file:
        config = json.load(file)
    found = {"hook": event.hook_name, "host": host, "event": kinds[event.type]}
    if kinds[event.type] in events:
        found["job"] = of_job(event.job)
    if config["evaluate"]:
        found["values"] = {text: tried(text, event) for text in config["evaluate"]}
        found["environment"] = {name: os.environ[name] for name in os.environ if name != "PBS_CONF_FILE"}
    found["vnodes"] = {name: of_vnode(vnode) for name, vnode in event.vnode_list.items()}
    with open(config["log"], "a") as file:
        file.write(json.dumps(found) + "\n")
    pbs.logmsg(pbs.LOG_DEBUG, f"recorded {kinds[event.type]}")
    word, _space, rest = config["do"].get(f"{kinds[event.type]}@{host}", "accept").partition(" ")
    while word == "wait" and not os.path.exists(rest):
        time.sleep(0.1)
    if word == "raise":
        raise ValueError(rest)
    if word in ("delete", "rerun"):
        getattr(event.job, word)()
    if word in ("reject", "delete", "rerun"):
        event.reject(rest)
    event.accept()


if __name__ == "builtins":
    main()
