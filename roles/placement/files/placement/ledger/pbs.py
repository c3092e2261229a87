# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PBS: what is asked of it, as argv lists.

Exact return codes: an id on standard output with status 0 is a job, any other status is a refusal in PBS's words, and
no answer is no answer. What became of it the next read says.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from placement.ledger.command import Answer, CommandError, run
from placement.ledger.identity import Identities, Identity, IdentityError
from placement.ledger.pbs_answers import HOLDER, PREFIX, VARIABLE, AnswerError, read_down, read_jobs
from placement.model.batch import BatchJob, Chunk
from placement.model.messages.action import Release, Submit

_ID: Final = re.compile(r"\d+\.[A-Za-z0-9_.-]+", re.ASCII)
_TAG: Final = re.compile(r"[0-9a-f]{8}_[A-Za-z0-9-]{1,64}", re.ASCII)
_WORD: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}", re.ASCII)
_RESOURCE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}", re.ASCII)
_NAMESPACE: Final = re.compile(r"[a-z0-9-]{1,63}", re.ASCII)
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9.-]", re.ASCII)
_HOST: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}", re.ASCII)
_LONGEST_NAME: Final = 230
# qdel: unknown id, wrong state (it is ending), and already finished.
_NO_MORE: Final = frozenset({153, 168, 35})


class PbsError(Exception):
    """PBS did not do it, or did not say; the message is fit for a condition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a site's PBS is spoken to."""

    bin_dir: str
    identities: Identities
    # Our own user: jobs of others are never ours.
    owner: str
    place: str = "free"
    # What each node must be besides, whatever the pods want of it.
    chunk: tuple[tuple[str, str], ...] = ()
    # Seconds that a job has beyond what its pods may take.
    grace: float = 60.0
    timeout: float = 20.0
    # A submission has to end before another daemon may think that it leads.
    submit_timeout: float = 5.0
    # Stands before commands of another user, whose name follows.
    sudo: tuple[str, ...] = ("/usr/bin/sudo", "-n", "-u")
    run: Callable[..., Answer] = field(default=run)


class Pbs:
    """One server, through its programs."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms

    def jobs(self) -> tuple[BatchJob, ...]:
        """All jobs that have not ended, by one command."""
        # With the server down it prints valid JSON, too.
        answer = self._ask("qstat", "-t", "-f", "-F", "json")
        if answer.status != 0:
            raise PbsError(f"qstat: exit status {answer.status}: {answer.reason[:200]}")
        try:
            return read_jobs(answer.out, owner=self._terms.owner, queue=self._terms.identities.queue_of_users)
        except AnswerError as error:
            raise PbsError(str(error)) from None

    def submit(self, action: Submit) -> str:
        """Submit the job and return its id."""
        identity = self._identity(action)
        words = self.words(action, identity)
        answer = self._ask("qsub", *words, user=identity.user, timeout=self._terms.submit_timeout)
        said = answer.out.strip()
        if answer.status != 0:
            raise PbsError(f"qsub: exit status {answer.status}: {answer.reason[:200]}")
        if not _ID.fullmatch(said):
            raise PbsError(f"qsub: no id of a job but {said[:60]!a}")
        return said

    def release(self, action: Release) -> None:
        """Has a job end; one that has ended is as well."""
        if not _ID.fullmatch(action.name):
            raise PbsError(f"qdel: {action.name[:60]!a} is no id of a job")
        try:
            self._terms.identities.check_user(action.user)
        except IdentityError as error:
            raise PbsError(str(error)) from None
        answer = self._ask("qdel", *(("-W", "force") if action.force else ()), action.name, user=action.user)
        if answer.status not in (0, *_NO_MORE):
            raise PbsError(f"qdel: exit status {answer.status}: {answer.reason[:200]}")

    def down(self, hosts: Sequence[str]) -> frozenset[str]:
        """Return those of the hosts that are certainly down. A host of which nothing is said is not among them."""
        asked = [host for host in hosts if _HOST.fullmatch(host)]
        if not asked:
            return frozenset()
        # The status tells of hosts that are not known; the others are answered all the same.
        answer = self._ask("pbsnodes", "-F", "json", *asked)
        try:
            return read_down(answer.out) & frozenset(asked)
        except AnswerError as error:
            raise PbsError(f"{error}: exit status {answer.status}: {answer.reason[:200]}") from None

    def words(self, action: Submit, identity: Identity) -> list[str]:
        """Return the arguments of qsub. Only numbers and sanitized names come from a pod."""
        tag = f"{action.mark}_{action.uid}"
        if not _TAG.fullmatch(tag):
            raise PbsError(f"UID {action.uid[:60]!a} under mark {action.mark[:20]!a} cannot be the tag of a job")
        if not _NAMESPACE.fullmatch(action.namespace):
            raise PbsError(f"namespace {action.namespace[:70]!a} cannot be in the tag of a job")
        found = ["-N", name_of(action.name), "-v", f"{VARIABLE}={PREFIX}{tag}_{action.namespace}_"]
        found += ["-q", identity.queue]
        found += ["-A", identity.account] if identity.account else []
        found += ["-P", identity.project] if identity.project else []
        found += ["-l", f"select={select(action.chunks, self._terms.chunk)}", "-l", f"place={self._terms.place}"]
        if action.walltime is not None:
            found += ["-l", f"walltime={action.walltime + int(self._terms.grace)}"]
        # There is no output. A path on our own host would have MoM copy it here, which takes long where it cannot.
        return [*found, "-j", "oe", "-o", "localhost:/dev/null", "-m", "n", "--", *HOLDER]

    def _identity(self, action: Submit) -> Identity:
        try:
            return self._terms.identities.of(action.namespace, dict(action.namespace_labels), action.queue)
        except IdentityError as error:
            raise PbsError(str(error)) from None

    def _ask(self, program: str, *words: str, user: str = "", timeout: float | None = None) -> Answer:
        program = str(PurePosixPath(self._terms.bin_dir) / program)
        argv = [*([*self._terms.sudo, user, "--"] if user else []), program, *words]
        try:
            return self._terms.run(argv, timeout=timeout or self._terms.timeout)
        except CommandError as error:
            raise PbsError(str(error)) from None


def name_of(name: str) -> str:
    """Return the name of the job of a pod or group: its own name, as far as PBS takes it.

    PBS takes 230 characters, of which the first is a letter.
    """
    found = _FOREIGN.sub("-", name)
    return (found if found[:1].isalpha() else f"p{found}")[:_LONGEST_NAME]


def select(chunks: tuple[Chunk, ...], always: tuple[tuple[str, str], ...] = ()) -> str:
    """`1:ncpus=2+4:ncpus=1:mem=1024kb:host=n1`; a value that could end a chunk or begin another is refused."""
    return "+".join(":".join(_chunk(chunk, always)) for chunk in chunks)


def _chunk(chunk: Chunk, always: tuple[tuple[str, str], ...]) -> list[str]:
    words = [str(chunk.count), f"ncpus={chunk.cores}"]
    words += [f"mem={chunk.memory}kb"] if chunk.memory else []
    words += [f"{_checked(_RESOURCE, name)}={amount}" for name, amount in chunk.devices]
    words += [
        f"{_checked(_RESOURCE, name)}={_checked(_WORD, value)}"
        for name, value in {**dict(chunk.properties), **dict(always)}.items()
    ]
    return words


def _checked(pattern: re.Pattern[str], text: str) -> str:
    if not pattern.fullmatch(text):
        raise PbsError(f"{text[:60]!a} cannot be said in a select statement")
    return text


def read_properties(text: str) -> tuple[tuple[str, str], ...]:
    """`converged=True, rack=7`: resources of PBS, and what a node must have of each."""
    return _pairs(
        text, "RESOURCE=VALUE", lambda name, value: bool(_RESOURCE.fullmatch(name) and _WORD.fullmatch(value))
    )


def read_names(text: str) -> Mapping[str, str]:
    """`nvidia.com/gpu=ngpus, example.com/fpga=nfpgas`: names of Kubernetes, and PBS's for the same."""
    return dict(_pairs(text, "NAME=RESOURCE", lambda name, resource: bool(name and _RESOURCE.fullmatch(resource))))


def _pairs(text: str, form: str, is_good: Callable[[str, str], bool]) -> tuple[tuple[str, str], ...]:
    words = [part.strip() for part in text.split(",") if part.strip()]
    found = [(word, *word.partition("=")[::2]) for word in words]
    bad = next((word for word, name, value in found if not is_good(name, value)), None)
    if bad is not None:
        raise ValueError(f"{bad!r}: expected {form}, separated by commas")
    return tuple((name, value) for _word, name, value in found)
