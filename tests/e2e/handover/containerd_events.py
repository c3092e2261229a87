# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on a node: writes every start and end of a task of containerd, with the pod that it belongs to, as JSON lines.

containerd's own times are kept. A task that ends while containerd is stopped leaves no event, so what runs at a moment
is asked of the kernel; what starts is asked of this.
"""

import datetime
import json
import subprocess
import sys

TOPICS = {"/tasks/start": "start", "/tasks/exit": "exit"}


def pod_of(container: str) -> str:
    """Name of the pod, as the bundle tells; empty for a container of nobody."""
    path = f"/run/containerd/io.containerd.runtime.v2.task/k8s.io/{container}/config.json"
    try:
        with open(path, encoding="utf-8") as stream:
            notes = json.load(stream).get("annotations", {})
    except OSError:
        return ""
    return str(notes.get("io.kubernetes.cri.sandbox-name", ""))


def seconds(date: str, clock: str) -> float:
    """containerd writes nanoseconds, and drops zeros at the end."""
    whole, _dot, rest = clock.partition(".")
    moment = datetime.datetime.strptime(f"{date} {whole} +0000", "%Y-%m-%d %H:%M:%S %z")
    return moment.timestamp() + float(f"0.{rest or 0}")


def main(log: str) -> None:
    pods: dict[str, str] = {}
    command = ["ctr", "--namespace", "k8s.io", "events"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as events,
        open(log, "a", encoding="utf-8") as out,
    ):
        assert events.stdout is not None
        for line in events.stdout:
            date, clock, _zone, _name, _namespace, topic, body = line.split(" ", 6)
            what = TOPICS.get(topic)
            if what is None:
                continue
            container = json.loads(body)["container_id"]
            pod = pods.setdefault(container, pod_of(container))
            out.write(json.dumps({"at": seconds(date, clock), "what": what, "container": container, "pod": pod}) + "\n")
            out.flush()


main(sys.argv[1])
