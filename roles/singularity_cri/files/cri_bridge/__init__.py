# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""cri_bridge: serves CRI v1 to a kubelet and forwards the calls to a runtime that speaks CRI v1alpha2 alone.

It exists for Singularity-CRI, which was archived before CRI v1; kubelets speak v1 alone since 1.26. Bytes pass as they
are, except where the table in `wire/methods.py` says otherwise. Needs Python 3.9, grpcio and protobuf.
"""
