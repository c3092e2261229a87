# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kubelet's directory of static pods: one file per lease, of ours alone to write.

A user who may write here runs any pods, so the directory is root's. The kubelet looks at names without a leading dot,
and a file appears by rename: it never reads half a manifest.
"""

import json
import os
import re
from typing import Dict, Iterable, Tuple

from ..model.pods.placeholder import Placeholder
from . import files

_OURS = re.compile(r"(lease-[a-z]+-[0-9a-z-]+-r[0-9]{1,9})\.json", re.ASCII)
_UID = re.compile(rb'"uid": "([0-9a-f]{32})"')


class Manifests:
    def __init__(self, directory: str) -> None:
        self.directory = directory

    def placed(self) -> Dict[str, str]:
        """By name, the uid in each file; empty where the file is not as we write it. Other people's files stay."""
        found = {}
        try:
            with os.scandir(self.directory) as entries:
                for entry in entries:
                    name = _OURS.fullmatch(entry.name)
                    if name:
                        uid = _UID.search(files.read(entry.path) or b"")
                        found[name.group(1)] = uid.group(1).decode("ascii") if uid else ""
        except FileNotFoundError:
            pass  # nothing was ever placed
        except OSError as error:
            raise files.StoreError("{}: cannot list: {}".format(self.directory, error.strerror)) from error
        return found

    def place(self, placeholders: Iterable[Placeholder]) -> None:
        """Not synced: after a power cut there is no job, and the next repair compares with the leases that are left."""
        if not os.path.isdir(self.directory):
            files.make_private_dir(self.directory)
        for one in placeholders:
            content = json.dumps(one.manifest, sort_keys=True).encode("utf-8")
            files.write(os.path.join(self.directory, one.name + ".json"), content, synced=False)

    def unplace(self, names: Tuple[str, ...]) -> None:
        for name in names:
            try:
                os.unlink(os.path.join(self.directory, name + ".json"))
            except FileNotFoundError:
                pass  # another call was faster
            except OSError as error:
                raise files.StoreError("{}: cannot remove: {}".format(name, error.strerror)) from error
