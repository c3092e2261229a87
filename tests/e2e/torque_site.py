# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Torque cluster with scripts of its own, its jobs, and what they leave to pods."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable

from e2e.handover.sharing import Sharing
from e2e.playing import until
from e2e.site_of import IMAGE

NODES = {"n1", "n2"}
USER = "alice"
MOM_PRIV = "/var/spool/torque/mom_priv"
LOG = "/var/lib/site-scripts.log"
PROOF = {
    "converged_verify_image": IMAGE,
    "converged_verify_command": ["sleep", "100000"],
    "converged_verify_user": USER,
}
# What the site's scripts write down: which of them ran as which user, for which job.
SCRIPT = f"""#!/bin/sh
echo "NAME $(id -un) $1" >> {LOG}
echo "welcome to this cluster"
"""
# As sites have them: each with another mode, and one that runs as the user.
SCRIPTS = {"prologue": "0500", "epilogue": "0544", "prologue.parallel": "0700", "prologue.user": "0755"}
HOSTILE = """it's $(touch /tmp/pwned) `touch /tmp/pwned` "x" & <y>"""


class TorqueSite(Sharing):
    """A site with scripts of its own, which no role may lose."""

    def qsub(self, *words: str, script: str = "sleep 900") -> str:
        """The id of a job of an ordinary user that runs by itself."""
        argv = shlex.join(["qsub", "-j", "oe", "-o", "/dev/null", *words])
        return self.ctl(f"cd /; printf %s {shlex.quote(script)} | runuser -u {USER} -- {argv}").strip()

    def job_state(self, job: str) -> str:
        """The letter of a job, "" where the server does not know it."""
        found = re.search(r"<job_state>(\w)<", self.ctl(f"qstat -x {job}", check=False))
        return found[1] if found else ""

    def leases_of(self, node: str) -> set[str]:
        """The jobs that have leases there, whatever their runs are."""
        shown = json.loads(self.node(node, "nodeshare show --json"))
        return {f"{one['wlm']}/{one['job']}" for one in shown["leases"]}

    def ran(self, node: str, job: str) -> list[str]:
        """The site's scripts that ran there for a job, as `NAME USER`."""
        lines = self.node(node, f"cat {LOG} 2>/dev/null; true").splitlines()
        return [line.rpartition(" ")[0] for line in lines if line.endswith(f" {job}")]

    def end(self, job: str, *, nodes: Iterable[str] = NODES) -> None:
        """The job, and all that it had on the nodes that are shared."""
        self.ctl(f"qdel {job}")
        until(lambda: self.job_state(job) == "C", f"{job} has ended")
        for node in nodes:
            until(lambda node=node: f"torque/{job}" not in self.leases_of(node), f"{node} has no lease of {job}")

    def running_pods(self) -> set[str]:
        """Names of pods that run and are not about to go."""
        pods = self.objects("pods").items()
        return {
            name
            for name, pod in pods
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        }

    def prepare(self) -> None:
        """What the cluster has before it is converted, and the settings of this site."""
        # More than a test needs to get as far as to let a pod leave.
        self.set("all", torque_share_timeout=280, torque_share_period=20, node_share_limit=300)
        self.set("all", node_share_controller_period=10)
        for node in NODES:
            for name, mode in SCRIPTS.items():
                path = f"{MOM_PRIV}/{name}"
                self.node(node, f"cat > {path} && chmod {mode} {path}", input=SCRIPT.replace("NAME", name))
            # Scripts of users write there, too.
            self.node(node, f"touch {LOG} && chmod 0666 {LOG}")
        self.end_first_job()

    def end_first_job(self) -> None:
        """A node's first job leaves what stays for good."""
        job = self.qsub("-l", "nodes=2:ppn=1", script="true")
        until(lambda: self.job_state(job) == "C", "the first job has ended")
