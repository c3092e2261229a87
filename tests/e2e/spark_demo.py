# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo with a real Spark: `make demo SPARK=1`. Its driver and executors take the place of the small driver's."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import plotly.graph_objects as go  # type: ignore[import-untyped]
from demo import live
from demo.evidence import Played
from demo.handover import Finding
from demo.hands import DemoError
from demo.kube_record import Pod
from demo.show import NODES, READY_SECONDS, Show, Watcher, main
from demo.slurm_record import Job
from e2e import spark_site
from e2e.spark_record import FINISHED, LOST, REPEATED, Tasks, application_succeeded, read_tasks
from testbed import api

EXECUTORS = 3
# Both stages outlast the batch job; a task is far shorter than the executors' grace.
TASKS, SECONDS = 75, 2.5
COLOURS = {FINISHED: "#2a8c6a", REPEATED: "#e07b00", LOST: "#b02020"}


class SparkWatcher(Watcher):
    """Asks for executors as well."""

    def executors(self) -> dict[str, str]:
        found = spark_site.executors(self.api.items(spark_site.PODS))
        return {name: pod["spec"]["nodeName"] for name, pod in found.items()}

    def workers(self, passed: float) -> tuple[str, bool]:
        """Return a line on all nodes, and whether an executor works on each node and tasks have ended."""
        text, places = self.line(passed), set(self.executors().values())
        if places != set(NODES):
            return text, False
        return text, read_tasks(spark_site.driver_log(self.running)).finished > EXECUTORS

    def line(self, passed: float) -> str:
        nodes, pods = self.api.items("/api/v1/nodes"), self.api.items(spark_site.PODS)
        return live.line(passed, NODES, nodes=nodes, pods=pods, jobs={})

    def show(self, passed: float, *, running: bool) -> tuple[str, bool]:
        """Return the line of the other pods with the executors' nodes behind it, and whether all is done."""
        text, done = super().show(passed, running=running)
        places = self.executors()
        behind = " ".join(f"{name.removeprefix('numbers-')}@{node}" for name, node in sorted(places.items()))
        return f"{text.rstrip()} | {behind}", done and len(places) == EXECUTORS


class SparkShow(Show):
    """The demo's steps, with the example of docs/examples/spark for the driver and its workers."""

    # The site's default: executors need their grace, which is below it.
    deadline = 45

    def driver(self) -> None:
        bed = api.find(self.bed)
        with self.report.step(
            "The placement daemon, and the image of Spark on every node", short="image", is_setup=True
        ):
            self.scheduler().install()
            spark_site.prepare(bed, drivers=NODES[-1])
        with self.report.step("A Spark application has its executors on all nodes", short="spark") as result:
            spark_site.apply(bed, spark_site.job(spark_site.api_server(bed), tasks=TASKS, seconds=SECONDS))
            if not live.watch(SparkWatcher(self.bed).workers, most=READY_SECONDS):
                raise DemoError(f"not all executors worked on all nodes after {READY_SECONDS:.0f} s.")
            result.append(f"{EXECUTORS} executors, a gang of at least 2; {2 * TASKS} tasks of {SECONDS} s")

    def watcher(self) -> Watcher:
        return SparkWatcher(self.bed)

    def collect(self) -> None:
        """Hold the application's answer against the right one."""
        bed, wanted = api.find(self.bed), spark_site.true_sum(TASKS)
        with self.report.step(
            "The application ends, and its result is held against the true one", short="collect"
        ) as result:
            words = ("--namespace", spark_site.NAMESPACE)
            try:
                limit = f"--timeout={READY_SECONDS:.0f}s"
                self.hosts.kubectl(*words, "wait", "--for=condition=complete", f"job/{spark_site.NAME}", limit)
            finally:
                self.log.write_text(spark_site.driver_log(bed), encoding="utf-8")
                print(f"  all that the driver said: {self.log}", flush=True)
            found = spark_site.found_sum(self.log.read_text(encoding="utf-8"))
            if found != wanted:
                raise DemoError(f"the application found {found or 'no sum'}, the true sum is {wanted}; see {self.log}")
            self.hosts.kubectl("delete", "namespace", spark_site.NAMESPACE)
            result.append(f"succeeded: sum {wanted}")
        with self.report.step("The placement daemon goes, as it came", short="placement", is_setup=True):
            self.scheduler().remove()

    def scheduler(self) -> spark_site.Scheduler:
        """Return the placement daemon of the site, which comes behind the conversion and goes before the way back."""
        return spark_site.Scheduler(api.find(self.bed), self.folder / "scheduler")

    @property
    def log(self) -> Path:
        """What the driver has said."""
        return self.folder / "spark-driver.log"

    def played(self) -> Played:
        tasks = read_tasks(self.log.read_text(encoding="utf-8"))

        def judge(job: Job, pods: Sequence[Pod]) -> list[Finding]:
            words = {"name": spark_site.NAME, "executor": spark_site.EXECUTOR}
            return application_succeeded(
                job, pods, **words, tasks=tasks, result=f"{spark_site.true_sum(TASKS)} is right"
            )

        # Nothing is drawn where `judge` finds that one of the two has failed.
        title = (
            f"executors of Spark leave, others go on elsewhere, and both jobs succeed: {tasks.lost} tasks lost, "
            f"{tasks.repeated} computed again"
        )
        return Played((spark_site.NAME,), title, judge, lambda job: [progress(tasks, job)])


def progress(tasks: Tasks, job: Job) -> go.Figure:
    """Draw how many tasks had ended when, with what was lost and computed again, and the time of the job."""
    assert job.allocated
    figure, zero = go.Figure(), job.allocated
    for what, colour in COLOURS.items():
        moments = [(moment - zero).total_seconds() for moment, kind in tasks.events if kind == what]
        ended = list(accumulate(1 for _moment in moments))
        line = {"color": colour, "shape": "hv"}
        figure.add_trace(
            go.Scatter(name=f"{what}: {len(moments)}", x=moments, y=ended, mode="lines+markers", line=line)
        )
    marks = [(job.allocated, "the job gets its nodes"), (job.started, "it begins"), (job.ended, "it ends")]
    for moment, text in marks:
        if moment:
            at = (moment - zero).total_seconds()
            figure.add_vline(x=at, line={"color": "#c65a00"}, annotation={"text": text, "textangle": -90})
    figure.update_layout(
        title={"text": f"Spark's tasks while job {job.number} takes {' and '.join(job.nodes)}"},
        template="plotly_white",
        height=420,
        showlegend=True,
        xaxis={"title": {"text": f"seconds since {zero:%H:%M:%S} UTC"}, "ticksuffix": " s"},
        yaxis={"title": {"text": "tasks"}, "rangemode": "tozero"},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0},
    )
    return figure


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], kind=SparkShow))
