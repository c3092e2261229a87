# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The batch system's side of the daemon: one thread reads all jobs, a few submit jobs, end them and ask about hosts.

All jobs are read by one command, at most once a second however many there are, and only by the leader.
"""

import os
import pwd
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, Protocol

from placement.app.loop.loop import Carrying
from placement.app.settings.settings import Settings
from placement.ledger.identity import Identities
from placement.ledger.pbs import Pbs, PbsError, Terms, read_names, read_properties
from placement.model.batch import BackingSettings, BatchJob
from placement.model.messages.action import Action, AskHosts, BatchAction, Release, Submit
from placement.model.messages.event import Event, HostsRead, JobsRead, JobsUnread, SubmitEnded

INTERVAL: Final = 1.0
SUBMITTERS: Final = 4
# A read that is older, and whatever the next one may take, is too old to place anybody by.
_OLD: Final = 60.0
_NAMESPACES: Final = 1 << 12
_PROGRAMS: Final[dict[type[BatchAction], str]] = {Submit: "qsub", Release: "qdel", AskHosts: "pbsnodes"}


class Ledger(Protocol):
    """What is asked of a batch system."""

    def jobs(self) -> tuple[BatchJob, ...]:
        """All that have not ended."""

    def submit(self, action: Submit) -> str:
        """Submit the job and return its id."""

    def release(self, action: Release) -> None:
        """Has a job end."""

    def down(self, hosts: Sequence[str]) -> frozenset[str]:
        """Return those of the hosts that are certainly down."""


def ledger_of(settings: Settings, identities: Identities) -> Ledger | None:
    """Return the batch system that the settings name; None if they name none."""
    if not settings.pbs_bin_dir:
        return None
    margin = settings.lease_duration - settings.renew_deadline
    return Pbs(
        Terms(
            bin_dir=settings.pbs_bin_dir,
            identities=identities,
            owner=pwd.getpwuid(os.geteuid()).pw_name,
            place=settings.pbs_place,
            chunk=read_properties(settings.pbs_chunk),
            grace=settings.pbs_grace_seconds,
            timeout=settings.pbs_timeout,
            submit_timeout=min(settings.pbs_timeout, margin) if settings.leader_election else settings.pbs_timeout,
        )
    )


def identities_of(settings: Settings) -> Identities:
    """Return the identities that jobs are submitted for."""
    return Identities(
        queue=settings.pbs_queue,
        account=settings.pbs_account,
        project=settings.pbs_project,
        user=settings.pbs_user,
        least_uid=settings.pbs_least_uid,
    )


def backing_settings(settings: Settings, identities: Identities) -> BackingSettings:
    """How pods are asked for."""
    return BackingSettings(
        pack=settings.pbs_cores == "pack",
        devices=read_names(settings.pbs_resources),
        labels=read_names(settings.pbs_labels),
        grace=settings.pbs_grace_seconds,
        linger=settings.pbs_linger_seconds,
        lost=settings.pbs_lost_seconds,
        # Asked about every pod that waits, in every cycle.
        whose=lru_cache(_NAMESPACES)(identities.whose),
        make_room=settings.pbs_make_room,
        holds_good=_OLD + settings.pbs_timeout if settings.pbs_bin_dir else None,
    )


class BatchWorker:
    """Carries out what concerns the batch system, and all else by the carrier that it stands before."""

    def __init__(
        self,
        ledger: Ledger | None,
        api: Carrying,
        *,
        put: Callable[[list[Event]], None],
        stop: threading.Event,
        may_write: Callable[[], bool],
        observe: Callable[[str, int, float], None],
        log: Callable[[str, str], None],
    ) -> None:
        self._ledger = ledger
        self._api = api
        self._put = put
        self._stop = stop
        self._may_write = may_write
        self._observe = observe
        self._log = log
        self._work: queue.SimpleQueue[BatchAction] = queue.SimpleQueue()
        # Jobs whose turn to end has not come yet; they are asked for again and again.
        self._queued_releases: set[Release] = set()
        # How many jobs the last good read had, and when it was; what is wrong since, and what was logged last.
        self.jobs = 0
        self.read: float | None = None
        self.trouble = ""
        self._last_logged = ""

    @property
    def binding(self) -> int:
        """Bindings that have not been answered."""
        return self._api.binding

    def carry(self, actions: tuple[Action, ...]) -> None:
        """Begins to carry them out."""
        for action in actions:
            if isinstance(action, BatchAction) and action not in self._queued_releases:
                if isinstance(action, Release):
                    self._queued_releases.add(action)
                self._work.put(action)
        self._api.carry(tuple(action for action in actions if not isinstance(action, BatchAction)))

    def bodies(self) -> Iterable[tuple[str, Callable[[], None]]]:
        """Return names and bodies of its threads, which run until everything stops."""
        if self._ledger is None:
            return
        ledger = self._ledger
        yield "jobs", lambda: self._run_reader(ledger)
        for number in range(SUBMITTERS):
            yield f"submit-{number}", lambda: self._run_submitter(ledger)

    def _run_reader(self, ledger: Ledger) -> None:
        while not self._stop.is_set():
            begun = time.monotonic()
            if self._may_write():
                self._put([self._read(ledger, begun)])
            self._stop.wait(max(0.0, begun + INTERVAL - time.monotonic()))

    def _read(self, ledger: Ledger, begun: float) -> Event:
        try:
            found = ledger.jobs()
        except PbsError as error:
            self._observe("qstat", 1, time.monotonic() - begun)
            self._set_trouble(str(error))
            return JobsUnread(str(error))
        self._observe("qstat", 0, time.monotonic() - begun)
        self.jobs, self.read = len(found), begun
        self._set_trouble("")
        return JobsRead(found, begun)

    def _set_trouble(self, trouble: str) -> None:
        if trouble != self.trouble:
            self._log("pbs", trouble or "the batch system answers again")
        self.trouble = trouble

    def _run_submitter(self, ledger: Ledger) -> None:
        while not self._stop.is_set():
            try:
                action = self._work.get(timeout=INTERVAL)
            except queue.Empty:
                continue
            if isinstance(action, Release):
                self._queued_releases.discard(action)
            event = self._perform(ledger, action)
            if event is not None:
                self._put([event])

    def _perform(self, ledger: Ledger, action: BatchAction) -> Event | None:
        begun, job, trouble = time.monotonic(), "", "the right to write was lost"
        down: frozenset[str] | None = None
        what = _PROGRAMS[type(action)]
        if self._may_write():
            try:
                if isinstance(action, Submit):
                    job = ledger.submit(action)
                elif isinstance(action, Release):
                    ledger.release(action)
                else:
                    down = ledger.down(action.hosts)
                trouble = ""
            except PbsError as error:
                trouble = str(error)
                # What is tried again every few seconds is said once.
                if trouble != self._last_logged:
                    self._log("pbs", trouble)
                self._last_logged = trouble
            self._observe(what, int(bool(trouble)), time.monotonic() - begun)
        if isinstance(action, Submit):
            return SubmitEnded(action.uid, job, trouble, time.monotonic())
        return HostsRead(down, begun) if down is not None else None
