# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node of the test bed, prepared for histories: a site's own files and services, packages to install, the driver."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

from e2e import listing, upper_layer
from testbed import api

HERE = Path(__file__).resolve().parent
PLUGINS = HERE.parent.parent / "plugins"
PLACE = "/run/converged-test"  # the listing does not look there
HISTORY_SECONDS = 300.0

# The site's own: files with attributes, a service that runs, one that is only there, two packages on offer.
PREPARE = r"""
set -eu
rm -rf /etc/site /etc/fresh.conf /srv/site
mkdir -p /etc/site /srv/site
printf '# the site\nProlog=/site/prolog\n\ncolour 1\n' > /etc/site/lines.conf
printf 'no end' > /etc/site/bare.conf
printf 'one\n' > /etc/site/one.conf
printf 'old\n' > /etc/site/old.conf
chmod 0604 /etc/site/one.conf
chown daemon:games /etc/site/one.conf
ln -s /etc/site/one.conf /etc/site/link.conf
python3 -c '
import os, struct
# user::rw- user:daemon:r-- group::r-- mask::r-- other::r--: what is made in this directory inherits an ACL.
entries = [(1, 6, -1), (2, 4, 1), (4, 4, -1), (16, 4, -1), (32, 4, -1)]
acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
os.setxattr("/etc/site", "system.posix_acl_default", acl)
os.setxattr("/etc/site/one.conf", "user.site", b"kept")
'
touch -d '2020-02-02 02:02:02' /etc/site/*.conf
for unit in runs idle; do
    printf '[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n' \
        > /etc/systemd/system/site-$unit.service
done
systemctl daemon-reload
systemctl enable --now --quiet site-runs.service
if [ ! -e /etc/apt/sources.list.d/probe.list ]; then
    mkdir -p /run/converged-test/debs
    cd /run/converged-test/debs
    for name in probe probe-library; do
        mkdir -p $name/DEBIAN $name/usr/share/$name $name/etc/$name
        echo "content" > $name/usr/share/$name/data
        echo "setting of $name" > $name/etc/$name/$name.conf
        echo "/etc/$name/$name.conf" > $name/DEBIAN/conffiles
        printf 'Package: %s\nVersion: 1.0\nArchitecture: all\nMaintainer: test <test@localhost>\nDescription: test\n' \
            $name > $name/DEBIAN/control
    done
    echo 'Depends: probe-library' >> probe/DEBIAN/control
    mkdir -p probe/usr/lib/systemd/system
    printf '[Service]\nExecStart=/bin/sleep infinity\n' > probe/usr/lib/systemd/system/probe.service
    printf '#!/bin/sh\nset -e\nsystemctl daemon-reload\nsystemctl start probe.service\n' > probe/DEBIAN/postinst
    printf '#!/bin/sh\nset -e\nsystemctl stop probe.service\n' > probe/DEBIAN/prerm
    printf '#!/bin/sh\nset -e\nsystemctl daemon-reload\n' > probe/DEBIAN/postrm
    chmod 0755 probe/DEBIAN/p*
    for name in probe probe-library; do
        dpkg-deb --root-owner-group --build $name ./$name.deb > /dev/null
        dpkg-deb --field $name.deb
        printf 'Filename: ./%s.deb\nSize: %s\nSHA256: %s\n\n' $name "$(stat -c %s $name.deb)" \
            "$(sha256sum $name.deb | cut -d' ' -f1)"
    done > Packages
    echo 'deb [trusted=yes] file:/run/converged-test/debs ./' > /etc/apt/sources.list.d/probe.list
    apt-get update -qq -o Dir::Etc::sourcelist=/etc/apt/sources.list.d/probe.list -o Dir::Etc::sourceparts=- \
        -o APT::Get::List-Cleanup=0
fi
"""

# Whatever a failed example left.
CLEAN = r"""
set -u
chattr -i /etc/site/* 2>/dev/null
systemctl disable --now --quiet site-runs.service site-idle.service ours.service 2>/dev/null
dpkg --purge probe probe-library > /dev/null 2>&1
rm -rf /var/lib/converged /etc/site /srv/site /srv/ours /etc/fresh.conf /etc/ours-link \
    /etc/systemd/system/ours.service \
    /etc/systemd/system/site-*.service /etc/systemd/system/site-runs.service.d /etc/sysctl.d/90-converged-* \
    /etc/probe /etc/probe-library
sysctl -qw net.ipv4.ip_nonlocal_bind=0 net.ipv4.conf.lo.log_martians=0
systemctl daemon-reload
systemctl reset-failed
"""


class RecordNode:
    """One node of a bed."""

    def __init__(self, bed: api.RunningBed, host: str) -> None:
        self._bed = bed
        self._host = host
        self._bed.exec(host, ["mkdir", "-p", PLACE])
        self._bed.exec(host, ["tar", "-x", "-C", PLACE], input=self._programs())

    @staticmethod
    def _programs() -> bytes:
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as archive:
            for name in ("_record", "_command.py"):
                archive.add(PLUGINS / "module_utils" / name, arcname=f"module_utils/{name}", filter=_no_bytecode)
            archive.add(HERE / "record_driver.py", arcname="record_driver.py")
        return data.getvalue()

    def sh(self, script: str) -> str:
        """As root."""
        return self._bed.exec(self._host, ["sh", "-c", script]).out

    def prepare(self) -> None:
        """The site as it begins, whatever was before."""
        self.sh(CLEAN + PREPARE)

    def history(self, actions: list[dict[str, Any]]) -> dict[str, Any]:
        """Return what each action answered, and how the node differs after the last one from before the first."""
        before = upper_layer.everything(self._bed, self._host)
        answers = self.answers(actions)
        after = upper_layer.everything(self._bed, self._host)
        return {"answers": answers, "difference": listing.difference(before, after)}

    def answers(self, actions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return what each action answered."""
        argv = ["env", f"PYTHONPATH={PLACE}", "PYTHONDONTWRITEBYTECODE=1", "python3", f"{PLACE}/record_driver.py"]
        out = self._bed.exec(self._host, argv, input=json.dumps(actions), timeout=HISTORY_SECONDS).out
        found: list[dict[str, Any]] = json.loads(out)
        return found


def _no_bytecode(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in member.name else member
