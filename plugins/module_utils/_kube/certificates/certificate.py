# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The public key of a certificate as `kubeadm join` pins it: sha256 over its DER, found without a library.

PRIVATE to the collection. Nodes and administrators' hosts need neither openssl nor Python packages for it.
"""

from __future__ import annotations

import hashlib
import re
import typing as t

from ..errors import KubeError
from . import x509

_PIN = re.compile(r"sha256:[0-9a-f]{64}")


def check_pin(text: str) -> str:
    """Return a pin as kubeadm writes it; refuse anything else."""
    if not _PIN.fullmatch(text):
        raise KubeError(f"CA hash {text!r}: expected 'sha256:' and 64 hexadecimal digits in lower case")
    return text


def pins(pem: str, *, name: str) -> t.List[str]:
    """Return a pin for each certificate of a bundle."""
    found = x509.certificates(pem)
    if not found:
        raise KubeError(f"{name}: holds no PEM certificate")
    return ["sha256:" + hashlib.sha256(x509.read_certificate(one, name=name).key).hexdigest() for one in found]
