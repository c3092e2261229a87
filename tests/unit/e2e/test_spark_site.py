# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The example of docs/examples/spark: what belongs together in it agrees, and a user changes few lines of it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from e2e import spark_site
from testbed import spark_image


def shipped() -> dict[str, Any]:
    text = (spark_site.EXAMPLE / "job.yml").read_text(encoding="utf-8")
    return {one["kind"]: one for one in yaml.safe_load(text)["items"]}


def settings(config: dict[str, Any]) -> dict[str, str]:
    lines = [line.split(None, 1) for line in config["data"]["spark.properties"].splitlines()]
    return {words[0]: words[1] for words in lines if len(words) == 2 and not words[0].startswith("#")}


def test_the_gang_is_as_large_as_the_least_number_of_executors() -> None:
    found = shipped()
    spark = settings(found["ConfigMap"])
    assert found["PodGroup"]["spec"]["minMember"] == int(spark["spark.dynamicAllocation.minExecutors"])
    assert int(spark["spark.dynamicAllocation.initialExecutors"]) >= found["PodGroup"]["spec"]["minMember"]
    template = yaml.safe_load(found["ConfigMap"]["data"]["executor.yml"])
    group = template["metadata"]["annotations"]["scheduling.k8s.io/group-name"]
    assert group == found["PodGroup"]["metadata"]["name"]
    assert template["spec"]["containers"][0]["name"] == spark["spark.kubernetes.executor.podTemplateContainerName"]


def test_no_executor_tolerates_the_taint_of_a_job() -> None:
    template = yaml.safe_load(shipped()["ConfigMap"]["data"]["executor.yml"])
    keys = {toleration.get("key") for toleration in template["spec"]["tolerations"]}
    assert keys == {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}


def test_accounts_namespace_and_priority_of_both_files_agree() -> None:
    found, kinds = shipped(), {one["kind"]: one for one in spark_site.namespace()}
    bound = {one["metadata"]["name"]: one for one in spark_site.namespace() if one["kind"] == "RoleBinding"}
    accounts = {one["metadata"]["name"] for one in spark_site.namespace() if one["kind"] == "ServiceAccount"}
    driver = found["Job"]["spec"]["template"]["spec"]["serviceAccountName"]
    executor = settings(found["ConfigMap"])["spark.kubernetes.authenticate.executor.serviceAccountName"]
    assert {driver, executor} == accounts
    assert [subject["name"] for subject in bound["spark-driver"]["subjects"]] == [driver]
    assert [subject["kind"] for subject in bound["spark-user"]["subjects"]] == ["Group"]
    template = yaml.safe_load(found["ConfigMap"]["data"]["executor.yml"])
    assert template["spec"]["priorityClassName"] == kinds["PriorityClass"]["metadata"]["name"]
    assert {one["metadata"]["namespace"] for one in found.values()} == {kinds["Namespace"]["metadata"]["name"]}


def test_a_rendered_example_differs_in_the_lines_that_are_marked() -> None:
    objects = spark_site.job("https://10.89.0.3:6443", tasks=8, seconds=0.5, settings={"spark.executor.cores": "2"})
    config, job = (next(one for one in objects if one["kind"] == kind) for kind in ("ConfigMap", "Job"))
    spark = settings(config)
    assert spark["spark.executor.cores"] == "2"
    assert spark["spark.decommission.enabled"] == "true"
    driver = job["spec"]["template"]["spec"]["containers"][0]
    values = {variable["name"]: variable.get("value") for variable in driver["env"]}
    assert (driver["image"], values["IMAGE"]) == (spark_image.NAME, spark_image.NAME)
    assert values["API"] == "https://10.89.0.3:6443"
    assert driver["args"][-3:] == ["/opt/job/program.py", "8", "0.5"]


@pytest.mark.parametrize(
    ("log", "found"), [("", None), ("INFO x\nprogram: the sum of 2000 numbers is 2001000\n", 2001000)]
)
def test_the_sum_is_read_from_the_drivers_log(log: str, found: int | None) -> None:
    assert spark_site.found_sum(log) == found
    assert spark_site.true_sum(2) == 2001000


def test_executors_that_are_about_to_leave_do_not_work() -> None:
    def pod(name: str, role: str, phase: str = "Running", **metadata: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "labels": {"spark-role": role}, **metadata}, "status": {"phase": phase}}

    pods = [
        pod("a", "executor"),
        pod("b", "executor", deletionTimestamp="2026-11-23T15:00:00Z"),
        pod("c", "executor", "Pending"),
        pod("d", "driver"),
    ]
    assert list(spark_site.executors(pods)) == ["a"]
