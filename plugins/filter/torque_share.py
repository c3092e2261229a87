# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files make Torque call us around the site's own scripts, and which jobs hold a host."""

from __future__ import annotations

import re
import shlex
import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.converged.hpc.plugins.module_utils._preflight.gather.torque import BASE

# Everything else has not begun, or has left its hosts. A suspended job still has its memory.
_ON_ITS_HOSTS = frozenset("RSE")
_ID = re.compile(r"\d{1,12}(?:\[\d{1,7}\])?(?:\.[A-Za-z0-9_-]+)*", re.ASCII)


def torque_scripts(
    found: t.Mapping[str, t.Any], text: str, folder: str, values: t.Mapping[str, t.Any]
) -> list[dict[str, t.Any]]:
    """Files for C(node_state): our script under each name that Torque may run, and the site's own of that name.

    ``found`` is the answer of `torque_mom_info`. A user may have Torque run any script of a job type in place of the
    plain one, so all of them are ours.
    """
    scripts = {one["name"]: one for one in found["scripts"]}
    mom_priv = f"{found['home']}/mom_priv"
    files = []
    for name in sorted({*BASE, *scripts}):
        ours = _filled(text, {"name": name, "folder": folder, **values})
        files.append({"path": f"{mom_priv}/{name}", "content": ours, "owner": "root", "group": "root", "mode": "0755"})
        site = scripts.get(name)
        if site and site["content"] is not None:
            kept = {"path": f"{folder}/site/{name}", "content": site["content"], "mode": site["mode"], "secret": True}
            files.append({**kept, "owner": "root", "group": "root"})
    return files


def torque_jobs_on(jobs: t.Iterable[t.Mapping[str, t.Any]], host: str) -> list[str]:
    """`JOB/RUN` for each job of `torque_info` that has slots on the host, as C(nodeshare adopt) takes it.

    Each has the whole host: Torque does not tell how much memory a job has that runs already.
    """
    found = []
    for job in jobs:
        if job["state"] in _ON_ITS_HOSTS and host in (one["host"] for one in job["hosts"]):
            if not _ID.fullmatch(str(job["id"])):
                raise AnsibleFilterError(f"torque_jobs_on: {str(job['id'])[:60]!a} is no id of a job")
            found.append(f"{job['id']}/{max(1, int(job['run'] or 0))} --exclusive")
    return sorted(found)


def _filled(text: str, values: t.Mapping[str, t.Any]) -> str:
    for name, value in values.items():
        line = f"{name}={shlex.quote(str(value))}"
        text, count = re.subn(rf"(?m)^{re.escape(name)}=.*$", lambda _found, line=line: line, text)
        if count != 1:
            raise AnsibleFilterError(f"torque_scripts: {count} lines begin with {name}=, not one")
    return text


class FilterModule:
    """The filters of this file by their names in templates."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"torque_jobs_on": torque_jobs_on, "torque_scripts": torque_scripts}
