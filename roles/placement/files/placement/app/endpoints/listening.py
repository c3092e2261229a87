# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why an address cannot be listened on, with the address and what to do about it."""

import errno


class ListenError(Exception):
    """The daemon cannot listen; the message names the setting and its value, what is wrong and what to do."""


def listen_error(setting: str, address: str, error: OSError) -> ListenError:
    """Return what to say of an address for which `bind` has failed."""
    hints = {
        errno.EADDRINUSE: "another program has it, perhaps another placement daemon: end that or set another address",
        errno.EACCES: "set one where the daemon's user may listen, of ports one above 1023",
        errno.EADDRNOTAVAIL: "set an address of this host",
        errno.ENOENT: "make its folder, or set a path in one that is there",
    }
    hint = hints.get(error.errno or 0, "set another address")
    return ListenError(f"{setting}: {address}: {error.strerror or error}; {hint}")
