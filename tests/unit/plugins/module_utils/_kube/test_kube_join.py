# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In which order a node joins and leaves, and what a join that fails leaves behind."""

from __future__ import annotations

import functools
import tempfile
import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._command import Completed
from ansible_collections.converged.hpc.plugins.module_utils._kube.errors import KubeError
from ansible_collections.converged.hpc.plugins.module_utils._kube.node import join
from ansible_collections.converged.hpc.plugins.module_utils._record.host.host import Host

TOKEN = "abcdef.0123456789abcdef"
JOIN = join.Join("n1", "api:6443", ["sha256:1"], TOKEN, "unix:///run/x.sock", "/bin/kubeadm", [], [], 60)
LEAVE = join.Leave("/bin/kubeadm", "unix:///run/x.sock", ["cni0"], "containerd", ["containerd.service"], ["/var/x"])


class Steps(join.Sweep):
    """What is done, in order."""

    done: t.ClassVar[t.List[str]] = []

    def __init__(self, *, check: bool) -> None:
        super().__init__(check=check)

    def __getattribute__(self, name: str) -> t.Any:
        if name in ("processes", "cgroups", "mounts", "links", "chains", "file", "contents"):
            return lambda *words: Steps.done.append(" ".join([name, *(str(word) for word in words)]))
        return super().__getattribute__(name)


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> t.List[str]:
    Steps.done = []
    monkeypatch.setattr(join, "Sweep", Steps)
    monkeypatch.setattr(join, "_systemctl", lambda verb, unit: Steps.done.append(f"{verb} {unit}"))
    monkeypatch.setattr(join, "_end_pods", lambda _sweep, _kubeadm, _socket: Steps.done.append("end pods"))
    monkeypatch.setattr(join, "_names", lambda _folder: [])
    monkeypatch.setattr(join, "read", lambda _path: "kubeconfig")
    monkeypatch.setattr(join, "is_ours", lambda _session: True)
    monkeypatch.setattr(join, "_installed_by_us", lambda _session, _package: True)
    # Elsewhere than below /run, which is root's.
    temporary = functools.partial(tempfile.NamedTemporaryFile, dir=None)
    monkeypatch.setattr(
        join.tempfile, "NamedTemporaryFile", lambda mode, prefix, **_dir: temporary(mode, prefix=prefix)
    )
    return Steps.done


def test_a_join_that_fails_leaves_neither_a_kubelet_that_goes_on_nor_half_a_membership(
    done: t.List[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(argv: t.Sequence[str], **_how: t.Any) -> Completed:
        if argv[1] == "version":
            return Completed(tuple(argv), 0, "v1.33.1\n", "")
        return Completed(tuple(argv), 1, "", f"error: token {TOKEN} is not known\n")

    monkeypatch.setattr(join, "_run", run)
    with pytest.raises(KubeError, match=r"n1: kubeadm join failed and was taken back: .*token \(token\) is not known"):
        join._kubeadm_join(JOIN)
    assert done == [
        "stop kubelet.service",
        f"file {join.KUBELET_CONF}",
        f"file {join.BOOTSTRAP_CONF}",
        f"file {join.CA_CERTIFICATE}",
        f"contents {join.KUBELET_STATE}",
    ]


def test_pods_are_asked_to_end_while_their_runtime_runs_and_only_then_swept_away(done: t.List[str]) -> None:
    join.leave(t.cast(t.Any, None), LEAVE, check=False)
    assert done[:5] == ["stop kubelet.service", "end pods", "stop containerd.service", "processes", "cgroups"]
    assert done[-1] == "contents /var/x"


def test_a_runtime_alone_is_emptied_only_where_the_node_is_in_no_cluster(
    done: t.List[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = LEAVE._replace(only_runtime=True)
    sweep, ours = join.leave(t.cast(t.Any, None), alone, check=False)
    assert (done, ours, sweep.left) == ([], False, [])
    monkeypatch.setattr(join, "read", lambda _path: None)
    join.leave(t.cast(t.Any, None), alone, check=False)
    assert done == ["stop containerd.service", "processes", "mounts", "links ['cni0']", "chains", "contents /var/x"]


def test_what_a_kubelet_will_change_is_recorded_before_kubeadm_starts_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: t.Any
) -> None:
    order: t.List[str] = []

    class Recording(join.Session):
        def converge(self, desired: t.Any, _contents: t.Any, **_how: t.Any) -> t.Any:
            order.extend(f"record {item.kind} {item.name}" for item in desired.made)

    monkeypatch.setattr(join, "read", lambda _path: None)
    monkeypatch.setattr(join, "_names", lambda _folder: [])
    monkeypatch.setattr(join, "_check_socket", lambda _socket: None)
    monkeypatch.setattr(join, "_kubeadm_join", lambda _wanted: order.append("join"))
    join.join(Recording(Host(str(tmp_path)), "/record"), JOIN, check=False)
    assert order == [
        "record sysctl vm.overcommit_memory",
        "record sysctl vm.panic_on_oom",
        "record sysctl kernel.panic",
        "record sysctl kernel.panic_on_oops",
        "record sysctl kernel.keys.root_maxkeys",
        "record sysctl kernel.keys.root_maxbytes",
        "record mount /var/lib/kubelet",
        "record filter ruleset",
        "join",
    ]


CONFIGURATION = f"{join.KUBELET_STATE}/config.yaml"


class Recorded(join.Session):
    """A session that records what it is told, and does nothing."""

    def converge(self, desired: t.Any, _contents: t.Any, **_how: t.Any) -> t.Any:
        Steps.done.append("record")


@pytest.fixture
def cut_join(done: t.List[str], monkeypatch: pytest.MonkeyPatch) -> t.List[str]:
    """A node whose power went while it joined: the newest of its files are empty."""
    emptied = (CONFIGURATION, join.CA_CERTIFICATE)
    monkeypatch.setattr(join, "read", lambda path: "" if path in emptied else "kubeconfig")
    monkeypatch.setattr(join, "_check_socket", lambda _socket: None)
    monkeypatch.setattr(join, "_kubeadm_join", lambda _wanted: done.append("join"))
    return done


def test_a_run_on_a_node_that_has_joined_does_not_read_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_session: t.Any) -> bool:
        raise AssertionError("the record was read")

    monkeypatch.setattr(join, "read", lambda _path: "kubeconfig")
    monkeypatch.setattr(join, "is_ours", refuse)
    monkeypatch.setattr(join.membership, "same_cluster", lambda _conf, _pinned: "https://api")
    assert not join.join(t.cast(t.Any, None), JOIN, check=False)["changed"]


def test_a_join_that_lost_its_power_is_done_again_behind_the_kubelet_that_starts_in_vain(
    cut_join: t.List[str], tmp_path: t.Any
) -> None:
    session = Recorded(Host(str(tmp_path)), "/record")
    planned = join.join(session, JOIN, check=True)
    assert (planned["changed"], cut_join) == (True, [])
    assert join.join(session, JOIN, check=False)["changed"]
    assert cut_join[:3] == ["record", "stop kubelet.service", f"file {join.KUBELET_CONF}"]
    assert cut_join[-1] == "join"


def test_a_join_that_lost_its_power_behind_its_node_object_says_how_it_goes_on(
    cut_join: t.List[str], tmp_path: t.Any
) -> None:
    message = rf"n1: its join was cut off, .*: {join.CA_CERTIFICATE} is empty or missing.*kubectl delete node n1, and"
    with pytest.raises(KubeError, match=message):
        join.join(Recorded(Host(str(tmp_path)), "/record"), JOIN._replace(token=""), check=False)
    assert cut_join == []


def test_empty_files_of_a_site_that_joined_the_node_itself_are_not_ours_to_make_again(
    cut_join: t.List[str], monkeypatch: pytest.MonkeyPatch, tmp_path: t.Any
) -> None:
    monkeypatch.setattr(join, "is_ours", lambda _session: False)
    monkeypatch.setattr(join.membership, "same_cluster", lambda _conf, _pinned: "https://api")
    answer = join.join(Recorded(Host(str(tmp_path)), "/record"), JOIN, check=False)
    assert (answer["changed"], cut_join) == (False, [])


def test_what_a_join_wrote_is_on_the_disk_when_it_ends(
    done: t.List[str], monkeypatch: pytest.MonkeyPatch, tmp_path: t.Any
) -> None:
    class Synced(Host):
        def sync_file(self, path: str) -> None:
            done.append(f"sync {path}")
            super().sync_file(path)

        def sync_directory(self, path: str) -> None:
            done.append(f"sync {path}")
            super().sync_directory(path)

    written = (*join._NEVER_EMPTY, f"{join.KUBELET_STATE}/pki/kubelet-client-1.pem")

    def kubeadm_join(_wanted: join.Join) -> None:
        done.append("join")
        for path in written:
            (tmp_path / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path.lstrip("/")).write_text("made")

    monkeypatch.setattr(join, "read", lambda _path: None)
    monkeypatch.setattr(join, "_check_socket", lambda _socket: None)
    monkeypatch.setattr(join, "_kubeadm_join", kubeadm_join)
    join.join(Recorded(Synced(str(tmp_path)), "/record"), JOIN, check=False)
    behind = done[done.index("join") + 1 :]
    assert set(behind) >= {f"sync {path}" for path in written}
    assert behind.index(f"sync {join.KUBELET_STATE}/pki/kubelet-client-1.pem") < behind.index(
        f"sync {join.KUBELET_STATE}/pki"
    )
