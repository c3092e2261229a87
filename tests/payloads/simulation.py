# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node, its pods and an API that obey the rules of the real ones, in simulated time.

Decisions are proven against this world rather than against lists of expected calls: what counts is that the node
is free when a job starts and comes back when it may. The world itself refuses what must never happen.
"""

import contextlib
import os
import shutil
import tempfile
import unittest.mock

from nodeshare.host.host import Host, HostError
from nodeshare.kube.node_client import read_pod
from nodeshare.model import actions
from nodeshare.model.jobs.job_key import JobKey
from nodeshare.model.jobs.lease import Ended, Lease
from nodeshare.model.node import observed
from nodeshare.model.settings import HANDOVER, Settings
from nodeshare.run.executor import Executor
from nodeshare.store import files
from nodeshare.store.files import StoreError
from nodeshare.store.lease_store import LeaseStore
from nodeshare.store.state_store import StateStore

KUBELET, RUNTIME = "kubelet.service", "containerd.service"
COLLECTED = 1.0  # seconds from the creation of a pod until the garbage collector finds that its owner does not exist
YEAR = 31536000.0
# What an API with too much to do makes of a request: 429 or 503 with Retry-After, no answer in time, or a proxy's page.
BUSY, LATE, PROXY = "429 Too Many Requests", "no answer within 2 s", "the answer is not JSON"
BUSY_SECONDS = 8.0  # for so long the client asks again, where it may


def quick_directory():
    """A directory in memory where there is one: thousands of fsyncs prove nothing about decisions."""
    return tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)


class Killed(BaseException):
    """kill -9 at a named point: nothing after it runs, not even an except clause for errors."""


class Guest:
    """One pod. `grace` is how long its processes take to end once asked; None: they never do.

    One that `stays` is of a DaemonSet. A `forged` owner looks the same and does not exist. `claims`: a pod whose
    processes a forged mirror pod claims to speak for; no kubelet runs such a mirror.
    """

    def __init__(
        self,
        name,
        *,
        grace=1.0,
        stays=False,
        protected=False,
        finalizer=False,
        respawns=False,
        tolerates=False,
        undeletable=False,
        mounts=False,
        in_memory=False,
        holds=None,
        forged=False,
        claims="",
    ):
        self.name = name
        self.grace = grace
        self.stays = stays
        self.protected = protected
        self.finalizer = finalizer
        self.respawns = respawns
        self.tolerates = tolerates
        self.undeletable = undeletable
        self.mounts = mounts
        self.holds = holds  # a device, for so many seconds after its end; None: it has none
        self.in_memory = in_memory  # a volume is, until it is unmounted
        self.forged = forged
        self.claims = claims
        self.collected_at = None
        self.known = True  # to the API
        self.preempted = False  # by its kubelet, for a placeholder
        self.running = not claims
        self.ends_at = None
        self.leaving = False

    def item(self):
        """Return the pod as the API shows it; its uid is its name."""
        meta = {"namespace": "ns", "name": self.name, "uid": self.name}
        if self.stays or self.forged:
            meta["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "a", "controller": True}]
        if self.claims:
            meta["annotations"] = {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.hash": self.claims}
        if self.leaving:
            meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return {"metadata": meta, "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {}}] * self.mounts}}


class Node(Host):
    def __init__(self):
        self.time = 1000.0
        self.boot = "boot-1"
        self.api_up = True
        self.overload = None  # for each request one of BUSY, LATE, PROXY, or nothing; None: it has little to do
        self.arrives = lambda: False  # whether a request without an answer was carried out
        self.tainted = True
        self.registered = True
        self.confirms = True  # the kubelet, at once, that a pod has ended
        self.announced = ""
        self.looked_tainted = False  # by nodeshare, when it looked last
        self.amid = lambda what: None  # what comes while nodeshare asks "api" or "batch"
        self.holders = ((), 0.0)  # jobs for which the controllers have asked pods to leave, and since when
        self.guests = {}
        self.volumes = {}  # in memory: the pod by its name
        self.holding = {}  # devices: until when, by the pod's name
        self.unmounts = True  # the kubelet, as soon as a pod has ended
        self.active = {KUBELET, RUNTIME}
        self.stubborn_units = False
        self.confined = False
        self.alive = {}  # job key -> True, False, None
        self.batch = {}  # job key -> LIVE, ENDING or GONE
        self.batch_up = True
        self.log = []
        self.born = 0
        self.fences = ()  # the directories that a unit's drop-in looks at
        self.in_memory = ""  # the directory that ends with the boot
        self.no_room = False  # in it: nothing can be written but what has room of its own
        self.leases = lambda: ()
        self.admin_stopped = set()
        self.on_sleep = lambda: None
        self.on_look = lambda: None  # between a look at the API and whatever comes next

    def add(self, name, **how):
        self.guests[name] = guest = Guest(name, **how)
        if guest.in_memory:
            self.volumes[name] = guest
        if guest.forged:
            guest.collected_at = self.time + COLLECTED
        return guest

    # -- World

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds
        self.settle()
        self.on_sleep()

    def boot_id(self):
        return self.boot

    def ask_api(self):
        self.amid("api")
        self.settle()
        if not self.registered:
            return observed.Api(self.api_up, "not joined", registered=False)
        trouble = self.silence()
        if trouble:
            return observed.Api(False, trouble)
        pods = tuple(read_pod(guest.item()) for guest in self.guests.values() if guest.known)
        holders, held = self.holders if self.holders[0] else ((), 0.0)
        self.looked_tainted = self.tainted
        seen = observed.Api(True, "", self.tainted, self.announced, pods, True, holders, self.time - held)
        self.on_look()
        return seen

    def local_pods(self):
        self.settle()
        return frozenset(guest.name for guest in self.guests.values() if guest.running)

    def active_units(self, units):
        return tuple(unit for unit in units if unit in self.active)

    def life(self, leases):
        return {str(lease.key): self.alive.get(lease.key, False) for lease in leases}

    def ask_batch(self, leases):
        """Answer as it was when the question came."""
        self.log.append(("ask", len(leases)))
        if not self.batch_up:
            raise HostError("slurmctld does not answer")
        answers = {str(lease.key): self.batch[lease.key] for lease in leases if lease.key in self.batch}
        self.amid("batch")
        return answers

    def allowance(self):
        return {}

    def announce(self, text):
        self.asked(lambda: self._announced(text), repeats=True)

    def _announced(self, text):
        if not text and self.leases():
            raise AssertionError("announced as free while a lease lives")
        if text and not self.announced and self.looked_tainted and not self.tainted:
            raise HostError("the taint was lifted since")  # what is announced first is announced for the taint seen
        self.announced = text
        self.log.append(("announce", text))

    def evict(self, pods):
        self.asked(lambda: self._evicted(pods))

    def _evicted(self, pods):
        self.log.append(("evict", tuple(pod.name for pod in pods)))
        for pod in pods:
            guest = self.guests.get(pod.uid)
            if guest is not None and not guest.protected:
                self._ask_to_leave(guest, guest.grace)

    def delete(self, pods):
        self.asked(lambda: self._deleted(pods))

    def _deleted(self, pods):
        self.log.append(("delete", tuple(pod.name for pod in pods)))
        for pod in pods:
            guest = self.guests.get(pod.uid)
            if guest is not None and not guest.undeletable:
                self._ask_to_leave(guest, None if guest.grace is None else min(1.0, guest.grace))

    def confirm(self, pods):
        self.asked(lambda: self._confirmed(pods))

    def _confirmed(self, pods):
        self.log.append(("confirm", tuple(pod.name for pod in pods)))
        for pod in pods:
            guest = self.guests.get(pod.uid)
            if guest is not None:
                if KUBELET in self.active or guest.running or not guest.leaving or guest.mounts:
                    raise AssertionError("a pod that is the kubelet's own was said to have ended")
                self._over(guest)

    def stop_units(self, units, *, force):
        self.log.append(("stop", units, force))
        if not all(self.fenced(unit) for unit in units) and not self.no_room:
            raise AssertionError("services stopped without a fence")
        if self.stubborn_units and not force:
            raise HostError("timed out")
        self.active -= set(units)

    def start_units(self, units):
        self.log.append(("start", units))
        if self.leases():
            raise AssertionError("services started while a lease lives")
        if not self.api_up:
            raise AssertionError("services started without the API")
        if set(units) & self.admin_stopped:
            raise AssertionError("started what the administrator had stopped")
        if any(self.fenced(unit) for unit in units):
            raise HostError("condition failed")
        self.active |= set(units)
        self.settle()

    def confine(self, cpus):
        self.log.append(("confine", cpus))
        self.confined = True

    def release(self):
        self.log.append(("release",))
        if self.leases():
            raise AssertionError("cores given back while a lease lives")
        self.confined = False

    def terminate(self, uids):
        self.log.append(("terminate", uids))
        for uid in uids:
            guest = self.guests[uid]
            if guest.grace is not None and guest.ends_at is None:
                guest.ends_at = self.time + guest.grace

    def kill(self, uids):
        self.log.append(("kill", uids))
        for uid in uids:
            self.guests[uid].running = False
        self.settle()

    def mounted(self):
        return frozenset(self.volumes)

    def unmount(self, uids):
        self.log.append(("unmount", uids))
        for uid in uids:
            guest = self.volumes[uid]
            if guest.running or (guest.stays and KUBELET in self.active):
                raise AssertionError("the memory of a pod that runs was taken")
            del self.volumes[uid]

    def memory_of_the_dead(self):
        """Volumes that no pod has any more which stays or is about to begin."""
        return sorted(name for name, guest in self.volumes.items() if not guest.stays and not guest.running)

    def device_holders(self):
        self.settle()
        return {
            name: name + " has /dev/gpu0" for name, until in self.holding.items() if until is None or self.time < until
        }

    def report(self, reason, text):
        self.log.append(("report", reason))

    def wake_returner(self):
        self.log.append(("wake",))

    # of share mode `placeholder`: simulation_beside.py

    def ask_room(self, *_unused):
        raise AssertionError("a hand-over counts no room")

    placed = place = unplace = admitted = draw_fence = ask_room

    def close(self):
        """Nothing is open here."""

    # -- the rules of this world

    def settle(self):
        """Processes end when their time is over; a living kubelet confirms, restarts and starts pods."""
        for guest in list(self.guests.values()):
            if guest.running and guest.ends_at is not None and self.time >= guest.ends_at:
                guest.running = False
            if guest.holds is not None and (guest.running or self.holding.get(guest.name, ...) is None):
                self.holding[guest.name] = None if guest.running else self.time + guest.holds
            if self.api_up and guest.collected_at is not None and self.time >= guest.collected_at:
                self._ask_to_leave(guest, guest.grace)
            if KUBELET not in self.active or not self.api_up:
                continue
            if guest.leaving and not guest.running and (self.unmounts or self.confirms):
                self.volumes.pop(guest.name, None)  # before it tells the API that the pod has ended
            if guest.claims or (guest.leaving and not guest.running and self.confirms):
                self._over(guest)  # a kubelet deletes a mirror pod for which it has no static pod
            elif not guest.leaving and not guest.running:
                self.start_again(guest)

    def start_again(self, guest):
        guest.running, guest.ends_at = True, None

    def reboot(self):
        self.boot = "boot-{}".format(int(self.boot[5:]) + 1)
        self.no_room = False
        shutil.rmtree(self.in_memory)
        os.mkdir(self.in_memory, 0o700)
        self.time = 5.0
        self.confined = False
        self.alive = {}
        self.volumes = {}
        for guest in list(self.guests.values()):
            guest.running = False
        self.admin_stopped = set()
        self.active = {unit for unit in (RUNTIME, KUBELET) if not self.fenced(unit)}
        self.settle()

    def fenced(self, unit):
        return any(os.path.exists(os.path.join(fence, unit)) for fence in self.fences)

    def ordinary_running(self):
        return sorted(guest.name for guest in self.guests.values() if guest.running and not guest.stays)

    def looks_like_a_daemon(self, name):
        """Return whether nothing tells this pod from one of a DaemonSet: the collector has not yet looked at it."""
        guest = self.guests[name]
        return guest.forged and not guest.leaving

    def _over(self, guest):
        """The API lets go of it, and whoever wants it to be there makes another one."""
        if guest.finalizer:
            return
        del self.guests[guest.name]
        if guest.respawns and (not self.tainted or guest.tolerates):
            self.born += 1
            again = self.add(
                "{}-{}".format(guest.name.split("-")[0], self.born),
                grace=guest.grace,
                respawns=True,
                tolerates=guest.tolerates,
            )
            again.running = KUBELET in self.active

    def _ask_to_leave(self, guest, grace):
        """A kubelet does not shorten a stop that it has begun, whoever asks."""
        if not guest.leaving and grace is not None:
            guest.ends_at = self.time + grace
        guest.leaving = True

    def api_is_well(self):
        return self.api_up and self.overload is None

    def silence(self, requests=2):
        """Say why so many reads have no answer, or nothing. Each costs its time."""
        if not self.api_up:
            self.time += 2.0
            return LATE
        return next(filter(None, (self._trouble(repeats=True) for _unused in range(requests))), "")

    def asked(self, act, *, repeats=False):
        """Have the API do something: it does, or it says that it did not, or it does and its answer is lost."""
        if not self.api_up:
            raise HostError("the API does not answer")
        trouble = self._trouble(repeats=repeats)
        if not trouble or (trouble != BUSY and self.arrives()):
            act()
        if trouble:
            raise HostError(trouble)

    def _trouble(self, *, repeats):
        """Say what an API with too much to do makes of one request; the client repeats what it has turned away."""
        if self.overload is None:
            return ""
        give_up = self.time + BUSY_SECONDS
        trouble = self.overload()
        while trouble == BUSY and repeats and self.time < give_up:
            self.time += 1.0
            trouble = self.overload()
        self.time += 2.0 if trouble == LATE else 0.0
        return trouble


class Site:
    """A node with nodeshare on it: calls as the batch system's scripts, the timer and the administrator make them."""

    def __init__(self, directory, **settings):
        self.node = Node()
        self.disk = directory + ".disk"
        self.disk_full = self.disk_hangs = self.waits = False
        self.settings = Settings(node="n1", run_dir=directory, state_dir=self.disk)._replace(**settings)
        self.points = lambda point: None
        whole = self.settings.mode == HANDOVER
        self.store = LeaseStore(directory, whole_nodes=whole, at_point=self.at_point)
        self.store.prepare()
        self.memories = StateStore(directory, self.disk)
        self.attach(self.node)

    def attach(self, node):
        """The node's units look at the fences, and its reboot takes what is in memory."""
        node.fences = (self.memories.fence, self.memories.disk_fence)
        node.in_memory = self.store.directory
        node.leases = self.store.leases

    def at_point(self, point):
        self.points(point)

    def memory(self):
        return self.memories.load(boot_id=self.node.boot)[0]

    def carrier(self, key=None):
        return Executor(
            world=self.node,
            store=self.store,
            memories=self.memories,
            settings=self.settings,
            key=key,
            at_point=self.at_point,
        )

    def begin(self, job="1", run=0, start=None):
        return self.begin_with(Lease(JobKey("slurm", job, run), self.node.boot, self.node.time, start))

    def begin_with(self, lease, key=None):
        """A lease that cannot be written counts for this call, and is tried again at its end, as cli.py does it."""
        recorded = True
        with self.for_a_job():
            try:
                if not self.record(lease):
                    return None
            except StoreError:
                recorded = False
                self.store.keep(lease)
            self.node.alive.setdefault(lease.key, True)
            told = self.act(actions.BEGIN, key or lease.key)
            if not recorded and told.done.outcome == actions.ACCEPT:
                try:
                    self.record(lease)
                except StoreError:
                    return told._replace(done=told.done._replace(outcome=self.settings.on_failure))
            return told

    def record(self, lease):
        with self.store.locked():
            return self.store.begin(lease, mark_life=self.settings.mark_life) != "ended"

    @contextlib.contextmanager
    def for_a_job(self):
        """A call that a job waits for."""
        self.waits = True
        try:
            yield
        finally:
            self.waits = False
            self.store.unwritten.clear()  # each call is a process

    @contextlib.contextmanager
    def faulty(self):
        """Writes go wrong as `disk_full`, `disk_hangs` and the node's `no_room` say."""

        def guarded(act, *, needs_room):
            def acted(path, *rest, **how):
                on_disk = path.startswith(self.disk + "/")
                if on_disk and self.disk_hangs:
                    assert not self.waits, "a job waits for the disk: {}".format(path)
                if needs_room and (self.disk_full if on_disk else self.node.no_room):
                    raise StoreError("{}: cannot write: No space left on device".format(path))
                return act(path, *rest, **how)

            return acted

        writes = unittest.mock.patch.object(files, "write", guarded(files.write, needs_room=True))
        removes = unittest.mock.patch.object(files, "remove", guarded(files.remove, needs_room=False))
        with writes, removes:
            yield

    def end(self, job="1", run=0, start=None):
        return self.end_of(Ended(JobKey("slurm", job, run), self.node.boot, self.node.time, start))

    def end_of(self, ended):
        failed = None
        with self.for_a_job():
            try:
                with self.store.locked():
                    self.store.end(ended)
            except StoreError as error:
                failed = error
            told = self.carrier().run(actions.END)
        if failed is not None:
            raise failed
        return told

    def act(self, event, key=None):
        carrier = self.carrier(key)
        with carrier.work_lock(1.0) as held:
            told = carrier.run(event, held=held)
        if event in (actions.OFF, actions.ON, actions.TICK):
            self.keep()
        return told

    def keep(self):
        with contextlib.suppress(StoreError):
            self.memories.keep(boot_id=self.node.boot)

    def repair(self):
        self.store.prepare()
        with self.store.locked():
            self.store.tidy(boot_id=self.node.boot, now=self.node.time, mark_life=self.settings.mark_life)
        return self.act(actions.TICK)

    def later(self, seconds):
        self.node.sleep(seconds)
        return self.repair()

    def did(self, what):
        return [entry for entry in self.node.log if entry[0] == what]
