# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API server of a bed away for a while, and a whole control plane again after it, for whichever test comes next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from testbed.api import RunningBed

API = "kube-apiserver.service"
CLIENTS = ("kube-controller-manager.service", "kube-scheduler.service")
# Until it is ready it knows no roles and refuses even the administrator.
READY = "until kubectl get --raw=/readyz >/dev/null 2>&1; do sleep 0.3; done"
# Only a controller manager that has seen all there is makes up for what is missing.
SERVES = """kubectl --namespace=kube-public delete serviceaccount default
until kubectl --namespace=kube-public get serviceaccount default >/dev/null 2>&1; do sleep 0.3; done"""
BACK_SECONDS = 300.0


@contextmanager
def without_api(bed: RunningBed) -> Iterator[None]:
    """The API server is stopped meanwhile.

    What its clients have cached is stale until they watch again, which client-go puts off for up to a minute, each
    kind of object by itself; so those of the control plane begin anew.
    """
    bed.exec("kube", ["systemctl", "stop", API])
    try:
        yield
    finally:
        bed.exec("kube", ["systemctl", "start", API])
        bed.exec("kube", ["sh", "-c", READY], timeout=BACK_SECONDS)
        bed.exec("kube", ["systemctl", "restart", *CLIENTS])
        bed.exec("kube", ["sh", "-c", SERVES], timeout=BACK_SECONDS)
