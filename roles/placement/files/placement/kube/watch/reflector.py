# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List and watch of one resource: what the API server knows of it, as events, for ever.

A watch goes on from the last version, whatever ended it. Only when the server no longer has that version, everything is
listed again, and what is missing in the list is gone. The signs are 410 as the answer, 410 as an event, or watches that
end at once without a word. Pages and lines are handed on as they come, and a full inbox holds the reading back, so
neither a long list nor a flood of events fills the memory.

Versions only grow, unless etcd is restored from a backup. Then a watch from our version is silent for as long as the
cluster is behind it, and nothing that is known can be trusted. `Backwards` says so, and ends the daemon.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from placement.kube.decode.decoder import Bookmark, Decoder, Page, Reader, WatchFailed, relisted
from placement.kube.transport.backoff import LONGEST_SECONDS, Backoff
from placement.kube.transport.http1 import Answer, Connection, HttpError, NoAnswer, TooLong
from placement.kube.transport.status import forbidden, not_found
from placement.model.messages.event import UNSERVED, Deleted, Event, Object, Relisted, Unreadable, Upserted
from placement.model.messages.refusal import Refusal

PAGE: Final = 500
# A watch may be silent by right, and its peer may be gone: so the server is to end each after this, with a bookmark
# just before. Whoever has not even heard of the end by then listens to nobody.
WATCH_SECONDS: Final = 20
SILENT_SECONDS: Final = WATCH_SECONDS + 5.0
# What the server does not have is in the end looked for as seldom as Kubernetes' own controllers look for new APIs.
ABSENT_SECONDS: Final = 30.0
# A server that is just starting, or one of several behind a proxy, may not serve yet what it will in a moment.
DOUBT_SECONDS: Final = 5.0
# So many watches in a row that end at once and say nothing mean that the version is too old.
_MUTE_WATCHES: Final = 3
_AT_ONCE: Final = 1.0
_GONE: Final = 410
_TOO_MANY: Final = 429
_OK: Final = 200
_NOT_FOUND: Final = 404
# What an API server says, in plain text, of a resource that it does not serve.
_NOT_SERVED: Final = b"404 page not found"
# What it says of a watch from a version that it has not reached.
_AHEAD: Final = b"Too large resource version"
# Resources below it are served by every API server.
_CORE: Final = "/api/v1/"


@dataclass(frozen=True, slots=True)
class Source:
    """One resource of the API: `path` lists it, over all namespaces.

    Several sources may bring objects of one kind (every dialect its PodGroups): these are `shared`, and what is gone
    from one of them is told object by object.
    """

    name: str
    kind: type[Object]
    path: str
    reader: Reader | None = None
    shared: bool = False
    # Whether the daemon does without it where it has no right to read it; it is `shared` then.
    dispensable: bool = False
    # The same objects in an older version, for where this one is not served.
    older: "Source | None" = None

    def versions(self) -> Iterator["Source"]:
        """Yield the source in all of its versions, the newest first."""
        yield self
        if self.older is not None:
            yield from self.older.versions()


@dataclass(slots=True)
class Health:
    """How one source is doing; written by its thread only."""

    synced: bool = False
    # The API does not serve it (yet), or the daemon has no right to read it and does without.
    absent: bool = False
    heard: float = 0.0
    relists: int = 0
    events: int = 0
    failures: int = 0
    error: str = ""


class Relist(Exception):
    """The version we have is of no use any more."""


class Backwards(Exception):
    """The API server is at an older version than one it has told us of: its store was restored from a backup."""

    def __init__(self, source: str, version: int, known: int) -> None:
        super().__init__(
            f"{source}: the API server is at version {version}, and this daemon has seen version {known}: "
            "etcd was restored from a backup; the daemon ends, and must be started again to read everything anew"
        )


class Reflector:
    """Keeps one source in step. `run` is the body of a thread."""

    def __init__(
        self,
        source: Source,
        connection: Connection,
        put: Callable[[list[Event]], None],
        *,
        stop: threading.Event,
        log: Callable[[str, str], None],
        refused: Callable[[Source, Refusal], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.source = source
        self.health = Health()
        self._connection = connection
        # In the version that was listed last.
        self._served = source
        self._decoder = _decoder_of(source)
        self._put = put
        self._stop = stop
        self._log = log
        self._refused = refused
        self._clock = clock
        self._version = 0
        # The newest version of which anything was heard, also before the last list.
        self._newest = 0
        self._mute = 0
        # Whether the current watch has brought anything.
        self._alive = False
        # UIDs and versions of what a shared source has.
        self._known: dict[str, int] = {}
        self._known_in = source
        # Whether the API server does not serve it or only forbids it, and since when.
        self._missed: tuple[bool, float] | None = None

    def run(self) -> None:
        """List, then watch, until everything stops."""
        backoff = Backoff(self._stop)
        while not self._stop.is_set():
            asked, self._alive = 0.0, False
            try:
                if not self._version:
                    self._list()
                self._watch()
                self._alive = True
                asked = -1.0
            except Relist as error:
                self._note(f"list again: {error}")
                self._version = 0
            except HttpError as error:
                if self._is_unserved(error.answer):
                    self._do_without("not served by this API server", gone=True)
                elif self.source.dispensable and forbidden(error.answer):
                    # An API server that is just starting forbids for a moment what it allows later.
                    kept = "with what was read before" if self._known else "without"
                    why = f"not permitted: the role `placement` gives the right; going on {kept}"
                    self._do_without(why, gone=False)
                else:
                    self._missed = None
                    asked = error.answer.retry_after
                    self._note(str(error))
            except NoAnswer as error:
                self._missed = None
                self._note(str(error))
            if self._alive:
                backoff.reset()
            longest = ABSENT_SECONDS if self.health.absent else LONGEST_SECONDS
            if asked >= 0 and not backoff.wait(asked, longest=longest):
                return

    def _list(self) -> None:
        """List all pages, as one event, in the newest version that is served; raise HttpError where none is."""
        for source in self.source.versions():
            try:
                self._list_version(source)
            except HttpError as error:
                if not self._is_unserved(error.answer) or source.older is None:
                    raise
            else:
                return

    def _list_version(self, source: Source) -> None:
        if source is not self._served:
            self._served, self._decoder = source, _decoder_of(source)
        pages: list[Page] = []
        token = ""
        while True:
            query = {"limit": str(PAGE)} | ({"continue": token} if token else {})
            answer = self._connection.request("GET", f"{source.path}?{urlencode(query)}")
            if answer.status == _GONE:
                raise Relist("the list took longer than the server remembers")
            if answer.status != _OK:
                raise HttpError(answer)
            page = self._decoder.decode_page(self.source.kind, answer.body)
            if isinstance(page, WatchFailed):
                raise NoAnswer(f"unreadable list: {page.reason}", sent=True)
            pages.append(page)
            token = page.next_page
            if not token:
                break
        whole = relisted(self.source.kind, pages)
        self._assure_progress(whole.version)
        for refusal in whole.refused:
            self._refused(self._served, refusal)
        self._put(self._replaced(whole) if self.source.shared else [whole])
        self._version = self._newest = whole.version
        self.health.relists += 1
        self.health.absent = False
        self._missed = None
        self._hear(len(whole.items) + len(whole.refused))
        self.health.synced = True

    def _replaced(self, whole: Relisted) -> list[Event]:
        """Compare a list of a shared kind object by object. An object that is listed but unreadable counts as there."""
        kind = self.source.kind
        events: list[Event] = [*map(Upserted, whole.items), *(Unreadable(kind, refusal) for refusal in whole.refused)]
        before, self._known = self._known, {}
        self._remember(events)
        other, self._known_in = self._known_in is not self._served, self._served
        if other:
            # The same objects at the same versions, but by another reader.
            return [*(Deleted(kind, uid, UNSERVED) for uid in before), *events]
        return [*(Deleted(kind, uid, whole.version) for uid in before if uid not in self._known), *events]

    def _assure_progress(self, version: int) -> None:
        if version < self._newest:
            raise Backwards(self.source.name, version, self._newest)

    def _look_at_version(self) -> None:
        """Asks for the server's version: a watch told nothing, not even the bookmark before its end."""
        answer = self._connection.request("GET", f"{self._served.path}?{urlencode({'limit': '1'})}")
        if answer.status != _OK:
            raise HttpError(answer)
        page = self._decoder.decode_page(self.source.kind, answer.body)
        if isinstance(page, WatchFailed):
            raise NoAnswer(f"unreadable list: {page.reason}", sent=True)
        self._assure_progress(page.version)

    def _is_unserved(self, answer: Answer) -> bool:
        """Whether the API server itself says that it has no such resource; a proxy's own 404 says nothing."""
        if answer.status != _NOT_FOUND or self.source.path.startswith(_CORE):
            return False
        return answer.body.strip() == _NOT_SERVED or not_found(answer)

    def _do_without(self, why: str, *, gone: bool) -> None:
        """Go on without news of a resource that cannot be read, if that is still so some seconds later.

        What is not served any more is `gone` with all its objects. What may not be read is as it was, so far as is
        known. Where nothing of it is known, the first is done at once.
        """
        self._version = 0
        now = self._clock()
        if self._missed is None or self._missed[0] is not gone:
            self._missed = gone, now
        if (self._known or not gone) and now - self._missed[1] < DOUBT_SECONDS:
            if self._known:
                self._note("cannot be read any more; what there was is kept until that is certain")
            return
        dropped = self._known if gone else {}
        if dropped:
            # They have not been deleted: when it can be read again, they may be there as they were.
            self._put([Deleted(self.source.kind, uid, UNSERVED) for uid in dropped])
            self._known = {}
        if dropped or not self.health.absent:
            self._log(self.source.name, why)
        self.health.absent = True
        self.health.synced = True

    def _watch(self) -> None:
        begun, before = time.monotonic(), self.health.events
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": str(self._version),
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        try:
            for lines in self._connection.lines(f"{self._served.path}?{urlencode(query)}"):
                self._take(lines)
        except HttpError as error:
            if error.answer.status == _GONE:
                raise Relist("the version is too old") from None
            if _AHEAD in error.answer.body:
                raise Relist("the server has not reached the version") from None
            raise
        except TooLong as error:
            raise Relist(str(error)) from None
        silent = self.health.events == before
        mute = silent and time.monotonic() - begun < _AT_ONCE
        self._mute = self._mute + 1 if mute else 0
        if self._mute >= _MUTE_WATCHES:
            self._mute = 0
            raise Relist("watches end without a word")
        if mute:
            self._stop.wait(_AT_ONCE)
        elif silent:
            self._look_at_version()

    def _take(self, lines: list[bytes]) -> None:
        """Decode lines that came together and hand their events on together."""
        events: list[Event] = []
        failed: WatchFailed | None = None
        version = self._version
        for line in lines:
            if not line:
                continue
            found = self._decoder.decode_watch_event(self.source.kind, line)
            if isinstance(found, WatchFailed):
                failed = found
                break
            if isinstance(found, Bookmark):
                version = max(version, found.version)
                self.health.events += 1
                continue
            if isinstance(found, Unreadable):
                self._refused(self._served, found.refusal)
            events.append(found)
            version = max(version, _version_of(found))
        if events:
            if self.source.shared:
                self._remember(events)
            self._put(events)
        self._alive = self._alive or version > self._version
        self._version = version
        self._newest = max(self._newest, version)
        self._hear(len(events))
        if failed is not None:
            if failed.code == _TOO_MANY:
                raise NoAnswer(f"watch: {failed.reason}", sent=True)
            raise Relist(f"{failed.code}: {failed.reason}")

    def _remember(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Upserted):
                self._known[event.item.uid] = event.item.version
            elif isinstance(event, Deleted):
                self._known.pop(event.uid, None)
            elif isinstance(event, Unreadable) and event.refusal.uid:
                self._known[event.refusal.uid] = event.refusal.version

    def _hear(self, events: int) -> None:
        self.health.events += events
        self.health.heard = time.monotonic()
        self.health.error = ""

    def _note(self, text: str) -> None:
        self.health.failures += 1
        if text != self.health.error:
            self._log(self.source.name, text)
        self.health.error = text


def _decoder_of(source: Source) -> Decoder:
    return Decoder({source.kind: source.reader} if source.reader else None)


def _version_of(event: Event) -> int:
    if isinstance(event, Upserted):
        return event.item.version
    if isinstance(event, Deleted):
        return event.version
    return event.refusal.version if isinstance(event, Unreadable) else 0
