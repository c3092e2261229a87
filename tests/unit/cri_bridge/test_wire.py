# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""cri_bridge on the wire: every method of CRI v1 against the published definitions of both versions, and the edits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from cri_bridge.wire.methods import METHODS, SERVED, Method, Way
from cri_kit import definitions
from cri_kit.definitions import V1, V1ALPHA2, message_class
from cri_kit.fields import full, known, table
from cri_kit.runtime import Running, Runtime, bridge

ASKED = {(service, name): (request, answer) for service, name, request, answer in definitions.methods(V1)}
OLD = {(service, name): (request, answer) for service, name, request, answer in definitions.methods(V1ALPHA2)}
FORWARDED = [method for method in METHODS if method.way is Way.FORWARD]
PROFILE = "/etc/hosts"  # any file
# What the bridge alters in a message whose every field is set: path and new value; None is a field that is left out.
ALTERED_REQUESTS = {"UpdateContainerResources": {"linux.oom_score_adj": None}}


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    made = Runtime(tmp_path_factory.mktemp("runtime") / "runtime.sock")
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def running(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("bridge")
    with bridge(folder, runtime.address, "--cache-seconds", "0", "--seccomp-profile", PROFILE) as made:
        yield made


@pytest.fixture(autouse=True)
def _no_answers(runtime: Runtime) -> None:
    runtime.answers.clear()
    runtime.received.clear()


def by_name(method: Method) -> str:
    return method.name


def test_the_table_has_every_method_of_v1_and_no_other() -> None:
    assert sorted((method.service, method.name) for method in METHODS) == sorted(ASKED)


def test_every_method_of_v1alpha2_is_forwarded_and_no_other() -> None:
    assert sorted((method.service, method.name) for method in FORWARDED) == sorted(OLD)


def test_no_field_of_v1alpha2_is_gone_or_means_something_else_in_v1() -> None:
    differing = []
    for name in {each for pair in OLD.values() for each in pair}:
        rows = table(full(V1ALPHA2, name))
        data = full(V1ALPHA2, name).SerializeToString()
        if table(message_class(V1, name).FromString(data)) != rows:
            differing.append(name)
    assert differing == []


@pytest.mark.parametrize("method", FORWARDED, ids=by_name)
def test_a_request_reaches_the_runtime_with_every_field(method: Method, running: Running, runtime: Runtime) -> None:
    name = ASKED[method.service, method.name][0]
    sent = full(V1, name)
    altered = ALTERED_REQUESTS.get(method.name, {})
    runtime.answer(method.name, full(V1ALPHA2, OLD[method.service, method.name][1]).SerializeToString())
    running.call(method.served, sent.SerializeToString())
    [received] = runtime.received
    assert received.path == f"/runtime.v1alpha2.{method.service}/{method.name}"
    expected = {path: value for path, value in {**table(sent), **altered}.items() if value is not None}
    # As v1 defines it, which shows the fields that v1alpha2 does not have; and as the runtime reads it.
    assert table(message_class(V1, name).FromString(received.request)) == expected
    read = table(message_class(V1ALPHA2, name).FromString(received.request))
    assert read == known(V1ALPHA2, name, expected)


@pytest.mark.parametrize("method", FORWARDED, ids=by_name)
def test_an_answer_reaches_the_kubelet_with_every_field(method: Method, running: Running, runtime: Runtime) -> None:
    name = OLD[method.service, method.name][1]
    answer = full(V1ALPHA2, name)
    runtime.answer(method.name, answer.SerializeToString())
    got = running.call(method.served)
    expected = table(answer)
    if method.name == "ImageFsInfo":
        copies = {path.replace("image_", "container_", 1): value for path, value in expected.items()}
        expected.update(copies)
    assert table(message_class(V1, name).FromString(got)) == expected


@pytest.mark.parametrize("method", FORWARDED, ids=by_name)
def test_bytes_that_need_no_edit_pass_as_they_are(method: Method, running: Running, runtime: Runtime) -> None:
    answer = full(V1, ASKED[method.service, method.name][1]).SerializeToString()
    runtime.answer(method.name, answer)
    sent = message_class(V1, ASKED[method.service, method.name][0])().SerializeToString()
    assert running.call(method.served, sent) == answer
    assert runtime.received[0].request == sent


@pytest.mark.parametrize("method", FORWARDED, ids=by_name)
def test_fields_that_no_definition_has_pass(method: Method, running: Running, runtime: Runtime) -> None:
    unknown = b"\xc2\x3e\x05later"  # field 1000, a text
    sent = full(V1, ASKED[method.service, method.name][0]).SerializeToString() + unknown
    runtime.answer(method.name, full(V1ALPHA2, OLD[method.service, method.name][1]).SerializeToString() + unknown)
    got = running.call(method.served, sent)
    assert unknown in got
    assert unknown in runtime.received[0].request


@pytest.mark.parametrize("method", [each for each in METHODS if each.way is Way.REFUSE], ids=by_name)
def test_a_method_that_the_old_api_lacks_is_unimplemented(method: Method, running: Running, runtime: Runtime) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        running.call(method.served, full(V1, ASKED[method.service, method.name][0]).SerializeToString())
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert caught.value.details() == f"cri_bridge: the runtime speaks CRI v1alpha2, which has no {method.name}"
    assert runtime.received == []


@pytest.mark.parametrize(
    "path", ["/runtime.v1.RuntimeService/NextYear", "/runtime.v1alpha2.RuntimeService/Version", "/x.y/Version"]
)
def test_a_method_of_no_known_api_is_unimplemented(path: str, running: Running, runtime: Runtime) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        running.call(path)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert runtime.received == []


def test_a_streamed_method_ends_its_stream_as_unimplemented(running: Running) -> None:
    path = "/runtime.v1.RuntimeService/GetContainerEvents"
    stream = running.channel.unary_stream(path)(b"", timeout=60)
    with pytest.raises(grpc.RpcError) as caught:
        next(iter(stream))
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_runtime_config_says_cgroupfs_without_asking_the_runtime(running: Running, runtime: Runtime) -> None:
    answer = message_class(V1, "RuntimeConfigResponse").FromString(running.call(path_of("RuntimeConfig")))
    assert table(answer) == {"linux": "set", "linux.cgroup_driver": 1}
    assert answer.linux.DESCRIPTOR.fields_by_name["cgroup_driver"].enum_type.values_by_number[1].name == "CGROUPFS"
    assert runtime.received == []


@pytest.mark.parametrize("empty", ["version", "runtime_name", "runtime_version", "runtime_api_version", ""])
def test_an_empty_field_of_version_is_filled_and_the_others_stay(
    empty: str, running: Running, runtime: Runtime
) -> None:
    answer = full(V1ALPHA2, "VersionResponse")
    if empty:
        answer.ClearField(empty)
    runtime.answer("Version", answer.SerializeToString())
    got = message_class(V1, "VersionResponse").FromString(running.call(path_of("Version")))
    for field in ("version", "runtime_name", "runtime_version", "runtime_api_version"):
        if field == empty:
            assert getattr(got, field) != ""
        else:
            assert getattr(got, field) == getattr(answer, field)


def test_file_systems_of_containers_that_the_runtime_names_are_kept(running: Running, runtime: Runtime) -> None:
    answer = full(V1, "ImageFsInfoResponse")
    del answer.container_filesystems[1]
    runtime.answer("ImageFsInfo", answer.SerializeToString())
    assert running.call(path_of("ImageFsInfo")) == answer.SerializeToString()


# Profile as the kubelet says it; the old string of seccomp; the old string of AppArmor.
PROFILES = [
    ("RuntimeDefault", "", f"localhost/{PROFILE}", "runtime/default"),
    ("Unconfined", "", "unconfined", "unconfined"),
    ("Localhost", "/var/lib/kubelet/seccomp/a.json", "localhost//var/lib/kubelet/seccomp/a.json", None),
    ("Localhost", "k8s-name", None, "localhost/k8s-name"),
]


def profile(kind: str, ref: str) -> object:
    made = message_class(V1, "SecurityProfile")
    return made(profile_type=made.ProfileType.Value(kind), localhost_ref=ref)


@pytest.mark.parametrize(("kind", "ref", "old"), [(kind, ref, old) for kind, ref, old, _new in PROFILES if old])
def test_seccomp_of_a_sandbox_is_said_in_the_old_words(
    kind: str, ref: str, old: str, running: Running, runtime: Runtime
) -> None:
    request = full(V1, "RunPodSandboxRequest")
    context = request.config.linux.security_context
    context.ClearField("seccomp_profile_path")
    context.seccomp.CopyFrom(profile(kind, ref))
    running.call(path_of("RunPodSandbox"), request.SerializeToString())
    context.seccomp_profile_path = old
    assert table(message_class(V1, "RunPodSandboxRequest").FromString(runtime.received[0].request)) == table(request)
    read = message_class(V1ALPHA2, "RunPodSandboxRequest").FromString(runtime.received[0].request)
    assert read.config.linux.security_context.seccomp_profile_path == old


@pytest.mark.parametrize(("kind", "ref", "old"), [(kind, ref, old) for kind, ref, old, _new in PROFILES if old])
def test_seccomp_of_a_container_is_said_in_the_old_words(
    kind: str, ref: str, old: str, running: Running, runtime: Runtime
) -> None:
    read, request = created(running, runtime, "seccomp", "seccomp_profile_path", kind, ref)
    assert read.config.linux.security_context.seccomp_profile_path == old
    assert read.config.linux.security_context.apparmor_profile == "apparmor_profile 0 ü"
    request.config.linux.security_context.seccomp_profile_path = old
    assert table(message_class(V1, "CreateContainerRequest").FromString(runtime.received[0].request)) == table(request)


@pytest.mark.parametrize(("kind", "ref", "old"), [(kind, ref, old) for kind, ref, _new, old in PROFILES if old])
def test_apparmor_of_a_container_is_said_in_the_old_words(
    kind: str, ref: str, old: str, running: Running, runtime: Runtime
) -> None:
    read, request = created(running, runtime, "apparmor", "apparmor_profile", kind, ref)
    assert read.config.linux.security_context.apparmor_profile == old
    assert read.config.linux.security_context.seccomp_profile_path == "seccomp_profile_path 0 ü"
    request.config.linux.security_context.apparmor_profile = old
    assert table(message_class(V1, "CreateContainerRequest").FromString(runtime.received[0].request)) == table(request)


def test_both_profiles_of_a_container_are_said_in_the_old_words(running: Running, runtime: Runtime) -> None:
    request = full(V1, "CreateContainerRequest")
    context = request.config.linux.security_context
    for field, old_field in (("seccomp", "seccomp_profile_path"), ("apparmor", "apparmor_profile")):
        context.ClearField(old_field)
        getattr(context, field).CopyFrom(profile("RuntimeDefault", ""))
    running.call(path_of("CreateContainer"), request.SerializeToString())
    read = message_class(V1ALPHA2, "CreateContainerRequest").FromString(runtime.received[0].request)
    context = read.config.linux.security_context
    assert (context.seccomp_profile_path, context.apparmor_profile) == (f"localhost/{PROFILE}", "runtime/default")


def created(running: Running, runtime: Runtime, field: str, old_field: str, kind: str, ref: str) -> tuple:  # type: ignore[type-arg]
    """Create a container with this profile; return the request as the runtime reads it, and as it was sent."""
    request = full(V1, "CreateContainerRequest")
    context = request.config.linux.security_context
    context.ClearField(old_field)
    getattr(context, field).CopyFrom(profile(kind, ref))
    running.call(path_of("CreateContainer"), request.SerializeToString())
    return message_class(V1ALPHA2, "CreateContainerRequest").FromString(runtime.received[0].request), request


def test_a_container_without_profiles_gets_none(running: Running, runtime: Runtime) -> None:
    request = full(V1, "CreateContainerRequest")
    for field in ("seccomp", "apparmor", "seccomp_profile_path", "apparmor_profile"):
        request.config.linux.security_context.ClearField(field)
    running.call(path_of("CreateContainer"), request.SerializeToString())
    assert runtime.received[0].request == request.SerializeToString()


def test_a_profile_of_a_kind_that_is_not_known_is_refused_rather_than_ignored(
    running: Running, runtime: Runtime
) -> None:
    request = message_class(V1, "CreateContainerRequest")()
    request.config.linux.security_context.seccomp.profile_type = 7
    with pytest.raises(grpc.RpcError) as caught:
        running.call(path_of("CreateContainer"), request.SerializeToString())
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "seccomp has profile_type 7" in caught.value.details()
    assert runtime.received == []


def test_without_a_profile_file_runtime_default_is_the_runtimes_own(runtime: Runtime, tmp_path: Path) -> None:
    request = message_class(V1, "CreateContainerRequest")()
    request.config.linux.security_context.seccomp.SetInParent()
    with bridge(tmp_path, runtime.address) as own:
        own.call(path_of("CreateContainer"), request.SerializeToString())
    read = message_class(V1ALPHA2, "CreateContainerRequest").FromString(runtime.received[0].request)
    assert read.config.linux.security_context.seccomp_profile_path == "runtime/default"


@pytest.mark.parametrize("method", ["RunPodSandbox", "CreateContainer", "UpdateContainerResources"])
def test_a_request_that_cannot_be_read_is_not_sent_on_unedited(method: str, running: Running, runtime: Runtime) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        running.call(path_of(method), b"\x12\xff")
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "cannot read the message" in caught.value.details()
    assert runtime.received == []


@pytest.mark.parametrize("method", ["Version", "ImageFsInfo"])
def test_an_answer_that_cannot_be_read_is_an_internal_error(method: str, running: Running, runtime: Runtime) -> None:
    runtime.answer(method, b"\x0a\xff")
    with pytest.raises(grpc.RpcError) as caught:
        running.call(path_of(method))
    assert caught.value.code() is grpc.StatusCode.INTERNAL


def test_the_url_of_a_stream_is_not_touched(running: Running, runtime: Runtime) -> None:
    for method in ("Exec", "Attach", "PortForward"):
        answer = message_class(V1ALPHA2, f"{method}Response")(url="http://127.0.0.1:12345/exec/To_k-en?a=b&c=%2F")
        runtime.answer(method, answer.SerializeToString())
        assert message_class(V1, f"{method}Response").FromString(running.call(path_of(method))).url == answer.url


def path_of(name: str) -> str:
    [path] = [path for path, method in SERVED.items() if method.name == name]
    return path
