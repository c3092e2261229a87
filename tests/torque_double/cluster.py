# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster as tests see it, whatever is behind it: a folder of programs, a server and two execution hosts."""

from __future__ import annotations

import os

from pbs_double.cluster import CALLER, Answer, Cluster, until

SERVER, *HOSTS = os.environ.get("TORQUE_DOUBLE_HOSTS", "tq-srv tq-n1 tq-n2").split()
CORES = int(os.environ.get("TORQUE_DOUBLE_CORES", "4"))
PROGRAMS = (
    *("qsub", "qstat", "qdel", "qhold", "qrls", "qsig", "qrerun", "qalter"),
    *("qmgr", "pbsnodes"),
)
SERVER_PROGRAMS = ("qterm", "pbs_server")
# Tests do not wait for the 45 seconds after which a MoM tells its status anew.
OFTEN = "$status_update_time 3"
# Users of the tests, with the numbers by which scripts see them: of no other account, with no rights.
USERS = {"alice": 61101, "bob": 61102}

__all__ = [
    "CALLER",
    "CORES",
    "HOSTS",
    "OFTEN",
    "PROGRAMS",
    "SERVER",
    "SERVER_PROGRAMS",
    "USERS",
    "Answer",
    "Cluster",
    "until",
]
