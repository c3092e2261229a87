# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What answers of the API take of memory: the worst pods that a tenant can make fit the limits of our programs.

Pages are made small here and memory is counted for each of their bytes, so a test takes seconds.
"""

import json
import os
import re
import threading
import time
import tracemalloc
import unittest
import unittest.mock

from nodeshare.controller.kube import api as cluster_api
from nodeshare.kube import client as kube
from nodeshare.kube import node_client
from nodeshare.kube.kubeconfig import Credentials

UNITS = os.path.join(os.path.dirname(__file__), "..", "..", "roles", "node_share", "vars", "main.yml")
PAGE = 1 << 18
LARGEST_CALL = 1 << 30  # bytes of memory of one nodeshare on a node, of a page of the worst pods
SHARE = 0.75  # of the service's memory, for pages


def memory_max():
    with open(UNITS, encoding="utf-8") as stream:
        (gigabytes,) = re.findall(r"^  MemoryMax=(\d+)G$", stream.read(), re.MULTILINE)
    return int(gigabytes) << 30


def page_of(many, key, one):
    """A page of pods with as many of one small part as fit, of which one character makes all others take four bytes."""
    more = ",".join([one] * (PAGE // len(one)))
    spec = '{{"nodeName":"n1","{}":[{}]}}'.format(key, more)
    pod = '{{"metadata":{{"namespace":"a","name":"\U0001f600","uid":"u"}},"spec":{}}}'.format(spec)
    text = '{{"kind":"PodList","metadata":{{"continue":"{}"}},"items":[{}]}}'.format("more" * many, pod)
    return text.encode("utf-8")


class Connection:
    """Answers each request with the next page. `meet` is a barrier: a page ends when so many are under way."""

    status = 200

    def __init__(self, pages, meet=None):
        self.pages, self.meet = list(pages), meet

    def request(self, *_words):
        self.left = self.pages.pop(0)

    def getresponse(self):
        return self

    def read1(self, size):
        part, self.left = self.left[:size], self.left[size:]
        if not part and self.meet:
            self.meet.wait(300)
        return part

    def getheader(self, _name):
        return None

    def close(self):
        """A kept connection has nothing to end."""


def client(connection):
    with unittest.mock.patch.object(kube, "_tls", lambda _credentials: None):
        made = kube.Client(Credentials("https://127.0.0.1", "", "", ""), timeout=300.0)
    made.connection = connection
    return made


class Memory(unittest.TestCase):
    shapes = (
        ("containers", '{"name":"a"}'),
        ("nodeSelectorTerms", "{}"),
        ("args", '"\u4e2d"'),
        ("args", '"<<"'),
    )

    def peak(self, act):
        tracemalloc.start()
        try:
            act()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def test_pages_of_the_worst_pods_by_all_threads_at_once_fit_the_services_memory(self):
        for key, one in self.shapes:
            page = page_of(0, key, one)
            meet = threading.Barrier(cluster_api.PAGES_AT_ONCE)
            found = []

            def read(page=page, meet=meet, found=found):
                found.append(list(self.api(client(Connection([page], meet))).all_pods()))

            threads = [threading.Thread(target=read) for _ in range(cluster_api.PAGES_AT_ONCE)]

            def all_at_once(threads=threads):
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()

            with unittest.mock.patch.object(cluster_api, "_read_pod", self.slow), self.subTest(key=key, one=one):
                each = self.peak(all_at_once) / len(page)
                self.assertEqual(found, [["n1"]] * cluster_api.PAGES_AT_ONCE)
                self.assertLess(each * kube.LARGEST_ANSWER, SHARE * memory_max())

    @staticmethod
    def slow(item, read=cluster_api._read_pod):
        time.sleep(0.05)  # other threads go on meanwhile
        return read(item)

    def api(self, client):
        api = cluster_api.ClusterApi("/none", timeout=300.0)
        api.reading, api.client = self.reading, lambda: client
        return api

    def setUp(self):
        self.reading = threading.BoundedSemaphore(cluster_api.PAGES_AT_ONCE)

    def test_many_pages_of_the_worst_pods_fit_a_call_on_a_node(self):
        for key, one in self.shapes:
            pages = [page_of(more, key, one) for more in (1, 1, 0)]
            node = node_client.NodeClient(client(Connection(pages)), node="n1")
            with self.subTest(key=key, one=one):
                each = self.peak(lambda node=node: self.assertEqual(len(node.pods(node_client.read_pod)), 3))
                self.assertLess(each / len(pages[0]) * kube.LARGEST_ANSWER, LARGEST_CALL)

    def test_no_object_that_etcd_takes_is_too_long_for_an_answer(self):
        etcd = 1536 << 10
        for one in ("<", "\x01", "\u2028"):
            text = json.dumps(one).strip('"').replace("<", "\\u003c")  # as the API server writes it
            longest = len(text) * (etcd // len(one.encode("utf-8")))
            self.assertLess(longest, kube.LARGEST_ANSWER)


if __name__ == "__main__":
    unittest.main()
