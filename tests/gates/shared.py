# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command: copy the files that several programs share from their one source (`make shared`).

The collection's modules, nodeshare and the placement daemon are deployed apart from each other, so each has a copy of
its own. A unit test compares the copies with the source.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path("plugins/module_utils/_shared")
NODESHARE = Path("roles/node_share/files/nodeshare/shared")
PLACEMENT = Path("roles/placement/files/placement/shared")
# By file, the folders that have a copy. Each file obeys the lowest floor of all: Python 3.6 and its standard library.
COPIES = {
    "hostlist.py": (NODESHARE, PLACEMENT),
    "pbs_json.py": (NODESHARE, PLACEMENT),
    "quantity.py": (NODESHARE, PLACEMENT),
    "slurm_states.py": (NODESHARE,),
    "victims.py": (NODESHARE, PLACEMENT),
}
COMMAND = "make shared"


def differences(checkout: Path) -> Iterator[str]:
    """Yield a line for each copy that is not its source, and for each file that is no copy of anything."""
    for name, folders in COPIES.items():
        wanted = (checkout / SOURCE / name).read_bytes()
        for path in (folder / name for folder in folders):
            if not (checkout / path).is_file() or (checkout / path).read_bytes() != wanted:
                yield f"{path} is not {SOURCE / name}: edit the source, then type: {COMMAND}"
    for folder in (SOURCE, NODESHARE, PLACEMENT):
        for found in sorted((checkout / folder).glob("*.py")):
            known = COPIES.get(found.name, ())
            if found.name != "__init__.py" and not (folder in known or (folder == SOURCE and known)):
                yield f"{folder / found.name} is in no line of COPIES in {Path(__file__).name}"


def copy(checkout: Path) -> list[Path]:
    """Write the copies that differ; return their paths."""
    written = []
    for name, folders in COPIES.items():
        wanted = (checkout / SOURCE / name).read_bytes()
        for path in (folder / name for folder in folders):
            if not (checkout / path).is_file() or (checkout / path).read_bytes() != wanted:
                (checkout / path).write_bytes(wanted)
                written.append(path)
    return written


def main() -> int:
    """Write the copies and name them."""
    written = copy(Path(__file__).resolve().parents[2])
    print("\n".join(f"written: {path}" for path in written) if written else "all copies are as their source")
    return 0


if __name__ == "__main__":
    sys.exit(main())
