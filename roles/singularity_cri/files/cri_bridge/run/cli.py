# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: reads the options, starts the bridge and ends it; or checks that one answers."""

from __future__ import annotations

import argparse
import importlib
import logging
import math
import os
import sys
from typing import NoReturn, Sequence

from cri_bridge.host.sockets import Refused, path_of

WRONG_INPUT = 2
NEEDED = {"grpc": "grpcio", "google.protobuf": "protobuf"}
EXAMPLES = """\
examples:
  python -m cri_bridge --listen unix:///run/converged/cri-bridge.sock --backend unix:///run/singularity.sock
  python -m cri_bridge --listen unix:///run/converged/cri-bridge.sock --backend unix:///run/singularity.sock \\
      --metrics 127.0.0.1:9417 --seccomp-profile /etc/converged/seccomp.json
  python -m cri_bridge --check --listen unix:///run/converged/cri-bridge.sock

exit status: 0 after SIGTERM, or if the check succeeds; 1 if the check fails or the bridge fails; 2 for wrong input
"""


class _Parser(argparse.ArgumentParser):
    """Says in one line what is wrong."""

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_INPUT, f"cri_bridge: {message}; see --help\n")


def _socket(text: str) -> str:
    try:
        path_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 60:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of seconds from 0 to 60")
    return number


def _address(text: str) -> tuple[str, int]:
    host, _colon, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 65536:
        raise argparse.ArgumentTypeError(f"'{text}' is no address; write 127.0.0.1:PORT")
    return host.strip("[]"), int(port)


def _file(text: str) -> str:
    if not text.startswith("/"):
        raise argparse.ArgumentTypeError(f"'{text}' is no absolute path")
    if not os.path.isfile(text):
        raise argparse.ArgumentTypeError(f"'{text}' is no file on this node")
    return text


def parser() -> argparse.ArgumentParser:
    """Return what reads the options."""
    made = _Parser(
        prog="cri_bridge",
        description="Serve CRI v1 to a kubelet and forward its calls to a runtime that speaks CRI v1alpha2.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--listen", type=_socket, required=True, metavar="ADDRESS", help="socket for the kubelet")
    made.add_argument("--backend", type=_socket, metavar="ADDRESS", help="socket of the runtime")
    made.add_argument("--metrics", type=_address, metavar="HOST:PORT", help="serve /metrics and /healthz there")
    made.add_argument(
        "--cache-seconds",
        type=_seconds,
        default=1.0,
        metavar="SECONDS",
        help="give answers about state again for so long; 0 always asks the runtime (default: %(default)s)",
    )
    made.add_argument(
        "--seccomp-profile",
        type=_file,
        metavar="FILE",
        help="profile that stands for RuntimeDefault (default: the runtime's own)",
    )
    made.add_argument("--check", action="store_true", help="ask the bridge at --listen for its version, and end")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the bridge until SIGTERM; return its exit status."""
    options = parser()
    given = options.parse_args(argv)
    if not given.check and given.backend is None:
        options.error("--backend is missing: the socket of the runtime")
    if given.backend == given.listen:
        options.error("--backend is the bridge's own socket")
    # OpenSSL would be 4 MB of the bridge's 38; it has unix sockets alone, and asyncio does without a missing ssl.
    sys.modules.setdefault("ssl", None)  # type: ignore[arg-type]
    for module, package in NEEDED.items():
        try:
            importlib.import_module(module)
        except ImportError as error:
            options.error(f"Python has no {package} ({error}): install its wheel for {sys.executable}")
    from cri_bridge.run import service

    if given.check:
        return service.check(given.listen)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(message)s")
    try:
        service.run(given)
    except Refused as error:
        options.exit(WRONG_INPUT, f"cri_bridge: {error}\n")
    return 0
