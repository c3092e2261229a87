# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clears away what an ended Singularity-CRI leaves, before its next start: it holds nothing over a restart.

No pod of it lives when this runs. Left are its socket (the next start says "address already in use"), mounts of
containers, their directories, the engine's list of instances, and the addresses that pods had. They are left after an
orderly stop too, because it does not tear networks down.
"""

import argparse
import errno
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
from typing import Iterable, List, Optional, Tuple

INSTANCES = "root/.singularity/instances/oci"
LEASES = "var/lib/cni/networks"
OF_PODS = ("pods", "containers")
UMOUNT_SECONDS = 30
_OCTAL = re.compile(r"\\([0-7]{3})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)


def mounts_below(folder: str, mountinfo: str) -> List[str]:
    """Mount points below a directory, the last mounted first."""
    points = [_OCTAL.sub(lambda match: chr(int(match.group(1), 8)), line.split()[4]) for line in mountinfo.splitlines()]
    return [point for point in reversed(points) if point.startswith(folder.rstrip("/") + "/")]


def leftovers(run_dir: str, networks: Iterable[str], root: str = "/") -> Tuple[List[str], List[str]]:
    """Directories to be emptied, and directories to be removed with all they hold."""
    emptied = [os.path.join(run_dir, name) for name in OF_PODS]
    gone = [os.path.join(root, LEASES, name) for name in networks]
    instances = os.path.join(root, INSTANCES)
    for name in _names(instances):
        gone.append(os.path.join(instances, name, "root"))
    return emptied, gone


def clean(address: str, run_dir: str, networks: Iterable[str], root: str = "/") -> List[str]:
    """Clear all, whatever fails on the way; return what failed."""
    errors: List[str] = []
    with open("/proc/self/mountinfo") as stream:
        mounted = mounts_below(os.path.realpath(run_dir), stream.read())
    for point in mounted:
        words = ("umount", "-l", "--", point)
        try:
            done = subprocess.run(words, stderr=subprocess.PIPE, timeout=UMOUNT_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            errors.append("umount {}: {}".format(point, error))
            continue
        if done.returncode:
            errors.append(done.stderr.decode("utf-8", "replace").strip())
    emptied, gone = leftovers(run_dir, networks, root)
    for path in [os.path.join(folder, name) for folder in emptied for name in _names(folder)] + gone:
        _remove(path, errors)
    for folder in [*emptied, run_dir, os.path.join(root, LEASES)]:
        if os.path.isdir(folder) and not os.listdir(folder):
            os.rmdir(folder)
    _remove_socket(address, errors)
    return errors


def _names(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def _remove(path: str, errors: List[str]) -> None:
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)
    except OSError as error:
        errors.append("{}: {}".format(path, error.strerror))


def _remove_socket(path: str, errors: List[str]) -> None:
    """Nothing but a socket that is left: a slip in the settings must not cost a file, or another program its socket."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return
        if _is_served(path):
            errors.append("{}: another program listens there, so it was left".format(path))
        else:
            os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        errors.append("{}: {}".format(path, error.strerror))


def _is_served(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(1)
        try:
            caller.connect(path)
        except OSError as error:
            return error.errno not in (errno.ECONNREFUSED, errno.ENOENT)
    return True


def folder(text: str) -> str:
    """Check that a path is a directory of its own, never one that holds half the system."""
    if text != os.path.normpath(text) or text.count("/") < 2 or not text.startswith("/"):
        raise argparse.ArgumentTypeError("{!r} is not an absolute path of two parts or more".format(text))
    return text


def network(text: str) -> str:
    """Check the name of a CNI network, which becomes part of a path."""
    if not _NAME.fullmatch(text):
        raise argparse.ArgumentTypeError("{!r} is not the name of a network".format(text))
    return text


def main(argv: Optional[List[str]] = None) -> int:
    """Clear and report. What cannot be cleared does not keep Singularity-CRI from its start."""
    parser = argparse.ArgumentParser(prog="sycri-clean", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--socket", required=True, type=folder)
    parser.add_argument("--run-dir", required=True, type=folder)
    parser.add_argument("--network", action="append", default=[], type=network)
    options = parser.parse_args(argv)
    for error in clean(options.socket, options.run_dir, options.network):
        sys.stderr.write("sycri-clean: {}\n".format(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
