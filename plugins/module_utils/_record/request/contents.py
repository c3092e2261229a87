# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where contents come from: made here, sent in one bundle, or kept in the record."""

from __future__ import annotations

import tarfile
import typing as t

from ..host.host import CHUNK
from ..model.errors import RecordError


class Contents:
    """Contents by their sha256. The bundle is a tar file whose members are named so."""

    def __init__(self, inline: t.Optional[t.Mapping[str, bytes]] = None, bundle: str = "") -> None:
        self.inline = dict(inline or {})
        self._bundle = bundle
        self._members = self._read_index() if bundle else {}

    def _read_index(self) -> t.Dict[str, tarfile.TarInfo]:
        try:
            with tarfile.open(self._bundle, "r:") as archive:
                return {member.name: member for member in archive if member.isreg()}
        except (OSError, tarfile.TarError) as error:
            raise RecordError(f"bundle {self._bundle}: cannot be read: {error}: run again") from error

    def has(self, sha256: str) -> bool:
        """Return whether a content can be had without asking the controller."""
        return sha256 in self.inline or sha256 in self._members

    def names(self) -> t.List[str]:
        """Return the digests of what the bundle holds."""
        return sorted(self._members)

    def chunks(self, sha256: str) -> t.Iterator[bytes]:
        """Yield a content piece by piece; the caller checks the digest when it writes it."""
        if sha256 in self.inline:
            yield self.inline[sha256]
            return
        if sha256 not in self._members:
            raise RecordError(f"content with sha256 {sha256} was not sent: run again")
        with tarfile.open(self._bundle, "r:") as archive:
            file = archive.extractfile(self._members[sha256])
            while file is not None:
                chunk = file.read(CHUNK)
                if not chunk:
                    return
                yield chunk
