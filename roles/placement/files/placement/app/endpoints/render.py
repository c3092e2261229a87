# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers as people read them."""

from collections.abc import Iterable, Sequence
from typing import Any

from placement.model.amounts.quantity import format_amount

Json = dict[str, Any]


def explanation(found: Json) -> str:
    """`placement why`."""
    lines = [f"{found['namespace']}/{found['name']}: {found['state']}" + _on(found)]
    for key in ("group", "queue"):
        if found[key]:
            lines.append(f"  {key}: {found[key]}")
    if found["position"]:
        lines.append(f"  position in the queue: {found['position']} of {found['waiting']}")
    if found["limit"]:
        lines.append(f"  limited by: {found['limit']}")
    if found["nodes"]:
        lines.append("  nodes:")
        for reason in found["nodes"]:
            examples = f"  ({', '.join(reason['examples'])})" if reason["examples"] else ""
            lines.append(f"    {reason['nodes']:>6}  {reason['reason']}{examples}")
    if found["must_end"]:
        lines.append("  would have to end first:")
        lines += [f"    {sentence}" for sentence in found["must_end"]]
    if found["kept"]:
        lines.append("  reservations:")
        lines += [f"    {sentence}" for sentence in found["kept"]]
    if found["batch"]:
        lines.append("  batch jobs:")
        lines += [f"    {sentence}" for sentence in found["batch"]]
    return "\n".join(lines)


def _on(found: Json) -> str:
    return f" on {found['node']}" if found["node"] else ""


def queues(reports: Sequence[Json]) -> str:
    """`placement queues`."""
    header = ("QUEUE", "STATE", "WEIGHT", "SHARE", "ALLOCATED", "DESERVED", "REQUESTED", "PENDING", "RUNNING")
    rows = [(*header, "NEXT JOB")]
    for report in reports:
        rows.append(
            (
                report["name"],
                "open" if report["is_open"] else "closed",
                str(report["weight"]),
                f"{report['share'] / 1000:.3f}",
                amounts(report["allocated"]),
                amounts(report["deserved"]),
                amounts(report["requested"]),
                f"{report['pending_groups']} groups, {report['pending_pods']} pods",
                f"{report['running_groups']} groups",
                "-" if report["begins"] is None else f"in {report['begins']:.0f} s",
            )
        )
    text = table(rows)
    problems = [f"{report['name']}: {report['problem']}" for report in reports if report["problem"]]
    return "\n".join([text, *problems])


def status(found: Json) -> str:
    """`placement status`."""
    told = {key: ", ".join(value) or "none" if isinstance(value, list) else value for key, value in found.items()}
    lines = [f"{key.replace('_', ' ')}: {value}" for key, value in told.items() if key != "sources"]
    rows = [("SOURCE", "STATE", "EVENTS", "LISTS", "SILENT", "ERROR")]
    for name, source in found["sources"].items():
        state = "absent" if source["absent"] else "synced" if source["synced"] else "listing"
        silent = "-" if source["absent"] else f"{source['silent']:.0f} s"
        rows.append((name, state, str(source["events"]), str(source["relists"]), silent, source["error"] or "-"))
    return "\n".join([*lines, table(rows)])


def drift(found: Sequence[Json]) -> str:
    """`placement graph check`."""
    if not found:
        return "the graph agrees with the pods"
    return "\n".join(f"{item['where']}: {item['what']}: held {item['held']}, true {item['true']}" for item in found)


def amounts(found: Iterable[Sequence[Any]]) -> str:
    """Amounts in one word."""
    return ",".join(f"{name}={format_amount(name, amount)}" for name, amount in found) or "-"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they need."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
