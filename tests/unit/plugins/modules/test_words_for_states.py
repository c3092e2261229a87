# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules share a few words for states; older ones work for one release, with a warning."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.converged.hpc.plugins.module_utils import _states

MODULES = Path(__file__).parents[4] / "plugins/modules"
TAKEN_BACK = {"kube_client_config", "kubelet_config", "singularity_cri_config", "slurm_conf"}


def described() -> dict[str, tuple[list[str], str]]:
    """Return the words of each module's option `state`, and what its documentation says of them."""
    found = {}
    for path in sorted(MODULES.glob("*.py")):
        text = path.read_text(encoding="utf-8").partition('DOCUMENTATION = r"""')[2].partition('"""')[0]
        option = (yaml.safe_load(text).get("options") or {}).get("state")
        if option:
            said = option["description"]
            found[path.stem] = (option["choices"], said if isinstance(said, str) else " ".join(said))
    return found


def test_every_state_is_a_word_of_the_vocabulary_or_is_called_an_older_word() -> None:
    for module, (choices, said) in described().items():
        older = [word for word in choices if word not in _states.WORDS]
        older += ["absent"] if module in TAKEN_BACK else []
        assert "restored" in choices or not older, module
        for word in older:
            assert f"V({word})" in said, (module, word)
            assert "older word" in said, (module, word)


class Asked:
    """A module that was given a state, and its warnings."""

    def __init__(self, state: str) -> None:
        self.params: dict[str, t.Any] = {"state": state}
        self.warnings: list[str] = []

    def deprecate(self, msg: str, **_when: str) -> None:
        self.warnings.append(msg)


@pytest.mark.parametrize(
    ("older", "word"), [("given_back", "restored"), ("cleared", "restored"), ("offline", "drained")]
)
def test_an_older_word_means_the_new_one_and_warns(older: str, word: str) -> None:
    asked = Asked(older)
    _states.settle(asked)
    assert (asked.params["state"], asked.warnings) == (word, [f"state {older} is called {word} now"])


def test_a_word_of_the_vocabulary_stays_without_a_warning() -> None:
    for word in _states.WORDS:
        asked = Asked(word)
        _states.settle(asked)
        assert (asked.params["state"], asked.warnings) == (word, [])


def test_absent_is_an_older_word_only_where_changes_are_taken_back() -> None:
    asked = Asked("absent")
    _states.settle(asked, {"absent": "restored"})
    assert (asked.params["state"], len(asked.warnings)) == ("restored", 1)
