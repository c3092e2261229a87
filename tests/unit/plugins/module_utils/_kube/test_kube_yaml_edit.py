# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Edits of a KubeletConfiguration: what they leave, what they refuse, and that a second one does nothing."""

from __future__ import annotations

import typing as t

import pytest
import yaml
from ansible_collections.converged.hpc.plugins.module_utils._kube.errors import KubeError
from ansible_collections.converged.hpc.plugins.module_utils._kube.node import yaml_edit
from hypothesis import given
from hypothesis import strategies as st

NAME = "config.yaml"
SITE = """\
# the site's own
apiVersion: kubelet.config.k8s.io/v1beta1
authentication:
  anonymous:
    enabled: false   # never
  webhook:
    cacheTTL: 0s
clusterDNS:
- 10.96.0.10
kind: KubeletConfiguration
memorySwap: {}
maxPods: 110
staticPodPath: '/etc/kubernetes/manifests'

# the end
"""


@pytest.mark.parametrize(
    ("wanted", "before", "after"),
    [
        ({"maxPods": 50}, "maxPods: 110\n", "maxPods: 50\n"),
        ({"clusterDNS": ["10.0.0.1"]}, "clusterDNS:\n- 10.96.0.10\n", 'clusterDNS: ["10.0.0.1"]\n'),
        ({"clusterDNS": None}, "clusterDNS:\n- 10.96.0.10\n", ""),
        ({"memorySwap": {"swapBehavior": "NoSwap"}}, "memorySwap: {}", 'memorySwap: {"swapBehavior": "NoSwap"}'),
        ({"authentication": {"webhook": {"cacheTTL": "2m"}}}, "cacheTTL: 0s", 'cacheTTL: "2m"'),
        (
            {"authentication": {"webhook": {"enabled": True}}},
            "    cacheTTL: 0s\n",
            "    cacheTTL: 0s\n    enabled: true\n",
        ),
        ({"authentication": {"anonymous": {"enabled": None}}}, "    enabled: false   # never\n", ""),
        ({"systemReserved": {"cpu": "1"}}, "manifests'\n", 'manifests\'\nsystemReserved: {"cpu": "1"}\n'),
        ({"maxPods": True}, "maxPods: 110", "maxPods: true"),
    ],
)
def test_only_the_field_that_differs_changes(wanted: dict[str, t.Any], before: str, after: str) -> None:
    assert SITE.count(before) == 1
    assert yaml_edit.edit(NAME, SITE, wanted) == SITE.replace(before, after)


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"maxPods": 110, "clusterDNS": ["10.96.0.10"], "staticPodPath": "/etc/kubernetes/manifests"},
        {"authentication": {"anonymous": {"enabled": False}, "webhook": {"cacheTTL": "0s"}}, "memorySwap": {}},
        {"podPidsLimit": None, "memorySwap": {"swapBehavior": None}},
    ],
)
def test_what_stands_already_stays_byte_for_byte(wanted: dict[str, t.Any]) -> None:
    assert yaml_edit.edit(NAME, SITE, wanted) == SITE


@pytest.mark.parametrize(
    ("text", "wanted", "message"),
    [
        ("kind: Pod\n", {}, "expected KubeletConfiguration, found Pod"),
        ("", {"maxPods": 1}, "found None"),
        ("kind: KubeletConfiguration\n\tmaxPods: 1\n", {}, "line 2: expected 'key: value'"),
        ("kind: KubeletConfiguration\nkind: KubeletConfiguration\n", {}, "line 2: kind is there twice"),
        ("kind: KubeletConfiguration\nmaxPods: &many 3\n", {"maxPods": 1}, "line 2: maxPods has an anchor"),
        (SITE, {"maxPods": {"deep": 1}}, "expected a mapping with deep, found 'maxPods: 110'"),
        (SITE, {"max pods": 1}, "expected the name of a field"),
    ],
)
def test_what_cannot_be_understood_is_refused(text: str, wanted: dict[str, t.Any], message: str) -> None:
    with pytest.raises(KubeError, match=message):
        yaml_edit.edit(NAME, text, wanted)


def test_what_is_not_understood_but_not_asked_for_stays() -> None:
    text = "kind: KubeletConfiguration\nnote: |\n  many: words\n  # here\nalias: &x {a: b}\n"
    assert yaml_edit.edit(NAME, text, {"maxPods": 1}) == text + "maxPods: 1\n"


def test_a_field_is_read_wherever_it_stands() -> None:
    assert yaml_edit.read(NAME, SITE, ["authentication", "webhook", "cacheTTL"]) == "0s"
    assert yaml_edit.read(NAME, SITE, ["memorySwap", "swapBehavior"]) is None
    assert yaml_edit.read(NAME, SITE, ["healthzPort"]) is None


KEY = st.text("abcdXYZ019", min_size=1, max_size=3).filter(lambda key: not key[0].isdigit())
PLAIN = (
    st.booleans() | st.integers() | st.text(max_size=6) | st.sampled_from(["1m0s", "true", "0x1", "~", "# no", "a: b"])
)
TREE = st.recursive(
    PLAIN | st.lists(PLAIN, max_size=2), lambda inner: st.dictionaries(KEY, inner, max_size=3), max_leaves=8
)


def merged(has: t.Any, wanted: t.Any) -> t.Any:
    """The definition: mappings are merged, everything else replaces."""
    if not (isinstance(has, dict) and isinstance(wanted, dict)):
        return wanted
    return {**has, **{key: merged(has.get(key, {}), value) for key, value in wanted.items()}}


def fits(has: t.Any, wanted: t.Any) -> bool:
    """No mapping is wanted below a field that has a plain value."""
    if not isinstance(wanted, dict) or not wanted:
        return True
    return isinstance(has, dict) and all(fits(has.get(key, {}), value) for key, value in wanted.items())


@given(site=st.dictionaries(KEY, TREE, max_size=4), wanted=st.dictionaries(KEY, TREE, max_size=3))
def test_any_edit_of_any_file_means_the_merge_and_is_made_once(
    site: dict[str, t.Any], wanted: dict[str, t.Any]
) -> None:
    site = {"kind": "KubeletConfiguration", **site}
    text = yaml.safe_dump(site, width=10_000)
    if not fits(site, wanted):
        with pytest.raises(KubeError):
            yaml_edit.edit(NAME, text, wanted)
        return
    edited = yaml_edit.edit(NAME, text, wanted)
    assert yaml.safe_load(edited) == merged(site, wanted)
    assert yaml_edit.edit(NAME, edited, wanted) == edited
