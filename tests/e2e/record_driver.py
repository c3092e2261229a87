# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs histories on a node without Ansible in between: roles, site edits, restores, and kills at named effects.

Run on the node with the collection's `module_utils` on its path; one JSON document in, one out. Each
run of a role or restore is a process of its own, which kills itself with SIGKILL just before or after the n-th effect
of a name. Effects are the methods of `Host` that change a node, so product code knows nothing of this.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys

from module_utils._record.host.host import Host
from module_utils._record.request import desired
from module_utils._record.request.contents import Contents
from module_utils._record.run.session import Session


class MortalHost(Host):
    """Ends its process at a named effect."""

    def __init__(self, death):
        super().__init__()
        name, nth, when = death
        effect, count = getattr(self, name), itertools.count(1)

        def counted(*args, **kwargs):
            last = next(count) == nth
            if last and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            answer = effect(*args, **kwargs)
            if last:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        setattr(self, name, counted)


def converge(host, arguments):
    inline = {}
    files = []
    for item in arguments.get("files", []):
        data = item["text"].encode()
        sha256 = hashlib.sha256(data).hexdigest()
        inline[sha256] = data
        files.append(dict(item, sha256=sha256, size=len(data)))
    wanted = desired.parse(dict(arguments, files=files), inline=inline)
    outcome = Session(host, wait=5).converge(desired.resolve(host, wanted), Contents(inline))
    return {"changed": outcome.changed, "steps": outcome.steps}


def restore(host, role):
    report = Session(host, wait=5).restore(role)
    return {name: getattr(report, name) for name in ("steps", "proved", "site", "kept", "left")}


def site(argv):
    subprocess.run(argv, check=True, timeout=240, stdout=subprocess.DEVNULL)
    return {}


def in_a_process(action):
    """What an action answers, its error, or its signal."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            host = MortalHost(action["die"]) if action.get("die") else Host()
            if "converge" in action:
                answer = converge(host, action["converge"])
            elif "restore" in action:
                answer = restore(host, action["restore"])
            else:
                answer = site(action["site"])
        except Exception as error:  # noqa: BLE001
            answer = {"error": f"{type(error).__name__}: {error}"}
        with os.fdopen(writer, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    status = os.waitpid(child, 0)[1]
    return json.loads(text) if text else {"killed": os.WTERMSIG(status)}


def main():
    json.dump([in_a_process(action) for action in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
