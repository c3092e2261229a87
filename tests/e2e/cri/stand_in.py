# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""containerd 1.6 of Debian 12 in the place of Singularity-CRI: it serves CRI v1alpha2, and so stands behind the bridge.

`sycri` is a script that reads the real `sycri.yaml` and starts a containerd of its own with that socket, those folders
and that pod network. `singularity` says what an engine says that serves. The role is the one that ships.
"""

from __future__ import annotations

from pathlib import Path

ENGINE = """\
#!/bin/sh
case "$*" in
  --version) echo singularity-ce version 3.9.9 ;;
  "oci create --help") echo "  --bundle --empty-process --log-path --sync-socket" ;;
  *) echo "stand-in for singularity: cannot $*" >&2; exit 1 ;;
esac
"""
SYCRI = """\
#!/bin/sh
set -e
export PATH="/opt/stand-in/usr/bin:/opt/stand-in/usr/sbin:$PATH"
while test "$1" != -config; do shift; done
value() { sed -n "s/^$1: *\\"\\\\{0,1\\\\}\\\\([^\\" ]*\\\\)\\"\\\\{0,1\\\\} *$/\\\\1/p" "$config"; }
config=$2
socket=$(value listenSocket)
cat > /run/sycri.toml <<END
version = 2
root = "$(value storageDir)"
state = "$(value baseRunDir)"
[grpc]
  address = "$socket"
[plugins."io.containerd.internal.v1.opt"]
  path = "/run/sycri-opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:local"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$(value cniBinDir)"
    conf_dir = "$(value cniConfDir)"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
END
images() {
  until ctr --address "$socket" version >/dev/null 2>&1; do sleep 0.1; done
  for image in pause busybox; do
    ctr --address "$socket" --namespace k8s.io images import --snapshotter native "/opt/testbed/images/$image.tar"
  done
}
images &
exec containerd --config /run/sycri.toml
"""


# Not as packages: those belong to the role of containerd, and go with it.
UNPACK = """\
mkdir -p /opt/stand-in
for name in containerd runc; do dpkg-deb --extract /opt/testbed/debs/${name}_*.deb /opt/stand-in; done
"""


def programs(folder: Path) -> Path:
    """Write `sycri` and `singularity` into a folder, and return it."""
    for name, text in (("sycri", SYCRI), ("singularity", ENGINE)):
        path = folder / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
    return folder
