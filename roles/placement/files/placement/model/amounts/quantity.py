# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes quantities as exact integers.

Everything is parsed into nano units (the finest grain the API knows) and stays a Python integer, so sums never lose
anything. Only the finished sum is rounded up, to milli for CPU and to whole units for all else. That order matters:
three containers of 0.5m are 2m, not 3m, and it is what kube-scheduler and the kubelet do.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from placement.shared import quantity
from placement.shared.quantity import NANO

QuantityError = quantity.QuantityError
# The amount in nano units; the same few texts come again and again.
parse_quantity: Final = lru_cache(maxsize=8192)(quantity.kubernetes)

# More than this of anything, on a node or in a pod, is no amount to calculate with: a PiB, or 10^12 cores. Sums of
# 2^12 such amounts still fit a signed 64-bit column.
MAX_AMOUNT: Final = 2**50

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

# Nano amounts by resource name, not yet rounded.
ResourceList = Mapping[str, int]
# Rounded amounts (milli for CPU) by resource name, sorted, without zeros: hashable, so that equal requests are shared.
Amounts = tuple[tuple[str, int], ...]


def format_quantity(nano: int) -> str:
    """Write the shortest decimal text that parses to the same amount."""
    for suffix, scale in (("", NANO), ("m", 10**6), ("u", 10**3)):
        if nano % scale == 0:
            return f"{nano // scale}{suffix}"
    return f"{nano}n"


def round_amount(resource: str, nano: int) -> int:
    """Milli for CPU, whole units for everything else, rounded up."""
    return -(-nano // (10**6 if resource == CPU else NANO))


def round_amounts(resources: ResourceList) -> Amounts:
    """Round the finished sum of a pod or a node; zeros are dropped because a zero request blocks nowhere."""
    return tuple(sorted((name, round_amount(name, nano)) for name, nano in resources.items() if nano))


def format_amount(resource: str, amount: int) -> str:
    """Write a rounded amount for people: `1500m` of CPU, `1073741824` of memory."""
    return format_quantity(amount * 10**6) if resource == CPU else str(amount)


def add(left: ResourceList, right: ResourceList) -> dict[str, int]:
    """Both together, per resource."""
    total = dict(left)
    for name, nano in right.items():
        total[name] = total.get(name, 0) + nano
    return total


def maximum(first: ResourceList, *others: ResourceList) -> dict[str, int]:
    """Take the greatest amount per resource; a resource that only some name keeps its amount there."""
    greatest = dict(first)
    for other in others:
        for name, nano in other.items():
            if name not in greatest or nano > greatest[name]:
                greatest[name] = nano
    return greatest


def is_extended(resource: str) -> bool:
    """Return whether this is an extended resource, by Kubernetes' rule: a name with a prefix that is not its own."""
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")
