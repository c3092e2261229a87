# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real node: systemd, /proc, cgroups, the API and the batch system. Each call is bounded; nothing decides here."""

import os
import time
from typing import TYPE_CHECKING, Callable, Dict, FrozenSet, List, Mapping, Optional, Tuple

from ..model import answer
from ..model.jobs.job_key import JobKey
from ..model.jobs.lease import Lease
from ..model.node.observed import Api, Pod, Room
from ..model.pods.placeholder import Placeholder
from ..model.settings import Settings
from . import job_liveness
from .cgroups.cpuset import Cpuset
from .cgroups.pod_cgroups import PodCgroups
from .host import Host, HostError
from .placeholders import Placeholders
from .pods.processes import Workloads

if TYPE_CHECKING:
    from ..kube.node_client import NodeClient

Act = Callable[["NodeClient", Pod], object]
Work = Callable[["NodeClient"], None]
EVICTIONS_AT_ONCE = 16
STOP_SECONDS = 15.0
START_SECONDS = 30.0
ASK_SECONDS = 5.0


def run_command(argv: Tuple[str, ...], seconds: float) -> answer.Answer:
    """Run a program and return its answer. HostError: it cannot be started, or was ended with all that it has started.

    Nothing of the caller's environment goes on: a job's owner may have written it.
    """
    from . import command

    try:
        return command.run_bounded(argv, seconds=seconds)
    except OSError as error:
        raise HostError(str(error)) from error


class RealHost(Host):
    """The node itself. Placeholders and the cgroups of pods are parts of their own, which get what they need of it."""

    def __init__(
        self,
        settings: Settings,
        *,
        proc: str = "/proc",
        cgroup: str = "/sys/fs/cgroup",
        dev: str = "/dev",
        run: Callable[[Tuple[str, ...], float], answer.Answer] = run_command,
    ) -> None:
        self.settings = settings
        self.run = run
        self.proc = proc
        self.cgroup = cgroup
        self.dev = dev
        self.workloads = Workloads(proc=proc, cgroup=cgroup)
        self.cpuset = Cpuset(cgroup=cgroup, saved=os.path.join(settings.run_dir, "cpuset.json"))
        self.placeholders = Placeholders(settings, api=self._api, local_pods=self.local_pods)
        self.pod_cgroups = PodCgroups(
            settings, proc=proc, cgroup=cgroup, cpuset=self.cpuset, active_units=self.active_units
        )
        self.client: Optional[NodeClient] = None

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def boot_id(self) -> str:
        """Return the kernel's boot id and the start of process 1: a restarted container keeps the former."""
        try:
            with open(os.path.join(self.proc, "sys/kernel/random/boot_id")) as stream:
                boot = stream.read().strip()
            with open(os.path.join(self.proc, "1/stat")) as stream:
                return "{}.{}".format(boot, stream.read().rpartition(")")[2].split()[19])
        except (OSError, IndexError) as error:
            raise HostError("the boot id cannot be read: {}".format(error)) from error

    def ask_api(self) -> Api:
        from ..kube.client import ApiError

        if not os.path.exists(self.settings.kubeconfig) and not self.settings.api.server:
            return Api(False, "{}: no such file".format(self.settings.kubeconfig), registered=False)
        try:
            return self._api().look()
        except ApiError as error:
            return Api(False, str(error))

    def announce(self, text: str) -> None:
        from ..kube.client import ApiError

        try:
            self._api().announce(text)
        except ApiError as error:
            raise HostError("cannot announce: {}".format(error)) from error

    def evict(self, pods: Tuple[Pod, ...]) -> None:
        """All at the same time: a node's pods must not queue behind each other's answers."""
        self._each(pods, lambda client, pod: client.evict(pod), "evict")

    def delete(self, pods: Tuple[Pod, ...]) -> None:
        self._each(pods, lambda client, pod: client.delete(pod, grace=1), "delete")

    def confirm(self, pods: Tuple[Pod, ...]) -> None:
        self._each(pods, lambda client, pod: client.delete(pod, grace=0), "confirm the end of")

    def report(self, reason: str, text: str) -> None:
        from ..kube.client import ApiError

        try:
            self._api().event(reason, text)
        except ApiError as error:
            raise HostError("no Event written: {}".format(error)) from error

    def local_pods(self) -> FrozenSet[str]:
        try:
            return frozenset(self.workloads.find())
        except OSError as error:
            raise HostError("processes cannot be listed: {}".format(error)) from error

    def terminate(self, uids: Tuple[str, ...]) -> None:
        self.workloads.terminate(uids)

    def kill(self, uids: Tuple[str, ...]) -> None:
        self.workloads.kill(uids, seconds=1.0)

    def mounted(self) -> FrozenSet[str]:
        from .pods import volumes

        try:
            return frozenset(volumes.find(self.proc))
        except OSError as error:
            raise HostError("mounts cannot be listed: {}".format(error)) from error

    def unmount(self, uids: Tuple[str, ...]) -> None:
        from .pods import volumes

        try:
            left = volumes.unmount(frozenset(uids), self.proc, run=self.run)
        except OSError as error:
            raise HostError("mounts cannot be listed: {}".format(error)) from error
        if left:
            raise HostError("memory of ended pods stays in use: cannot unmount {}".format(", ".join(left[:3])))

    def device_holders(self) -> Mapping[str, str]:
        from .pods import devices

        return devices.holders(self.proc, devices.accelerators(self.dev))

    def confine(self, cpus: str) -> None:
        self.pod_cgroups.confine(cpus)

    def release(self) -> None:
        self.pod_cgroups.release()

    def draw_fence(self, leases: Tuple[Lease, ...]) -> Tuple[str, ...]:
        return self.pod_cgroups.draw_fence(leases)

    def allowance(self) -> Mapping[str, str]:
        return self.pod_cgroups.allowance()

    def ask_room(self) -> Room:
        return self.placeholders.ask_room()

    def placed(self) -> Mapping[str, str]:
        return self.placeholders.placed()

    def place(self, placeholders: Tuple[Placeholder, ...]) -> None:
        self.placeholders.place(placeholders)

    def unplace(self, names: Tuple[str, ...]) -> None:
        self.placeholders.unplace(names)

    def admitted(self, placed: Mapping[str, str], key: Optional[JobKey]) -> FrozenSet[str]:
        return self.placeholders.admitted(placed, key)

    def active_units(self, units: Tuple[str, ...]) -> Tuple[str, ...]:
        if not units:
            return ()
        answer = self.run(("systemctl", "is-active", "--", *units), 5.0)
        states = answer.out.split()
        if len(states) != len(units):
            raise HostError(
                "systemctl is-active: {}".format(ascii(answer.err.strip() or answer.out.strip())[:200] or "no answer")
            )
        active = tuple(
            unit
            for unit, state in zip(units, states)
            if state in ("active", "activating", "reloading", "deactivating", "refreshing")
        )
        # A runtime alone, on a node that is about to join a cluster, serves no pod yet and is needed for the join.
        return active if units[0] in active or os.path.exists(self.settings.kubeconfig) else ()

    def stop_units(self, units: Tuple[str, ...], *, force: bool) -> None:
        if force:
            self.run(("systemctl", "kill", "--kill-who=main", "--signal=SIGKILL", "--", *units), 5.0)
        self._checked(("systemctl", "stop", "--", *units), seconds=STOP_SECONDS)

    def start_units(self, units: Tuple[str, ...]) -> None:
        self.run(("systemctl", "reset-failed", "--", *units), 5.0)  # else "start attempted too often"
        self._checked(("systemctl", "start", "--", *units), seconds=START_SECONDS)

    def wake_returner(self) -> None:
        if self.settings.return_unit:
            self._checked(("systemctl", "start", "--no-block", "--", self.settings.return_unit), seconds=5.0)

    def close(self) -> None:
        if self.client is not None:
            self.client.client.close()
            self.client = None

    def life(self, leases: Tuple[Lease, ...]) -> Mapping[str, Optional[bool]]:
        try:
            found = job_liveness.life(leases, boot_id=self.boot_id(), proc=self.proc)
        except OSError as error:
            raise HostError("processes cannot be listed: {}".format(error)) from error
        if self.settings.pbs_home:
            from ..batch import pbs

            found.update(pbs.life(leases, home=self.settings.pbs_home, cgroup=self.cgroup))
        if self.settings.torque_home:
            from ..batch import torque

            found.update(torque.life(leases, home=self.settings.torque_home))
        return found

    def ask_batch(self, leases: Tuple[Lease, ...]) -> Mapping[str, str]:
        found: Dict[str, str] = {}
        if self.settings.squeue:
            from ..batch import slurm

            found.update(
                slurm.ask_slurm(leases, squeue=self.settings.squeue, run=lambda argv: self.run(argv, ASK_SECONDS))
            )
        if self.settings.qstat:
            from ..batch import pbs, torque

            qstat, home = self.settings.qstat, self.settings.torque_home
            found.update(pbs.ask(leases, qstat=qstat, run=lambda argv: self.run(argv, ASK_SECONDS)))
            found.update(torque.ask(leases, qstat=qstat, run=lambda argv: self.run(argv, ASK_SECONDS), home=home))
        return found

    def _api(self) -> "NodeClient":
        if self.client is None:
            from ..kube import client as kube
            from ..kube import kubeconfig, node_client

            if not self.settings.node:
                raise kube.ApiError(0, "the settings name no node")
            where = self.settings.api
            try:
                found = (
                    kubeconfig.Credentials(where.server, where.ca_file, "", where.cert_file, where.key_file)
                    if where.server
                    else kubeconfig.load(self.settings.kubeconfig)
                )
            except kubeconfig.KubeconfigError as error:
                raise kube.ApiError(0, str(error)) from error
            self.client = node_client.NodeClient(
                kube.Client(found, timeout=self.settings.api_timeout), node=self.settings.node
            )
        return self.client

    def _each(self, pods: Tuple[Pod, ...], act: Act, verb: str) -> None:
        from ..kube import client as kube

        try:
            first = self._api()
        except kube.ApiError as error:
            raise HostError(str(error)) from error
        errors: List[str] = []
        waiting = list(pods)

        def work(client: "NodeClient") -> None:
            while True:
                try:
                    pod = waiting.pop()
                except IndexError:
                    return
                try:
                    act(client, pod)
                except kube.ApiError as error:
                    errors.append("cannot {} {}/{}: {}".format(verb, pod.namespace, pod.name, error))

        if len(pods) == 1:
            work(first)
        else:
            self._in_threads(work, min(len(pods), EVICTIONS_AT_ONCE), first)
        if errors:
            raise HostError("; ".join(sorted(errors)[:3]))

    @staticmethod
    def _in_threads(work: Work, count: int, first: "NodeClient") -> None:
        import threading

        from ..kube import node_client

        clients = [node_client.NodeClient(first.client.clone(), node=first.node) for _unused in range(count)]
        threads = [threading.Thread(target=work, args=(client,), daemon=True) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for client in clients:
            client.client.close()

    def _checked(self, argv: Tuple[str, ...], *, seconds: float) -> None:
        answer = self.run(argv, seconds)
        if answer.code != 0:
            raise HostError("{}: exit {}: {}".format(" ".join(argv[:2]), answer.code, ascii(answer.err.strip())[:200]))
