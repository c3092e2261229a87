# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The quantity filters as a template sees them."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.converged.hpc.plugins.filter.quantity import FilterModule

FILTERS = FilterModule().filters()


@pytest.mark.parametrize(
    ("name", "arguments", "number"),
    [
        ("quantity_bytes", ("1.5Gi",), 1610612736),
        ("quantity_bytes", (1024,), 1024),
        ("quantity_bytes", ("2G", "slurm"), 2**31),
        ("quantity_bytes", ("1gw", "pbs"), 2**33),
        ("quantity_millicores", ("250m",), 250),
        ("quantity_millicores", (4,), 4000),
        ("quantity_seconds", ("24h",), 86400),
        ("quantity_seconds", (30,), 30),
    ],
)
def test_an_amount_becomes_a_whole_number(name: str, arguments: tuple[object, ...], number: int) -> None:
    assert FILTERS[name](*arguments) == number


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("quantity_bytes", ("1_000",), "is no Kubernetes quantity"),
        ("quantity_bytes", (True,), "found bool"),
        ("quantity_bytes", (1.5,), "whole number, or text in quotes, found the number 1.5$"),
        ("quantity_bytes", ("1", "torque"), "kubernetes, slurm or pbs"),
        ("quantity_millicores", (-1,), "is negative"),
        ("quantity_seconds", ("a day",), "is no duration"),
        (
            "quantity_seconds",
            (type("Tagged", (float,), {})(0.5),),
            "whole number, or text in quotes, found the number 0.5$",
        ),
    ],
)
def test_bad_input_is_a_filter_error(name: str, arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        FILTERS[name](*arguments)
