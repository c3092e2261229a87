# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The container image of Apache Spark: Debian's JRE and the jars of the package `pyspark`, built once into the cache.

`python -m testbed.spark_image` builds it and prints the path of the archive, its size, and how long the build took.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed import images, oci, recipe, rootfs
from testbed.down import podman_of
from testbed.errors import BedError
from testbed.progress import say, step
from testbed.run import run
from testbed.state import Bed, Host

NAME = "localhost/spark:local"
# Raised when the way the image is built changes what is in it.
FORMAT = 1
VERSION = "4.3.0"
SOURCE = f"pyspark=={VERSION} --hash=sha256:e8c517948eff7088a7aa07449aa8eafa4a15a8d50319de2525a6fd26622476c6\n"
SUITE = recipe.SUITES[12]
PACKAGES = ("openjdk-17-jre-headless", "python3-minimal", "libpython3-stdlib", "procps", "ca-certificates")
# The user of the published images of Apache Spark. Hadoop's login wants a line of /etc/passwd.
USER, UID = "spark", 185
HOME = "/opt/spark"
# Of 326 jars what jobs of SQL and DataFrames on Kubernetes do without: 276 of 483 MB. So there is no Parquet, ORC,
# Hive, MLlib or Connect.
LEFT_OUT = (
    *("connect-repl/*", "rocksdbjni-*", "leveldbjni-*", "scala-compiler-*", "jline-*", "aircompressor-*", "jts-core-*"),
    *(f"spark-{part}*" for part in ("connect", "mllib", "hive", "graphx", "streaming", "yarn", "pipelines", "repl")),
    *("breeze*", "spire*", "cats-*", "algebra_*", "arpack*", "lapack-*", "blas-*"),
    *("hive-*", "derby*", "datanucleus-*", "libthrift-*", "parquet-*", "orc-*"),
    *("netty-tcnative-*", "netty-transport-native-epoll-*", "netty-transport-native-kqueue-*"),
    *("jersey-*", "hk2-*", "zookeeper-*", "curator-*", "httpc*"),
)
ENTRYPOINT = """\
#!/bin/bash
# What Spark's own image does, for driver and executors. Java is process 1, so that it gets the signals.
set -eu
case "${1:-}" in
driver)
    shift
    set -- "$SPARK_HOME/bin/spark-submit" --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \\
        --deploy-mode client "$@"
    ;;
executor)
    options=()
    for number in $(env | sed -n 's/^SPARK_JAVA_OPT_\\([0-9]*\\)=.*/\\1/p' | sort -n); do
        name=SPARK_JAVA_OPT_$number
        options+=("${!name}")
    done
    set -- "$JAVA_HOME/bin/java" "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \\
        -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*" \\
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \\
        --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \\
        --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \\
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
esac
exec "$@"
"""
# The preStop hook of every executor where decommissioning is on. It waits, which holds SIGTERM back, and ends with
# process 1.
DECOMMISSION = "#!/bin/sh\nkill -s PWR 1\nexec sleep 3600\n"
ENVIRONMENT = {
    "PATH": f"{HOME}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "SPARK_HOME": HOME,
    "JAVA_HOME": "/opt/java",
    "PYSPARK_PYTHON": "python3",
    "PYTHONPATH": f"{HOME}/python:{HOME}/python/lib/py4j-0.10.9.9-src.zip",
    "PYTHONDONTWRITEBYTECODE": "1",
    "LC_ALL": "C.UTF-8",
}
UNUSED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "var/cache", "var/lib/apt/lists")
PIP_SECONDS = 900.0
IMPORT_SECONDS = 600.0
ARCHIVE, KIND = "spark.tar", "image of Spark"


@dataclass(frozen=True, slots=True)
class SparkImage:
    """A folder of the cache that holds the image as `ctr images import` reads it."""

    folder: Path

    @property
    def archive(self) -> Path:
        return self.folder / ARCHIVE

    @property
    def built_in(self) -> float:
        """Seconds that the build took, download included."""
        seconds: float = json.loads((self.folder / images.MANIFEST).read_text())["seconds"]
        return seconds


def key() -> str:
    """Return the name of the image in the cache: different whenever its contents would be."""
    contents = [FORMAT, SOURCE, SUITE, PACKAGES, UID, LEFT_OUT, ENTRYPOINT, DECOMMISSION, ENVIRONMENT, UNUSED]
    return f"spark{VERSION}-{hashlib.sha256(json.dumps(contents).encode()).hexdigest()[:12]}"


def ensure() -> SparkImage:
    """Return the image from the cache; build it where it is not there or damaged."""

    def make(work: Path) -> None:
        say(f"  ..  {KIND} {key()}: built once, in one to four minutes")
        build(work)

    return SparkImage(images.in_cache(key(), KIND, make, large=(ARCHIVE,)))


def build(work: Path) -> None:
    """Fill `work`/result, the folder of the image."""
    begun = time.monotonic()
    root, result, layer = work / "root", work / "result", work / "layer.tar"
    with step(f"Debian {SUITE} with a JRE, by mmdebstrap"):
        rootfs.install_suite(SUITE, root, variant="essential", packages=PACKAGES)
    with step(f"the package pyspark {VERSION}, 456 MB"):
        spark(download(work), root / HOME.lstrip("/"))
    finish(root)
    with step("pack the image of Spark"):
        run(["tar", "--create", f"--file={layer}", f"--directory={root}", "--numeric-owner", "."], timeout=600)
        config = {"Entrypoint": ["/opt/entrypoint.sh"], "User": str(UID), "WorkingDir": f"{HOME}/work-dir"}
        config["Env"] = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
        oci.write_archive(result / ARCHIVE, name=NAME, layer=layer, config=config, architecture=rootfs.architecture())
    images.write_manifest(result, seconds=round(time.monotonic() - begun, 1))


def download(work: Path) -> Path:
    """Fetch the source archive of pyspark by its digest."""
    wanted, into = work / "requirements.txt", work / "pyspark"
    wanted.write_text(SOURCE)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "--no-binary=:all:"]
    run([*pip, "--require-hashes", f"--requirement={wanted}", f"--dest={into}"], timeout=PIP_SECONDS)
    return next(into.glob("pyspark-*.tar.gz"))


def spark(source: Path, home: Path) -> None:
    """Unpack what the image keeps of the package: jars but `LEFT_OUT`, the programs, and the Python side."""
    for name in ("jars", "bin", "python/lib", "work-dir", "conf"):
        (home / name).mkdir(parents=True)
    with tarfile.open(source) as archive:
        for entry in archive:
            target = place(entry.name)
            if entry.isfile() and target:
                content = archive.extractfile(entry)
                assert content is not None
                path = home / target
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as file:
                    shutil.copyfileobj(content, file)
                path.chmod(0o755 if target.startswith("bin/") else 0o644)


def place(name: str) -> str:
    """Return where a file of the source archive goes below SPARK_HOME; empty where the image leaves it out."""
    _folder, _slash, path = name.partition("/")
    first, _slash, rest = path.partition("/")
    if first == "deps":
        kind, _slash, file = rest.partition("/")
        kept = kind == "jars" and keeps(file)
        return rest if kept or (kind == "bin" and not file.endswith(".cmd")) else ""
    if first == "pyspark" or path.startswith("lib/py4j"):
        return f"python/{path}"
    return ""


def keeps(jar: str) -> bool:
    """Return whether the image has this jar."""
    return not any(fnmatch.fnmatchcase(jar, pattern) for pattern in LEFT_OUT)


def finish(root: Path) -> None:
    """Add the user, the programs and the working folder, and leave out what nothing reads."""
    with (root / "etc/passwd").open("a") as file:
        file.write(f"{USER}:x:{UID}:0:Spark:{HOME}:/bin/bash\n")
    for name, text in (("entrypoint.sh", ENTRYPOINT), ("decom.sh", DECOMMISSION)):
        (root / "opt" / name).write_text(text)
        (root / "opt" / name).chmod(0o755)
    java = next((root / "usr/lib/jvm").glob("java-17-openjdk-*"))
    (root / "opt/java").symlink_to(f"/usr/lib/jvm/{java.name}")
    (root / HOME.lstrip("/") / "work-dir").chmod(0o775)
    for name in UNUSED:
        shutil.rmtree(root / name, ignore_errors=True)
    shutil.rmtree(root / "dev")
    (root / "dev").mkdir()


def give(bed: Bed, hosts: Iterable[Host]) -> None:
    """Import the image into the runtime of each host, one after the other: it is large. Raises BedError."""
    image = ensure()
    for host in hosts:
        with step(f"import the image of Spark on {host.name}"):
            send(bed, host, image.archive)


def send(bed: Bed, host: Host, archive: Path) -> None:
    """Stream the archive to `ctr` on the host; nothing of it is kept there beside the runtime's own store."""
    main = podman_of(bed).main_process(host.container)
    if host.machine or main is None:
        raise BedError(f"{host.name}: the image of Spark goes only to nodes that are running containers")
    argv = main.command(["ctr", "--namespace", "k8s.io", "images", "import", "--all-platforms", "-"])
    with archive.open("rb") as stream:
        try:
            done = subprocess.run(
                argv, stdin=stream, capture_output=True, text=True, timeout=IMPORT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise BedError(f"{host.name}: the import of {NAME} has not ended after {IMPORT_SECONDS:g} s") from None
    if done.returncode != 0:
        raise BedError(f"{host.name}: ctr images import ended with status {done.returncode}: {done.stderr.strip()}")


def main(arguments: Sequence[str]) -> int:
    """Build the image and say what it is; 1 where that fails, 2 where an argument is given."""
    if arguments:
        print("usage: python -m testbed.spark_image", file=sys.stderr)
        return 2
    try:
        image = ensure()
    except BedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    size = image.archive.stat().st_size / 1e6
    print(f"{image.archive}: {size:.0f} MB, built in {image.built_in:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
