# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says what differs between two listings of a node, but for names that begin with an expression: BEFORE AFTER APART.

A program, because Jinja takes half a minute for the tens of thousands of things on a node.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from e2e.listing import difference


def main(before: str, after: str, apart: str) -> int:
    old, new = (json.loads(Path(path).read_text(encoding="utf-8")) for path in (before, after))
    found = {name: pair for name, pair in difference(old, new).items() if not re.match(apart, name)}
    for name, (was, now) in found.items():
        print(f"{name}: was {was}, is {now}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
