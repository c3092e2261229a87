# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real nodeshare on a host of a cluster that has no Kubernetes: leases in a folder, and no pod of this machine.

Its folder has a `/proc` and a cgroup hierarchy of its own, so that nothing of the machine is taken for the host's.
"""

import os
import sys

HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(HERE, "roles/node_share/files"))
sys.pycache_prefix = os.path.join(sys.argv[1], "pycache")  # as on a node: no call compiles what another has

from nodeshare.host.real_host import RealHost  # noqa: E402
from nodeshare.model import settings  # noqa: E402
from nodeshare.run import cli  # noqa: E402
from nodeshare.store import settings_file  # noqa: E402


def main(folder, host, words):
    for path, text in (("sys/kernel/random/boot_id", "boot"), ("1/stat", "1 (init) " + "0 " * 30)):
        path = os.path.join(folder, "proc", path)
        if not os.path.exists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            # Another call, of a test or of a script, may read it at any moment.
            with open(f"{path}.{os.getpid()}", "w") as stream:
                stream.write(text)
            os.replace(f"{path}.{os.getpid()}", path)
    chosen = settings.Settings(
        node=host,
        kubeconfig=os.path.join(folder, "no.conf"),
        run_dir=os.path.join(folder, "leases"),
        state_dir=os.path.join(folder, "disk"),
        services=(),
        return_unit="",
        mark_life=1.0,
    )
    settings_file.load = lambda _path: settings.Loaded(chosen)
    proc, cgroup = os.path.join(folder, "proc"), os.path.join(folder, "cgroup")
    return cli.main(words, make_world=lambda given: RealHost(given, proc=proc, cgroup=cgroup))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
