# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Serve sycri and an archive of the engine on the loopback, each once: `python serve.py PROGRAMS FOLDER`.

FOLDER/served.json gets the port and the checksums when the server listens.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tarfile
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path


def main(programs: Path, folder: Path) -> None:
    """Pack the prefix of the engine, listen, and end when both files have been fetched."""
    served = folder / "served"
    served.mkdir(exist_ok=True)
    (served / "sycri").write_bytes((programs / "sycri").read_bytes())
    with tarfile.open(served / "engine.tar.gz", "w:gz") as archive:
        archive.add(programs / "singularity", "bin/singularity")
    sums = {name: hashlib.sha256((served / name).read_bytes()).hexdigest() for name in ("sycri", "engine.tar.gz")}
    with HTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(served))) as server:
        said = {"port": server.server_port, "sycri": sums["sycri"], "engine": sums["engine.tar.gz"]}
        new = folder / "served.json.new"
        new.write_text(json.dumps(said), encoding="utf-8")
        new.rename(folder / "served.json")
        for _ in sums:
            server.handle_request()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
