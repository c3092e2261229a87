# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The example of docs/examples/spark on a test bed: what a site has before, and the lines that a user changes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml
from e2e import playing
from e2e.hosts import PATIENCE
from e2e.placement import wheels
from e2e.playing import play, until
from e2e.spark_record import Tasks, read_tasks
from testbed import api, binaries, join, spark_image
from testbed.controlplane import admin
from testbed.down import podman_of
from testbed.inventory import variables

Json = dict[str, Any]
EXAMPLE = Path(__file__).resolve().parents[2] / "docs/examples/spark"
NAMESPACE, NAME, EXECUTOR = "spark", "numbers", "numbers-exec"
DRIVER_LABEL = "converged.hpc/spark-driver"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
# On small machines: one thread collects garbage, and one compiler of two works.
JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
SMALL = {
    "spark.kubernetes.executor.request.cores": "100m",
    "spark.executor.extraJavaOptions": JAVA,
    "spark.driver.extraJavaOptions": JAVA,
}
DECOMMISSIONING = ("spark.decommission.enabled", "spark.storage.decommission.enabled")
SAID = re.compile(r"program: the sum of (\d+) numbers is (\d+)")
UPTIME = re.compile(r"Successfully stopped SparkContext \(Uptime: (\d+) ms\)")
JOB = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{NAME}"
OBJECTS = "job,podgroups.scheduling.incubator.k8s.io,pods"


def true_sum(tasks: int) -> int:
    """Return the sum that the program of the example must find."""
    return sum(range(1, tasks * 1000 + 1))


def found_sum(log: str) -> int | None:
    """Return the sum that the driver printed, or None where it has printed none."""
    found = SAID.search(log)
    return int(found[2]) if found else None


def uptime(log: str) -> float:
    """Return the seconds that the application ran, as Spark says at its end. Raises AssertionError."""
    found = UPTIME.search(log)
    assert found, log[-2000:]
    return int(found[1]) / 1000


def namespace() -> list[Json]:
    """Return the objects of namespace.yml as they ship."""
    return list(yaml.safe_load((EXAMPLE / "namespace.yml").read_text(encoding="utf-8"))["items"])


def job(api_server: str, *, tasks: int, seconds: float, settings: Mapping[str, str] | None = None) -> list[Json]:
    """Return the objects of job.yml with the lines changed that it marks: image, API server, size, arguments."""
    objects = list(yaml.safe_load((EXAMPLE / "job.yml").read_text(encoding="utf-8"))["items"])
    config = next(one for one in objects if one["kind"] == "ConfigMap")
    config["data"]["spark.properties"] = changed(config["data"]["spark.properties"], {**SMALL, **(settings or {})})
    template = next(one for one in objects if one["kind"] == "Job")["spec"]["template"]
    driver = template["spec"]["containers"][0]
    driver["image"] = spark_image.NAME
    given = {"IMAGE": spark_image.NAME, "API": api_server}
    for variable in driver["env"]:
        if variable["name"] in given:
            variable["value"] = given[variable["name"]]
    driver["args"][-2:] = [str(tasks), f"{seconds:g}"]
    driver["resources"]["requests"]["cpu"] = "100m"
    return objects


def changed(properties: str, settings: Mapping[str, str]) -> str:
    """Return Spark's properties with these settings in place of those of the same names."""
    kept = [line for line in properties.splitlines() if line.split(" ")[0] not in settings]
    return "\n".join([*kept, *(f"{name} {value}" for name, value in settings.items())]) + "\n"


def executors(pods: Iterable[Json]) -> dict[str, Json]:
    """Return by name the executors that work, and are not about to leave."""
    return {
        pod["metadata"]["name"]: pod
        for pod in pods
        if pod["metadata"]["labels"].get("spark-role") == "executor"
        and pod["status"].get("phase") == "Running"
        and "deletionTimestamp" not in pod["metadata"]
    }


def places(pods: Iterable[Json]) -> dict[str, str]:
    """Return the nodes of the executors that work, by executor."""
    return {name: pod["spec"]["nodeName"] for name, pod in executors(pods).items()}


class Scheduler(playing.Site):
    """The administrator's folder for the placement daemon, which runs beside the batch controller."""

    def __init__(self, bed: api.RunningBed, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(bed, folder)
        self.ask_kubernetes_from_here()
        self.hosts["all"]["children"]["converged_placement"] = {"hosts": {"ctl": {}}}
        self.set("all", converged_kubectl=str(binaries.build_binaries() / "kubectl"), placement_ready_seconds=300)
        self.set("ctl", placement_wheels="/opt/wheels")

    def install(self) -> None:
        """Run the role on the batch controller, which has a folder of wheels as a site without an index has."""
        version = "import sys; print('%d.%d' % sys.version_info[:2])"
        found = wheels.wheels(python=self.bed.exec("ctl", ["python3", "-c", version]).out.strip())
        self.bed.exec("ctl", ["mkdir", "-p", "/opt/wheels"])
        self.bed.exec("ctl", ["tar", "--extract", "--directory=/opt/wheels"], input=wheels.as_folder(found))
        self.run([play("converged_placement", "placement")])

    def remove(self) -> None:
        """Take the daemon back, and the wheels."""
        self.run([play("converged_placement", "placement/restore")])
        self.bed.exec("ctl", ["rm", "-r", "/opt/wheels"])


def equip(bed: api.RunningBed) -> None:
    """Give converged nodes what a site has of itself: the image of Spark, and routes between pods."""
    join.connect(bed.bed, list(bed.bed.nodes), podman_of(bed.bed))
    spark_image.give(bed.bed, bed.bed.nodes)


def prepare(bed: api.RunningBed, *, drivers: str) -> None:
    """Equip converged nodes, name a node for drivers, and make the namespace."""
    equip(bed)
    bed.kubectl("label", "node", drivers, f"{DRIVER_LABEL}=", "--overwrite")
    apply(bed, namespace())


def api_server(bed: api.RunningBed) -> str:
    """Return the address of the bed's API server, which has no Service that pods could reach."""
    return variables(bed.bed)["converged_api_server"]


def apply(bed: api.RunningBed, objects: Iterable[Json]) -> None:
    """Create or change objects."""
    listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    bed.kubectl("apply", "--filename=-", input=json.dumps(listed))


def driver_log(bed: api.RunningBed) -> str:
    """Return what the driver has printed so far."""
    return bed.kubectl("--namespace", NAMESPACE, "logs", f"job/{NAME}", "--tail=-1")


class Application:
    """One run of the example."""

    def __init__(
        self, bed: api.RunningBed, *, tasks: int, seconds: float, settings: Mapping[str, str] | None = None
    ) -> None:
        self.bed, self.tasks = bed, tasks
        self.objects = job(api_server(bed), tasks=tasks, seconds=seconds, settings=settings)

    def start(self) -> None:
        """Start it on a bed that has none."""
        self.remove()
        apply(self.bed, self.objects)

    def pods(self) -> list[Json]:
        with closing(admin(self.bed.bed)) as connection:
            return connection.items(PODS)

    def executors(self) -> dict[str, str]:
        """Return the executors that work, with their nodes."""
        return places(self.pods())

    def names(self) -> set[str]:
        """Return the names of all its pods that the API has."""
        return {pod["metadata"]["name"] for pod in self.pods()}

    def pods_of(self, role: str) -> set[str]:
        """Return the names of its pods of a role: driver or executor."""
        return {pod["metadata"]["name"] for pod in self.pods() if pod["metadata"]["labels"].get("spark-role") == role}

    def tasks_so_far(self) -> Tasks:
        return read_tasks(driver_log(self.bed))

    def log_at_its_end(self, *, limit: float = PATIENCE) -> str:
        """Wait for its end, and return what the driver has said. Raises AssertionError where the sum is not right."""
        until(self._has_ended, "the application ends", limit)
        log = driver_log(self.bed)
        assert found_sum(log) == true_sum(self.tasks), log[-3000:]
        return log

    def _has_ended(self) -> bool:
        with closing(admin(self.bed.bed)) as connection:
            status = connection.get(JOB)["status"]
        return bool(status.get("succeeded") or status.get("failed"))

    def remove(self) -> None:
        """Take it away, whatever it is doing."""
        self.bed.kubectl("--namespace", NAMESPACE, "delete", OBJECTS, "--all")
