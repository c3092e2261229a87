# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters that turn amounts and durations of Kubernetes, Slurm and PBS into whole numbers that can be compared."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.converged.hpc.plugins.module_utils import _quantity


def quantity_bytes(text: t.Any, dialect: str = "kubernetes") -> int:
    try:
        return _quantity.byte_count(_text(text), dialect)
    except _quantity.QuantityError as error:
        raise AnsibleFilterError(f"quantity_bytes: {error}") from error


def quantity_millicores(text: t.Any) -> int:
    try:
        return _quantity.millicores(_text(text))
    except _quantity.QuantityError as error:
        raise AnsibleFilterError(f"quantity_millicores: {error}") from error


def quantity_seconds(text: t.Any) -> int:
    try:
        return _quantity.seconds(_text(text))
    except _quantity.QuantityError as error:
        raise AnsibleFilterError(f"quantity_seconds: {error}") from error


def _text(value: t.Any) -> t.Any:
    """Return a whole number, as YAML reads a bare 2000, as text. QuantityError: a fraction, which may lack digits."""
    if isinstance(value, float):
        # By its value: Ansible wraps numbers in classes of its own, and a user does not know their names.
        raise _quantity.QuantityError(f"expected a whole number, or text in quotes, found the number {float(value)}")
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class FilterModule:
    """The filters of this file by their names in templates."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "quantity_bytes": quantity_bytes,
            "quantity_millicores": quantity_millicores,
            "quantity_seconds": quantity_seconds,
        }
