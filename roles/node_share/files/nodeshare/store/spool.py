# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The short way of a storm of tasks to the controller, for a shell that must start no program: names of empty files.

`SOCKET.held` has a file for each node that is tainted and has been emptied. A script that finds its node there puts a
note named JOB.RUN.EVENT.NODE into `SOCKET.jobs`, looks again, and is done if the node is still there. Before a taint is
lifted the node's file goes, and then all notes are read: so a script that has found it there the second time has been
heard.
"""

import contextlib
import os
import re
import shutil
from typing import Callable, List, NamedTuple, Set

_NOTE = re.compile(r"(\d{1,10})\.(\d{1,9})\.(prolog|epilog)\.([A-Za-z0-9][A-Za-z0-9._-]{0,252})", re.ASCII)
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}", re.ASCII)


class Note(NamedTuple):
    """One job on one node, by the batch system's name of it. Notes are sorted by when they were written."""

    at: int
    late: bool  # an Epilog: of two at the same tick it is the later
    name: str
    event: str
    job: str
    run: str
    node: str


class Spool:
    """Two folders beside the socket. `gid` is the group that may leave notes, -1 root alone."""

    def __init__(self, socket: str, *, gid: int, remark: Callable[[str], None]) -> None:
        self.held = socket + ".held"
        self.jobs = socket + ".jobs"
        self.gid = gid
        self.remark = remark
        self.shown: Set[str] = set()
        self.is_open = False

    def open(self) -> None:
        """Open the spool empty: no taint is lifted before all jobs were asked for, so old files mean nothing."""
        self.close()
        os.mkdir(self.held)
        os.chmod(self.held, 0o755)
        os.mkdir(self.jobs, 0o700)
        os.chown(self.jobs, -1, self.gid)
        os.chmod(self.jobs, 0o700 if self.gid < 0 else 0o730)
        self.is_open = True

    def close(self) -> None:
        self.is_open = False
        self.shown.clear()
        for path in (self.held, self.jobs):
            shutil.rmtree(path, ignore_errors=True)

    def show(self, node: str, *, held: bool) -> None:
        """From now on scripts find this node held, or not."""
        if not self.is_open or held == (node in self.shown) or not _NODE.fullmatch(node):
            return
        path = os.path.join(self.held, node)
        try:
            if held:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
                self.shown.add(node)
            else:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
                self.shown.discard(node)  # what could not go is tried again
        except OSError as error:
            self.remark("{}: {}".format(path, error.strerror))

    def read(self) -> List[Note]:
        """In their order. They stay until `remove`; what is none is removed."""
        notes: List[Note] = []
        try:
            with os.scandir(self.jobs) as entries:
                for entry in entries:
                    found = _NOTE.fullmatch(entry.name)
                    if found is None:
                        self.remark("{}: {} is no note of a job".format(self.jobs, ascii(entry.name[:60])))
                        self.remove(entry.name)
                        continue
                    job, run, event, node = found.groups()
                    with contextlib.suppress(FileNotFoundError):  # its script has taken it back, and asks instead
                        at = entry.stat(follow_symlinks=False).st_mtime_ns
                        notes.append(Note(at, event != "prolog", entry.name, event, job, run, node))
        except OSError as error:
            self.remark("{}: {}".format(self.jobs, error.strerror))
        return sorted(notes)

    def remove(self, name: str) -> None:
        try:
            os.unlink(os.path.join(self.jobs, name))
        except OSError as error:
            self.remark("{}: {}".format(self.jobs, error.strerror))
