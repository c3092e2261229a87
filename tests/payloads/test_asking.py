# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other calls come while a repair asks the batch system or the API: none waits, and no answer outlives its lease."""

import unittest

from handover_case import HandoverCase
from nodeshare.model import actions
from nodeshare.model.jobs.job_key import JobKey
from nodeshare.model.jobs.lease import Lease
from nodeshare.model.node.state import HELD
from nodeshare.run import executor
from nodeshare.store import files, lock

KEY = JobKey("slurm", "1", 0)
QUESTIONS = ("batch", "api")


class Asking(HandoverCase):
    def held(self, **settings):
        """A node that is held for a job without a process."""
        site = self.site(**settings)
        site.begin("1")
        site.node.alive[KEY] = False
        return site

    def amid(self, site, question, act, times=1):
        """Have this done when a repair asks, so many times, and return what it says."""
        said = []

        def come(what):
            if what == question and len(said) < times:
                site.node.amid = lambda _what: None  # what comes asks as well
                said.append(act())
                site.node.amid = come

        site.node.amid = come
        told = site.repair()
        site.node.amid = lambda _what: None
        self.assertEqual(len(said), times)
        return told, said

    def test_a_job_on_a_held_node_does_not_wait_for_what_a_repair_asks(self):
        for question in QUESTIONS:
            with self.subTest(question):
                site = self.held()
                _told, said = self.amid(site, question, lambda site=site: site.begin("2").done.reason)
                self.assertEqual(said, ["held by quiesce"])
                self.assertEqual({lease.key.job for lease in site.store.leases()}, {"1", "2"})
                self.assertIn("slurm/2/0", site.node.announced)

    def test_a_job_on_an_open_node_takes_it_and_the_repair_begins_anew(self):
        for handover in ("quiesce", "stop"):
            with self.subTest(handover):
                site = self.site(handover=handover)
                site.node.add("web")
                told, said = self.amid(site, "api", lambda site=site: site.begin("2").done.outcome)
                self.assertEqual((said, told.way), ([actions.ACCEPT], handover))
                self.assert_free(site)

    def test_a_job_that_begins_while_a_repair_gives_the_node_back_keeps_it(self):
        site = self.site(handover="stop", linger=0.0)
        site.begin("1")
        site.end("1")
        _told, said = self.amid(site, "api", lambda: site.begin("2").done.outcome)
        self.assertEqual((said, site.did("start")), ([actions.ACCEPT], []))
        self.assert_free(site)
        site.end("2")
        site.later(31.0)
        self.assert_back(site)

    def test_an_answer_about_a_run_drops_no_lease_that_was_made_since(self):
        def made_anew(site, how):
            site.end("1")
            how(site, Lease(KEY, site.node.boot, site.node.time, 7))

        def recorded(site, lease):
            """Its begin waits for the lock."""
            site.record(lease)

        def by_name(site, lease):
            with site.faulty():
                site.node.no_room = True
                site.record(lease)
                site.node.no_room = False
            site.store.unwritten.clear()  # another process

        def begun(site, lease):
            site.begin_with(lease)
            site.node.alive[KEY], site.node.batch[KEY] = False, actions.LIVE

        for question in QUESTIONS:
            for how in (recorded, by_name, begun):
                with self.subTest(question=question, how=how.__name__):
                    site = self.held()
                    if question == "batch":
                        site.node.batch[KEY] = actions.GONE
                    self.amid(site, question, lambda site=site, how=how: made_anew(site, how))
                    self.assertEqual([lease.key for lease in site.store.leases()], [KEY])

    def test_a_lease_made_by_name_twice_is_two_leases(self):
        site = self.held()
        site.end("1")
        path = site.store.directory + "/slurm.1.r0.lease"
        self.assertTrue(files.claim(path))
        site.node.batch[KEY] = actions.GONE

        def made_anew():
            files.remove(path)
            self.assertTrue(files.claim(path))

        self.amid(site, "batch", made_anew)
        self.assertEqual([lease.key for lease in site.store.leases()], [KEY])
        site.repair()
        self.assertEqual(site.store.leases(), (), "the next question is about this one")

    def test_two_repairs_come_to_an_end_and_the_answer_counts(self):
        for question in QUESTIONS:
            with self.subTest(question):
                site = self.held()
                site.node.batch[KEY] = actions.GONE if question == "batch" else actions.LIVE
                told, said = self.amid(site, question, site.repair)
                self.assertEqual((said[0].done.outcome, told.done.outcome), (actions.ACCEPT, actions.ACCEPT))
                self.assertEqual(len(site.store.leases()), 0 if question == "batch" else 1)

    def test_a_repair_that_is_always_disturbed_keeps_the_lock_in_the_end(self):
        site = self.held()

        def disturbed():
            with site.carrier().work_lock(0.0):
                return "free"

        told, said = self.amid(site, "api", disturbed, times=executor.MOST_TURNS)
        self.assertEqual((told.done.reason, said), ("held by quiesce", ["free"] * executor.MOST_TURNS))

        def kept():
            try:
                return disturbed()
            except files.StoreError:
                return "kept"

        self.assertEqual(
            self.amid(site, "api", kept, times=executor.MOST_TURNS + 1)[1], ["free"] * executor.MOST_TURNS + ["kept"]
        )

    def test_a_repair_takes_nothing_again_that_was_given_back_for_good(self):
        site = self.held()

        def forget():
            with site.carrier().work_lock(0.0), site.store.locked():
                site.memories.save(site.memory()._replace(confined=False, forgotten=True))
            site.node.confined = False

        told, _said = self.amid(site, "api", forget)
        self.assertIn("given back", told.done.reason)
        self.assertEqual((site.node.confined, site.memory().forgotten), (False, True))

    def test_a_lock_that_does_not_come_back_ends_the_repair_alone(self):
        site = self.held()
        other = site.carrier().work_lock(0.0)
        with self.assertRaises(files.StoreError):
            self.amid(site, "api", other.take)
        site.node.amid = lambda _what: None
        other.let_go()
        self.assertEqual((site.memory().phase, site.begin("2").done.reason), (HELD, "held by quiesce"))

    def test_a_lock_counts_its_turns(self):
        path = self.site().store.directory + "/work"
        one, other = lock.Lock(path, seconds=0.0), lock.Lock(path, seconds=0.0)
        with one:
            turn = one.turn
            one.let_go()
            one.take()
            self.assertEqual(one.turn, turn + 1)
            one.let_go()
            with other:
                pass
            one.take()
            self.assertEqual(one.turn, turn + 3)


if __name__ == "__main__":
    unittest.main()
