# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the collection asks of a cluster as its administrator, through kubectl, one method each.

kubectl reads every kubeconfig there is, with whatever way to log in a site has; a library would have to be installed.

PRIVATE to the collection.
"""

from __future__ import annotations

import base64
import json
import typing as t

from .. import _command
from .certificates.certificate import pins
from .errors import KubeError

JSON = t.Dict[str, t.Any]
TIMEOUT = 60.0
# As kubectl says it of a kubeconfig without a current context, and of one whose current context is not there.
_NO_CONTEXT = ("current-context must exist", "cannot locate context")
# As the doc fragment _kube has it.
ARGUMENT_SPEC: JSON = {
    "kubeconfig": {"type": "path", "required": True},
    "kubectl": {"type": "path", "default": "kubectl"},
    "timeout": {"type": "int", "default": 30},
}
# As its part `cluster` has it.
CLUSTER_SPEC: JSON = {
    "api_server": {"type": "str"},
    "ca_hashes": {"type": "list", "elements": "str", "default": []},
}
K = t.TypeVar("K", bound="Kubectl")


class Runner(t.Protocol):
    """`_command.run`, or a test's double of it."""

    def __call__(
        self, argv: t.Sequence[str], *, timeout: float, text: t.Optional[str] = None
    ) -> _command.Completed: ...


class Kubectl:
    """One cluster."""

    def __init__(
        self, *, kubeconfig: str, program: str = "kubectl", timeout: float = TIMEOUT, run: Runner = _command.run
    ) -> None:
        self._base = (program, "--kubeconfig", kubeconfig, f"--request-timeout={timeout:g}s")
        self._kubeconfig, self._timeout, self._run = kubeconfig, timeout, run

    @classmethod
    def of(cls: t.Type[K], params: t.Mapping[str, t.Any]) -> K:
        """Make it from a module's arguments."""
        return cls(kubeconfig=params["kubeconfig"], program=params["kubectl"], timeout=params["timeout"])

    def server_and_pins(self) -> t.Tuple[str, t.List[str]]:
        """Return the API's address, and the hash of each authority that the kubeconfig trusts."""
        server, authority = self.server_and_authority()
        return server, pins(authority, name=self._kubeconfig)

    def server_and_authority(self) -> t.Tuple[str, str]:
        """Return the API's address, and the certificates of the authorities that the kubeconfig trusts."""
        view = self._view("--raw", "--flatten")
        cluster = (view.get("clusters") or [{}])[0].get("cluster") or {}
        data = cluster.get("certificate-authority-data")
        if not data:
            raise KubeError(f"{self._kubeconfig}: names no certificate authority: say its hash yourself")
        return str(cluster.get("server", "")), base64.b64decode(data).decode("utf-8", "replace")

    def server(self) -> str:
        """Return the API's address in the kubeconfig. KubeError: it has no current context, or cannot be read."""
        view = self._view()
        return str(((view.get("clusters") or [{}])[0].get("cluster") or {}).get("server", ""))

    def nodes(self) -> t.Dict[str, JSON]:
        """Return all Node objects by name, in one call."""
        return {node["metadata"]["name"]: node for node in self._json("get", "nodes", "--output=json")["items"]}

    def version(self) -> str:
        """Return the release of the API server."""
        return str(self._json("get", "--raw", "/version").get("gitVersion", ""))

    def label(self, names: t.Sequence[str], labels: t.Mapping[str, str]) -> None:
        self._ask("label", "nodes", *names, *(f"{key}={value}" for key, value in sorted(labels.items())), "--overwrite")

    def clear(self, name: str, *, labels: t.Iterable[str], annotations: t.Iterable[str]) -> None:
        for kind, keys in (("label", labels), ("annotate", annotations)):
            gone = [f"{key}-" for key in sorted(keys)]
            if gone:
                self._ask(kind, "node", name, *gone)

    def taint(self, names: t.Sequence[str], key: str, effect: str) -> None:
        self._ask("taint", "nodes", *names, f"{key}:{effect}", "--overwrite")

    def untaint(self, names: t.Sequence[str], key: str) -> None:
        """Remove taints of this key, whatever their effect."""
        self._ask("taint", "nodes", *names, f"{key}-")

    def delete_nodes(self, names: t.Sequence[str]) -> None:
        self._ask("delete", "nodes", *names, "--ignore-not-found", "--wait=true")

    def create_secret(self, secret: JSON) -> None:
        """Create a secret by standard input, so that no process list shows it."""
        self._ask("create", "--filename=-", text=json.dumps(secret))

    def delete_secret(self, name: str, *, namespace: str, check: bool) -> bool:
        """Delete a secret; return whether it was there. `check` leaves it there."""
        words = ["delete", "secret", name, f"--namespace={namespace}", "--ignore-not-found"]
        return bool(self._ask(*words, *(["--dry-run=server"] if check else [])).strip())

    def _view(self, *options: str) -> JSON:
        """Return the current context of the kubeconfig, and what it refers to."""
        try:
            return self._json("config", "view", "--minify", *options, "--output=json")
        except KubeError as error:
            if not any(words in str(error) for words in _NO_CONTEXT):
                raise
            text = "has no current context that names a cluster; set one with kubectl config use-context"
            raise KubeError(f"{self._kubeconfig}: {text}") from error

    def _json(self, *words: str) -> JSON:
        try:
            found: JSON = json.loads(self._ask(*words))
        except ValueError as error:
            raise KubeError(f"kubectl {words[0]}: its answer is no JSON") from error
        return found

    def _ask(self, *words: str, text: t.Optional[str] = None) -> str:
        try:
            return self._run((*self._base, *words), timeout=self._timeout + 5, text=text).out
        except _command.CommandError as error:
            raise KubeError(str(error)) from error
