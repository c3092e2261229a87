# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of Sphinx for the documentation site (`make docs`)."""

project = "converged.hpc"
copyright = "converged.hpc maintainers"  # noqa: A001 - Sphinx's own name
extensions = ["myst_parser", "sphinx_antsibull_ext", "sphinxcontrib.mermaid"]
# Sections of guides can be linked, and their drawings are mermaid as on GitHub.
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]
html_theme = "furo"
html_title = "converged.hpc"
html_copy_source = False
