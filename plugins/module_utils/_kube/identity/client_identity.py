# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gives this host an identity at a cluster: the key is made here and stays here, everything goes through the record.

A key that waits for its certificate lies beside the kubeconfig, so that a run that was killed goes on with it. The
kubeconfig holds its key itself: a renewal replaces both in one rename, and no reader ever sees half of it.

PRIVATE to the collection.
"""

from __future__ import annotations

import hashlib
import os
import time
import typing as t

from ... import _command
from ..._record.model.items import Desired, DirectoryItem, FileItem
from ..._record.request.contents import Contents
from ..._record.request.desired import resolve
from ..._record.run.session import Outcome, Session
from ..certificates import x509
from ..errors import KubeError
from . import client_config as config
from .client_config import Held, Wanted

JSON = t.Dict[str, t.Any]
_QUICK = 30.0
_SUBJECT = "[req]\nprompt = no\ndistinguished_name = subject\nstring_mask = utf8only\n[subject]\n"


class OpenSSL:
    """The program; a key goes in and out by pipes only."""

    def __init__(self, program: str) -> None:
        self._program = program

    def version(self) -> str:
        return self._ask("version")

    def new_key(self) -> str:
        return self._ask("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")

    def public_key(self, key: str) -> bytes:
        return x509.public_key(self._ask("pkey", "-pubout", text=key), name="public key")

    def request(self, key_path: str, identity: x509.Subject) -> str:
        groups = "".join(f"{at}.O = {group}\n" for at, group in enumerate(identity.groups))
        words = ("req", "-new", "-sha256", "-key", key_path, "-config", "/dev/stdin")
        return self._ask(*words, text=f"{_SUBJECT}{groups}CN = {identity.user}\n")

    def _ask(self, *words: str, text: t.Optional[str] = None) -> str:
        try:
            return _command.run([self._program, *words], timeout=_QUICK, text=text).out
        except _command.CommandError as error:
            raise KubeError(f"{error}. Keys are made by openssl on the host that uses them") from error


class Client:
    """One kubeconfig on this host, and the part of the record that it belongs to."""

    def __init__(self, session: Session, *, path: str, role: str, openssl: OpenSSL) -> None:
        self._session, self._path, self._role, self._openssl = session, path, role, openssl

    @property
    def _pending(self) -> str:
        return f"{self._path}.pending-key"

    def keep(self, wanted: Wanted, *, certificate: str, check: bool) -> JSON:
        """Keep a kubeconfig that will do, or return the request for a certificate that it lacks."""
        text = _read(self._path)
        held = config.parse(text) if text is not None else None
        now = time.time()
        reason = config.why_new(held, wanted, key=self._public(held.key) if held else b"", now=now)
        if held is not None and not reason:
            final = held._replace(server=wanted.server, authority=wanted.authority)
            return self._finish(held, final, wanted, check=check)
        pending = _read(self._pending)
        if certificate and not check:
            if pending is None:
                raise KubeError(f"{self._pending}: is gone, and with it the key of the certificate: run again")
            config.accept(certificate, wanted, key=self._openssl.public_key(pending), now=now)
            final = Held(wanted.server, wanted.authority, certificate, pending)
            return self._finish(held, final, wanted, check=False)
        return {**self._ask(text, pending, wanted, check=check), "reason": reason}

    def _ask(self, text: t.Optional[str], pending: t.Optional[str], wanted: Wanted, *, check: bool) -> JSON:
        steps = [f"ask for a certificate for {wanted.identity.user}, and write {self._path}"]
        known = pending is not None and self._public(pending) != b""
        if not known:
            steps.insert(0, f"make a private key for {wanted.identity.user}")
        answer: JSON = {"changed": True, "steps": steps, "csr": "", "diff": []}
        if check:
            self._openssl.version()
            return answer
        # What is there already stays as it is until the certificate has come.
        files = {} if text is None else {self._path: text}
        self._write({**files, self._pending: pending if pending and known else self._openssl.new_key()}, check=False)
        return {**answer, "csr": self._openssl.request(self._pending, wanted.identity)}

    def _finish(self, before: t.Optional[Held], after: Held, wanted: Wanted, *, check: bool) -> JSON:
        outcome = self._write({self._path: config.render(after, wanted.identity)}, check=check)
        shown = [config.summary(held, wanted.identity) for held in (before, after)]
        header = {"before_header": self._path, "after_header": self._path}
        until = x509.read_certificate(after.certificate, name="certificate").not_after
        return {
            "changed": outcome.changed,
            "steps": outcome.steps,
            "csr": "",
            "reason": "",
            "valid_until": config.moment(until),
            "diff": [{**header, "before": shown[0], "after": shown[1]}] if shown[0] != shown[1] else [],
        }

    def _public(self, key: str) -> bytes:
        """Return the public half of a key; empty for what is no key."""
        self._openssl.version()
        try:
            return self._openssl.public_key(key)
        except KubeError:
            return b""

    def _write(self, files: t.Mapping[str, str], *, check: bool) -> Outcome:
        """Write these files and no others: a key that waits no longer goes by the record's own rules."""
        inline = {hashlib.sha256(text.encode()).hexdigest(): text.encode() for text in files.values()}
        items = tuple(
            FileItem(path, hashlib.sha256(text.encode()).hexdigest(), len(text.encode()), mode=0o600, secret=True)
            for path, text in files.items()
        )
        folder = DirectoryItem(os.path.dirname(self._path))
        desired = resolve(self._session.host, Desired(role=self._role, directories=(folder,), files=items))
        return self._session.converge(desired, Contents(inline), check=check)


def _read(path: str) -> t.Optional[str]:
    """Return a file's text; None where there is none, or no text."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
