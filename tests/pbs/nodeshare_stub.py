# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands for nodeshare on the hosts of a cluster: writes down how it was called, and answers as told.

Its folder has `calls`, and for each host a file with the exit code and the seconds that a begin takes.
"""

import json
import os
import socket
import sys
import time

HOSTS = ("pbs-n1", "pbs-n2")


def main(folder, words):
    # hosts are namespaces of their own, or folders of this machine
    host = next((host for host in HOSTS if host in os.getcwd().split("/")), socket.gethostname())
    with open(os.path.join(folder, "calls"), "a") as stream:
        stream.write(json.dumps([host, words]) + "\n")
    if words[0] != "begin":
        return 0
    with open(os.path.join(folder, host)) as stream:
        code, seconds = stream.read().split()
    time.sleep(float(seconds))
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
