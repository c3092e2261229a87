# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Host ports in use, by row."""

from collections.abc import Iterable

from placement.model.objects.pod import HostPort


class PortTable:
    """The host ports in use by node; a port can be in use twice, because others place pods too."""

    def __init__(self) -> None:
        self._users: dict[tuple[str, int], dict[int, dict[str, int]]] = {}

    def place(self, ports: Iterable[HostPort], row: int, number: int) -> None:
        """Count a pod's ports in (1) or out (-1)."""
        for port in ports:
            key = (port.protocol, port.port)
            addresses = self._users.setdefault(key, {}).setdefault(row, {})
            addresses[port.address] = addresses.get(port.address, 0) + number
            if not addresses[port.address]:
                del addresses[port.address]
            if not addresses:
                del self._users[key][row]
            if not self._users[key]:
                del self._users[key]

    def clash(self, ports: Iterable[HostPort], row: int) -> bool:
        """Whether a pod with these ports cannot run in this row."""
        return any(self._clashes(port, self._users.get((port.protocol, port.port), {}).get(row, {})) for port in ports)

    def clashing_rows(self, ports: Iterable[HostPort]) -> list[int]:
        """All rows where a pod with these ports cannot run."""
        return [
            row
            for port in ports
            for row, addresses in self._users.get((port.protocol, port.port), {}).items()
            if self._clashes(port, addresses)
        ]

    @staticmethod
    def _clashes(port: HostPort, addresses: Iterable[str]) -> bool:
        return any(port.clashes(HostPort(address, port.protocol, port.port)) for address in addresses)

    def users(self) -> dict[tuple[str, int], dict[int, dict[str, int]]]:
        """Pods by address, by row, by protocol and port."""
        return self._users
