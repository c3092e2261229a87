# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where things lie outside the checkout, and the environment every tool of the project runs in.

Nothing is written into the checkout. What checkouts may share (virtual environments, downloads, Kubernetes binaries)
lies directly below the cache folder; what belongs to one checkout (tool caches, the collections tree that links to
it) lies in a folder named after the checkout's path, so that two checkouts on one machine do not disturb each other.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DEFAULT_CACHE = "/var/cache/converged-hpc"
# Where Python packages begin, as pytest has it in pyproject.toml: whatever is started in the environment finds them.
PACKAGES = ("tests", "roles/node_share/files", "roles/placement/files", "roles/singularity_cri/files")
PROXY_VARIABLES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
# The test bed's networks are taken from these; a proxy must not stand between its machines.
NEVER_PROXIED = ("localhost", "127.0.0.1", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The checkout and its cache folders."""

    checkout: Path
    cache: Path

    @property
    def own(self) -> Path:
        """The part of the cache that belongs to this checkout alone."""
        return self.cache / "checkouts" / hashlib.sha256(os.fsencode(self.checkout)).hexdigest()[:12]

    @property
    def collections(self) -> Path:
        """An Ansible collections path in which converged.hpc is this checkout."""
        return self.own / "collections"

    @property
    def logs(self) -> Path:
        """Every run of the gates has a folder in here."""
        return self.cache / "logs"

    def venv(self, digest: str) -> Path:
        """The virtual environment with exactly these inputs."""
        return self.cache / "venvs" / digest


def places(checkout: Path, environ: Mapping[str, str]) -> Places:
    """The places of this checkout; CONVERGED_CACHE moves the cache."""
    return Places(checkout=checkout, cache=Path(environ.get("CONVERGED_CACHE") or DEFAULT_CACHE).absolute())


def variables(where: Places, *, venv: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The whole environment for a tool.

    A user's own Ansible settings (ANSIBLE_*, ~/.ansible.cfg, an old copy of the collection in ~/.ansible) would
    change what the gates see, so they are kept out. With PYTHONUNBUFFERED, Python reads a program from its standard
    input one byte at a time, and Ansible gives this machine's modules to Python that way.
    """
    left_out = ("ANSIBLE_", "PYTHONHOME", "PYTHONUNBUFFERED")
    kept = {name: value for name, value in environ.items() if not name.startswith(left_out)}
    path = [str(venv / "bin"), *(part for part in environ.get("PATH", os.defpath).split(":") if part)]
    own = where.own
    return {
        **kept,
        **without_proxy_for_the_bed(environ),
        "PATH": ":".join(dict.fromkeys([*path, "/usr/sbin", "/sbin"])),
        "VIRTUAL_ENV": str(venv),
        "PYTHONPATH": ":".join(str(where.checkout / folder) for folder in PACKAGES),
        "PYTHONDONTWRITEBYTECODE": "1",
        "CONVERGED_CACHE": str(where.cache),
        "CONVERGED_OWN_CACHE": str(own),
        "ANSIBLE_COLLECTIONS_PATH": str(where.collections),
        "ANSIBLE_CONFIG": str(where.checkout / "tests/ansible.cfg"),
        # Here and not in ansible.cfg: molecule writes a configuration of its own and keeps these.
        "ANSIBLE_CALLBACK_PLUGINS": str(where.checkout / "tests/ansible_plugins/callback"),
        "ANSIBLE_CALLBACKS_ENABLED": "module_archives",
        # Ansible's own without -C: hosts of a test bed are on this machine. ssh would compress each module for them.
        "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=60s",
        "ANSIBLE_HOME": str(own / "ansible"),
        "MYPY_CACHE_DIR": str(where.cache / "mypy"),  # of all checkouts: mypy looks at the texts
        "RUFF_CACHE_DIR": str(own / "ruff"),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(own / "hypothesis"),
        "XDG_CACHE_HOME": str(own / "xdg"),
        "COVERAGE_FILE": str(own / "coverage"),
        "PIP_CACHE_DIR": str(where.cache / "pip"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def without_proxy_for_the_bed(environ: Mapping[str, str]) -> dict[str, str]:
    """NO_PROXY with the test bed's networks added, where a proxy is set at all."""
    if not any(environ.get(name) for name in PROXY_VARIABLES):
        return {}
    given = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    value = ",".join(dict.fromkeys([*filter(None, given.split(",")), *NEVER_PROXIED]))
    return {"NO_PROXY": value, "no_proxy": value}
