# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page that the demo leaves: two charts and two tables in one file that needs no network. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import plotly.graph_objects as go  # type: ignore[import-untyped]
import plotly.io  # type: ignore[import-untyped]

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Who had which node when</title>
<style>
body {{ font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; color: #222;
  margin: 1.5em auto; padding: 0 1.5em; max-width: 1400px; }}
table {{ border-collapse: collapse; margin: 0 0 2em; }}
td, th {{ padding: .2em 1em .2em 0; border-bottom: 1px solid #ddd; text-align: left; }}
td.n {{ text-align: right; font-variant-numeric: tabular-nums; }}
</style>
</head>
<body>
<h1>Who had which node when</h1>
<p>{intro}</p>
{charts}
<h2>The hand-over in figures</h2>
{findings}
<h2>The demo step by step</h2>
{steps}
<p>Jobs are drawn from the logs of slurmctld and slurmd; pods and the states of nodes from the audit log of the API
server. Nothing is estimated: each bar begins and ends at a line of one of them. A pod starts at its Binding, runs from
the first container that the kubelet reports as running, is asked to leave when its eviction or deletion is accepted,
and ends when its last container has. The set-up of the test bed is left out.</p>
</body>
</html>
"""


def page(
    charts: Sequence[go.Figure],
    *,
    intro: str,
    findings: Sequence[tuple[str, str]],
    steps: Sequence[tuple[str, str, str]],
) -> str:
    """The whole file; the charting library itself goes in with the first chart."""
    drawn = [
        plotly.io.to_html(chart, full_html=False, include_plotlyjs=number == 0, config={"displaylogo": False})
        for number, chart in enumerate(charts)
    ]
    return PAGE.format(
        intro=escape(intro),
        charts="\n".join(drawn),
        findings=table(("what", "figure"), findings, numbers={1}),
        steps=table(("step", "seconds", "result"), steps, numbers={1}),
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: set[int]) -> str:
    """Rows of text as HTML, whatever the text holds."""
    lines = ["<tr>" + "".join(f"<th>{escape(word)}</th>" for word in head) + "</tr>"]
    for row in rows:
        cells = [
            f'<td class="n">{escape(cell)}</td>' if number in numbers else f"<td>{escape(cell)}</td>"
            for number, cell in enumerate(row)
        ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return "<table>\n" + "\n".join(lines) + "\n</table>"
