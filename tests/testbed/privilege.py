# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Only the test bed needs root: the command line starts itself again through `sudo -n` where it is not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed.errors import BedError

# sudo gives a clean environment; these decide where things lie and whether packages can be fetched.
KEPT = (
    *("CONVERGED_CACHE", "CONVERGED_BIN_DIR", "CONVERGED_LOGS", "PBS_EXEC"),
    *("PATH", "GOPROXY", "GOFLAGS", "SSL_CERT_FILE", "TERM"),
)
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
ROOT_PATH = "/usr/local/sbin:/usr/sbin:/sbin"
TESTS = Path(__file__).resolve().parent.parent


def asking_user(environment: Mapping[str, str]) -> int:
    """Who asked: the owner of keys and kubeconfigs."""
    return int(environment.get("SUDO_UID", os.getuid()))


def ensure_root(arguments: Sequence[str]) -> None:
    """Return as root; as anybody else start again through sudo, or say what is missing."""
    if os.geteuid() == 0:
        # Whoever asked must be able to read what root writes, and may have a PATH without root's programs.
        os.umask(0o022)
        os.environ["PATH"] = f"{os.environ.get('PATH', '')}:{ROOT_PATH}"
        return
    try:
        allowed = subprocess.run(["sudo", "-n", "true"], capture_output=True, timeout=10, check=False).returncode == 0
    except (FileNotFoundError, subprocess.TimeoutExpired):
        allowed = False
    if not allowed:
        raise BedError(
            f"the test bed needs root, this is user {os.getuid()} and `sudo -n true` fails; "
            "run as root, or allow sudo without a password"
        )
    sys.stdout.flush()
    command = sudo_command(arguments, os.environ)
    os.execvp(command[0], command)


def sudo_command(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The same command under sudo, which writes no bytecode into the checkout and knows where things lie."""
    kept = [f"{name}={environment[name]}" for name in (*KEPT, *PROXIES) if name in environment]
    settings = ["PYTHONDONTWRITEBYTECODE=1", f"PYTHONPATH={TESTS}", *kept]
    return ["sudo", "-n", "env", *settings, sys.executable, "-m", "testbed", *arguments]
