# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API client against a real TLS server: identity, compare-and-set, budgets, and bounds on every wait."""

import contextlib
import shutil
import socket
import tempfile
import threading
import time
import unittest
import unittest.mock

from api_server import ApiCase, ApiServer, Certificates
from nodeshare.kube import client as kube
from nodeshare.kube import node_client
from nodeshare.kube.kubeconfig import Credentials
from nodeshare.model.node import names
from nodeshare.model.node.observed import Pod


class KubeCase(ApiCase):
    def setUp(self):
        self.api = ApiServer(self.certificates)
        self.addCleanup(self.api.close)

    def credentials(self, **other):
        pem = self.certificates.client
        values = {"server": self.api.url, "ca_file": self.certificates.ca, "cert_file": pem, "key_file": pem}
        return Credentials(**dict(values, **other))

    def node(self, *, timeout=120.0, **other):
        client = kube.Client(self.credentials(**other), timeout=timeout)
        self.addCleanup(client.close)
        return node_client.NodeClient(client, node="n1")


class Clock:
    """Time that passes by sleeping alone."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds + 0.001  # a request takes its time, too


class Looking(KubeCase):
    def test_the_node_and_its_pods_are_read_in_our_words(self):
        self.api.node["spec"] = {"taints": [{"key": names.TAINT, "effect": "NoSchedule"}]}
        self.api.node["metadata"]["annotations"] = {names.ANNOTATION: "text", "other": "x"}
        self.api.add_pod("web")
        self.api.add_pod("daemon", owner="DaemonSet")
        self.api.add_pod("replica", owner="ReplicaSet", leaving=True)
        self.api.add_pod("static", mirror=True)
        self.api.add_pod("done", phase="Succeeded")
        seen = self.node().look()
        self.assertEqual((seen.answers, seen.tainted, seen.announced), (True, True, "text"))
        self.assertEqual(
            set(seen.pods),
            {
                Pod("default", "web", "uid-web"),
                Pod("default", "daemon", "uid-daemon", stays=True),
                Pod("default", "replica", "uid-replica", leaving=True),
                Pod("default", "static", "a81259cef8e959c624df1d456e5d3297", stays=True),
            },
        )

    def test_a_deleted_pod_of_a_daemonset_does_not_stay_whoever_wrote_that_owner(self):
        self.api.add_pod("miner", owner="DaemonSet", leaving=True)
        seen = self.node().look()
        self.assertEqual(seen.pods, (Pod("default", "miner", "uid-miner", leaving=True),))

    def test_an_owner_that_the_collector_can_never_look_up_lets_no_pod_stay(self):
        daemon = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": True}
        unknown = {"apiVersion": "no.such/v1", "kind": "Thing", "name": "t", "uid": "t"}
        for owners in (
            [daemon, unknown],
            [unknown, daemon],
            [dict(daemon, apiVersion="no.such/v1")],
            [dict(daemon, apiVersion="apps/v9")],
            [dict(daemon, name="%zz")],
            [dict(daemon, name="../../../../../../readyz")],
            [dict(daemon, name="a" * 1000000)],
            [dict(daemon, name="")],
            [dict(daemon, controller=None)],
        ):
            self.api.add_pod("miner", owner="DaemonSet")
            self.assertEqual([pod.stays for pod in self.node().look().pods], [True])
            self.api.pods["default", "miner"]["metadata"]["ownerReferences"] = owners
            with self.subTest(owners=str(owners)[:200]):
                self.assertEqual(self.node().look().pods, (Pod("default", "miner", "uid-miner"),))

    def test_a_mirror_that_claims_the_uid_of_another_pod_speaks_for_no_process_of_that_pod(self):
        for claimed in ("7a1e7a35-3f6c-4f2b-9d0e-0a1b2c3d4e5f", "sandbox-1", "", None, "A" * 32, "a" * 33):
            self.api.add_pod("forged", mirror=True)
            annotations = self.api.pods["default", "forged"]["metadata"]["annotations"]
            if claimed is None:
                del annotations["kubernetes.io/config.hash"]
            else:
                annotations["kubernetes.io/config.hash"] = claimed
            with self.subTest(claimed=claimed):
                self.assertEqual(self.node().look().pods, (Pod("default", "forged", "uid-forged"),))

    def test_a_volume_that_another_node_could_have_next_is_known(self):
        for volumes, expected in (
            (None, False),
            ([{"name": "a", "emptyDir": {}}, {"name": "b", "projected": {}}, {"name": "c", "hostPath": {}}], False),
            ([{"name": "a", "emptyDir": {}}, {"name": "b", "persistentVolumeClaim": {"claimName": "x"}}], True),
            ([{"name": "a", "ephemeral": {}}], True),
            ([{"name": "a", "iscsi": {}}], True),
        ):
            self.api.add_pod("web")
            self.api.pods["default", "web"]["spec"]["volumes"] = volumes
            with self.subTest(volumes=volumes):
                self.assertEqual([pod.mounts for pod in self.node().look().pods], [expected])

    def test_a_thousand_long_pods_that_have_finished_are_not_even_sent(self):
        for number in range(1000):
            name = "done-{}".format(number)
            self.api.add_pod(name, phase="Succeeded" if number % 2 else "Failed")
            self.api.pods["default", name]["spec"]["env"] = "x" * 10000
        sent = []
        route = self.api.route
        self.api.route = lambda handler, body: sent.append(route(handler, body)) or sent[-1]
        self.assertEqual((self.node().look().answers, self.node().look().pods), (True, ()))
        self.assertEqual([len(answer.get("items", ())) for _status, answer in sent], [0, 0, 0, 0])

    def test_pods_are_read_page_by_page(self):
        for number in range(2 * node_client.PAGE + 1):
            self.api.add_pod("p{}".format(number))
        seen = self.node().look()
        self.assertEqual(
            {pod.name for pod in seen.pods}, {"p{}".format(number) for number in range(2 * node_client.PAGE + 1)}
        )
        self.assertEqual(len(seen.pods), 2 * node_client.PAGE + 1)
        self.assertEqual([call[0] for call in self.api.calls], ["GET"] * 4)

    def test_pods_that_are_too_long_for_one_page_come_in_smaller_ones(self):
        for number in range(30):
            name = "long-{}".format(number)
            self.api.add_pod(name)
            self.api.pods["default", name]["spec"]["env"] = "x" * 60000
        with unittest.mock.patch.object(kube, "LARGEST_ANSWER", 1000000):
            seen = self.node().look()
        self.assertEqual((seen.answers, len(seen.pods)), (True, 30), seen.why)

    def test_one_pod_that_is_too_long_alone_is_no_answer(self):
        self.api.add_pod("long")
        self.api.pods["default", "long"]["spec"]["env"] = "x" * 60000
        with unittest.mock.patch.object(kube, "LARGEST_ANSWER", 50000):
            seen = self.node().look()
        self.assertEqual((seen.answers, seen.why), (False, "GET /api/v1/pods: the answer is too long"))

    def test_pages_without_end_are_given_up(self):
        with unittest.mock.patch.object(node_client, "PAGES_SECONDS", 0.00001):
            page = {"metadata": {"continue": "again"}, "items": []}
            self.api.route = lambda handler, _body: (200, self.api.node if "/nodes/" in handler.path else page)
            seen = self.node().look()
        self.assertEqual((seen.answers, seen.why), (False, "GET /api/v1/pods: the pages take too long"))

    def hold(self, text, *fields, written="2026-01-01T00:00:00Z"):
        annotations = {"f:" + field: {} for field in fields}
        self.api.node["metadata"]["annotations"] = {names.HELD_BY: text}
        self.api.node["metadata"]["managedFields"] = [
            {"time": "2027-01-01T00:00:00Z", "fieldsV1": {"f:spec": {}, "f:metadata": {"f:labels": {}}}},
            {"time": written, "fieldsV1": {"f:metadata": {"f:annotations": annotations}}},
        ]

    def test_when_the_controllers_asked_pods_to_leave_is_told_by_the_servers_clock_alone(self):
        for date, written, expected in (
            ("Thu, 01 Jan 2026 00:00:45 GMT", "2026-01-01T00:00:00Z", 45.0),
            ("Thu, 01 Jan 2026 00:00:00 GMT", "2026-01-01T00:00:01Z", 0.0),
            ("Thu, 01 Jan 2026 00:00:45 GMT", "yesterday", 0.0),
            ("soon", "2026-01-01T00:00:00Z", 0.0),
            ("", "2026-01-01T00:00:00Z", 0.0),
        ):
            self.hold("slurm/1/0,slurm/2/0", names.HELD_BY, written=written)
            with self.subTest(date=date, written=written):
                self.assertEqual(names.held_seconds(self.api.node, date), expected)
        self.hold("slurm/1/0,slurm/2/0", names.HELD_BY)
        seen = self.node().look()
        self.assertEqual(seen.holders, ("slurm/1/0", "slurm/2/0"))
        self.assertGreater(seen.held_seconds, 0.0)

    def test_what_others_write_on_a_node_says_nothing_about_when_pods_were_asked(self):
        for text, field, holders in (("slurm/1/0", names.ANNOTATION, ("slurm/1/0",)), ("", names.HELD_BY, ())):
            self.hold(text, field)
            seen = self.node().look()
            self.assertEqual((seen.answers, seen.holders, seen.held_seconds), (True, holders, 0.0))

    def test_an_announcement_of_the_node_is_no_writing_of_the_controllers(self):
        self.node().announce("x")
        self.assertIn("?fieldManager=nodeshare-on-node", self.api.calls[-1][1])

    def test_a_foreign_taint_and_a_foreign_owner_are_not_taken_for_ours(self):
        self.api.node["spec"] = {
            "taints": [
                {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
                {"key": names.TAINT, "effect": "PreferNoSchedule"},
            ]
        }
        self.assertFalse(self.node().look().tainted)

    def test_a_node_object_that_is_not_there_is_an_answer(self):
        self.api.node = None
        seen = self.node().look()
        self.assertEqual((seen.answers, seen.tainted, seen.pods), (True, False, ()))

    def test_credentials_inside_the_kubeconfig_are_used_and_leave_no_file(self):
        with open(self.certificates.client) as stream:
            pem = stream.read()
        with open(self.certificates.ca) as stream:
            ca = stream.read()
        self.assertTrue(
            self.node(ca_file="", ca_pem=ca, cert_file="", key_file="", cert_pem=pem, key_pem=pem).look().answers
        )


class Silence(KubeCase):
    def test_every_kind_of_silence_is_no_answer_and_says_why(self):
        for what in (500, 401, 403, 429):
            self.api.fail = [("GET", what)]
            seen = self.node().look()
            self.assertEqual((seen.answers, str(what) in seen.why), (False, True), seen)
        for raw in (b"", b"nonsense", b"[]", b'{"metadata": 1}', b"\xff"):
            self.api.raw = raw
            with self.subTest(raw=raw):
                self.assertFalse(self.node().look().answers)

    def test_what_a_proxy_says_in_place_of_a_list_is_not_taken_for_no_pods(self):
        for answer in ({"kind": "Status", "status": "Success"}, {}, {"items": 7}, {"items": [7]}, [], "ok"):
            self.api.route = lambda handler, _body, answer=answer: (
                200,
                self.api.node if "/nodes/" in handler.path else answer,
            )
            with self.subTest(answer=answer):
                seen = self.node().look()
                self.assertEqual((seen.answers, "not understood" in seen.why), (False, True), seen)

    def test_an_api_with_too_much_to_do_is_asked_again_when_it_says_and_is_not_silent(self):
        self.api.add_pod("web")
        for status in (429, 503):
            self.api.fail = [("GET", status, "0.01")] * 3
            seen = self.node().look()
            self.assertEqual((seen.answers, [pod.name for pod in seen.pods]), (True, ["web"]))
        self.api.fail = [("PATCH", 429, "0")] * 2
        self.node().announce("x")
        self.assertEqual(self.api.node["metadata"]["annotations"][names.ANNOTATION], "x")

    def test_an_api_that_stays_busy_or_asks_for_too_long_a_wait_is_silent_in_bounded_time(self):
        for wait in ("3600", "3601", "-1", "nan", "Wed, 21 Oct 2026 07:28:00 GMT"):
            del self.api.calls[:]
            self.api.fail = [("GET", 429, wait)]
            with self.subTest(wait):
                self.assertFalse(self.node(timeout=100.0).look().answers)
                self.assertEqual(len(self.api.calls), 1)
        self.api.fail = [("GET", 429, "0.1")] * 1000
        self.assertIn("429", self.node(timeout=2.0).look().why)
        self.assertGreater(len(self.api.fail), 900)

    def test_an_api_that_names_no_pause_is_asked_less_and_less_often_all_the_same(self):
        clock = Clock()
        asked = []

        def busy(*_words):
            asked.append(clock.now)
            raise kube.ApiError(429, "too many requests", retry_after=0.0)

        client = kube.Client(self.credentials(), timeout=10.0)
        client._request = busy
        with unittest.mock.patch.object(kube, "time", clock), self.assertRaisesRegex(kube.ApiError, "too many"):
            client.request("GET", "/x")
        pauses = [later - earlier for earlier, later in zip(asked, asked[1:])]
        self.assertLessEqual(len(asked), 45, "within 40 s")
        self.assertGreater(pauses[0], 0.5 * kube.BUSY_PAUSE)
        self.assertGreater(min(pauses[5:]), 0.5 * kube.LONGEST_BUSY_PAUSE)
        self.assertGreater(len(set(pauses[5:])), 1, "nodes that began together do not ask together")
        self.assertLessEqual(clock.now, 40.0)

    def test_an_eviction_that_is_refused_is_asked_for_by_the_caller_and_not_here(self):
        self.api.add_pod("web")
        self.api.fail = [("POST", 429, "0")]
        self.assertFalse(self.node().evict(self.node().look().pods[0]))

    def test_another_ca_is_not_trusted(self):
        other = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, other)
        seen = self.node(ca_file=Certificates(other).ca).look()
        self.assertFalse(seen.answers)
        self.assertEqual(self.api.calls, [])

    def test_a_server_of_another_name_is_not_trusted(self):
        port = self.api.url.rpartition(":")[2]
        self.assertFalse(self.node(server="https://localhost:" + port).look().answers)
        self.assertEqual(self.api.calls, [])

    def test_missing_or_damaged_credentials_are_named(self):
        for path in ("/nonexistent", "/etc/hostname"):
            with self.subTest(path=path), self.assertRaises(kube.ApiError) as caught:
                self.node(cert_file=path, key_file=path)
            self.assertIn("credentials cannot be loaded", str(caught.exception))

    def test_a_slow_server_is_waited_for_only_so_long(self):
        self.api.delay = 60.0  # and then it answers well
        self.assertFalse(self.node(timeout=0.3).look().answers)

    def test_a_server_that_drips_its_answer_is_given_up(self):
        self.api.drip = True  # and all of it is a good one
        self.assertFalse(self.node(timeout=0.5).look().answers)

    def test_a_server_that_never_shakes_hands_is_given_up(self):
        listener = socket.socket()
        self.addCleanup(listener.close)
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        seen = self.node(timeout=0.3, server="https://127.0.0.1:{}".format(listener.getsockname()[1])).look()
        self.assertFalse(seen.answers)


class Writing(KubeCase):
    def test_announcing_is_compare_and_set_and_outlives_conflicts(self):
        self.api.conflicts = 2
        self.node().announce('["slurm/1/0"]')
        self.assertEqual(self.api.node["metadata"]["annotations"], {names.ANNOTATION: '["slurm/1/0"]'})
        self.assertEqual(sum(1 for call in self.api.calls if call[0] == "PATCH"), 3)
        self.node().announce("")
        self.assertEqual(self.api.node["metadata"]["annotations"], {})

    def test_nothing_is_announced_on_a_node_that_has_lost_the_taint_for_which_it_was_decided(self):
        ours = {"taints": [{"key": names.TAINT, "effect": "NoSchedule"}]}
        for before, announced, text, expected in (
            (ours, "", "x", None),
            (ours, "", "", None),  # to withdraw is always right
            (ours, "y", "x", "x"),  # the controllers taint it again for what it announces
            ({}, "", "x", "x"),
        ):
            with self.subTest(before=before, announced=announced, text=text):
                self.api.node["spec"] = before
                self.api.node["metadata"]["annotations"] = {names.ANNOTATION: announced} if announced else {}
                node = self.node()
                node.look()
                self.api.node["spec"], self.api.conflicts = {}, 1
                refused = bool(text) and not expected
                with self.assertRaisesRegex(kube.ApiError, "lifted") if refused else contextlib.ExitStack():
                    node.announce(text)
                self.assertEqual(self.api.node["metadata"]["annotations"].get(names.ANNOTATION), expected)

    def test_announcing_what_is_announced_writes_nothing(self):
        self.node().announce("")
        self.assertEqual([call[0] for call in self.api.calls], ["GET"])

    def test_conflicts_without_end_are_an_error_and_not_a_loop(self):
        self.api.conflicts = 99
        with self.assertRaises(kube.ApiError) as caught:
            self.node().announce("x")
        self.assertEqual(caught.exception.status, 409)

    def test_a_budget_that_forbids_is_told_apart_from_a_pod_that_is_gone(self):
        self.api.add_pod("quorum")
        self.api.protected = {("default", "quorum")}
        self.api.add_pod("web")
        node = self.node()
        self.assertFalse(node.evict(Pod("default", "quorum", "uid-quorum")))
        self.assertTrue(node.evict(Pod("default", "web", "uid-web")))
        self.assertTrue(node.evict(Pod("default", "web", "uid-web")))
        node.delete(Pod("default", "quorum", "uid-quorum"), grace=1)
        node.delete(Pod("default", "quorum", "uid-quorum"), grace=1)
        self.assertEqual(self.api.pods, {})

    def test_a_pod_that_has_the_name_of_one_that_is_gone_is_spared(self):
        self.api.add_pod("web-0")
        before = Pod("default", "web-0", "uid-of-the-one-before")
        self.assertTrue(self.node().evict(before))
        self.node().delete(before, grace=1)
        self.assertEqual(list(self.api.pods), [("default", "web-0")])

    def test_names_cannot_leave_their_place_in_a_path(self):
        self.node().evict(Pod("../../x", "a/b?c", "u"))
        self.assertEqual(self.api.calls[-1][1], "/api/v1/namespaces/..%2F..%2Fx/pods/a%2Fb%3Fc/eviction")

    def test_an_event_is_bounded_and_names_the_node(self):
        self.node().event("DeadlinePassed", "x" * 5000)
        body = self.api.calls[-1][2]
        self.assertEqual((body["involvedObject"]["name"], len(body["message"])), ("n1", 1000))

    def test_a_kept_connection_that_the_server_closed_is_opened_again(self):
        node = self.node()
        node.look()
        node.client.connection.sock.shutdown(socket.SHUT_RDWR)
        self.assertTrue(node.look().answers)

    def test_a_server_that_hangs_up_after_every_answer_is_as_good_as_another(self):
        self.api.hang_up = True
        self.api.add_pod("web")
        node = self.node()
        self.assertTrue(node.look().answers)
        for number in range(3):
            time.sleep(0.05)  # the end of the connection is there before the next request
            node.announce("x{}".format(number))
            time.sleep(0.05)
            self.assertTrue(node.evict(Pod("default", "web", "uid-web")))
            time.sleep(0.05)
            node.event("DeadlinePassed", "x")

    def test_clones_work_in_parallel(self):
        for number in range(8):
            self.api.add_pod("p{}".format(number))
        node = self.node()

        def evict(number):
            client = node.client.clone()
            try:
                node_client.NodeClient(client, node="n1").evict(
                    Pod("default", "p{0}".format(number), "uid-p{0}".format(number))
                )
            finally:
                client.close()

        self.api.meet = threading.Barrier(8)
        threads = [threading.Thread(target=evict, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.api.pods, {})


if __name__ == "__main__":
    unittest.main()
