# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Gantt chart of who had which node when: intervals in, a figure out. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import plotly.graph_objects as go  # type: ignore[import-untyped]

from demo.intervals import (
    ASKED,
    CLOSED,
    HELD,
    JOBS,
    LEAVING,
    PLAIN,
    PODS,
    RUNNING,
    SHARED,
    STARTING,
    STATES,
    UP,
    WORKING,
    Interval,
    lanes,
)

STEP = "step of the demo"
# Batch is orange and Kubernetes is blue everywhere; what is on its way from one to the other is pale.
COLOURS = {
    STEP: "#e4e4e4",
    PLAIN: "#c9a27b",
    HELD: "#e07b00",
    SHARED: "#4a90d9",
    CLOSED: "#9a9a9a",
    ASKED: "#f6cf9b",
    RUNNING: "#c65a00",
    STARTING: "#b9d7f2",
    UP: "#1f5fa8",
    WORKING: "#2a8c6a",
    LEAVING: "#b04a8f",
}
LANE_PIXELS, GAP = 26, 0.6


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the chart; its name is written once for all lanes that share it."""

    name: str
    at: float


def rows_of(steps: Sequence[Interval], intervals: Sequence[Interval]) -> tuple[dict[Interval, float], list[Row]]:
    """Where each bar lies, top down: the steps, then for each node its state, its jobs and its pods."""
    places: dict[Interval, float] = dict.fromkeys(steps, 0.0)
    rows, depth = [Row("demo", 0.0)], 1.0 + GAP
    for node in sorted({one.node for one in intervals}):
        for title, kinds in (("state", STATES), ("jobs", JOBS), ("pods", PODS)):
            here = [one for one in intervals if one.node == node and one.what in kinds]
            lane = lanes(here)
            places |= {one: depth + lane[one.who] for one in here}
            height = max(lane.values(), default=0) + 1
            rows.append(Row(f"{node} {title}", depth + (height - 1) / 2))
            depth += height
        depth += GAP
    return places, rows


def gantt(
    steps: Sequence[Interval],
    intervals: Sequence[Interval],
    *,
    title: str,
    zero: datetime,
    window: tuple[datetime, datetime] | None = None,
) -> go.Figure:
    """A bar for each interval; `window` shows a part of the time, and the reader can still move out of it."""
    places, rows = rows_of(steps, intervals)
    figure = go.Figure()
    for what, colour in COLOURS.items():
        if here := [one for one in places if one.what == what]:
            figure.add_trace(_bars(what, colour, here, places, zero))
    for row in rows:
        if row.name.endswith(" state"):
            figure.add_hline(y=row.at - 0.5 - GAP / 2, line={"color": "#444", "width": 1})
    axis: dict[str, object] = {
        "title": {"text": f"seconds since {zero:%H:%M:%S} UTC, {zero:%d %B %Y}"},
        "ticksuffix": " s",
    }
    if window:
        axis["range"] = [(moment - zero).total_seconds() for moment in window]
    deepest = max(places.values(), default=0.0)
    figure.update_layout(
        title={"text": title},
        barmode="overlay",
        bargap=0.1,
        template="plotly_white",
        height=int((deepest + 2) * LANE_PIXELS) + 220,
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0},
        margin={"t": 130, "l": 90, "r": 30, "b": 70},
        uniformtext={"mode": "hide", "minsize": 10},
        xaxis=axis,
        yaxis={
            "tickvals": [row.at for row in rows],
            "ticktext": [row.name for row in rows],
            "range": [deepest + 0.7, -0.7],
            "showgrid": False,
            "zeroline": False,
        },
    )
    return figure


def _bars(what: str, colour: str, here: list[Interval], places: dict[Interval, float], zero: datetime) -> go.Bar:
    return go.Bar(
        name=what,
        orientation="h",
        base=[(one.begin - zero).total_seconds() for one in here],
        x=[one.seconds for one in here],
        y=[places[one] for one in here],
        width=0.86,
        marker={"color": colour, "line": {"width": 0.5, "color": "white"}},
        text=[_label(one) for one in here],
        textposition="inside",
        insidetextanchor="start" if what in (UP, WORKING) else "middle",
        textangle=0,
        textfont={"color": "#222" if colour in ("#e4e4e4", "#f6cf9b", "#b9d7f2", "#c9a27b") else "white"},
        customdata=[[one.who, one.node, f"{one.begin:%H:%M:%S.%f}"[:-3], one.seconds] for one in here],
        hovertemplate=f"%{{customdata[0]}}: {what}<br>%{{customdata[1]}} from %{{customdata[2]}} UTC "
        "for %{customdata[3]:.2f} s<extra></extra>",
    )


def _label(one: Interval) -> str:
    if one.what in STATES:
        return one.what
    return f"job {one.who}" if one.what == RUNNING else "" if one.what in (ASKED, STARTING, LEAVING) else one.who
