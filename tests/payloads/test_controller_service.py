# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The service as a process: real socket, real TLS, squeue and scontrol as scripts; killed, stopped, refused, alone."""

import copy
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from api_server import ApiCase
from controller_api import ClusterServer
from nodeshare.controller.decide import HELD_BY, HELD_UNTIL, PLANNED_START, STATE
from nodeshare.model.node.names import ANNOTATION, TAINT
from nodeshare.model.node.observed import SWITCHED_OFF

UP = "Slurmctld(primary) at ctl is UP"
SCONTROL = (
    '#!/bin/sh\n[ "$*" = ping ] && echo >> {0}/pinged && exec cat {0}/ping\n'
    '[ "$*" = "--oneliner show reservation" ] && exec cat {0}/reservations\nexit 2\n'
)
SINFO = '#!/bin/sh\ncase "$*" in *Reason*) exec cat {0}/reasons;; esac\nexec cat {0}/nodes\n'
SQUEUE = (
    '#!/bin/sh\ncase "$*" in *PENDING*) exec cat {0}/plans;; *EndTime*) exec cat {0}/ends;; esac\n'
    "echo >> {0}/asked\nexec cat {0}/jobs\n"
)
IDLE = (("n1", "IDLE"), ("n2", "IDLE"), ("Big-1", "IDLE"))
PERIOD = 0.2  # between two looks at the batch system


def until(condition, what, seconds=300.0):
    """The time is for machines that do much else: what holds is waited for and no longer."""
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            raise AssertionError("not within {:g} s: {}".format(seconds, what))
        time.sleep(0.02)


class ServiceCase(ApiCase):
    names = ("n1", "n2", "n3")

    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)
        self.api = ClusterServer(self.certificates, names=self.names)
        self.addCleanup(self.api.close)
        self.socket = os.path.join(self.directory, "s")
        self.write("squeue", SQUEUE.format(self.directory), mode=0o755)
        self.write("sinfo", SINFO.format(self.directory), mode=0o755)
        self.write("scontrol", SCONTROL.format(self.directory), mode=0o755)
        self.slurm()
        self.write("kubeconfig", json.dumps(self.kubeconfig()))
        self.configure()
        self.process = None

    def kubeconfig(self):
        pem = self.certificates.client
        return {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [
                {"name": "c", "cluster": {"server": self.api.url, "certificate-authority": self.certificates.ca}}
            ],
            "users": [{"name": "u", "user": {"client-certificate": pem, "client-key": pem}}],
        }

    def configure(self, **more):
        values = {name: os.path.join(self.directory, name) for name in ("squeue", "sinfo", "scontrol", "kubeconfig")}
        values.update(host="ctl", socket=self.socket, deadline=100, period=PERIOD, api_timeout=30)
        values.update(names={"Big-1": "n3"})
        values.update(more)
        self.write("controller.json", json.dumps(values))

    def write(self, name, text, mode=0o600):
        path = os.path.join(self.directory, name)
        with open(path + ".new", "w") as stream:
            stream.write(text)
        os.chmod(path + ".new", mode)
        os.rename(path + ".new", path)
        return path

    def slurm(
        self, *, ping=UP, jobs="", states=IDLE, plans="", reservations="No reservations in the system\n", ends=""
    ):
        self.write("plans", plans)
        self.write("ends", ends)
        self.write("reservations", reservations)
        self.write("ping", ping + "\n")
        self.write("jobs", jobs)
        self.write("nodes", "".join("{}^{}^\n".format(name, state.lower()) for name, state in states))
        self.write("reasons", "".join("{}^none^\n".format(name) for name, _state in states))

    def start(self, *, lists=True):
        """Until it listens and, unless there is nobody to ask, has listed the nodes."""
        before = self.watches()
        self.log = os.path.join(self.directory, "log")
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(self.argv(), stderr=log)
        self.addCleanup(self.stop, self.process)
        until(lambda: os.path.exists(self.socket) and self.listens(), "the service listens")
        until(lambda: not lists or self.watches() > before, "it has listed the nodes")

    def argv(self):
        settings = os.path.join(self.directory, "controller.json")
        return (sys.executable, "-B", "-m", "nodeshare", "controller", "--settings", settings)

    def watches(self):
        with self.api.lock:
            return sum("watch=" in path for _method, path, _body in self.api.calls)

    def lists(self):
        """How often all nodes were listed."""
        with self.api.lock:
            return sum("/nodes?" in path and "watch=" not in path for _method, path, _body in self.api.calls)

    def listens(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            return probe.connect_ex(self.socket) == 0

    def stop(self, process, number=signal.SIGTERM):
        if process.poll() is None:
            process.send_signal(number)
        return process.wait(timeout=300)

    def polls(self, name="asked"):
        """How often the batch system has been asked: `asked` for jobs, `pinged` for who is in control."""
        path = os.path.join(self.directory, name)
        return os.path.getsize(path) if os.path.exists(path) else 0

    def after_polls(self, name="asked"):
        """When the service has asked from now on, and acted on it: it is then at least at the poll after that."""
        before = self.polls(name)
        until(lambda: self.polls(name) >= before + 3, "the service asks again and again")

    def when(self, condition, act, *arguments):
        """Does something beside the test as soon as a condition holds."""

        def wait():
            until(condition, "what was waited for beside the test")
            act(*arguments)

        beside = threading.Thread(target=wait)
        beside.start()
        self.addCleanup(beside.join)

    def looks(self):
        """How often the pods of a node were listed."""
        with self.api.lock:
            return sum("/pods?" in path for _method, path, _body in self.api.calls)

    def evictions(self):
        return sum("eviction" in path for _method, path in self.api.writes())

    def ask(self, event, job="1", run="0", nodes="n[1-2]"):
        return self.send(json.dumps({"event": event, "wlm": "slurm", "job": job, "run": run, "nodes": nodes}))

    def send(self, text):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(120)
            connection.connect(self.socket)
            connection.sendall(text.encode("utf-8") + b"\n")
            with connection.makefile() as stream:
                return json.loads(stream.readline())

    def tainted(self, *names):
        taints = {name: self.api.nodes[name]["spec"].get("taints", ()) for name in names or self.names}
        return [name for name in sorted(taints) if any(taint["key"] == TAINT for taint in taints[name])]

    def annotation(self, name, key):
        return self.api.nodes[name]["metadata"]["annotations"].get(key)

    def told(self):
        with open(self.log) as stream:
            return stream.read()


class Jobs(ServiceCase):
    def test_all_nodes_of_a_job_are_tainted_and_emptied_and_given_back(self):
        self.api.put_pod("web", "n1")
        self.api.put_pod("web2", "n2", owner="ReplicaSet")
        self.api.put_pod("agent", "n1", owner="DaemonSet")
        self.api.put_pod("static", "n2", mirror=True)
        self.api.put_pod("elsewhere", "n3")
        self.slurm(jobs="1^0^RUNNING^n[1-2]^\n")  # a job that Slurm does not know would be given back at once
        self.start()
        answer = self.ask("prolog", nodes="n[1-2],ghost")
        self.assertEqual((answer["ok"], self.tainted()), (True, ["n1", "n2"]))
        self.assertEqual(sorted(name for _space, name in self.api.pods), ["agent", "elsewhere", "static"])
        self.assertEqual(self.annotation("n1", HELD_BY), "slurm/1/0")
        self.assertIn("unknown=ghost", self.told())
        self.slurm(jobs="1^0^COMPLETING^n[1-2]^\n")
        self.assertTrue(self.ask("epilog")["ok"])
        until(lambda: not self.tainted(), "the taints are lifted")
        self.assertIsNone(self.annotation("n1", HELD_BY))

    def test_a_node_that_is_not_converted_keeps_its_pods_and_gets_no_taint_whatever_jobs_and_states_say(self):
        self.api.relabel("n1", "")
        self.api.put_pod("theirs", "n1")
        self.api.put_pod("ours", "n2")
        self.slurm(jobs="1^0^RUNNING^n[1-2]^\n", states=(("n1", "IDLE+DRAIN"), ("n2", "IDLE"), ("Big-1", "IDLE")))
        self.start()
        self.assertTrue(self.ask("prolog")["ok"])
        self.after_polls()
        self.assertEqual((self.tainted(), [name for _space, name in self.api.pods]), (["n2"], ["theirs"]))
        self.assertIn("unknown=n1", self.told())
        self.api.relabel("n1", "handover")
        until(lambda: self.tainted() == ["n1", "n2"], "the controller takes up a node that is converted now")

    def test_a_node_that_is_restored_is_left_alone_from_then_on(self):
        self.slurm(jobs="1^0^RUNNING^n[1-2]^\n")
        self.start()
        self.ask("prolog")
        item = copy.deepcopy(self.api.nodes["n1"])  # what the way back does: label, taint and annotations go at once
        item["metadata"].update(labels={}, annotations={})
        item["spec"]["taints"] = []
        self.api.change("n1", item)
        self.api.put_pod("theirs", "n1")
        until(lambda: "n1" not in os.listdir(self.socket + ".held"), "the controller has seen it")
        self.ask("prolog", job="2", nodes="n1")
        self.after_polls()
        self.assertEqual((self.tainted(), [name for _space, name in self.api.pods]), (["n2"], ["theirs"]))

    def test_pods_beside_jobs_are_not_evicted_for_a_job_of_a_batch_system_that_hands_it_over(self):
        self.api.relabel("n1", "placeholder")
        self.api.put_pod("beside", "n1")
        self.slurm(jobs="1^0^RUNNING^n1^\n")
        self.start()
        self.assertTrue(self.ask("prolog", nodes="n1")["ok"])
        self.assertEqual((self.tainted(), [name for _space, name in self.api.pods]), ([], ["beside"]))

    def test_the_nodes_own_leases_keep_the_taint_until_they_are_empty(self):
        self.slurm(jobs="1^0^RUNNING^n[1-2]^\n")
        self.start()
        self.ask("prolog")
        self.api.annotate("n1", ANNOTATION, "slurm/1/0")
        self.slurm()
        self.ask("epilog")
        until(lambda: self.tainted() == ["n1"], "n2 is given back")
        self.after_polls()
        self.assertEqual(self.tainted(), ["n1"])
        self.api.annotate("n1", ANNOTATION, "")
        until(lambda: not self.tainted(), "n1 is given back")

    def test_a_storm_on_held_nodes_writes_nothing(self):
        self.slurm(jobs="1^0^RUNNING^n[1-2]^\n")
        self.start()
        self.ask("prolog")
        before = len(self.api.calls)
        failures = []

        def task(number):
            for event in ("prolog", "epilog"):
                if not self.ask(event, job=str(number), nodes="n1")["ok"]:
                    failures.append(number)

        threads = [threading.Thread(target=task, args=(number,)) for number in range(100, 200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual([call for call in self.api.calls[before:] if "watch" not in call[1]], [])
        self.assertEqual(self.tainted(), ["n1", "n2"])

    def test_a_budget_is_respected_until_the_deadline_and_said_so(self):
        self.slurm(jobs="1^0^CONFIGURING^n1^\n")
        self.api.put_pod("guarded", "n1")
        self.api.protected.add(("default", "guarded"))
        self.configure(deadline=2)
        self.start()
        answer = self.ask("prolog", nodes="n1")
        self.assertEqual((answer["ok"], answer["reason"]), (False, "pods have not left in time"))
        until(lambda: self.api.writes()[-1][1] == "/api/v1/namespaces/default/events", "the event is written")
        self.assertGreater(self.evictions(), 1)
        self.assertEqual(len(self.api.pods), 1)

    def test_the_next_job_on_a_node_does_not_wait_for_pods_that_the_first_could_not_send_away(self):
        self.slurm(jobs="1^0^RUNNING^n1^\n2^0^CONFIGURING^n1^\n")
        self.api.put_pod("phantom", "n1")  # its kubelet is stopped: it is on its way out for ever
        self.api.lingering.add("phantom")
        self.configure(deadline=2)
        self.start()
        self.assertFalse(self.ask("prolog", nodes="n1")["ok"])
        before = self.looks()
        self.assertTrue(self.ask("prolog", job="2", nodes="n1")["ok"])
        self.assertEqual(self.looks(), before)

    def test_no_job_waits_for_pods_of_a_node_that_is_switched_off(self):
        self.slurm(jobs="1^0^CONFIGURING^n[1-2]^\n")
        self.api.put_pod("phantom", "n1")  # nobody is there to say that it has ended
        self.api.lingering.add("phantom")
        self.api.put_pod("web", "n2")
        self.api.annotate("n1", ANNOTATION, SWITCHED_OFF)
        self.start()
        answer = self.ask("prolog")
        self.assertEqual((answer["ok"], self.tainted()), (True, ["n1", "n2"]))
        self.assertEqual(sorted(name for _space, name in self.api.pods), ["phantom"])

    def test_a_node_that_is_switched_off_while_a_job_waits_for_its_pods_is_waited_for_no_longer(self):
        self.slurm(jobs="1^0^CONFIGURING^n1^\n")
        self.api.put_pod("phantom", "n1")
        self.api.lingering.add("phantom")
        self.start()
        self.when(lambda: self.looks() > 2, self.api.annotate, "n1", ANNOTATION, SWITCHED_OFF)
        self.assertTrue(self.ask("prolog", nodes="n1")["ok"])

    def test_a_pod_that_takes_its_time_is_waited_for_and_evicted_once(self):
        self.slurm(jobs="1^0^CONFIGURING^n[1-2]^\n")
        self.api.put_pod("slow", "n1")
        self.api.lingering.add("slow")
        self.start()
        self.when(lambda: self.evictions() and self.looks() > 2, self.api.pods.clear)
        self.assertTrue(self.ask("prolog", nodes="n1")["ok"])
        self.assertEqual(self.evictions(), 1)

    def test_a_job_that_ends_while_it_waits_is_answered_and_its_nodes_are_free(self):
        self.slurm(jobs="1^0^CONFIGURING^n[1-2]^\n")
        self.api.put_pod("guarded", "n1")
        self.api.protected.add(("default", "guarded"))
        self.start()

        def end():
            self.slurm()
            self.ask("epilog")

        self.when(self.evictions, end)
        self.assertEqual(self.ask("prolog")["reason"], "the job has ended")
        until(lambda: not self.tainted(), "the taints are lifted")

    def test_writers_in_between_are_looked_at_first(self):
        self.slurm(jobs="1^0^CONFIGURING^n[1-2]^\n")
        self.start()
        self.api.conflicts = 4
        self.assertTrue(self.ask("prolog")["ok"])
        self.assertEqual(self.tainted(), ["n1", "n2"])

    def test_a_late_epilog_of_run_0_does_not_free_run_1(self):
        self.slurm(jobs="5^1^RUNNING^n1^\n")
        self.start()
        self.ask("prolog", job="5", run="0", nodes="n1")
        self.ask("prolog", job="5", run="1", nodes="n1")
        self.ask("epilog", job="5", run="0", nodes="n1")
        self.after_polls()
        self.assertEqual(self.tainted(), ["n1"])
        self.assertIn("slurm/5/1", self.annotation("n1", HELD_BY))


class Notes(ServiceCase):
    """What the scripts do for jobs on one node that they find held: see tests of the scripts for their side."""

    def held(self):
        return sorted(os.listdir(self.socket + ".held"))

    def note(self, event, job, node="n1", run="0"):
        name = "{}.{}.{}.{}".format(job, run, event, node)
        os.close(os.open(os.path.join(self.socket + ".jobs", name), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))

    def all_read(self):
        until(lambda: not os.listdir(self.socket + ".jobs"), "all notes are read")

    def test_nodes_are_shown_by_the_batch_systems_names_from_the_answer_until_they_are_given_back(self):
        self.slurm(jobs="1^0^RUNNING^n[1-2],Big-1^\n")
        self.api.put_pod("slow", "n2")
        self.api.lingering.add("slow")
        self.start()
        shown_early = []

        def leave():
            shown_early.extend(self.held())
            self.api.pods.clear()

        self.when(self.evictions, leave)
        self.assertTrue(self.ask("prolog", nodes="n[1-2],Big-1")["ok"])
        self.assertNotIn("n2", shown_early)
        self.assertEqual(self.held(), ["Big-1", "n1", "n2"])
        self.slurm()
        self.ask("epilog")
        until(lambda: not self.tainted(), "the taints are lifted")
        self.assertEqual(self.held(), [])

    def test_a_storm_of_notes_writes_nothing_and_every_job_leaves_a_line(self):
        self.slurm(jobs="1^0^RUNNING^n1^\n")
        self.start()
        self.ask("prolog", nodes="n1")
        before = len(self.api.calls)
        for job in range(100, 300):
            self.note("prolog", job)
        for job in range(100, 300):
            self.note("epilog", job)
        self.all_read()
        self.assertEqual([call for call in self.api.calls[before:] if "watch" not in call[1]], [])
        for event in ("prolog", "epilog"):
            self.assertEqual(self.told().count("event={} wlm=slurm job=2".format(event)), 100)

    def test_a_job_that_ends_right_behind_its_note_has_ended(self):
        self.slurm(jobs="1^0^RUNNING^n1^\n")
        self.start()
        self.ask("prolog", job="1", nodes="n1")
        for job in map(str, range(2, 40)):
            self.note("prolog", job)
            self.ask("epilog", job=job, nodes="n1")
        told = self.told()
        for job in range(2, 40):
            begin, end = (told.index("event={} wlm=slurm job={} ".format(what, job)) for what in ("prolog", "epilog"))
            self.assertLess(begin, end)

    def test_a_job_that_was_noted_holds_its_node_when_the_others_end(self):
        jobs = range(1, 30)
        self.slurm(jobs="".join("{}^0^RUNNING^n1^\n".format(job) for job in jobs))
        self.start()
        self.ask("prolog", job="1", nodes="n1")
        for job in jobs[1:]:
            self.note("prolog", job)  # its script goes on at once: the node is held
            self.ask("epilog", job=str(job - 1), nodes="n1")
        self.assertEqual(self.tainted(), ["n1"])
        bodies = [body for method, _path, body in self.api.calls if method == "PATCH"]
        self.assertEqual(len([body for body in bodies if "taints" in body.get("spec", {})]), 1)
        self.slurm()
        self.note("epilog", jobs[-1])
        until(lambda: not self.tainted(), "the last one gives it back")

    def test_what_a_killed_predecessor_has_left_is_worth_nothing(self):
        self.slurm(jobs="1^0^RUNNING^n1^\n")
        self.start()
        self.ask("prolog", nodes="n1")
        self.stop(self.process, signal.SIGKILL)
        self.assertEqual(self.held(), ["n1"])
        self.note("prolog", 7, node="n2")
        self.slurm(ping=UP.replace("UP", "DOWN"))
        self.start()
        self.assertEqual((self.held(), os.listdir(self.socket + ".jobs")), ([], []))
        self.assertNotIn("job=7", self.told())

    def test_what_is_no_note_is_removed_and_means_nothing(self):
        self.configure(group="root")
        self.start()
        folder = self.socket + ".jobs"
        self.assertEqual(os.stat(folder).st_mode & 0o777, 0o730)
        for name in ("1.0.prolog.-rf", "x.0.prolog.n1", "1.0.begin.n1", "1.0.prolog.n1\n", "$(id)"):
            os.symlink("/etc/passwd", os.path.join(folder, name))
        self.all_read()
        self.assertEqual(self.tainted(), [])
        self.assertIn("is no note of a job", self.told())


class Repairs(ServiceCase):
    def test_states_of_the_batch_system_become_the_taint_and_go_again(self):
        self.slurm(states=(("n1", "IDLE+DRAIN"), ("n2", "IDLE"), ("Big-1", "DOWN+NOT_RESPONDING")))
        self.start()
        until(lambda: self.tainted() == ["n1", "n3"], "drained and down nodes are tainted")
        self.assertEqual((self.annotation("n1", STATE), self.annotation("n3", STATE)), ("DRAIN", "DOWN+NOT_RESPONDING"))
        self.slurm()
        until(lambda: not self.tainted(), "the nodes come back")

    def test_killed_in_the_middle_it_goes_on_where_it_was(self):
        self.slurm(jobs="1^0^RUNNING^n[1-2]^\n")
        self.api.put_pod("guarded", "n1")
        self.api.protected.add(("default", "guarded"))
        self.start()
        self.when(self.evictions, self.stop, self.process, signal.SIGKILL)
        with self.assertRaises((ValueError, OSError)):
            self.ask("prolog")
        self.start()
        self.after_polls()
        self.assertEqual(self.tainted(), ["n1", "n2"], "a job that runs keeps its nodes")
        self.slurm()
        until(lambda: not self.tainted(), "an epilog that nobody heard is made good")

    def test_cannot_tell_is_not_gone(self):
        self.slurm(jobs="1^0^RUNNING^n[1-2]^\n")
        self.start()
        self.ask("prolog")
        self.write("squeue", "#!/bin/sh\necho 'squeue: error: timed out' >&2\nexit 1\n", mode=0o755)
        self.stop(self.process, signal.SIGKILL)
        self.start()
        self.ask("epilog", job="2")
        self.after_polls("pinged")
        self.assertEqual(self.tainted(), ["n1", "n2"])
        self.slurm()
        self.write("squeue", SQUEUE.format(self.directory), mode=0o755)
        until(lambda: not self.tainted(), "the stale hold is cleared")

    def test_a_watch_that_is_too_old_or_ends_is_begun_anew(self):
        self.start()
        self.ask("prolog")
        self.api.expire = True
        self.api.drop_watchers()
        until(lambda: self.lists() == 2, "a new list")
        self.api.annotate("n3", ANNOTATION, "slurm/9/0")
        until(lambda: self.tainted("n3") == ["n3"], "changes are still seen")

    def test_writes_that_failed_are_made_good_without_a_new_event(self):
        self.slurm(jobs="2^0^RUNNING^Big-1^\n1^0^CONFIGURING^n[1-2]^\n")
        self.api.fail = [("PATCH", 500)] * 10000
        self.start()
        self.assertFalse(self.ask("prolog")["ok"])
        self.assertEqual(self.tainted(), [])
        self.api.fail = []
        until(lambda: self.tainted() == ["n1", "n2", "n3"], "tainted after all")


class Ahead(ServiceCase):
    """Pods that leave before any job comes, where the site wants it."""

    def pods(self):
        with self.api.lock:
            return sorted(name for _space, name in self.api.pods)

    def test_pods_leave_nodes_in_the_states_that_the_site_names_and_no_others(self):
        self.configure(evict_on=["drain", "reboot"])
        for name in self.names:
            self.api.put_pod("web-" + name, name)
        self.api.put_pod("guarded", "n1")
        self.api.protected.add(("default", "guarded"))
        self.api.put_pod("agent", "n1", owner="DaemonSet")
        self.slurm(states=(("n1", "IDLE+DRAIN"), ("n2", "IDLE+MAINTENANCE"), ("Big-1", "IDLE+REBOOT_REQUESTED")))
        self.start()
        until(
            lambda: self.pods() == ["agent", "guarded", "web-n2"], "pods leave drained nodes and those to be rebooted"
        )
        self.after_polls()
        self.assertEqual((self.pods(), self.tainted()), (["agent", "guarded", "web-n2"], ["n1", "n2", "n3"]))
        self.api.protected.clear()
        until(lambda: self.pods() == ["agent", "web-n2"], "a budget is respected, and asked for again")

    def test_pods_that_are_jobs_stay_on_a_node_that_is_drained(self):
        self.configure(evict_on=["drain"])
        self.api.relabel("n1", "backed")
        self.api.put_pod("job", "n1")
        self.api.relabel("n2", "placeholder")
        self.api.put_pod("beside", "n2")
        self.slurm(states=(("n1", "IDLE+DRAIN"), ("n2", "IDLE+DRAIN"), ("Big-1", "IDLE")))
        self.start()
        until(lambda: self.pods() == ["job"], "the pod beside jobs has left")
        self.after_polls()
        self.assertEqual((self.pods(), self.tainted()), (["job"], ["n1", "n2"]))

    def test_nodes_are_empty_before_a_planned_start_or_a_reservation_and_come_back_when_the_plan_changes(self):
        self.configure(drain_ahead=1800)
        for name in self.names:
            self.api.put_pod("web-" + name, name)

        def at(seconds):
            return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + seconds))

        reservation = "ReservationName=r StartTime={} EndTime={} Duration=01:00:00 Nodes=n1 NodeCnt=1 CoreCnt=2\n"
        later = at(7200) + "^n2^\n" + at(600) + "^(null)^\nN/A^n2^\n"
        self.slurm(plans=at(600) + "^Big-1^\n" + later, reservations=reservation.format(at(60), at(3660)))
        self.start()
        until(lambda: self.pods() == ["web-n2"], "pods leave nodes that are planned for")
        self.assertEqual((self.tainted(), self.annotation("n3", STATE)), (["n1", "n3"], "PLANNED"))
        self.assertEqual(bool(self.annotation("n2", PLANNED_START)), True, "a start that is not near yet is told, too")
        self.slurm(plans=later)
        until(lambda: not self.tainted(), "the plan has changed")
        self.assertIsNone(self.annotation("n3", STATE))
        self.slurm(plans="")
        until(lambda: not self.annotation("n2", PLANNED_START), "nothing is planned")

    def test_nodes_say_when_the_jobs_that_hold_them_end_and_a_refusal_of_that_hinders_nothing(self):
        def at(seconds):
            return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + seconds))

        self.api.refused = {HELD_UNTIL}
        self.slurm(jobs="7^0^RUNNING^n[1-2]^\n8^0^RUNNING^Big-1^\n", ends="7^0^" + at(3600) + "^\n8^0^NONE^\n")
        self.start()
        until(lambda: self.tainted() == ["n1", "n2", "n3"], "the jobs hold their nodes")
        self.after_polls()
        self.assertIsNone(self.annotation("n1", HELD_UNTIL))
        self.api.refused = set()
        until(lambda: all(self.annotation(name, HELD_UNTIL) for name in ("n1", "n2")), "the end is told of both nodes")
        self.assertTrue(self.annotation("n1", HELD_UNTIL).startswith("slurm/7/0=2"))
        self.assertIsNone(self.annotation("n3", HELD_UNTIL), "a job without a limit has no end")
        with self.api.lock:
            managers = {path.partition("?")[2] for method, path, body in self.api.calls if HELD_UNTIL in str(body)}
        self.assertEqual(managers, {"fieldManager=converged-ends"}, "the time of held-by stays that of held-by")
        self.slurm()
        until(lambda: not self.tainted(), "the jobs have ended")
        self.assertIsNone(self.annotation("n1", HELD_UNTIL))

    def test_without_the_settings_no_plan_is_read_and_no_pod_leaves(self):
        self.api.put_pod("web", "n1")
        self.slurm(states=(("n1", "IDLE+DRAIN"), ("n2", "IDLE"), ("Big-1", "IDLE")), plans="2000-01-01T00:00:00^n2^\n")
        self.start()
        until(lambda: self.tainted() == ["n1"], "the drained node is tainted")
        self.after_polls()
        self.assertEqual((self.pods(), self.tainted(), self.looks()), (["web"], ["n1"], 0))


class Roles(ServiceCase):
    def test_a_standby_writes_nothing_and_takes_over_when_the_other_is_down(self):
        both = "Slurmctld(primary) at other is {}\nSlurmctld(backup) at ctl is UP"
        self.slurm(ping=both.format("UP"), states=(("n1", "DOWN"),))
        self.api.annotate("n2", ANNOTATION, "slurm/9/0")
        self.start()
        self.after_polls("pinged")
        self.assertEqual(self.api.writes(), [])
        self.slurm(ping=both.format("DOWN"), states=(("n1", "DOWN"),))
        until(lambda: self.tainted() == ["n1", "n2"], "it acts")

    def test_without_an_api_jobs_are_answered_soon(self):
        self.slurm(jobs="1^0^RUNNING^n[1-2]^\n")
        self.configure(deadline=1000)
        self.api.close()
        self.start(lists=False)
        answer = self.ask("prolog")
        self.assertEqual(answer["ok"], False)
        self.assertLess(answer["seconds"], 500.0, "it waited until the job's deadline")
        ClusterServer.__init__(self.api, self.certificates, names=self.names)
        self.write("kubeconfig", json.dumps(self.kubeconfig()))
        until(lambda: self.tainted() == ["n1", "n2"], "the job is not forgotten")

    def test_what_is_no_request_is_refused_by_name(self):
        self.start()
        cases = (
            ("{", "a request that is not JSON"),
            ("[]", "a request that is not an object"),
            ('{"event": 1}', "a request without a text named event"),
        )
        for text, reason in cases:
            with self.subTest(text):
                self.assertEqual(self.send(text)["reason"], reason)
        for job, nodes in (("1;rm", "n1"), ("$(id)", "n1"), ("-rf", "n1"), ("1", "n[1-9999999]"), ("1", "a b\n")):
            with self.subTest(job=job, nodes=nodes):
                self.assertFalse(self.ask("prolog", job=job, nodes=nodes)["ok"])
        self.assertEqual(self.api.writes(), [])

    def test_sigterm_answers_who_waits_and_leaves_no_socket(self):
        self.slurm(jobs="1^0^CONFIGURING^n[1-2]^\n")
        self.api.put_pod("guarded", "n1")
        self.api.protected.add(("default", "guarded"))
        self.start()
        self.when(self.evictions, self.process.send_signal, signal.SIGTERM)
        self.assertEqual(self.ask("prolog")["reason"], "stopping")
        self.assertEqual(self.process.wait(timeout=300), 0)
        self.assertFalse(os.path.exists(self.socket))
        self.assertEqual(self.tainted(), ["n1", "n2"])

    def test_the_socket_is_for_the_group_alone_and_never_taken_from_another_controller(self):
        self.configure(group="root")
        self.start()
        self.assertEqual(os.stat(self.socket).st_mode & 0o777, 0o660)
        second = subprocess.run(self.argv(), stderr=subprocess.PIPE, timeout=300, check=False)
        self.assertEqual(second.returncode, 1)
        self.assertIn(b"another controller listens there", second.stderr)
        self.assertTrue(self.ask("prolog")["ok"])


if __name__ == "__main__":
    unittest.main()
