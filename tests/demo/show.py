# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo, step by step: a running Slurm cluster is converted, shared by hand-over, and taken back.

It drives the test bed and the collection by their command lines, so that a newcomer can type every line that it shows.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.site_of import ConvertedSite
from e2e.whole_site import differences, look
from testbed import api
from testbed.controlplane import kubeconfig
from testbed.errors import BedError, UsageError
from testbed.kube_api import Api
from testbed.layout import check_name
from testbed.paths import cache_dir

from demo import live, said, workload
from demo.evidence import WORKERS_REPLACED, Played, draw
from demo.handover import RecordError
from demo.hands import DemoError, Hosts, Playbooks, Report, bed_command, exists, write_inventory
from demo.intervals import SHARED
from demo.slurm_record import host_names

BED = "demo"
NODES = ("n1", "n2", "n3")
HOSTS = ("ctl", *NODES)
# It takes two of the nodes: what has to leave them has one to go to.
JOB = ("srun", "-N2", "sleep", "20")
EVERYWHERE = ("srun", f"-N{len(NODES)}", "hostname")
# The playbooks of README's first example, in its order: what the demo runs.
PROMISED = ("site --check --diff", "site", "site", "status", "verify", "off", "on", "restore")
LINGER = 5
"""Seconds that a node stays with Slurm after its last job; a site with many short jobs wants more."""
DEADLINE = 10
"""Seconds that a job waits for pods which do not leave, as on a node that is switched off; a site gives them more."""
SHOWN_NAMES = 10
READY_SECONDS, SHOWN_SECONDS = 300.0, 300.0

NEXT = """The bed '{bed}' is up, and is a plain Slurm cluster again. Begin with: sh tests/bootstrap/enter.sh exec bash
  python -m testbed status {bed}
  ansible-playbook -i {folder}/hosts.yml converged.hpc.site       # converged.hpc.restore is the way back
  python -m testbed exec {bed} kube -- kubectl get nodes,pods -o wide
  python -m testbed exec {bed} ctl -- srun -N2 sleep 20
  python -m testbed exec {bed} ctl -- journalctl -u converged-controller
  python -m testbed exec {bed} n1 -- nodeshare show
  python -m testbed down {bed}"""


def main(arguments: Sequence[str], *, kind: type[Show] | None = None) -> int:
    """Shows everything and takes the bed down again; 0 when all of it worked."""
    parser = argparse.ArgumentParser(
        prog="demo",
        description="The main job, seen working.",
        epilog="examples:\n  make demo\n  make demo KEEP=1    # leaves the cluster up and says what to try next",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--keep", action="store_true", help="leave the test bed up")
    parser.add_argument("--name", default=BED, help="the test bed's name (default: %(default)s)")
    options = parser.parse_args(arguments)
    try:
        check_name(options.name)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    report = Report()
    folder = cache_dir() / "demo" / options.name
    try:
        page = (kind or Show)(options.name, folder, report).run()
    except (DemoError, BedError, RecordError) as error:
        bed_command("logs", options.name, check=False)
        print(f"\nerror: {error}", file=sys.stderr)
        take_down(options.name, keep=options.keep)
        return 1
    except KeyboardInterrupt:
        take_down(options.name, keep=options.keep)
        return 130
    down = take_down(options.name, keep=options.keep, report=report)
    print(f"\n{report.table()}\n\nWho had which node when: {page}")
    print(NEXT.format(bed=options.name, folder=folder) if options.keep else "make demo KEEP=1 leaves the cluster up.")
    return 0 if down else 1


def take_down(bed: str, *, keep: bool, report: Report | None = None) -> bool:
    """Removes the bed unless it is to be kept."""
    if keep:
        return True
    with (report or Report()).step("Take the test bed down", short="down") as result:
        gone = bed_command("down", bed, check=False)
        result.append("nothing left" if gone else "see above")
    return gone


@dataclass(frozen=True, slots=True)
class Before:
    """The cluster as it was before the demo, and the site through which it is compared at the end."""

    site: ConvertedSite
    everything: dict[str, dict[str, object]]
    slurm: dict[str, str]


class Show:
    """The steps, and what one leaves for the next."""

    deadline = DEADLINE

    def __init__(self, bed: str, folder: Path, report: Report) -> None:
        self.bed, self.folder, self.report = bed, folder, report
        self.hosts, self.playbooks = Hosts(bed), Playbooks(folder)

    def run(self) -> Path:
        """All steps in order; the path of the page that tells them."""
        site = self.cluster()
        before = Before(site, look(site), self.slurm_conf())
        self.plan(before)
        self.convert()
        self.pods()
        self.driver()
        job = self.handover()
        self.collect()
        self.day()
        self.restore(before)
        self.readme()
        with self.report.step("Draw who had which node when", short="draw") as result:
            page, findings = draw(
                self.bed, self.folder, job=job, nodes=NODES, steps=self.report.rows, played=self.played()
            )
            for one in findings:
                print(f"    {one.what}: {one.value}")
            result.append("from the logs of Slurm and the API server")
        return page

    def cluster(self) -> ConvertedSite:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        if exists(self.bed):
            with self.report.step(f"Take the bed '{self.bed}' of an earlier demo down", short="down", is_setup=True):
                bed_command("down", self.bed)
        title = "A Slurm cluster with a site's configuration"
        with self.report.step(title, short="cluster up", is_setup=True) as result:
            bed_command("up", "--name", self.bed, "--nodes", str(len(NODES)))
            result.append(f"{len(NODES)} nodes, ctl; beside it a Kubernetes control plane without nodes")
        site = ConvertedSite(api.find(self.bed), self.folder)
        site.set("all", node_share_linger=LINGER, node_share_controller_deadline=self.deadline)
        site.set("all", converged_verify_image=workload.IMAGE, converged_verify_command=["sleep", "100000"])
        write_inventory(self.folder, site.hosts)
        with self.report.step("Slurm runs a job, as it always has", short="job") as result:
            names = sorted(self.hosts.on("ctl", *EVERYWHERE).split())
            if tuple(names) != NODES:
                said_all = " ".join(names) or "nothing"
                raise DemoError(f"{' '.join(EVERYWHERE)} printed {said_all}, not {' '.join(NODES)}.")
            result.append(" ".join(names))
        return site

    def played(self) -> Played:
        """Return what ran as pods when the job took its nodes."""
        return WORKERS_REPLACED

    def watcher(self) -> Watcher:
        """Return what says when the job has ended and pods are back."""
        return Watcher(self.bed)

    def plan(self, before: Before) -> None:
        with self.report.step("The plan: what would be changed where; nothing is touched", short="plan") as result:
            text = self.playbooks.run("site", "--check", "--diff")
            print("\n".join([*said.verdicts(text), *said.plan(text)]), flush=True)
            result.append(changes(text))
            self.compare(before)

    def convert(self) -> None:
        with self.report.step("Convert one node, the canary, and then the rest", short="convert") as result:
            result.append(changes(self.playbooks.run("site")))
            result.append(changes(self.playbooks.run("site")))
            self.hosts.kubectl("get", "nodes")
        with self.report.step("Once more: nothing is left to change", short="again") as result:
            # Beside what README shows.
            text = Playbooks(self.folder).run("site", "--diff")
            if any(changed for changed, _failed in said.recap(text).values()):
                raise DemoError(f"a second run of site has changed something: {changes(text)}.")
            result.append("no changes")

    def pods(self) -> None:
        with self.report.step("A Deployment spreads over all nodes", short="pods") as result:
            self.hosts.kubectl("apply", "-f", "-", text=workload.manifest(workload.deployment()))
            self.hosts.kubectl("rollout", "status", f"deployment/{workload.WEB}", f"--timeout={READY_SECONDS:.0f}s")
            shown = self.hosts.kubectl("get", "pods", "-o", "wide")
            counts = [sum(f" {node} " in line for line in shown.splitlines()) for node in NODES]
            if min(counts) == 0:
                raise DemoError(
                    f"of the Deployment's pods {counts} are on {' '.join(NODES)}; some were expected on each."
                )
            result.append(", ".join(f"{count} on {node}" for count, node in zip(counts, NODES, strict=True)))

    def driver(self) -> None:
        """Start the driver, and return when all its workers are at work on all nodes."""
        with self.report.step("A driver has its workers started on all nodes", short="driver") as result:
            server = json.loads((self.folder / "hosts.yml").read_text())["all"]["vars"]["converged_api_server"]
            self.hosts.kubectl("apply", "-f", "-", text=workload.manifest(*workload.driver(server, prefers=NODES[-1])))
            watcher = Watcher(self.bed)
            if not live.watch(watcher.workers, most=READY_SECONDS):
                raise DemoError(f"not all workers ran on all nodes after {READY_SECONDS:.0f} s.")
            result.append(f"{workload.WORKERS} workers")

    def handover(self) -> str:
        """Run the batch job beside the driver; return the job's number."""
        with self.report.step(
            f"Meanwhile a batch job takes two nodes and gives them back: {' '.join(JOB)}", short="hand-over"
        ) as result:
            print(f"ctl# {' '.join(JOB)}", flush=True)
            watcher = self.watcher()
            argv = [sys.executable, "-m", "testbed", "exec", self.bed, "ctl", "--", *JOB]
            with subprocess.Popen(argv, stdin=subprocess.DEVNULL) as srun:
                back = live.watch(lambda passed: watcher.show(passed, running=srun.poll() is None), most=SHOWN_SECONDS)
                if not back:
                    srun.kill()
            if srun.returncode != 0:
                raise DemoError(f"srun ended with status {srun.returncode}.")
            if not back:
                raise DemoError(f"the nodes and their pods were not back after {SHOWN_SECONDS:.0f} s.")
            result.append(f"job {watcher.job} succeeded; pods are back")
            return watcher.job

    def collect(self) -> None:
        """Hold the driver's answer against the right one. That workers were replaced is read from the records later."""
        with self.report.step("The driver collects what its workers found", short="collect") as result:
            timeout = f"--timeout={READY_SECONDS:.0f}s"
            try:
                self.hosts.kubectl("wait", "--for=condition=complete", "jobs.batch/driver", timeout)
            finally:
                log = self.hosts.kubectl("logs", "jobs.batch/driver")
            if not log.rstrip().endswith(f" {workload.TOTAL}"):
                raise DemoError(f"the driver's last line does not say {workload.TOTAL}.")
            self.hosts.kubectl("wait", "--for=delete", "pod", "-l", f"app={workload.WORKER}", timeout)
            result.append(f"succeeded: sum {workload.TOTAL}")

    def day(self) -> None:
        with self.report.step(
            "Who has each node, and the proof with a real pod and a real job", short="verify"
        ) as result:
            self.playbooks.run("status")
            self.playbooks.run("verify")
            result.append("proved")
        with self.report.step(
            "In an emergency: batch only, at once, without the API; and back", short="off, on"
        ) as result:
            self.playbooks.run("off")
            result.append(" ".join(sorted(self.hosts.on("ctl", *EVERYWHERE).split())))
            self.playbooks.run("on")

    def restore(self, before: Before) -> None:
        with self.report.step("Put everything back, and prove it", short="restore") as result:
            text = self.playbooks.run("restore")
            print("\n".join(said.proofs(text)), flush=True)
            self.compare(before)
            names = self.hosts.on("ctl", *EVERYWHERE).split()
            result.append(f"{' '.join(HOSTS)} as before; a job runs on {' '.join(sorted(names))}")

    def compare(self, before: Before) -> None:
        """Every file, unit, link and packet filter of every host, Slurm's settings and the API: all as before."""
        found = differences(before.everything, look(before.site))
        odd = [f"{name} of {host}" for host, names in found.items() for name in names]
        after = self.slurm_conf()
        odd += [f"/etc/slurm of {host}" for host in HOSTS if after[host] != before.slurm[host]]
        if odd:
            raise DemoError(f"not as before: {', '.join(odd[:SHOWN_NAMES])} ({len(odd)} in all).")

    def readme(self) -> None:
        """Compare what was run with README's first example, which a unit test holds against PROMISED."""
        if list(PROMISED) != self.playbooks.ran:
            raise DemoError(f"README.md promises {', '.join(PROMISED)}; run were {', '.join(self.playbooks.ran)}.")

    def slurm_conf(self) -> dict[str, str]:
        """All of Slurm's configuration on each host, byte by byte."""
        words = ("sh", "-c", "find /etc/slurm -printf '%M %u %g %p\\n' -type f -exec sha256sum {} + | sort")
        return {host: self.hosts.on(host, *words, quiet=True) for host in HOSTS}


class Watcher:
    """Asks Slurm and Kubernetes who has which node, once a second."""

    def __init__(self, bed: str) -> None:
        self.running = api.find(bed)
        self.api = Api.from_kubeconfig(kubeconfig(self.running.bed))
        self.job = ""
        self.since = time.monotonic()

    def workers(self, passed: float) -> tuple[str, bool]:
        """Return a line on all nodes, and whether all workers run, some on each node."""
        nodes, pods = self.api.items("/api/v1/nodes"), self.api.items("/api/v1/namespaces/default/pods")
        places = [pod["spec"]["nodeName"] for pod in pods if is_ready(pod, of=workload.WORKER)]
        text = live.line(passed, NODES, nodes=nodes, pods=pods, jobs={})
        return text, len(places) == workload.WORKERS and set(places) == set(NODES)

    def show(self, passed: float, *, running: bool) -> tuple[str, bool]:
        """Return a line on all nodes, and whether the batch job has ended and the Deployment is whole again."""
        nodes, pods = self.api.items("/api/v1/nodes"), self.api.items("/api/v1/namespaces/default/pods")
        jobs: dict[str, list[str]] = {}
        for row in self.running.ssh("ctl", ["squeue", "-h", "-t", "R,CF", "-o", "%i %N"]).out.splitlines():
            number, _space, names = row.partition(" ")
            self.job = number
            for name in host_names(names):
                jobs.setdefault(name, []).append(number)
        text = live.line(passed, NODES, nodes=nodes, pods=pods, jobs=jobs)
        ready = [pod for pod in pods if is_ready(pod, of=workload.WEB)]
        open_again = all(live.owner(node) == SHARED for node in nodes)
        return text, not running and bool(self.job) and open_again and len(ready) == workload.REPLICAS


def is_ready(pod: dict[str, Any], *, of: str) -> bool:
    """Return whether a pod of this app runs, and is not about to leave."""
    conditions = pod.get("status", {}).get("conditions", ())
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    ready = ready and pod["metadata"].get("labels", {}).get("app") == of
    return ready and "deletionTimestamp" not in pod["metadata"]


def changes(text: str) -> str:
    """`ctl 7, n1 10, n2 8 changes`."""
    rows = said.recap(text)
    return ", ".join(f"{host} {changed}" for host, (changed, _failed) in sorted(rows.items()) if changed) + " changes"
