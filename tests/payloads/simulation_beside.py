# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The world of simulation.py with a kubelet that admits static pods as the real one does, and jobs with cores.

A static pod is let in when it fits, else when enough of who is not critical has ended: each has its own grace, and the
kubelet waits for them and lets in nobody meanwhile. What it refuses once it never looks at again. A pod starts only
where it fits beside all that is admitted.
"""

from nodeshare.decide import fence
from nodeshare.host.host import HostError
from nodeshare.kube.node_client import read_pod
from nodeshare.kube.room_reader import Shown, believed
from nodeshare.model.cpu_list import format_cpus, parse_cpus
from nodeshare.model.jobs.job_key import JobKey
from nodeshare.model.jobs.lease import Ended, Lease
from nodeshare.model.node import observed
from nodeshare.model.pods.placeholder import PRIORITY, name_of
from nodeshare.model.pods.pod_resources import amounts
from nodeshare.model.settings import PLACEHOLDER, Settings
from simulation import KUBELET, Node, Site

GIB = 1 << 30


class SharedNode(Node):
    """Eight cores, 64 GiB, 20 pods."""

    def __init__(self):
        Node.__init__(self)
        self.tainted = False
        self.settings = Settings()
        self.allocatable = amounts({"cpu": "8", "memory": "64Gi", "pods": "20"})
        self.online = parse_cpus("0-7")
        self.files = {}  # the kubelet's directory: placeholder by name
        self.let_in = {}  # by uid, the placeholder
        self.refused = set()
        self.refuses = False  # any new static pod, for a reason of its own
        self.reads = True  # False: the kubelet that runs was started with another directory, or none
        self.disk_full = False
        self.stuck = False  # what is in the kubelet's directory cannot be removed
        self.cpusets = {}  # by cgroup of a job
        self.pod_cpus = None
        self.held_memory = 0
        self.wakes_after = 0.0  # however short the sleep: a busy machine

    # -- pods

    def add_pod(self, name, *, cpu="1", memory="1Gi", priority=0, gang="", **how):
        """Refused, as by a scheduler, where it does not fit beside what the API shows."""
        wanted = dict(amounts({"cpu": cpu, "memory": memory}), pods=1000)
        self.settle()
        if not self._fits(wanted):
            return None
        guest = self.add(name, **how)
        guest.requests, guest.priority, guest.gang = wanted, priority, gang
        return guest

    def add_forged_mirror(self, name, claims, **how):
        """Add a mirror pod of a user, for all of the node. No scheduler is asked, and no kubelet runs it."""
        guest = self.add(name, claims=claims, **how)
        guest.requests, guest.priority, guest.gang = self.allocatable, 0, ""

    def names(self):
        return sorted(guest.name for guest in self.guests.values() if guest.running and not guest.leaving)

    def critical(self):
        return sorted(guest.name for guest in self.guests.values() if guest.priority >= PRIORITY)

    def used(self, without=()):
        total = {}
        running = [guest.requests for guest in self.guests.values() if guest.running and guest not in without]
        for requests in running + [self.size_of(one) for one in self.let_in.values()]:
            for name, amount in requests.items():
                total[name] = total.get(name, 0) + amount
        return total

    @staticmethod
    def size_of(placeholder):
        requests = placeholder.manifest["spec"]["containers"][0]["resources"]["requests"]
        return dict(amounts(requests), pods=1000)

    def _fits(self, wanted, without=()):
        used = self.used(without)
        return all(used.get(name, 0) + amount <= self.allocatable.get(name, 0) for name, amount in wanted.items())

    # -- the kubelet

    def settle(self):
        Node.settle(self)
        if not hasattr(self, "files") or KUBELET not in self.active:
            return
        uids = {one.uid for one in self.files.values()}
        for uid in sorted(self.let_in):
            if uid not in uids:
                del self.let_in[uid]
        for one in sorted(self.files.values()) if self.reads else ():
            if one.uid in self.let_in or one.uid in self.refused:
                continue
            if self.refuses:
                self.refused.add(one.uid)
                continue
            self._preempt_for(self.size_of(one))
            if self._fits(self.size_of(one)):
                self.let_in[one.uid] = one
            elif any(guest.preempted and guest.running for guest in self.guests.values()):
                return
            else:
                self.refused.add(one.uid)

    def _preempt_for(self, size):
        """By force, and nobody is asked; but with the grace that the pod has, or that is left of it."""
        lower = [guest for guest in self.guests.values() if not (guest.stays or guest.priority >= PRIORITY)]
        running = [guest for guest in lower if guest.running]
        going = [guest for guest in running if guest.preempted]
        others = sorted((guest for guest in running if not guest.preempted), key=lambda one: (one.priority, one.name))
        while others and not self._fits(size, without=going):
            going.append(others.pop(0))
        if not self._fits(size, without=going):
            return
        for guest in going:
            if not guest.preempted:
                guest.preempted = True
                self.log.append(("preempt", guest.name))
                if guest.grace is not None and guest.ends_at is None:
                    guest.ends_at = self.time + guest.grace
            if guest.ends_at is not None and self.time >= guest.ends_at:
                del self.guests[guest.name]

    def start_again(self, guest):
        """What a placeholder has taken meanwhile it does not get back: then it has failed."""
        if not guest.preempted and self._fits(guest.requests):
            Node.start_again(self, guest)
        else:
            del self.guests[guest.name]

    def reboot(self):
        self.let_in = {}
        self.cpusets = {}
        self.pod_cpus = None
        Node.reboot(self)

    # -- World

    def sleep(self, seconds):
        Node.sleep(self, max(seconds, self.wakes_after))

    def ask_room(self):
        self.amid("api")
        self.settle()
        trouble = self.silence(1)
        if trouble:
            return observed.Room(False, trouble)
        guests = tuple(
            Shown(
                observed.Guest(read_pod(guest.item()), guest.priority, guest.gang, guest.requests),
                mirror=bool(guest.claims),
                acknowledged=not guest.claims,
            )
            for guest in self.guests.values()
            if guest.known
        )
        return observed.Room(True, "", self.allocatable, believed(guests, self.local_pods), self.announced)

    def placed(self):
        return {name: one.uid for name, one in self.files.items()}

    def place(self, placeholders):
        if self.disk_full:
            raise HostError("no space left on device")
        self.log.append(("place", tuple(one.name for one in placeholders)))
        for one in placeholders:
            self.files[one.name] = one
        self.settle()

    def unplace(self, names):
        self.log.append(("unplace", names))
        living = {name_of(lease.key) for lease in self.leases()}
        if living & set(names):
            raise AssertionError("the placeholder of a living lease removed")
        if self.stuck:
            raise HostError("cannot remove: read-only file system")
        for name in names:
            self.files.pop(name, None)
        self.settle()

    def admitted(self, placed, key):
        self.settle()
        wanted = set(placed.values()) if key is None else {placed[name_of(key)]}
        return frozenset(uid for uid in self.let_in if uid in wanted)

    def local_pods(self):
        return Node.local_pods(self) | frozenset(self.let_in)

    def kill(self, uids):
        for uid in uids:
            self.let_in.pop(uid, None)
        Node.kill(self, tuple(uid for uid in uids if uid in self.guests))

    def terminate(self, uids):
        for uid in uids:
            self.let_in.pop(uid, None)
        Node.terminate(self, tuple(uid for uid in uids if uid in self.guests))

    def start_units(self, units):
        """Beside jobs, too: the placeholders stand."""
        self.log.append(("start", units))
        if any(self.fenced(unit) for unit in units):
            raise HostError("condition failed")
        if set(units) & self.admin_stopped:
            raise AssertionError("started what the administrator had stopped")
        if {name_of(lease.key) for lease in self.leases()} - set(self.files):
            raise AssertionError("the kubelet started without the placeholder of a lease")
        self.active |= set(units)
        self.settle()

    def announce(self, text):
        """Beside placeholders no lease holds the whole node."""
        if self.settings.mode == PLACEHOLDER:
            self.announced = text
            self.log.append(("announce", text))
        else:
            Node.announce(self, text)

    def draw_fence(self, leases):
        drawn = fence.draw(leases, self.settings, online=self.online, held=self.cpusets)
        if drawn.cpus != self.pod_cpus:
            self.log.append(("fence", drawn.cpus))
        self.pod_cpus = drawn.cpus
        self.held_memory = drawn.memory
        return drawn.missing

    def cores_of_pods(self):
        return self.online if self.pod_cpus is None else parse_cpus(self.pod_cpus)


class SharedSite(Site):
    """Calls as a PBS hook makes them, after pbs_cgroups has given the job its cores."""

    def __init__(self, directory, **settings):
        Site.__init__(self, directory, **dict({"mode": PLACEHOLDER}, **settings))
        self.node = SharedNode()
        self.attach(self.node)
        self.node.settings = self.settings

    def begin(self, job="1.srv", run=1, start=None, *, cores=1, memory=GIB, exclusive=False, cpus=None):
        key = JobKey("pbs", job, run)
        if cpus != "":
            self.give_cores(job, cores if cpus is None else cpus)
        return self.begin_with(Lease(key, self.node.boot, self.node.time, start, cores, memory, (), exclusive), key)

    def give_cores(self, job, cores):
        """As pbs_cgroups: the lowest cores that no other job has, or those that are named."""
        group = "pbs_jobs.service/jobid/" + job
        if isinstance(cores, str):
            self.node.cpusets[group] = parse_cpus(cores)
            return
        taken = {cpu for name, held in self.node.cpusets.items() if name != group for cpu in held}
        free = sorted(self.node.online - taken)
        if cores:
            self.node.cpusets[group] = frozenset(free[:cores])

    def end(self, job="1.srv", run=1, start=None):
        ended = Ended(JobKey("pbs", job, run), self.node.boot, self.node.time, start)
        if not any(lease.key.job == job and lease.key != ended.key for lease in self.store.leases()):
            self.node.cpusets.pop("pbs_jobs.service/jobid/" + job, None)
        return self.end_of(ended)

    def size(self, job="1.srv", run=1):
        """What the placeholder asks for, as the kubelet has it; None where it has none."""
        one = self.node.files.get(name_of(JobKey("pbs", job, run)))
        if one is None or one.uid not in self.node.let_in:
            return None
        return one.manifest["spec"]["containers"][0]["resources"]["requests"]

    def free_cores(self):
        return format_cpus(self.node.cores_of_pods())
