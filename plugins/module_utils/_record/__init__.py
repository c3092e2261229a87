# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record: what a node was like before roles changed it, and the one way they change it and change it back.

PRIVATE to the collection. Standard library only, and importable without Ansible: modules use it through `session`.

    model    what can be asked for and what can be found      desired   a role's arguments, checked
    host     every read and every effect, nothing else        store     the record on disk, write-ahead
    observe  found = read(node)                               kinds     one file per kind: plan, perform, put back
    plan     steps = plan(desired, found, record), pure       restore   steps = undo(record, found), pure
             (draft, plan_paths, plan_units, edits, lines)    apply     carries out steps
    answer   what the module answers                          copying   the controller's copy of a record
    session  converge and restore: lock, observe, plan, record, apply
"""
