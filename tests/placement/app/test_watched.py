# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings that change while the daemon runs are taken once they are good, whichever of their files was mended."""

from pathlib import Path

import pytest
from placement.app.settings.settings import Settings, SettingsError, read_settings
from placement.app.settings.settings_watch import WatchedSettings

GOOD = 'actions: "{}"\ntiers:\n- plugins:\n  - name: gang\n'
BAD = 'actions: "alocate"\n'


class Files:
    """A folder with settings that name a policy; each change has a time of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.write("a.yml", GOOD.format("allocate"))
        self.name_policy("a.yml")
        self.watched = WatchedSettings(folder / "settings.yml", read_settings(folder / "settings.yml").policy)

    def write(self, name: str, text: str) -> None:
        # As tools do it: a new file takes the place of the old one.
        (self._folder / "new").write_text(text)
        (self._folder / "new").rename(self._folder / name)

    def name_policy(self, name: str) -> None:
        self.write("settings.yml", f"policy: {name}\n")

    def taken(self) -> tuple[str, ...]:
        """The actions of the settings that are taken."""
        found = self.watched.changed()
        assert isinstance(found, Settings)
        return found.configuration.actions


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_what_has_not_changed_is_not_read_again(files: Files) -> None:
    assert files.watched.changed() is None
    files.write("a.yml", GOOD.format("backfill"))
    assert files.taken() == ("backfill",)
    assert files.watched.changed() is None


def test_another_policy_that_was_refused_is_taken_once_it_is_mended(files: Files) -> None:
    files.write("b.yml", BAD)
    files.name_policy("b.yml")
    with pytest.raises(SettingsError, match="alocate"):
        files.watched.changed()
    assert files.watched.changed() is None
    files.write("b.yml", GOOD.format("backfill"))
    assert files.taken() == ("backfill",)


def test_a_policy_that_is_missing_is_taken_once_it_is_there(files: Files) -> None:
    files.name_policy("b.yml")
    with pytest.raises(SettingsError, match="No such file"):
        files.watched.changed()
    files.write("b.yml", GOOD.format("backfill"))
    assert files.taken() == ("backfill",)


def test_settings_that_were_refused_are_taken_once_they_are_mended(files: Files) -> None:
    files.write("settings.yml", "bindres: 8\n")
    with pytest.raises(SettingsError, match="bindres"):
        files.watched.changed()
    files.write("b.yml", GOOD.format("backfill"))
    files.name_policy("b.yml")
    assert files.taken() == ("backfill",)
    files.write("b.yml", GOOD.format("allocate, backfill"))
    assert files.taken() == ("allocate", "backfill")
