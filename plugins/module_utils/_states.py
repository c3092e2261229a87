# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words for states, one vocabulary for all modules: present, absent, drained and restored.

``present`` is there as asked, ``absent`` is gone, and ``drained`` takes no new jobs. In ``restored`` what this
collection has changed is as it was before, and what the site has changed since stays.

PRIVATE to the collection.
"""

from __future__ import annotations

import typing as t

WORDS = ("present", "absent", "drained", "restored", "emptied")
OLDER = {"given_back": "restored", "cleared": "restored", "offline": "drained"}
GONE_IN = "2.0.0"


def settle(module: t.Any, older: t.Optional[t.Mapping[str, str]] = None) -> None:
    """Put today's word for an older one into the option ``state`` of a module, with a warning."""
    word, older = module.params["state"], OLDER if older is None else older
    if word in older:
        text = f"state {word} is called {older[word]} now"
        module.deprecate(text, version=GONE_IN, collection_name="converged.hpc")
        module.params["state"] = older[word]
