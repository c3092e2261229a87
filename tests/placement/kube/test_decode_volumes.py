# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes, claims and what CSI drivers say become records from API JSON."""

import pytest
from placement.model.objects.volume import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    VolumeAttachment,
)
from placement.model.rules.selector import NodeSelectorTerm, Operator, Requirement
from placement_kit.decoded import Json, decode, meta


def test_volumes_claims_and_the_drivers_of_a_node_are_read() -> None:
    terms = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}
    volume = decode(
        PersistentVolume,
        {
            "metadata": meta(),
            "spec": {"nodeAffinity": {"required": terms}, "csi": {"driver": "d"}, "claimRef": {"uid": "c"}},
        },
    )
    on_n1 = NodeSelectorTerm((), (Requirement("metadata.name", Operator.IN, ("n1",)),))
    assert (volume.node_terms, volume.driver, volume.claim_uid) == ((on_n1,), "d", "c")
    assert decode(PersistentVolume, {"metadata": meta()}).node_terms is None
    claim_spec = {"volumeName": "v", "storageClassName": "s", "accessModes": ["ReadWriteOncePod"]}
    claim = decode(PersistentVolumeClaim, {"metadata": meta(), "spec": claim_spec})
    assert (claim.volume, claim.storage_class, claim.once_per_pod) == ("v", "s", True)
    assert (claim.binding, claim.lost, claim.terminating, claim.owner) == (True, False, False, "")
    drivers = [{"name": "d", "allocatable": {"count": 5}}, {"name": "e"}]
    assert decode(CSINode, {"metadata": meta(), "spec": {"drivers": drivers}}).limits == (("d", 5),)
    source = {"nodeName": "n1", "attacher": "d", "source": {"persistentVolumeName": "v"}}
    attachment = decode(VolumeAttachment, {"metadata": meta(), "spec": source, "status": {"attached": False}})
    assert (attachment.node, attachment.volume) == ("n1", "v")
    inline = {"nodeName": "n1", "source": {"inlineVolumeSpec": {"csi": {"driver": "d"}}}}
    assert decode(VolumeAttachment, {"metadata": meta(), "spec": inline}).volume == ""


@pytest.mark.parametrize(
    ("source", "plugin", "driver"),
    [
        ({"awsElasticBlockStore": {"volumeID": "disk"}}, "aws-ebs", "ebs.csi.aws.com"),
        ({"gcePersistentDisk": {"pdName": "disk"}}, "gce-pd", "pd.csi.storage.gke.io"),
        ({"azureDisk": {"diskName": "disk", "diskURI": "x"}}, "azure-disk", "disk.csi.azure.com"),
        ({"cinder": {"volumeID": "disk"}}, "cinder", "cinder.csi.openstack.org"),
        ({"vsphereVolume": {"volumePath": "disk"}}, "vsphere-volume", "csi.vsphere.vmware.com"),
        ({"portworxVolume": {"volumeID": "disk"}}, "portworx-volume", "pxd.portworx.com"),
    ],
)
def test_an_in_tree_volume_counts_for_the_driver_that_attaches_it(source: Json, plugin: str, driver: str) -> None:
    volume = decode(PersistentVolume, {"metadata": meta(), "spec": source})
    assert (volume.driver, volume.handle) == (driver, "disk")
    made_by = decode(StorageClass, {"metadata": meta(), "provisioner": f"kubernetes.io/{plugin}"})
    assert made_by.provisioner == driver


@pytest.mark.parametrize("source", [{"nfs": {"server": "s", "path": "/"}}, {"local": {"path": "/x"}}, {}])
def test_a_volume_that_no_driver_attaches_counts_for_none(source: Json) -> None:
    volume = decode(PersistentVolume, {"metadata": meta(), "spec": source})
    assert (volume.driver, volume.handle) == ("", "")
    made_by = decode(StorageClass, {"metadata": meta(), "provisioner": "kubernetes.io/no-provisioner"})
    assert made_by.provisioner == "kubernetes.io/no-provisioner"


def test_what_a_claim_asks_of_a_volume_is_read_from_both() -> None:
    given = {"storageClassName": "s", "volumeAttributesClassName": "gold", "volumeMode": "Block", "accessModes": ["M"]}
    owners = [{"kind": "Job", "uid": "j"}, {"kind": "Pod", "uid": "p", "controller": True}]
    metadata = meta(labels={"k": "v"}, deletionTimestamp="2026-01-01T00:00:00Z", ownerReferences=owners)
    ref = {"namespace": "team", "name": "data", "uid": "c"}
    spec = {**given, "capacity": {"storage": "1Ki"}, "claimRef": ref, "csi": {"driver": "d", "volumeHandle": "h"}}
    volume = decode(PersistentVolume, {"metadata": metadata, "spec": spec, "status": {"phase": "Available"}})
    spec = {**given, "selector": {"matchLabels": {"k": "v"}}, "resources": {"requests": {"storage": "1500m"}}}
    metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    spec |= {"volumeName": "v"}
    claim = decode(PersistentVolumeClaim, {"metadata": metadata, "spec": spec, "status": {"phase": "Lost"}})
    for item in (volume, claim):
        found = (item.storage_class, item.attributes_class, item.modes, item.block, item.terminating)
        assert found == ("s", "gold", ("M",), True, True)
    assert (volume.size, volume.claim, volume.claim_uid, volume.handle) == (1024, ("team", "data"), "c", "h")
    assert (claim.size, claim.lost, claim.binding, claim.owner, volume.available) == (2, True, False, "p", True)
    assert claim.selector.matches(dict(volume.labels))
    metadata["annotations"] = {"volume.beta.kubernetes.io/storage-class": "of old"}
    assert decode(PersistentVolume, {"metadata": metadata, "spec": given}).storage_class == "of old"


@pytest.mark.parametrize(
    ("fields", "largest", "topology"),
    [
        ({"capacity": "1Gi", "nodeTopology": {}}, 1 << 30, None),
        ({"capacity": "1500m"}, 2, ()),
        (
            {"nodeTopology": {"matchLabels": {"zone": "a"}}},
            0,
            (NodeSelectorTerm((Requirement("zone", Operator.IN, ("a",)),)),),
        ),
        ({"capacity": "9Gi", "maximumVolumeSize": "1k", "nodeTopology": None}, 1000, ()),
    ],
)
def test_the_room_that_a_driver_has_is_read(fields: Json, largest: int, topology: object) -> None:
    seen = decode(StorageCapacity, {"metadata": meta(), "storageClassName": "fast", **fields})
    assert (seen.storage_class, seen.largest, seen.topology) == ("fast", largest, topology)
    assert decode(CSIDriver, {"metadata": meta(), "spec": {"storageCapacity": True}}).tells_capacity
    assert not decode(CSIDriver, {"metadata": meta(), "spec": {}}).tells_capacity
    asked = {"requests": {"storage": "1Gi"}}
    assert decode(PersistentVolumeClaim, {"metadata": meta(), "spec": {"resources": asked}}).size == 1 << 30
