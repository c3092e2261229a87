# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Singularity-CRI as its last release was, built once from Go modules; `python -m e2e.sycri` prints where it lies.

Beside it: `ask`, which speaks its API, and `singularity`, a stand-in for the engine that says what Singularity-CRI asks
at its start and does nothing else: the engine's own build takes minutes and runs with cgroup v1 only.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from testbed.kube_go import Go, find_go, go_environment, places
from testbed.paths import binaries_dir, cache_dir
from testbed.run import run
from testbed.state import file_lock

SOURCES = Path(__file__).with_name("singularity")
SERVER = "github.com/sylabs/singularity-cri/cmd/server"
# For each of its two programs. The gate that needs them has more time than both take (a unit test compares).
BUILD_SECONDS = 900
ENGINE = """\
#!/bin/sh
case "$*" in
  version) echo 3.9.9 ;;
  --version) echo singularity-ce version 3.9.9 ;;
  "oci create --help") echo "  --bundle --empty-process --log-path --sync-socket" ;;
  buildcfg) echo SINGULARITY_CONFDIR=/usr/local/etc/singularity ;;
  *) echo "stand-in for singularity: cannot $*" >&2; exit 1 ;;
esac
"""


def programs() -> Path:
    """The folder with `sycri`, `ask` and `singularity`, whose name is the digest of all that decides their content."""
    go = find_go(cache=cache_dir(), among=places())
    parts = [path.read_bytes() for path in sorted(SOURCES.iterdir())] + [ENGINE.encode(), go.version.encode()]
    digest = hashlib.sha256(b"".join(parts)).hexdigest()[:16]
    folder = binaries_dir().parent / "singularity-cri" / digest
    if folder.is_dir():
        return folder
    what = "build Singularity-CRI"
    with file_lock("singularity-cri", timeout=2 * BUILD_SECONDS, what=what):
        if not folder.is_dir():
            _build(folder, go)
    return folder


def _build(folder: Path, go: Go) -> None:
    """Into a folder beside, which gets its name when everything in it is complete."""
    new = folder.with_name(f".{folder.name}-{os.getpid()}")
    new.mkdir(parents=True)
    # Its plugin for GPUs is C, although nothing of it runs where there is none.
    environment = {**go_environment(cache_dir()), "CGO_ENABLED": "1"}
    for package, name in ((SERVER, "sycri"), (".", "ask")):
        argv = [str(go.program), "build", "-C", str(SOURCES), "-mod=readonly", "-modcacherw", "-buildvcs=false"]
        run([*argv, "-trimpath", "-o", str(new / name), package], timeout=BUILD_SECONDS, env=environment)
    engine = new / "singularity"
    engine.write_text(ENGINE, encoding="utf-8")
    engine.chmod(0o755)
    new.rename(folder)


if __name__ == "__main__":
    print(programs())
