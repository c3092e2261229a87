# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings as files that change while the daemon runs: their own, and that of the policy they name.

The policy that was tried last is watched, in force or not, so that one that was refused is read again when it has been
mended.
"""

from pathlib import Path

from placement.app.settings.settings import Settings, read_settings

_Stamp = tuple[int, int]


class WatchedSettings:
    """Remembers what the files were like when they were read."""

    def __init__(self, path: Path, policy: str) -> None:
        self._path = path
        self._policy = policy
        self._seen = self._look()

    def changed(self) -> Settings | None:
        """Return the settings if a file has changed since the last call. Raise SettingsError if they are invalid."""
        if self._look() == self._seen:
            return None
        while True:
            # Before anything is read: what changes meanwhile is read again the next time.
            self._seen = self._look()
            policy = read_settings(self._path, with_policy=False).policy
            if policy == self._policy:
                return read_settings(self._path)
            self._policy = policy

    def _look(self) -> list[_Stamp]:
        files = [self._path, *([self._path.parent / self._policy] if self._policy else [])]
        return [_stamp(file) for file in files]


def _stamp(file: Path) -> _Stamp:
    try:
        found = file.stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_ino)
