# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image of Spark: what of the package goes into it, what its entrypoint starts, and the archive."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from testbed import images, oci, paths, spark_image


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("pyspark-4.3.0/deps/jars/spark-core_2.13-4.3.0.jar", "jars/spark-core_2.13-4.3.0.jar"),
        ("pyspark-4.3.0/deps/jars/spark-kubernetes_2.13-4.3.0.jar", "jars/spark-kubernetes_2.13-4.3.0.jar"),
        ("pyspark-4.3.0/deps/jars/arrow-vector-19.0.0.jar", "jars/arrow-vector-19.0.0.jar"),
        ("pyspark-4.3.0/deps/jars/rocksdbjni-9.8.4.jar", ""),
        ("pyspark-4.3.0/deps/jars/connect-repl/json4s-2.jar", ""),
        ("pyspark-4.3.0/deps/bin/spark-submit", "bin/spark-submit"),
        ("pyspark-4.3.0/deps/bin/spark-submit.cmd", ""),
        ("pyspark-4.3.0/deps/data/mllib/kmeans_data.txt", ""),
        ("pyspark-4.3.0/deps/licenses/LICENSE-py4j.txt", ""),
        ("pyspark-4.3.0/pyspark/testing/utils.py", "python/pyspark/testing/utils.py"),
        ("pyspark-4.3.0/lib/py4j-0.10.9.9-src.zip", "python/lib/py4j-0.10.9.9-src.zip"),
        ("pyspark-4.3.0/setup.py", ""),
    ],
)
def test_the_image_keeps_of_the_package_what_jobs_of_sql_need(name: str, target: str) -> None:
    assert spark_image.place(name) == target


def test_a_package_becomes_the_folder_of_spark(tmp_path: Path) -> None:
    source = tmp_path / "pyspark.tar.gz"
    content = {
        "p/deps/jars/spark-core_2.13-4.3.0.jar": b"jar",
        "p/deps/jars/hive-exec-2.3.10-core.jar": b"hive",
        "p/deps/bin/spark-submit": b"#!/bin/bash\n",
        "p/pyspark/__init__.py": b"",
    }
    source.write_bytes(oci.tarball({name: (0o644, data) for name, data in content.items()}))
    spark_image.spark(source, tmp_path / "spark")
    files = sorted(str(path.relative_to(tmp_path / "spark")) for path in tmp_path.glob("spark/**/*") if path.is_file())
    assert files == ["bin/spark-submit", "jars/spark-core_2.13-4.3.0.jar", "python/pyspark/__init__.py"]
    assert (tmp_path / "spark/bin/spark-submit").stat().st_mode & 0o111


def started(tmp_path: Path, *arguments: str, **variables: str) -> list[str]:
    """Run the entrypoint with stand-ins for java and spark-submit, and return what was started."""
    tmp_path.mkdir(exist_ok=True)
    entrypoint = tmp_path / "entrypoint.sh"
    entrypoint.write_text(spark_image.ENTRYPOINT)
    for name in ("java/bin/java", "spark/bin/spark-submit"):
        program = tmp_path / name
        program.parent.mkdir(parents=True)
        program.write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n')
        program.chmod(0o755)
    env = {"PATH": "/usr/bin:/bin", "JAVA_HOME": str(tmp_path / "java"), "SPARK_HOME": str(tmp_path / "spark")}
    bash = shutil.which("bash")
    assert bash
    done = subprocess.run(
        [bash, str(entrypoint), *arguments], env=env | variables, capture_output=True, text=True, check=True, timeout=60
    )
    return [line.removeprefix(f"{tmp_path}/") for line in done.stdout.splitlines()]


def test_an_executor_gets_its_java_options_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = ("EXECUTOR_MEMORY", "DRIVER_URL", "EXECUTOR_ID", "EXECUTOR_CORES", "APPLICATION_ID", "EXECUTOR_POD_IP")
    variables = {f"SPARK_{name}": name.lower() for name in (*names, "RESOURCE_PROFILE_ID", "EXECUTOR_POD_NAME")}
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dnumber={number} $(id)" for number in (10, 2, 0)}
    said = started(tmp_path, "executor", **variables, **options)
    assert said[:4] == ["java/bin/java", *(f"-Dnumber={number} $(id)" for number in (0, 2, 10))]
    assert said[4:6] == ["-Xmsexecutor_memory", "-Xmxexecutor_memory"]
    backend = said.index("org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend")
    assert said[backend + 1 : backend + 3] == ["--driver-url", "driver_url"]
    assert said[-2:] == ["--podName", "executor_pod_name"]


def test_a_driver_binds_to_the_address_of_its_pod_and_other_commands_run_as_they_are(tmp_path: Path) -> None:
    said = started(tmp_path, "driver", "--class", "org.example.Main", SPARK_DRIVER_BIND_ADDRESS="10.244.1.7")
    assert said[0] == "spark/bin/spark-submit"
    assert said[1:3] == ["--conf", "spark.driver.bindAddress=10.244.1.7"]
    assert said[3:] == ["--deploy-mode", "client", "--class", "org.example.Main"]
    assert started(tmp_path / "other", "echo", "two words") == ["two words"]


def test_an_archive_written_from_a_file_is_what_one_made_in_memory_is(tmp_path: Path) -> None:
    layer = tmp_path / "layer.tar"
    layer.write_bytes(oci.tarball({"bin/sh": (0o755, b"shell")}))
    target = tmp_path / "image.tar"
    oci.write_archive(target, name="localhost/x:local", layer=layer, config={"User": "185"}, architecture="amd64")
    with tarfile.open(target) as tar:
        found = {entry.name: tar.extractfile(entry) for entry in tar}
        content = {name: file.read() for name, file in found.items() if file is not None}
    manifest = json.loads(content["manifest.json"])[0]
    assert manifest["RepoTags"] == ["localhost/x:local"]
    (name,) = manifest["Layers"]
    assert content[name] == layer.read_bytes()
    config = json.loads(content[manifest["Config"]])
    assert config["config"] == {"User": "185"}
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer.read_bytes()).hexdigest()}"]


def test_a_sound_image_in_the_cache_is_taken_and_a_damaged_one_is_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONVERGED_CACHE", str(tmp_path))
    built: list[Path] = []

    def build(work: Path) -> None:
        archive = work / "result" / spark_image.ARCHIVE
        archive.write_bytes(b"image")
        images.write_manifest(work / "result", seconds=7.5)
        built.append(work)

    monkeypatch.setattr(spark_image, "build", build)
    monkeypatch.setattr(images, "check_space", lambda *_arguments, **_options: None)
    first = spark_image.ensure()
    assert (first.folder.parent, first.built_in) == (paths.images_dir(), 7.5)
    assert spark_image.ensure() == first
    assert len(built) == 1
    first.archive.write_bytes(b"less")
    spark_image.ensure()
    assert len(built) == 2
    assert first.archive.read_bytes() == b"image"
    assert not built[1].exists()
