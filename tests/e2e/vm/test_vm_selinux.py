# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine with Debian's policy of SELinux, permissive: lists what a conversion, a job and a pod would be denied."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator

import pytest
from e2e import workload
from e2e.vm.site import MACHINE_SECONDS, NODE, MachineSite, machine_site
from testbed.paths import logs_dir

pytestmark = pytest.mark.soak

BED = f"vmsel-{os.getpid()}"
# The kernel names the program. What a server such as systemd has denied names the one that asked, by its command line.
DENIED = re.compile(
    r"avc: +denied +\{ (?P<what>[^}]+) \}.* (?:comm|cmdline)=\"(?P<program>[^\" ]*)[^\"]*\".*"
    r" scontext=\S+:(?P<source>\w+):\S+ tcontext=\S+:(?P<target>\w+):\S+ tclass=(?P<kind>\w+)"
)


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MachineSite]:
    """One plain machine with files that bear contexts, a batch controller, and a control plane."""
    with machine_site(request, tmp_path_factory, BED, "--security", "selinux") as found:
        yield found


def denials(site: MachineSite) -> Counter[str]:
    """Return how often each kind of access would have been denied since the boot."""
    said = site.node(NODE, "journalctl -k -o cat --no-pager | grep 'avc: *denied' || true").splitlines()
    found = [match for match in map(DENIED.search, said) if match]
    assert [line for line in said if not DENIED.search(line)] == [], "denials in another form"
    return Counter(
        f"{one['program']}: {one['source']} {one['what'].strip()} {one['target']}:{one['kind']}" for one in found
    )


def test_a_site_is_converted_runs_jobs_and_pods_and_is_taken_back_and_denials_are_listed(site: MachineSite) -> None:
    assert site.node(NODE, "cat /sys/fs/selinux/enforce") == "0"
    assert ":init_t:" in site.node(NODE, "cat /proc/1/attr/current")
    before = denials(site)
    site.play("site")
    workload.apply(site, workload.deployment("web", 1))
    site.await_pod("web")
    assert site.srun("-w", NODE, "hostname", timeout=MACHINE_SECONDS).out == f"{NODE}\n"
    site.free()
    site.await_pod("web")
    site.tidy()
    contexts = site.node(NODE, "stat -c '%C %n' /usr/local/sbin/nodeshare /etc/containerd/config.toml /etc/converged")
    site.play("restore")
    found = denials(site) - before
    lines = [f"{count:6}  {what}" for what, count in found.most_common()]
    logs_dir().mkdir(parents=True, exist_ok=True)
    listed = logs_dir() / "selinux-denials.txt"
    listed.write_text(f"{contexts}\n" + "\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(found)} kinds of denials, in {listed}:", *lines, contexts, sep="\n")
    assert "unlabeled_t" not in contexts, contexts
    assert site.node(NODE, "cat /sys/fs/selinux/enforce") == "0"
