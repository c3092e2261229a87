# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The manifests of a Spark application, judged before it runs: bad input is one line that names it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.converged.hpc.plugins.filter.spark_judged import DEADLINES, spark_judged

CHECKOUT = Path(__file__).parents[4]
EXAMPLE = (CHECKOUT / "docs/examples/spark/job.yml").read_text(encoding="utf-8")
SITE_IMAGE = EXAMPLE.replace("registry.example/spark:CHANGE-ME", "registry.site.org/spark:4.3.0")
HOSTS: dict[str, dict[str, Any]] = {"n1": {}, "n2": {}}


def judged(text: str, hosts: dict[str, dict[str, Any]] | None = None) -> dict[str, Any]:
    known = HOSTS if hosts is None else hosts
    return spark_judged(text, "job.yml", known, known)


def test_the_example_with_an_image_of_the_site_is_good_with_the_defaults_of_the_site() -> None:
    assert judged(SITE_IMAGE) == {"namespace": "spark", "grace": 40, "refused": [], "warnings": []}


def test_the_defaults_are_those_of_the_role() -> None:
    defaults = yaml.safe_load((CHECKOUT / "roles/node_share/defaults/main.yml").read_text(encoding="utf-8"))
    assert {name: defaults[name] for name in DEADLINES} == DEADLINES


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            EXAMPLE,
            "job.yml: Job numbers: container driver has the image of the example, registry.example/spark:CHANGE-ME;",
        ),
        (SITE_IMAGE.replace("image: &image registry.site.org/spark:4.3.0", "image: &image"), "has no image"),
        (
            SITE_IMAGE.replace("      namespace: spark\n    spec:\n      # A driver", "    spec:\n      # A driver"),
            "names no namespace",
        ),
        (SITE_IMAGE.replace("PeriodSeconds  40", "PeriodSeconds  soon"), "terminationGracePeriodSeconds is 'soon'"),
        ("a: [", "job.yml line 1: this is not YAML"),
        ("", "found 0 Jobs or Pods with the label spark-role: driver, expected one"),
        (SITE_IMAGE + "---\n" + SITE_IMAGE, "found 2 Jobs or Pods"),
        ("- a list", "found 0 Jobs or Pods"),
    ],
)
def test_bad_input_is_refused_in_one_line_that_names_it(text: str, line: str) -> None:
    (refused,) = judged(text)["refused"]
    assert line in refused
    assert refused.startswith("job.yml")
    assert "\n" not in refused


def test_a_deadline_shorter_than_the_grace_is_a_warning_with_both_numbers_and_the_host() -> None:
    hosts = {"n1": {}, "n2": {"node_share_controller_deadline": 10, "node_share_deadline": 20}}
    first, second = judged(SITE_IMAGE, hosts)["warnings"]
    assert first.startswith("node_share_controller_deadline is 10 s on n2, and executors of job.yml may need 40 s")
    assert second.startswith("node_share_deadline is 20 s on n2, and executors of job.yml may need 40 s")
    assert judged(SITE_IMAGE, hosts)["refused"] == []


@pytest.mark.parametrize(("written", "seconds"), [("  90s", 90), ("=1m", 60), (" : 50", 50), (" 45000ms", 45)])
def test_the_grace_is_read_as_spark_reads_it(written: str, seconds: int) -> None:
    found = judged(SITE_IMAGE.replace("PeriodSeconds  40", f"PeriodSeconds{written}"))
    assert (found["refused"], found["grace"]) == ([], seconds)


def test_decommissioning_that_is_off_is_a_warning() -> None:
    text = SITE_IMAGE.replace("spark.decommission.enabled                               true", "# off")
    assert judged(text)["warnings"] == [
        "job.yml: spark.decommission.enabled is not true, so executors that leave a node lose their blocks"
    ]


REATTEMPT = "spark.storage.decommission.replicationReattemptInterval"


@pytest.mark.parametrize(
    ("line", "said"), [("# default", "30s"), (f"{REATTEMPT} 20s", "20s"), (f"{REATTEMPT} 1m", "1m")]
)
def test_executors_that_would_sit_out_their_grace_are_a_warning(line: str, said: str) -> None:
    (warning,) = judged(SITE_IMAGE.replace(f"{REATTEMPT}  1s", line))["warnings"]
    assert warning == f"job.yml: {REATTEMPT} is {said}, so executors with nothing left to do may stay as long: set 1s"


def test_a_short_interval_in_another_unit_is_no_warning() -> None:
    assert judged(SITE_IMAGE.replace(f"{REATTEMPT}  1s", f"{REATTEMPT} 800ms"))["warnings"] == []


ATTEMPTS = "spark.stage.maxConsecutiveAttempts                       100"
RETAINED = "spark.scheduler.maxRetainedRemovedDecommissionExecutors  100"


@pytest.mark.parametrize("attempts", ["# default", "spark.stage.maxConsecutiveAttempts 3"])
def test_an_application_that_a_few_takes_within_a_stage_would_end_is_a_warning(attempts: str) -> None:
    (warning,) = judged(SITE_IMAGE.replace(ATTEMPTS, attempts).replace(RETAINED, "# default"))["warnings"]
    number = 4 if attempts.startswith("#") else 3
    assert warning == (
        f"job.yml: spark.stage.maxConsecutiveAttempts is {number}, so an application ends whose nodes are taken so"
        " often in one stage: set 100, or spark.scheduler.maxRetainedRemovedDecommissionExecutors"
    )


@pytest.mark.parametrize("line", [ATTEMPTS, RETAINED])
def test_either_of_the_two_settings_is_enough(line: str) -> None:
    assert judged(SITE_IMAGE.replace(line, "# default"))["warnings"] == []


def test_settings_on_the_drivers_command_line_count_before_those_of_the_file() -> None:
    grace = "spark.kubernetes.executor.terminationGracePeriodSeconds"
    words = f"- driver\n                - --conf\n                - {REATTEMPT}=9s\n"
    words += f"                - --verbose\n                - --conf={grace}=50s\n"
    found = judged(SITE_IMAGE.replace("- driver\n", words))
    first, second = found["warnings"]
    assert found["grace"] == 50
    assert first.startswith(f"job.yml: {REATTEMPT} is 9s")
    assert second.startswith("node_share_controller_deadline is 45 s on n1, and executors of job.yml may need 50 s")


def test_a_program_s_name_writes_nothing_but_itself_on_a_terminal() -> None:
    (warning,) = judged(started_by("\x1b]0;x\x07run", "app"))["warnings"]
    assert warning.startswith("job.yml: container driver runs ?]0;x?run, so Spark's settings")


def test_words_behind_the_program_are_its_own() -> None:
    words = '- --conf\n                - spark.decommission.enabled=false\n                - "60"'
    assert judged(SITE_IMAGE.replace('- "60"', words))["warnings"] == []


LOST = "--conf spark.decommission.enabled=false"
OFF = "job.yml: spark.decommission.enabled is not true, so executors that leave a node lose their blocks"


def with_containers(change: Callable[[list[dict[str, Any]]], object]) -> str:
    """Return the example with other containers in the driver's pod."""
    documents = list(yaml.safe_load_all(SITE_IMAGE))
    objects = [one for document in documents for one in document.get("items", [document])]
    (job,) = (one for one in objects if one["kind"] == "Job")
    change(job["spec"]["template"]["spec"]["containers"])
    return str(yaml.safe_dump_all(documents))


def started_by(*words: str) -> str:
    """Return the example with this command line of its driver."""
    return with_containers(lambda containers: containers[0].update(command=list(words), args=[]))


@pytest.mark.parametrize(
    "words",
    [
        ("/opt/spark/bin/spark-submit", *LOST.split(), "local:///app.jar"),
        ("/opt/entrypoint.sh", "driver", *LOST.split(), "local:///app.jar"),
        ("/opt/entrypoint.sh", "/opt/spark/bin/spark-submit", *LOST.split(), "local:///app.jar"),
        ("spark-class", "org.apache.spark.deploy.SparkSubmit", *LOST.split(), "local:///app.jar"),
    ],
)
def test_options_are_read_wherever_spark_submit_has_them(words: tuple[str, ...]) -> None:
    assert judged(started_by(*words))["warnings"] == [OFF]


@pytest.mark.parametrize(
    "words",
    [
        ("sh", "-c", f"exec spark-submit {LOST} local:///app.jar"),
        ("bash", "-c", "spark-submit", *LOST.split()),
        ("java", "-cp", "/opt/spark/jars/*", "-Dspark.decommission.enabled=false", "org.site.Main", *LOST.split()),
        ("tini", "-s", "--", "spark-submit", *LOST.split()),
        ("/opt/site/run", "app"),
    ],
)
def test_a_command_line_that_cannot_be_read_is_a_warning_and_not_guessed_at(words: tuple[str, ...]) -> None:
    (warning,) = judged(started_by(*words))["warnings"]
    assert warning == (
        f"job.yml: container driver runs {words[0]}, so Spark's settings on its command line cannot be read; they can"
        " behind spark-submit, or behind the word driver for Spark's own entry point"
    )


def test_words_behind_the_program_are_its_own_also_where_spark_submit_has_no_option() -> None:
    assert judged(started_by("spark-submit", "local:///app.jar", *LOST.split()))["warnings"] == []


def test_a_container_beside_the_driver_has_no_settings_of_spark() -> None:
    beside = {"name": "logs", "image": "logs:1", "command": ["sh", "-c", "ship"], "args": LOST.split()}
    assert judged(with_containers(lambda containers: containers.append(beside)))["warnings"] == []
