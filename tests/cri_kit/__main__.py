# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m cri_kit fetch` takes the published definitions anew; `write` writes the part that the bridge ships."""

import sys

from cri_kit import definitions

USAGE = "usage: python -m cri_kit {fetch,write}\n"


def main(words: list[str]) -> int:
    """Do what the one word says."""
    if words == ["fetch"]:
        definitions.fetch()
    elif words == ["write"]:
        definitions.WRITTEN.write_text(definitions.wanted(), encoding="utf-8")
    else:
        sys.stderr.write(USAGE)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
