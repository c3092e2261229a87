# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a kubelet's kubeconfig: JSON, or the plain block YAML that kubeadm writes.

The standard library has no YAML. This reads the small part of it that kubeadm and client-go produce: mappings, lists of
mappings, plain and quoted scalars. It refuses everything else by line, rather than guess at credentials.
"""

import base64
import binascii
import json
import os
import re
from typing import Any, Dict, List, NamedTuple, Tuple

from ..store import files


class KubeconfigError(ValueError):
    """One line: the file, what was found, what is needed."""


class Credentials(NamedTuple):
    """Certificates as files, or as PEM text where the kubeconfig holds them itself."""

    server: str
    ca_file: str = ""
    ca_pem: str = ""
    cert_file: str = ""
    key_file: str = ""
    cert_pem: str = ""
    key_pem: str = ""


def load(path: str) -> Credentials:
    try:
        content = files.read(path)
        if content is None:
            raise KubeconfigError("{}: no such file".format(path))
        text = content.decode("utf-8")
        data = json.loads(text) if text.lstrip().startswith("{") else _parse(text)
        return _credentials(data, os.path.dirname(path))
    except (files.StoreError, UnicodeDecodeError) as error:
        raise KubeconfigError(str(error)) from error
    except KubeconfigError as error:
        raise KubeconfigError("{}: {}".format(path, error) if path not in str(error) else str(error)) from error
    except ValueError as error:
        raise KubeconfigError("{}: not JSON: {}".format(path, error)) from error


def _credentials(data: Any, directory: str) -> Credentials:
    context = _named(data, "contexts", "context", _text(data, "current-context"))
    cluster = _named(data, "clusters", "cluster", _text(context, "cluster"))
    user = _named(data, "users", "user", _text(context, "user"))
    if cluster.get("insecure-skip-tls-verify") not in (None, "false", False):
        raise KubeconfigError("insecure-skip-tls-verify is set: the API's certificate must be checked")
    server = _text(cluster, "server")
    if not server.startswith("https://"):
        raise KubeconfigError("server {}: must begin with https://".format(ascii(server)[:80]))
    ca_file, ca_pem = _file_or_data(cluster, "certificate-authority", directory)
    cert_file, cert_pem = _file_or_data(user, "client-certificate", directory)
    key_file, key_pem = _file_or_data(user, "client-key", directory)
    return Credentials(server, ca_file, ca_pem, cert_file, key_file, cert_pem, key_pem)


def _named(data: Any, many: str, one: str, name: str) -> Dict[str, Any]:
    for entry in (data.get(many) or []) if isinstance(data, dict) else []:
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(one), dict):
            found: Dict[str, Any] = entry[one]
            return found
    raise KubeconfigError("{} has no entry named {}".format(many, ascii(name)[:80]))


def _text(data: Any, name: str) -> str:
    value = data.get(name) if isinstance(data, dict) else None
    if not isinstance(value, str) or not value:
        raise KubeconfigError("{} is missing".format(name))
    return value


def _file_or_data(data: Dict[str, Any], name: str, directory: str) -> Tuple[str, str]:
    if data.get(name + "-data"):
        try:
            return "", base64.b64decode(_text(data, name + "-data"), validate=True).decode("ascii")
        except (binascii.Error, UnicodeDecodeError) as error:
            raise KubeconfigError("{}-data is not base64 of PEM text".format(name)) from error
    return os.path.join(directory, _text(data, name)), ""


_KEY = re.compile(r"([A-Za-z0-9_.-]+):(?: +(.*))?")
_PLAIN = re.compile(r"[A-Za-z0-9/_.+=][^#:\"'{}\[\]&*!|>%`]*(?::[^\s#\"'{}\[\]&*!|>%`][^#\"'{}\[\]&*!|>%`]*)*")
_Line = Tuple[int, int, str]


def _parse(text: str) -> Any:
    lines: List[_Line] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        stripped = raw.strip()
        if not stripped or stripped.startswith("#") or (stripped == "---" and not lines):
            continue
        if "\t" in raw:
            raise KubeconfigError("line {}: a tab".format(number))
        lines.append((number, len(raw) - len(raw.lstrip(" ")), raw.strip()))
        if len(lines) > 2000:
            raise KubeconfigError("more than 2000 lines")
    value, rest = _block(lines, 0, 0)
    if rest != len(lines):
        raise KubeconfigError("line {}: unexpected indentation".format(lines[rest][0]))
    return value


def _block(lines: List[_Line], at: int, depth: int) -> Tuple[Any, int]:
    if at >= len(lines) or depth > 10:
        raise KubeconfigError("empty or nested too deeply")
    if lines[at][2] == "-" or lines[at][2].startswith("- "):
        return _sequence(lines, at, depth)
    return _mapping(lines, at, depth)


def _sequence(lines: List[_Line], at: int, depth: int) -> Tuple[Any, int]:
    indent = lines[at][1]
    values: List[Any] = []
    while at < len(lines) and lines[at][1] == indent and lines[at][2].startswith("- "):
        number, _unused, text = lines[at]
        inner = text[2:].lstrip(" ")
        if _KEY.fullmatch(inner):
            lines[at] = (number, indent + len(text) - len(inner), inner)
            value, at = _mapping(lines, at, depth + 1)
        else:
            value, at = _scalar(inner, number), at + 1
        values.append(value)
    return values, at


def _mapping(lines: List[_Line], at: int, depth: int) -> Tuple[Any, int]:
    indent = lines[at][1]
    values: Dict[str, Any] = {}
    while at < len(lines) and lines[at][1] == indent and not lines[at][2].startswith("- "):
        number, _unused, text = lines[at]
        found = _KEY.fullmatch(text)
        if found is None:
            raise KubeconfigError(
                "line {}: not `key: value`; only block YAML as kubeadm writes it is read".format(number)
            )
        key, rest = found.groups()
        if key in values:
            raise KubeconfigError("line {}: {} twice".format(number, key))
        at += 1
        if rest:
            values[key] = _scalar(rest, number)
        elif at < len(lines) and (lines[at][1] > indent or (lines[at][1] == indent and lines[at][2].startswith("- "))):
            values[key], at = _block(lines, at, depth + 1)
        else:
            values[key] = None
    return values, at


def _scalar(text: str, number: int) -> Any:
    if text in ("{}", "[]", "null", "~"):
        return None
    if text[0] == '"' and text[-1] == '"' and len(text) > 1:
        try:
            return json.loads(text)
        except ValueError as error:
            raise KubeconfigError("line {}: a quoted value that is not understood".format(number)) from error
    if text[0] == "'" and text[-1] == "'" and "'" not in text[1:-1] and len(text) > 1:
        return text[1:-1]
    if not _PLAIN.fullmatch(text):
        raise KubeconfigError("line {}: a value that is not understood; only plain scalars are read".format(number))
    return text
