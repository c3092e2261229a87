# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record: what a node was like before roles changed it, and the one way they change it and change it back.

PRIVATE to the collection. Standard library only, and importable without Ansible: modules use it through `run.session`.
A package imports from packages below it only; import-linter holds that.

    run        sessions of a role: lock, observe, plan, record, apply; restores; what a module answers
    planning   steps = plan(desired, found, record), pure: functions over one PlanBuilder
    undoing    steps = undo(record, found), pure: functions over one UndoBuilder
    request    what a role asks for: arguments, checked; contents, sent in one bundle
    kinds      one file per kind of thing: read, changed and put back; `observe` and `apply` for all kinds together
    store      the record on disk, its lock, the controller's copy, versions of the site that are kept aside
    host       every read and every effect, one method each; paths that can be trusted
    model      what can be asked for and found, baselines and journal in memory, edits of lines
"""
