# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placeholders as files: names that no user shapes, sizes that are exact, and a directory that is ours alone."""

import json
import os
import re
import shutil
import stat
import tempfile
import unittest

from nodeshare.model.jobs import job_key
from nodeshare.model.jobs.lease import Lease
from nodeshare.model.pods.placeholder import Planned, attempt_of, make, name_of, plan
from nodeshare.model.settings import Settings
from nodeshare.store import files
from nodeshare.store.manifests import Manifests

SETTINGS = Settings(node="n1")
ROOM = {"cpu": 8000, "memory": 64 << 40, "pods": 110000, "ephemeral-storage": 5000, "example.org/gpu": 4000}


def lease(job="15[1].pbs-srv", run=1, **share):
    return Lease(job_key.JobKey("pbs", job, run), "boot", 100.0, **share)


class Names(unittest.TestCase):
    def test_b7_every_job_id_becomes_a_label_of_its_own(self):
        ids = ["1", "1.srv", "1[2].srv", "1.2-srv", "12.srv", "1.SRV", "1[2].Srv", "9" * 12 + "." + "a" * 100]
        found = [name_of(job_key.parse("pbs", job, run)) for job in ids for run in ("0", "1")]
        self.assertEqual(len(set(found)), len(found))
        for name in found:
            self.assertRegex(name, re.compile(r"\Alease-pbs-[0-9]([0-9a-z-]*[0-9a-z])?-[0-9a-f]{8}-r[01]\Z"))
            self.assertLessEqual(len(name), 63)

    def test_a_name_tells_batch_system_job_and_run(self):
        self.assertRegex(name_of(lease().key), r"\Alease-pbs-15-1-pbs-srv-[0-9a-f]{8}-r1\Z")


class Sizes(unittest.TestCase):
    def size(self, *leases, room=ROOM, settings=SETTINGS):
        found = plan(leases, tuple(room.items()), settings)
        return [found[name_of(one.key)].size for one in leases]

    def test_a_share_is_exact_and_devices_are_counted(self):
        one = lease(cores=2, memory=3 << 20, devices=("example.org/gpu=2", "example.org/gpu", "gpu:0"))
        self.assertEqual(self.size(one), [{"cpu": 2000, "memory": 3000 << 20, "example.org/gpu": 3000}])

    def test_the_whole_node_is_what_others_have_left_of_it(self):
        first, whole, last = lease("1", cores=2, memory=1), lease("2", exclusive=True), lease("3", cores=1)
        self.assertEqual(
            self.size(first, whole, last),
            [
                {"cpu": 2000, "memory": 1000},
                {"cpu": 6000, "memory": (64 << 40) - 1000, "example.org/gpu": 4000},
                {},
            ],
        )

    def test_a_share_of_which_nothing_was_said_is_the_whole_node(self):
        self.assertEqual(self.size(lease())[0]["cpu"], 8000)

    def test_nobody_gets_more_than_there_is_unless_nobody_knows(self):
        self.assertEqual(self.size(lease("1", cores=6), lease("2", cores=6)), [{"cpu": 6000}, {"cpu": 2000}])
        self.assertEqual(self.size(lease("1", cores=6), lease("2", cores=6), room={}), [{"cpu": 6000}, {"cpu": 6000}])

    def test_with_a_split_cores_are_not_counted(self):
        split = SETTINGS._replace(fence="split", pod_cpus="4-7")
        self.assertEqual(self.size(lease(cores=4, memory=1), settings=split), [{"memory": 1000}])


class Files(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.top)
        self.manifests = Manifests(os.path.join(self.top, "manifests"))

    def place(self, one, size, **how):
        placeholder = make(Planned(one, size, "{:030x}".format(len(size))), SETTINGS, **how)
        self.manifests.place((placeholder,))
        return placeholder

    def test_a_manifest_asks_for_exactly_its_size_and_for_nothing_else_of_the_node(self):
        one = self.place(lease(cores=2), {"cpu": 2500, "memory": 5000, "example.org/gpu": 1000})
        (name,) = os.listdir(self.manifests.directory)
        with open(os.path.join(self.manifests.directory, name)) as stream:
            found = json.load(stream)
        container = found["spec"]["containers"][0]
        self.assertEqual(container["resources"]["requests"], {"cpu": "2500m", "memory": "5", "example.org/gpu": "1"})
        self.assertEqual(container["resources"]["limits"], container["resources"]["requests"])
        self.assertEqual((found["metadata"]["name"] + ".json", found["metadata"]["uid"]), (name, one.uid))
        self.assertEqual((found["metadata"]["namespace"], found["spec"]["priority"]), ("kube-system", 2000001000))
        self.assertFalse({"volumes", "hostPID", "hostIPC", "serviceAccountName"} & set(found["spec"]))
        told = json.loads(found["metadata"]["annotations"]["converged.hpc/lease"])
        self.assertEqual((told["job"], told["run"], told["cores"]), ("15[1].pbs-srv", 1, 2))

    def test_b13_the_image_is_the_sites_and_by_default_one_that_is_published(self):
        self.assertRegex(SETTINGS.pause_image, r"^registry\.k8s\.io/pause:3\.\d+$")
        plain = Planned(lease(cores=1), {}, "0" * 30)
        made = make(plain, SETTINGS._replace(pause_image="site.example/pause@sha256:0")).manifest["spec"]["containers"]
        self.assertEqual([one["image"] for one in made], ["site.example/pause@sha256:0"])

    def test_only_root_may_look_and_what_is_not_ours_stays(self):
        one = self.place(lease(cores=2), {})
        for name in ("etcd.json", "lease-x.json", ".new.lease-pbs-1-aaaaaaaa-r1.json"):
            with open(os.path.join(self.manifests.directory, name), "w") as stream:
                stream.write("{}")
        self.assertEqual(stat.S_IMODE(os.stat(self.manifests.directory).st_mode), 0o700)
        self.assertEqual(self.manifests.placed(), {one.name: one.uid})
        self.manifests.unplace((one.name, one.name))
        self.assertEqual(len(os.listdir(self.manifests.directory)), 3)

    def test_a_file_that_was_cut_short_is_there_without_a_uid(self):
        one = self.place(lease(cores=2), {})
        with open(os.path.join(self.manifests.directory, one.name + ".json"), "w"):
            self.assertEqual(self.manifests.placed(), {one.name: ""})

    def test_another_size_is_another_pod_and_a_further_try_has_the_same_stem(self):
        one, again = self.place(lease(cores=2), {"cpu": 1}), self.place(lease(cores=2), {"cpu": 1}, attempt=255 + 3)
        self.assertEqual((attempt_of(one.uid), attempt_of(again.uid)), (0, 2))
        self.assertEqual(one.uid[:30], again.uid[:30])
        stems = {plan((lease(cores=cores),), (), SETTINGS)[one.name].stem for cores in (1, 2, 2)}
        self.assertEqual(len(stems), 2)

    def test_a_directory_that_is_none_is_named(self):
        with open(self.manifests.directory, "w"), self.assertRaises(files.StoreError) as caught:
            self.place(lease(), {})
        self.assertIn(self.manifests.directory, str(caught.exception))
        self.assertEqual(Manifests(os.path.join(self.top, "no")).placed(), {})


if __name__ == "__main__":
    unittest.main()
