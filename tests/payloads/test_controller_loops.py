# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loops of the controller's service: no answer and no error ends one, and one that hangs is told to systemd."""

import os
import shutil
import socket
import tempfile
import threading
import unittest
import unittest.mock

from nodeshare.controller import watchdog
from nodeshare.controller.controller import Controller
from nodeshare.controller.kube.api import ClusterApi, follow
from nodeshare.kube.client import ApiError
from nodeshare.model.backoff import Backoff, spread

STATUS = {"kind": "Status", "status": "Failure", "message": "a proxy's own"}
NODES = {"kind": "NodeList", "items": [], "metadata": {"resourceVersion": "1"}}
ODD = (
    STATUS,
    [],
    "",
    None,
    {},
    {"kind": "NodeList", "items": None, "metadata": {}},
    {"kind": "NodeList", "items": [{"kind": "Node"}], "metadata": {"resourceVersion": "1"}},
    {"kind": "PodList", "items": [{"metadata": {}}], "metadata": {}},
)


class Answers(ClusterApi):
    """An API that gives these answers, one after the other."""

    def __init__(self, *answers):
        super().__init__("/none", timeout=1.0)
        self.answers = list(answers)

    def renew(self):
        """There is no file."""

    def client(self, *, timeout=0.0):
        return self

    def request(self, method, path, body=None, *, kind="", read=lambda answer: answer):
        return read(self.answers.pop(0))


class Odd(unittest.TestCase):
    def test_an_answer_that_is_not_what_was_asked_for_is_an_error_and_never_an_empty_list(self):
        for answer in ODD:
            for ask in (lambda api: api.nodes(), lambda api: api.pods(["n1"]), lambda api: api.patch("n1", {})):
                with self.subTest(answer=answer), self.assertRaises(ApiError):
                    ask(Answers(answer))

    def test_a_watch_that_ends_at_once_and_says_nothing_is_an_error_and_not_asked_for_again_and_again(self):
        for said in ([], [STATUS], [{"type": "MODIFIED", "object": STATUS}]):
            api = Answers()
            api.lines = lambda path, quiet, said=said: iter(said)
            with self.subTest(said), self.assertRaises(ApiError):
                next(api.watch("1", beat=lambda: None))

    def test_the_watch_goes_on_after_any_answer_and_any_error(self):
        stopping = threading.Event()
        waits, lost, seen = [], [], []
        stop = unittest.mock.Mock(is_set=stopping.is_set, wait=waits.append)

        def replace(nodes):
            seen.append(nodes)
            if len(seen) == 1:
                raise ZeroDivisionError
            stopping.set()

        api = Answers(*ODD, NODES, NODES)
        api.watch = lambda version, beat: iter(())
        follow(api, replace=replace, event=None, lost=lost.append, stopping=stop, beat=lambda: None)
        self.assertEqual((len(lost), len(seen), api.answers), (len(ODD) + 1, 2, []))
        self.assertIn("a proxy's own", lost[0])
        for wait, about in zip(waits, (0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0)):
            self.assertLessEqual(abs(wait - about), about / 4, "ever later, and not with all others at once")

    def test_polls_and_notes_go_on_after_any_error(self):
        odd, odder = ValueError("odd"), RuntimeError("odder")
        batch = unittest.mock.Mock(**{"in_control.side_effect": odd})
        spool = unittest.mock.Mock(**{"read.side_effect": odder})
        remarks, rounds = [], []
        controller = Controller(
            api=unittest.mock.Mock(), batch=batch, spool=spool, connections=1, remark=remarks.append, told=None
        )
        self.addCleanup(controller.stop)

        def beat():
            rounds.append(1)
            if len(rounds) % 3 == 0:
                controller.stopping.set()

        controller.run_polls(0.0, beat=beat)
        controller.stopping.clear()
        controller.run_notes(0.0, beat=beat)
        self.assertEqual(len(rounds), 6)
        self.assertEqual(set(remarks), {"poll: {!r}".format(odd), "notes: {!r}".format(odder)})


class Backoffs(unittest.TestCase):
    def test_waits_double_to_the_longest_and_begin_anew_when_it_has_worked(self):
        backoff = Backoff(1.0, 30.0)
        for _ in range(2):
            for about in (1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0):
                self.assertLessEqual(abs(backoff.failed() - about), about / 4)
            backoff.reset()

    def test_those_that_began_together_do_not_ask_together(self):
        self.assertGreater(len({round(spread(1.0), 3) for _ in range(200)}), 50)


class Systemd(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)
        self.path = os.path.join(self.directory, "notify")
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.manager.close)
        self.manager.bind(self.path)
        self.manager.setblocking(False)
        self.now, self.remarks = 0.0, []
        self.dog = watchdog.Watchdog(remark=self.remarks.append, clock=lambda: self.now)
        self.watch, self.polls = self.dog.beat_of("watch"), self.dog.beat_of("polls")

    def heard(self):
        with unittest.mock.patch.dict(os.environ, {"NOTIFY_SOCKET": self.path}):
            self.dog.tell()
        try:
            return self.manager.recv(100)
        except BlockingIOError:
            return b""

    def test_systemd_hears_of_the_service_while_every_loop_comes_round_and_not_at_every_turn(self):
        self.assertEqual([self.heard(), self.heard()], [b"WATCHDOG=1", b""])
        for _ in range(100):
            self.now += watchdog.TELL_SECONDS
            self.watch()
            self.polls()
            self.assertEqual(self.heard(), b"WATCHDOG=1")

    def test_a_loop_that_hangs_is_named_and_systemd_hears_nothing_until_it_comes_round(self):
        self.now += watchdog.LATE_SECONDS + 1
        self.polls()
        self.assertEqual((self.heard(), self.dog.late()), (b"", ("watch",)))
        self.assertIn("watch: not come round", self.remarks[0])
        self.watch()
        self.now += watchdog.TELL_SECONDS
        self.assertEqual(self.heard(), b"WATCHDOG=1")

    def test_without_a_service_manager_or_when_it_is_gone_nothing_happens(self):
        for path in ("", os.path.join(self.directory, "gone"), "@gone"):
            self.now += watchdog.TELL_SECONDS
            with self.subTest(path), unittest.mock.patch.dict(os.environ, {"NOTIFY_SOCKET": path}):
                self.dog.tell()


if __name__ == "__main__":
    unittest.main()
