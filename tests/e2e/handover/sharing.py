# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A converted site under the eye of the tests: jobs that say what they see, containerd's events, the audit log.

"No pod ran" is what the job's own tasks see in the kernel when they begin and end; the order of what was asked of the
API is the audit log's. "No pod started" is what containerd has started between, and each such claim has a control: the
same recorder must hear a pod start on the same node afterwards.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from e2e import job_times, workload
from e2e.handover.recording import Recording
from e2e.hosts import TAINT
from e2e.playing import until
from e2e.site_of import ConvertedSite
from testbed import keys
from testbed.api import RunningBed
from testbed.controlplane import admin, audit_log
from testbed.kube_audit import AuditEvent, read_audit
from testbed.recipe import ADMINISTRATOR

CONTROLLER = "converged:controller:ctl"
KUBELETS = "system:node:"
STOP_RECORDING = "systemctl stop e2e-events 2>/dev/null; true"
EVENTS = "/run/e2e-containerd-events"
RECORDER = Path(__file__).with_name("containerd_events.py")
RECORDER_SECONDS = 120.0
WITNESS = "witness"
# What tests leave in the default namespace, by its collection at the API.
LEFT = {
    "deployments": "/apis/apps/v1/namespaces/default/deployments",
    "daemonsets": "/apis/apps/v1/namespaces/default/daemonsets",
    "replicasets": "/apis/apps/v1/namespaces/default/replicasets",
    "poddisruptionbudgets": "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    "pods": "/api/v1/namespaces/default/pods",
}
POD = re.compile(r"pod([0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32})")
SAVED = "/var/lib/slurm/slurmctld/job_state"
LINGER = 2
GO = "/run/e2e-go"
IS_OPEN = """nodeshare show --json | grep -q '"phase": "open"'"""
NO_JOBS = """
squeue --noheader --format=%A | xargs --no-run-if-empty scancel
until test -z "$(squeue --noheader --states=RUNNING,COMPLETING)"; do sleep 0.1; done
if sinfo --noheader --format=%T | grep -qv '^idle$'; then scontrol update nodename=ALL state=resume 2>/dev/null; fi
true
"""
UNTIL_TOLD = f"until test -e {GO}; do sleep 0.2; done"  # a job that lasts as long as its test needs it
# What a task says: when it began and ended on which node, the kubelet's state, the cores that pods may use, and which
# pods had processes there at both moments.
TASK = """
pods() { cat /proc/[0-9]*/cgroup 2>/dev/null | grep -o 'pod[0-9a-f-]*' | sort -u; }
cores() { cd /sys/fs/cgroup; cat cpuset/kubepods/cpuset.cpus kubepods/cpuset.cpus 2>/dev/null | grep . || echo any; }
look() { echo "$1 $(date +%s.%N) $SLURMD_NODENAME $(systemctl is-active kubelet) $(cores)" $(pods); }
look began; COMMAND; look ended
"""


@dataclass(frozen=True, slots=True)
class Moment:
    """The first or last thing that a task saw. `pods` are uids, of a static pod the hash of its manifest."""

    what: str
    at: float
    node: str
    kubelet: str
    cores: str
    pods: frozenset[str]


@dataclass(frozen=True, slots=True)
class Job:
    """What all tasks of one job have seen."""

    moments: tuple[Moment, ...]
    out: str

    @property
    def began(self) -> float:
        return min(moment.at for moment in self.moments if moment.what == "began")

    @property
    def ended(self) -> float:
        return max(moment.at for moment in self.moments if moment.what == "ended")

    @property
    def nodes(self) -> set[str]:
        return {moment.node for moment in self.moments}

    def kubelets(self) -> set[str]:
        return {moment.kubelet for moment in self.moments}

    def pods(self) -> set[str]:
        return {pod for moment in self.moments for pod in moment.pods}

    def when(self, since: float, until: float) -> str:
        """Return whether that time lies before, during or after the job; else say why it is none of them."""
        return job_times.when(((moment.what, moment.at) for moment in self.moments), since=since, until=until)


def parse(out: str) -> Job:
    """From the output of tasks."""
    moments = []
    for line in out.splitlines():
        what, *words = line.split()
        if what in ("began", "ended"):
            at, node, kubelet, cores, *names = words
            pods = frozenset(found.group(1) for name in names if (found := POD.fullmatch(name)))
            moments.append(Moment(what, float(at), node, kubelet, cores, pods))
    return Job(tuple(moments), out)


def task(command: str) -> list[str]:
    """The words that make a job of a shell command."""
    return ["sh", "-c", TASK.replace("COMMAND", command)]


class Sharing(ConvertedSite):
    """The site, its jobs, its pods, and the moments at which they met."""

    def __init__(self, bed: RunningBed, folder: Path) -> None:
        super().__init__(bed, folder)
        self.claims: dict[str, list[tuple[float, float]]] = {}
        """By node, the times in which no pod is said to have started: so far without a control."""

    # Jobs

    def job(self, *options: str, command: str = "sleep 3", timeout: float = 300.0) -> Job:
        """One job, waited for."""
        return parse(self.srun(*options, *task(command), timeout=timeout).out)

    @contextmanager
    def while_job(self, *options: str, command: str = "sleep 4") -> Iterator[Callable[[], Job]]:
        """Within it, tasks of the job run on all its nodes; what is given waits for its end."""
        count = next((int(word[2:]) for word in options if word.startswith("-N")), 1)
        argv = ["srun", "--unbuffered", *options, *task(command)]
        submitting = self.bed.bed.host(self.controllers[0])
        ssh = [*keys.ssh_command(self.bed.bed, submitting, user=ADMINISTRATOR), shlex.join(argv)]
        log = self.folder / f"job-{time.monotonic_ns()}"
        with log.open("w", encoding="utf-8") as stream, subprocess.Popen(ssh, stdout=stream, stderr=stream) as running:

            def ended() -> Job:
                assert running.wait(300) == 0, log.read_text(encoding="utf-8")
                return parse(log.read_text(encoding="utf-8"))

            def all_began() -> bool:
                text = log.read_text(encoding="utf-8")
                assert running.poll() in (None, 0), text
                return text.count("began ") >= count

            try:
                until(all_began, "the job's tasks run")
                yield ended
            finally:
                self.ctl("scancel --user=ops") if running.poll() is None else None
                running.wait(300)

    def tell_to_end(self, ended: Callable[[], Job]) -> Job:
        """The job that lasts until it is told, which is now; fail if one of its tasks ended before."""
        told = time.time()
        for node in self.nodes:
            self.node(node, f"touch {GO}")
        job = ended()
        for node in self.nodes:
            self.node(node, f"rm {GO}")
        found = job.when(told, told)
        assert found == job_times.DURING, f"a task of the job did not last until it was told to end: {found}"
        return job

    def batch(self, *options: str, script: str = "sleep 600") -> str:
        """The id of a job that runs by itself."""
        words = shlex.join(["sbatch", "--parsable", "--output=/dev/null", *options, "--wrap", script])
        return self.ctl(f"cd /tmp; {words}").strip()

    def state(self, job: str) -> str:
        """What Slurm calls it, with the number of its restarts."""
        return self.ctl(
            f"squeue --noheader --states=all --jobs={job} --Format=State:20,RestartCnt:5", check=False
        ).strip()

    def until_saved(self) -> None:
        """Slurm has written down that its jobs run; a controller that did not know would lose or repeat them."""
        self.ctl("touch /run/marker; squeue -h -o %A | xargs -I@ scontrol update jobid=@ comment=saved")
        self.until(self.controllers[0], f'test -n "$(find {SAVED} -newer /run/marker)"')

    # Nodes

    def show(self, node: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.node(node, "nodeshare show --json"))
        return found

    def leases(self, node: str) -> set[str]:
        return {
            path.rpartition("/")[2]
            for path in self.node(node, "ls /run/converged/nodeshare 2>/dev/null || true").split("\n")
            if path.endswith(".lease")
        }

    def running_on(self, node: str) -> set[str]:
        """Uids of the pods that have processes on a node."""
        return set(POD.findall(self.node(node, "cat /proc/[0-9]*/cgroup 2>/dev/null || true")))

    def settings(self, **values: Any) -> None:
        """Other settings of nodeshare on all nodes: the file is what its role writes, and read at every call."""
        path = "/etc/converged/nodeshare.json"
        for node in self.nodes:
            merged = {**json.loads(self.node(node, f"cat {path}")), **values}
            self.node(node, f"cat > {path}", input=json.dumps(merged))

    def told(self, node: str) -> str:
        """A place in nodeshare's lines of a node: up to now, also where the journal is behind."""
        last = "journalctl --identifier=nodeshare --quiet --lines=1 --output=cat --show-cursor"
        shown = self.node(node, f"journalctl --sync; {last}")
        return shown.rpartition("-- cursor: ")[2].strip()

    def said(self, node: str, *, since: str) -> list[str]:
        """Nodeshare's lines since then, one for each call that has ended."""
        read = ["journalctl", "--identifier=nodeshare", "--quiet", "--output=cat", f"--after-cursor={since}"]
        return self.node(node, shlex.join(read)).splitlines()

    def repairs(self, node: str, *, since: str) -> list[str]:
        """Those of repairs, by the timer or by the returner: of any two, one did all of its work since then."""
        return [line for line in self.said(node, since=since) if line.startswith("event=repair")]

    def let_repair(self, *nodes: str) -> None:
        """Repair each of these nodes, as its timer does: all of the work is done between the call and its end."""
        for node in nodes or tuple(self.nodes):
            self.node(node, "nodeshare repair")

    @contextmanager
    def lingering(self) -> Iterator[None]:
        """Within it nodes wait for their next job however late it is; behind it, no longer than in other tests."""
        self.settings(linger=600)
        try:
            yield
        finally:
            self.settings(linger=LINGER)
            for node in self.nodes:
                self.node(node, "systemctl restart --no-block converged-nodeshare-return")

    @contextmanager
    def impatient(self) -> Iterator[None]:
        """Within it the batch controller does not wait long for pods that do not leave."""
        path = "/etc/converged/controller.json"
        kept = self.ctl(f"cat {path}")
        try:
            self._restart_controller(path, json.dumps({**json.loads(kept), "deadline": 10}))
            yield
        finally:
            self._restart_controller(path, kept)

    def _restart_controller(self, path: str, settings: str) -> None:
        self.ctl(f"cat > {path}; systemctl restart converged-controller", input=settings)
        self.until(self.controllers[0], "test -S /run/converged/controller.sock")

    # What containerd and the API have seen

    def record_events(self, source: str = "") -> None:
        """From now on every start of a container is written down on every node, also across restarts of containerd.

        `source` is another recorder than ours.
        """
        self.prove_recorded()
        source = source or RECORDER.read_text(encoding="utf-8")
        for node in self.nodes:
            # A recorder that dies stays dead, for its log would not tell what it has missed.
            start = f"systemd-run --quiet --collect --unit=e2e-events python3 {EVENTS}.py {EVENTS}.log"
            self.node(node, f"{STOP_RECORDING}; cat > {EVENTS}.py; : > {EVENTS}.log; {start}", input=source)
        for node in self.nodes:
            heard = f"the recorder on {node} hears containerd"
            until(partial(self._hears, node), heard, RECORDER_SECONDS)

    def stop_recording(self) -> None:
        """End the recorders; every claim must have had its control before."""
        assert not self.claims, f"nothing shows that the recorder would have seen a pod start: {self.claims}"
        for node in self.nodes:
            self.node(node, STOP_RECORDING)

    def recording(self, node: str) -> Recording:
        return Recording.parse(self.node(node, f"cat {EVENTS}.log"))

    def pods_started(self, node: str, *, since: float, until: float) -> set[str]:
        """Return the names of the pods that had a container start in that time; '' stands for a container of no pod.

        The answer is a claim that `prove_recorded` must prove later.
        """
        self.claims.setdefault(node, []).append((since, until))
        return self.recording(node).started(since=since, until=until)

    def pods_return(self, app: str, count: int) -> None:
        """Wait until so many pods of this name run again, which the recorders must have heard."""
        until(lambda: len(workload.ready(self, app)) == count, "pods return")
        self.prove_recorded()

    def prove_recorded(self) -> None:
        """Fail unless the recorders would have seen a pod start in all times that a test has claimed to be free of it.

        The recorder of that node must have listened all the time and must have heard a start since. Where no pod of the
        test has come back, one that is made for it starts there; the node must be open to pods.
        """
        claims, self.claims = self.claims, {}
        for node, times in claims.items():
            since, over = min(begin for begin, _end in times), max(end for _begin, end in times)
            fault = self.recording(node).fault(since=since)
            assert not fault, f"{node}: {fault}; so 'no pod started' since {since:.3f} proves nothing"
            if not self.recording(node).heard_after(over):
                workload.apply(self, workload.pod(f"{WITNESS}-{node}", node=node))
            what = f"the recorder on {node} hears a pod start after {over:.3f}: else 'no pod started' proves nothing"
            until(partial(self._has_heard, node, over), what, RECORDER_SECONDS)

    def _hears(self, node: str) -> bool:
        return not self.recording(node).fault(since=time.time())

    def _has_heard(self, node: str, after: float) -> bool:
        return bool(self.recording(node).heard_after(after))

    def audit(self, *, since: float, **matching: str) -> list[AuditEvent]:
        """Requests of any outcome."""
        found = read_audit(audit_log(self.bed.bed), **matching)
        return [event for event in found if event.received.timestamp() >= since]

    def taint_patches(self, *, since: float) -> list[tuple[float, str, bool]]:
        """When our controller has set or lifted its taint on which node."""
        patches = []
        for event in self.audit(since=since, verb="patch", resource="nodes"):
            if event.user == CONTROLLER and event.code == 200 and "taints" in (event.body or {}).get("spec", {}):
                kept = [taint["key"] for taint in (event.body or {})["spec"]["taints"]]
                patches.append((event.answered.timestamp(), event.name, TAINT in kept))
        return patches

    def reports(self, node: str) -> str:
        """Events on a Node object."""
        selector = f"--field-selector=involvedObject.kind=Node,involvedObject.name={node}"
        return self.kubectl(
            "get", "events", selector, "--output=jsonpath={range .items[*]}{.reason}: {.message}{'\\n'}{end}"
        )

    # Between tests

    def free(self, *nodes: str, seconds: float = 300.0) -> None:
        """Wait until these nodes are back: no lease, services active, no taint."""
        wanted = nodes or tuple(self.nodes)

        def back() -> bool:
            open_there = f"{IS_OPEN} && systemctl is-active --quiet kubelet && echo open"
            return not self.tainted() & set(wanted) and all(self.node(node, open_there, check=False) for node in wanted)

        until(back, f"{', '.join(wanted)} given back", seconds)

    def tidy(self) -> None:
        """However a test has ended, the next one begins with idle nodes without pods."""
        self.ctl(NO_JOBS)
        for node in self.nodes:
            give_back = f"{IS_OPEN} || systemctl start --no-block converged-nodeshare-return"
            self.node(node, f"rm -f {GO}; systemctl start kubelet containerd; {give_back}")
        cordoned = [name for name, node in self.objects("nodes").items() if node["spec"].get("unschedulable")]
        if cordoned:
            self.kubectl("uncordon", *cordoned)
        self.free()
        try:
            self.prove_recorded()
        finally:
            self._delete_objects()

    def _delete_objects(self) -> None:
        """What tests have left in the default namespace."""
        with closing(admin(self.bed.bed)) as connection:
            left = [kind for kind, path in LEFT.items() if any(connection.items(path))]
        # After an outage of the API the garbage collector takes its time with what a Deployment leaves.
        owners = ",".join(kind for kind in left if kind != "pods")
        if owners:
            self.kubectl("delete", owners, "--all", "--wait=false")
        if "pods" in left or owners:
            self.kubectl("delete", "pods", "--all", "--grace-period=1", "--wait=false")
        until(lambda: not self.objects("pods"), "no pods left")
