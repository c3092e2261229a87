# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real nodeshare on a host of a cluster that has no Kubernetes: leases in a folder, and no pod of this machine.

Its folder has a `/proc` and a cgroup hierarchy of its own, so that nothing of the machine is taken for the host's.
"""

import os
import socket
import sys

HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(HERE, "roles/node_share/files"))
sys.pycache_prefix = os.path.join(sys.argv[1], "pycache")  # as on a node: no call compiles what another has

from nodeshare.host.real_host import RealHost  # noqa: E402
from nodeshare.model import settings  # noqa: E402
from nodeshare.run import cli  # noqa: E402
from nodeshare.store import settings_file  # noqa: E402

HOSTS = ("pbs-n1", "pbs-n2")


def main(folder, words):
    # hooks run below PBS_HOME, and see nothing of the environment
    home = os.environ.get("PBS_HOME") or os.path.dirname(os.path.dirname(os.path.dirname(os.getcwd())))
    host = next((host for host in HOSTS if host in home.split("/")), socket.gethostname())
    state = os.path.join(folder, host)
    path = os.path.join(folder, host + ".qstat")
    chosen = settings.Settings(
        node=host,
        kubeconfig=os.path.join(folder, "no.conf"),
        run_dir=state,
        state_dir=state + ".disk",
        services=(),
        return_unit="",
        mark_life=1.0,
        pbs_home=home,
        qstat=path if os.path.exists(path) else "",
    )
    settings_file.load = lambda _path: settings.Loaded(chosen)
    proc, cgroup = os.path.join(folder, "proc"), os.path.join(folder, "cgroup")
    return cli.main(words, make_world=lambda given: RealHost(given, proc=proc, cgroup=cgroup))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
