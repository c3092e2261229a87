#!/bin/sh
# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Every make target starts here. A fresh machine may have no Python, so this much is shell: find Python 3.11 or
# newer, install it where it is missing, and hand over to the package beside this file (standard library only).

set -eu

tests=$(cd "$(dirname "$0")/.." && pwd)

usable() {
    command -v "$1" >/dev/null 2>&1 && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    # The distribution's own first: it is the one whose venv module comes with a package.
    for python in /usr/bin/python3 python3 python3.13 python3.12 python3.11; do
        if usable "$python"; then
            return 0
        fi
    done
    return 1
}

fail() {
    echo "error: $1" >&2
    exit 1
}

install_python() {
    command -v apt-get >/dev/null 2>&1 ||
        fail "Python 3.11 or newer was not found, and this is not Debian 12/13 or Ubuntu 24.04; install Python 3.11 by hand."
    if [ "$(id -u)" -eq 0 ]; then
        as_root=""
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        as_root="sudo -n"
    else
        fail "Python 3 is missing and neither root nor 'sudo -n' is at hand; type: su -c 'apt-get install python3'"
    fi
    echo "Python 3 is missing: installing it" >&2
    # shellcheck disable=SC2086  # empty or two words
    {
        $as_root apt-get -qq update
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 install python3
    } >/dev/null </dev/null || fail "apt-get could not install python3; read its message above."
}

if ! find_python; then
    install_python
    find_python || fail "the installed Python is older than 3.11; Debian 12/13 and Ubuntu 24.04 are supported."
fi

exec env PYTHONPATH="$tests" PYTHONDONTWRITEBYTECODE=1 "$python" -s -m bootstrap "$@"
