# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripts that the role installs, on hosts of a cluster, with the real nodeshare or one that notes its calls."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from ansible_collections.converged.hpc.plugins.filter.torque_share import torque_scripts
from pbs_double.cluster import until
from torque_double.cluster import HOSTS
from torque_double.site import Site

FILES = Path(__file__).resolve().parents[2] / "roles/torque_share/files"
SETTINGS = "/etc/converged/torque/pelogue.json"
NAMES = ("prologue", "prologue.parallel", "epilogue", "epilogue.parallel")
NODESHARE = """\
#!/bin/sh
printf '%s\\n' "{host} nodeshare $*" >> {log}
[ "$1" = begin ] || exit 0
read -r how < {how}
[ "$how" != killed ] || kill -9 $$
exit "$how"
"""
# The real one, on a host that has no pods and knows no Kubernetes.
REAL_NODESHARE = """\
#!/bin/sh
exec {python} -IS {here} {folder} {host} "$@"
"""
HERE = Path(__file__).resolve().parent / "nodeshare_here.py"
FREE, REQUEUE, KILLED = "0", "75", "killed"


class Shipped:
    """Our scripts on all hosts, with scripts of the site's own below them."""

    def __init__(self, site: Site, top: Path, *, real: bool = False, **settings: object) -> None:
        """Install them; ``real`` is for the real nodeshare, ``settings`` are those of `pelogue.json` that differ."""
        self.site, self.top = site, top
        self.log, self.how = top / "log", top / "how"
        self.log.touch()
        self.nodeshare_ends(FREE)
        program = (FILES / "pelogue.py").read_text(encoding="utf-8")
        assert SETTINGS in program
        for host in HOSTS:
            folder = top / host
            for name in ("site", "leases", "state"):
                (folder / name).mkdir(parents=True)
            told = NODESHARE.format(host=host, log=self.log, how=self.how)
            itself = REAL_NODESHARE.format(python=sys.executable, here=HERE, folder=folder, host=host)
            self._program(folder / "nodeshare", itself if real else told)
            home = site.on(host, "echo $PBS_HOME").out.strip()
            own = {"nodeshare": [str(folder / "nodeshare")], "mom_priv": f"{home}/mom_priv", "names": [host]}
            own |= {name: str(folder / name) for name in ("site", "leases", "state")}
            (folder / "pelogue.json").write_text(json.dumps({**own, **settings}), encoding="utf-8")
            (folder / "pelogue.py").write_text(
                program.replace(SETTINGS, str(folder / "pelogue.json")), encoding="utf-8"
            )
            (folder / "enabled").touch()
            values = {"enabled": folder / "enabled"}
            text = (FILES / "pelogue").read_text(encoding="utf-8")
            for file in torque_scripts({"home": home, "scripts": []}, text, str(folder), values):
                self._program(folder / "ours", file["content"])
                self._on(host, "install", "-m", file["mode"], str(folder / "ours"), file["path"])

    def nodeshare_ends(self, how: str) -> None:
        """Let nodeshare end so from now on: with a status, or by a signal."""
        self.how.write_text(f"{how}\n", encoding="ascii")

    def site_has(self, *names: str, status: int = 0) -> None:
        """Give the site scripts of these names on all hosts."""
        for host in HOSTS:
            for name in names:
                text = f"#!/bin/sh\necho '{host} site {name}' >> {self.log}\nexit {status}\n"
                self._program(self.top / host / "site" / name, text)

    def told(self) -> list[str]:
        """``HOST nodeshare WORDS`` and ``HOST site NAME`` of all that has run, in order."""
        return self.log.read_text(encoding="utf-8").splitlines()

    def leases(self, host: str) -> list[str]:
        """``JOB of RUN`` of each lease on a host, by what the real nodeshare shows."""
        answer = self.site.on(host, f"{self.top / host / 'nodeshare'} show --json")
        assert answer.rc == 0, answer
        return [f"{lease['job']} of {lease['run']}" for lease in json.loads(answer.out)["leases"]]

    def until_leases(self, host: str, *expected: str) -> None:
        """Wait until a host has exactly these leases; if it never does, tell what it has, and of the jobs."""
        found: list[str] = []

        def has_them() -> bool:
            found[:] = sorted(self.leases(host))
            return found == sorted(expected)

        try:
            until(has_them)
        except AssertionError as error:
            raise AssertionError(f"{host} has {found}, not {sorted(expected)}; jobs: {self.site.jobs()}") from error

    def _on(self, host: str, *argv: str) -> None:
        done = self.site.on(host, shlex.join(argv))
        assert done.rc == 0, done

    def _program(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
