# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects as the API has them, as short as they may be, and what is read from them."""

import json
from typing import Any

from placement.kube.decode.decoder import Decoder
from placement.model.objects.pod import Pod

Json = dict[str, Any]


def meta(**more: Any) -> Json:
    return {"uid": "u1", "name": "a", "namespace": "team", "resourceVersion": "7", **more}


def pod(*, metadata: Json | None = None, status: Json | None = None, **spec: Any) -> Json:
    return {
        "metadata": meta(**(metadata or {})),
        "spec": {"containers": [{"name": "c"}], **spec},
        "status": {"phase": "Pending", **(status or {})},
    }


def decode(kind: type, value: object) -> Any:
    return Decoder().decode_object(kind, json.dumps(value).encode())


def accepted(value: Json) -> Pod:
    result = decode(Pod, value)
    assert isinstance(result, Pod), result
    return result
