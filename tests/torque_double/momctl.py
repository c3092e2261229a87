# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`momctl` of the double."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from torque_double.state import mom_runs, opened


def control(host: str, _home: str, folder: str, arguments: list[str]) -> int:
    """Do `-q clearmsg`, `-s`, which ends the MoM, or what of `-d 3` lists the hosts that the MoM trusts."""
    with opened(Path(folder)) as state:
        if not mom_runs(state, host):
            print("mom: could not connect to local mom", file=sys.stderr)
            return 1
        if arguments[:1] == ["-s"]:
            os.kill(int((Path(state.homes[host]) / "mom_priv/mom.lock").read_text()), signal.SIGKILL)
            print(f"mom {host}: shutdown request successful on {host}")
        elif arguments[:2] == ["-q", "clearmsg"]:
            state.messages.pop(host, None)
            print(f"mom {host}:  clearmsg = 'messages cleared'")
        elif arguments == ["-d", "3"]:
            print("Trusted Client List:  " + ",".join(f"{each}:15003" for each in state.homes))
        else:
            print(f"momctl of the double does not know {arguments}", file=sys.stderr)
            return 1
    return 0
