# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kubeconfig is understood as a whole, or refused by the name of the field and the file."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from placement.app import cli
from placement.kube.transport.credentials import Credentials, CredentialsError


def written(folder: Path, *, cluster: dict[str, Any] | None = None, user: object = None, **more: Any) -> Path:
    file = folder / "kubeconfig"
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "hpc", "user": "daemon", "namespace": "any"}}],
        "clusters": [{"name": "hpc", "cluster": {"server": "https://api.example:6443", **(cluster or {})}}],
        "users": [{"name": "daemon", "user": {"token": "t"} if user is None else user}],
        **more,
    }
    file.write_text(yaml.safe_dump(config))
    return file


@pytest.mark.parametrize(
    ("holder", "field", "value", "instead"),
    [
        ("cluster", "insecure-skip-tls-verify", True, "certificate-authority"),
        ("cluster", "proxy-url", "http://proxy:3128", "without a proxy"),
        ("cluster", "tls-server-name", "kubernetes", "a server that its certificate names"),
        ("cluster", "something-new", "x", ""),
        ("user", "exec", {"command": "aws"}, "token"),
        ("user", "auth-provider", {"name": "gcp"}, "token"),
        ("user", "username", "admin", "token"),
        ("user", "password", "secret", "token"),
        ("user", "as", "system:admin", "credentials of the user itself"),
        ("user", "as-groups", ["system:masters"], ""),
    ],
)
def test_what_is_not_supported_is_refused_by_the_names_of_field_and_file(tmp_path, holder, field, value, instead):
    given = {"cluster": {field: value}} if holder == "cluster" else {"user": {"token": "t", field: value}}
    file = written(tmp_path, **given)
    name = "hpc" if holder == "cluster" else "daemon"
    with pytest.raises(CredentialsError) as refused:
        Credentials(file)
    said = str(refused.value)
    assert said.startswith(f"{file}: {holder} '{name}': {field} is not supported")
    assert instead in said
    assert "secret" not in said


def test_the_daemon_does_not_start_with_such_a_file(tmp_path, capsys):
    file = written(tmp_path, cluster={"insecure-skip-tls-verify": True})
    settings = tmp_path / "settings.yml"
    settings.write_text(yaml.safe_dump({"kubeconfig": str(file), "listen": "", "socket": ""}))
    assert cli.main(["run", "--settings", str(settings)]) == cli.FAILED
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"placement: {file}: cluster 'hpc': insecure-skip-tls-verify is not supported; ")


@pytest.mark.parametrize(
    "server", ["https://api.example/k8s/clusters/c-1", "https://me@api.example:6443", "https://api.example?x=1"]
)
def test_a_server_that_is_more_than_host_and_port_is_refused(tmp_path, server):
    with pytest.raises(CredentialsError, match=re.escape(repr(server))):
        Credentials(written(tmp_path, cluster={"server": server}))


def test_fields_that_are_empty_or_change_nothing_are_taken(tmp_path):
    harmless = {"insecure-skip-tls-verify": False, "proxy-url": "", "disable-compression": True, "extensions": [{}]}
    file = written(tmp_path, cluster=harmless, user={"token": "t", "exec": None, "username": ""}, preferences={})
    found = Credentials(file).endpoint()
    assert (found.host, found.port, found.authorization) == ("api.example", 6443, "Bearer t")


def test_only_the_context_in_use_counts(tmp_path):
    file = written(tmp_path)
    config = yaml.safe_load(file.read_text())
    config["users"].append({"name": "other", "user": {"exec": {"command": "x"}}})
    config["clusters"].append({"name": "other", "cluster": {"server": "http://x", "insecure-skip-tls-verify": True}})
    file.write_text(yaml.safe_dump(config))
    assert Credentials(file).endpoint().host == "api.example"


@pytest.mark.parametrize(
    ("given", "missing"), [("client-certificate", "client-key"), ("client-key", "client-certificate")]
)
def test_half_a_pair_is_refused(tmp_path, given, missing):
    file = written(tmp_path, user={"token": "t", f"{given}-data": "eA=="})
    with pytest.raises(CredentialsError, match=f"user 'daemon': {missing} is missing"):
        Credentials(file)


@pytest.mark.parametrize("user", ["token", ["token"], {}])
def test_a_user_that_proves_nothing_is_refused(tmp_path, user):
    with pytest.raises(CredentialsError, match=re.escape(str(tmp_path / "kubeconfig"))):
        Credentials(written(tmp_path, user=user))


def test_a_token_file_goes_before_a_token_and_is_read_again(tmp_path):
    token = tmp_path / "token"
    token.write_text("first\n")
    credentials = Credentials(written(tmp_path, user={"token": "written", "tokenFile": "token"}))
    assert credentials.endpoint().authorization == "Bearer first"
    token.unlink()
    token.write_text("second\n")
    assert credentials.endpoint().authorization == "Bearer second"
