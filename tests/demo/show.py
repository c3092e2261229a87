# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo, step by step: a test bed comes up, Slurm runs a job on two nodes, Kubernetes runs a pod on a third.

It drives the test bed by its command line alone, so that every line it shows can be typed by a newcomer.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from demo.pod import pod, pod_state

BED = "demo"
POD_NODE = "n3"
POD_SECONDS = 60.0
KUBECTL = "kubectl"


class DemoError(Exception):
    """A step did not do what it should; one line."""


@dataclass(slots=True)
class Report:
    """What was shown, and how long each step took."""

    rows: list[tuple[str, str, float]] = field(default_factory=list)

    @contextmanager
    def step(self, what: str) -> Iterator[list[str]]:
        """A titled, timed step; what the body appends is its result in the table."""
        print(f"\n== {what}", flush=True)
        began = time.monotonic()
        result: list[str] = []
        yield result
        self.rows.append((what, " ".join(result), time.monotonic() - began))

    def table(self) -> str:
        """The steps with their results and times."""
        wide = max(len(what) for what, _, _ in self.rows)
        lines = [f"{what:<{wide}}  {seconds:6.1f} s  {result}".rstrip() for what, result, seconds in self.rows]
        total = sum(seconds for _, _, seconds in self.rows)
        return "\n".join([*lines, f"{'together':<{wide}}  {total:6.1f} s"])


def main(arguments: Sequence[str]) -> int:
    """Shows everything and takes the bed down again; 0 when all of it worked."""
    parser = argparse.ArgumentParser(prog="demo", description="The main job, seen working.")
    parser.add_argument("--keep", action="store_true", help="leave the test bed up")
    parser.add_argument("--name", default=BED, help="the test bed's name (default: %(default)s)")
    options = parser.parse_args(arguments)
    report = Report()
    try:
        show(report, bed=options.name)
    except DemoError as error:
        bed_command("logs", options.name, check=False)
        print(f"\nerror: {error}", file=sys.stderr)
        take_down(options.name, keep=options.keep)
        return 1
    except KeyboardInterrupt:
        take_down(options.name, keep=options.keep)
        return 130
    down = take_down(options.name, keep=options.keep, report=report)
    print(f"\n{report.table()}\n")
    print(
        NEXT.format(bed=options.name)
        if options.keep
        else "Everything shown here ran on real parts. make demo KEEP=1 leaves the bed up."
    )
    return 0 if down else 1


NEXT = """The bed '{bed}' is up. Begin with: sh tests/bootstrap/enter.sh exec bash
  python -m testbed status {bed}
  python -m testbed exec {bed} ctl -- sinfo
  python -m testbed exec {bed} kube -- kubectl get nodes -o wide
  python -m testbed inventory {bed} > /tmp/{bed}.yml; ansible-playbook -i /tmp/{bed}.yml converged.hpc.status
  python -m testbed down {bed}"""


def show(report: Report, *, bed: str) -> None:
    """The steps themselves."""
    if exists(bed):
        with report.step(f"Take the bed '{bed}' of an earlier demo down"):
            bed_command("down", bed)
    with report.step("A test bed: Slurm's controller, three nodes, a Kubernetes control plane") as result:
        bed_command("up", "--name", bed, "--nodes", "3")
        result.append("3 nodes, ctl, kube")
    with report.step(f"Make {POD_NODE} a Kubernetes node, and take it from Slurm's hands first") as result:
        on(bed, "ctl", "scontrol", "update", f"nodename={POD_NODE}", "state=drain", "reason=Kubernetes")
        bed_command("join", bed, POD_NODE)
        result.append(node_line(bed))
    with report.step("Slurm runs a job on two nodes: srun -N2 hostname") as result:
        hosts = sorted(on(bed, "ctl", "srun", "-N2", "hostname").split())
        if len(set(hosts)) != 2 or POD_NODE in hosts:
            raise DemoError(
                f"srun -N2 hostname printed {' '.join(hosts) or 'nothing'}; two nodes of Slurm were expected."
            )
        result.append(" ".join(hosts))
    with report.step(f"Kubernetes runs a pod on {POD_NODE}, and this is its log") as result:
        result.append(run_pod(bed))


def exists(bed: str) -> bool:
    """Whether an earlier demo was left up."""
    argv = [sys.executable, "-m", "testbed", "inventory", bed]
    return subprocess.run(argv, capture_output=True, timeout=60, check=False).returncode == 0


def node_line(bed: str) -> str:
    """What Kubernetes says of the node."""
    return " ".join(on(bed, "kube", KUBECTL, "get", "node", POD_NODE, "--no-headers").split()[:2])


def run_pod(bed: str) -> str:
    """The log of a pod that says where it ran."""
    on(bed, "kube", KUBECTL, "apply", "-f", "-", text=json.dumps(pod(POD_NODE)))
    deadline = time.monotonic() + POD_SECONDS
    while (
        state := pod_state(on(bed, "kube", KUBECTL, "get", "pod", "hello", "-o", "json", quiet=True))
    ) != "Succeeded":
        if state == "Failed" or time.monotonic() > deadline:
            raise DemoError(f"the pod is {state} after {POD_SECONDS:.0f} s; see: kubectl describe pod hello")
        time.sleep(0.2)
    return on(bed, "kube", KUBECTL, "logs", "hello").strip()


def take_down(bed: str, *, keep: bool, report: Report | None = None) -> bool:
    """Removes the bed unless it is to be kept."""
    if keep:
        return True
    with (report or Report()).step("Take everything down") as result:
        gone = bed_command("down", bed, check=False)
        result.append("nothing left" if gone else "see above")
    return gone


def bed_command(*arguments: str, check: bool = True) -> bool:
    """One command of the test bed, its output shown."""
    print(f"$ python -m testbed {' '.join(arguments)}", flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "testbed", *arguments], stdin=subprocess.DEVNULL, timeout=3600, check=False
    )
    if check and done.returncode != 0:
        raise DemoError(f"'testbed {arguments[0]}' ended with status {done.returncode}.")
    return done.returncode == 0


def on(bed: str, host: str, *argv: str, text: str = "", quiet: bool = False) -> str:
    """A command on a host of the bed; shown with what it prints."""
    if not quiet:
        print(f"{host}# {' '.join(argv)}", flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "testbed", "exec", bed, host, "--", *argv],
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode != 0:
        raise DemoError(f"'{argv[0]}' on {host} ended with status {done.returncode}: {done.stderr.strip()}")
    if not quiet:
        print(done.stdout, end="", flush=True)
    return done.stdout
