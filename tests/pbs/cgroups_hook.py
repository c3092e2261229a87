# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hook that makes a job's cpuset as pbs_cgroups of OpenPBS does, wherever its configuration says.

`{"mount_path": "/sys/fs/cgroup/cpuset"}`: there it keeps `pbs_jobs.service/jobid/ID`, with cores that no other job has.
It takes a plain folder for a cgroup hierarchy too, so that it can be tested where the real one may not be written.
"""

import contextlib
import json
import os
import re

import pbs


def cores(text):
    """The numbers of `0-1,4`."""
    bounds = [part.partition("-") for part in text.strip().split(",") if part]
    return {core for low, _dash, high in bounds for core in range(int(low), int(high or low) + 1)}


def read(path, otherwise=""):
    try:
        with open(path) as stream:
            return stream.read().strip()
    except FileNotFoundError:
        return otherwise


def write(path, text):
    with open(path, "w") as stream:
        stream.write(text)


def begin(job, folder, mount):
    everything = cores(read(os.path.join(mount, "cpuset.cpus"), f"0-{os.cpu_count() - 1}"))
    parts = [os.path.join(folder, name) for name in os.listdir(folder) if os.path.isdir(os.path.join(folder, name))]
    taken = set().union(*(cores(read(os.path.join(part, "cpuset.cpus"))) for part in parts))
    host = pbs.get_local_nodename()
    mine = re.compile(re.escape(host) + r"(\[\d+\])?\Z")
    wanted = sum(int(c.chunk_resources["ncpus"] or 0) for c in job.exec_vnode.chunks if mine.match(c.vnode_name))
    chosen = sorted(everything - taken)[:wanted]
    if len(chosen) < wanted:
        pbs.event().reject(f"{len(chosen)} cores are left of {wanted}")
    path = os.path.join(folder, str(job.id))
    os.makedirs(path, exist_ok=True)
    mems = read(os.path.join(mount, "cpuset.mems")) or read(os.path.join(mount, "cpuset.mems.effective"), "0")
    write(os.path.join(path, "cpuset.mems"), mems)
    write(os.path.join(path, "cpuset.cpus"), ",".join(map(str, chosen)))


def end(job, folder):
    path = os.path.join(folder, str(job.id))
    if os.path.isdir(path):
        for name in os.listdir(path):
            with contextlib.suppress(OSError):  # of a real cgroup the files go with it
                os.unlink(os.path.join(path, name))
        os.rmdir(path)


def main():
    event = pbs.event()
    with open(pbs.hook_config_filename) as stream:
        mount = json.load(stream)["mount_path"]
    folder = os.path.join(mount, "pbs_jobs.service", "jobid")
    os.makedirs(folder, exist_ok=True)
    if os.path.exists(os.path.join(mount, "cgroup.controllers")):  # cgroup v2 hands a controller down
        for parent in (mount, os.path.dirname(folder), folder):
            write(os.path.join(parent, "cgroup.subtree_control"), "+cpuset")
    for made in (os.path.dirname(folder), folder):
        for name in ("cpuset.cpus", "cpuset.mems"):
            if os.path.exists(os.path.join(mount, name)):
                write(os.path.join(made, name), read(os.path.join(mount, name)))
    if event.type == pbs.EXECJOB_BEGIN:
        begin(event.job, folder, mount)
    elif event.type in (pbs.EXECJOB_END, pbs.EXECJOB_ABORT):
        end(event.job, folder)
    event.accept()


if __name__ == "builtins":
    main()
