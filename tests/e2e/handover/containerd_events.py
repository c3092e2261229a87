# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on a node: writes every start of a task of containerd, with the pod that it belongs to, as JSON lines.

The lines also say when nothing can be missing. `hears` follows an event that this program has caused itself: the
subscription works, and the lines of containerd are understood. `gone` follows the end of containerd. What started
between the two is found by its bundle, with the time of its creation. A program that dies writes neither line, and
nothing starts it again. `recording.py` judges the lines.
"""

import contextlib
import datetime
import json
import os
import socket
import subprocess
import sys
import time
from typing import TextIO

SOCKET = "/run/containerd/containerd.sock"
BUNDLES = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"
STARTED, LABELLED = "/tasks/start", "/namespaces/update"
CTR = ["ctr", "--namespace", "k8s.io"]
RING = 'while :; do ctr namespaces label k8s.io "e2e-recorder=$$"; sleep 0.1; done'


class Recorder:
    """Writes the lines of one node."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.known: set[str] = set()

    def write(self, what: str, **values: object) -> None:
        self.out.write(json.dumps({"what": what, **values}) + "\n")
        self.out.flush()

    def wait_for_containerd(self) -> None:
        while True:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as peer:
                peer.connect(SOCKET)
                return
            time.sleep(0.02)

    def listen(self) -> None:
        """From the start of containerd to its end."""
        since, heard = os.stat(SOCKET).st_mtime, False
        events = subprocess.Popen([*CTR, "events"], stdout=subprocess.PIPE, text=True)
        ring = subprocess.Popen(["sh", "-c", RING], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for line in events.stdout or ():
                at, topic, body = parse(line)
                if topic == STARTED:
                    self.start(at, json.loads(body)["container_id"], heard=True)
                elif topic == LABELLED and not heard:
                    heard = True
                    ring.kill()
                    self.find()
                    self.write("hears", at=time.time(), since=since)
        finally:
            for process in (ring, events):
                process.kill()
                process.wait()
        if heard:
            self.write("gone", at=time.time())

    def find(self) -> None:
        """What has started unheard."""
        for container in os.listdir(BUNDLES) if os.path.isdir(BUNDLES) else ():
            if container not in self.known:
                with contextlib.suppress(OSError):
                    self.start(os.stat(f"{BUNDLES}/{container}/init.pid").st_mtime, container, heard=False)

    def start(self, at: float, container: str, *, heard: bool) -> None:
        self.known.add(container)
        self.write("start", at=at, container=container, pod=pod_of(container), heard=heard)


def parse(line: str) -> tuple[float, str, str]:
    """Time, topic and body of a line of `ctr events`; its times have nanoseconds and drop zeros at the end."""
    date, clock, _zone, _name, _namespace, topic, body = line.split(" ", 6)
    whole, _dot, rest = clock.partition(".")
    moment = datetime.datetime.strptime(f"{date} {whole} +0000", "%Y-%m-%d %H:%M:%S %z")
    return moment.timestamp() + float(f"0.{rest or 0}"), topic, body


def pod_of(container: str) -> str:
    """Name of the pod, as the bundle tells; empty for a container of no pod."""
    try:
        with open(f"{BUNDLES}/{container}/config.json", encoding="utf-8") as stream:
            notes = json.load(stream).get("annotations", {})
    except OSError:
        return ""
    return str(notes.get("io.kubernetes.cri.sandbox-name", ""))


def main(log: str) -> None:
    with open(log, "a", encoding="utf-8") as out:
        recorder = Recorder(out)
        while True:
            recorder.wait_for_containerd()
            recorder.listen()


main(sys.argv[1])
