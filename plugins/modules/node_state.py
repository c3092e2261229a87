#!/usr/bin/python
# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a node as a role wants it, or as it was before; documentation here, everything else in `_record`."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_state
short_description: Change a node, and change it back
version_added: 1.0.0
description:
  - Puts files, directories, links, edited lines, units, sysctls, kernel modules and packages of one role in place,
    in one call.
  - What was there before is recorded on the node before anything is changed, and O(state=restored) puts it back.
  - The call says all that the role wants. What the role asked for earlier and does not ask for now is put back.
  - The order is packages, kernel modules, sysctls, directories, files, lines, links, absent, daemon-reload, units.
    A restore goes the other way.
  - Every error that can be found by looking is found before anything is changed.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
attributes:
  check_mode:
    description: Says all that it would do and changes nothing. What only doing can tell is not foretold, namely
      which other packages a package needs, and what O(files[].validate) says. Packages that the node could not install
      are refused.
    support: full
  diff_mode:
    description: Shows texts up to 64 KiB before and after, and digests of everything else. Secrets are never shown.
    support: full
  idempotent:
    description: A second call changes nothing.
    support: full
options:
  state:
    description:
      - V(present) makes the node as the other options say.
      - V(restored) makes it as it was before O(role) changed it, or before any role did where O(role) is not given.
    type: str
    choices: [present, restored]
    default: present
  role:
    description: The section of the record. Two roles cannot claim the same file; they may share a directory, edit
      lines of one file, or want the same unit, package or sysctl value. Required with O(state=present).
    type: str
  record_dir:
    description: Where the record lies on the node. Root-only. The directory above it must exist, unless it is named
      C(converged), which is made and removed with it.
    type: path
    default: /var/lib/converged/record
  record_copy_dir:
    description:
      - Where a copy of every node's record lies on the controller, in a folder for each host.
      - The default is the variable C(converged_record_copy_dir), and otherwise C(~/.local/state/converged.hpc/record).
    type: path
  packages:
    description: Packages to install where they are missing, as C(name) or C(name=version). One that the site
      installed is never upgraded, downgraded or removed.
    type: list
    elements: str
    default: []
  kernel_modules:
    description: Kernel modules to load, now and at every boot.
    type: list
    elements: str
    default: []
  sysctls:
    description: Kernel settings, now and at every boot.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Such as V(net.ipv4.ip_forward).
        type: str
        required: true
      value:
        description: Its value, as text.
        type: str
        required: true
  directories:
    description: Directories. Missing ones above them are made with mode V(0755).
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Absolute path.
        type: str
        required: true
      owner:
        description: User name or number. An existing directory keeps its own where this is not given.
        type: str
      group:
        description: Group name or number. An existing directory keeps its own where this is not given.
        type: str
      mode:
        description: Octal digits in quotes. An existing directory keeps its own where this is not given, a new one
          gets V(0755).
        type: str
  files:
    description: Whole files. Content is sent only where the node does not have it, in one bundle and never as an
      argument. An existing file keeps owner, mode, ACLs, other extended attributes and SELinux context where nothing
      else is asked.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Absolute path. Where it is a link that root made, the file it leads to is written, and the link
          stays.
        type: str
        required: true
      src:
        description: A file on the controller, or a directory, of which every file below is put below O(files[].path).
        type: path
      content:
        description: The content itself, instead of O(files[].src). What is not text is written as JSON.
        type: raw
      owner:
        description: User name or number.
        type: str
      group:
        description: Group name or number.
        type: str
      mode:
        description: Octal digits in quotes. A new file gets V(0644), or V(0600) where it is secret.
        type: str
      secret:
        description: Never show the content, in no diff, log or error.
        type: bool
        default: false
      validate:
        description: A command that checks the new content before anything is put in place, as a list of words. C(%s)
          stands for the file.
        type: list
        elements: str
  lines:
    description: Edits of single lines in files that belong to the site. They are undone line by line, so that what
      the site changes in the file later stays.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Absolute path.
        type: str
        required: true
      line:
        description: The line, without its end. It is added at the end of the file where it is missing.
        type: str
      regexp:
        description: The line that this finds is replaced. It must not find more than one.
        type: str
      state:
        description: V(absent) removes every line that equals O(lines[].line), or that O(lines[].regexp) finds.
        type: str
        choices: [present, absent]
        default: present
      create:
        description: Make the file where there is none.
        type: bool
        default: false
      secret:
        description: Never show this file's lines.
        type: bool
        default: false
  links:
    description: Symbolic links. What is there and is not ours is never replaced.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Absolute path.
        type: str
        required: true
      target:
        description: Where it points.
        type: str
        required: true
  absent:
    description: Files, links and empty directories to take away.
    type: list
    elements: str
    default: []
  units:
    description: Units of systemd. A unit is restarted when its inputs are not those of its last successful start, so
      that a run that was interrupted loses no restart. One that ran before, and whose inputs nobody had to change,
      is left alone.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Its name; V(.service) is added to a name without a dot.
        type: str
        required: true
      state:
        description: Left as it is where this is not given.
        type: str
        choices: [started, stopped]
      enabled:
        description: Left as it is where this is not given.
        type: bool
      restart_on:
        description: Its inputs, as paths; a directory means all items of this call below it. The default, for a unit
          that is to be started, is every file, edit, link and removal of this call except unit files and drop-ins of
          other units. Changes of packages, sysctls and kernel modules never restart a unit.
        type: list
        elements: str
  _sent:
    description: What the action plugin tells the module; a playbook cannot set it.
    type: dict
    default: {}
  _lines:
    description: Lines that must not be shown, from the action plugin; a playbook cannot set it.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Put a container runtime in place
  converged.hpc.node_state:
    role: node_runtime
    packages: [containerd]
    kernel_modules: [overlay, br_netfilter]
    sysctls:
      - {name: net.ipv4.ip_forward, value: "1"}
    files:
      - path: /etc/containerd/config.toml
        content: "{{ lookup('ansible.builtin.template', 'config.toml.j2') }}"
        mode: "0644"
      - path: /etc/containerd/registry.key
        src: registry.key
        secret: true
    units:
      - {name: containerd, state: started, enabled: true}

- name: Say what it would take to put everything back
  converged.hpc.node_state:
    state: restored
  check_mode: true
"""

RETURN = r"""
plan:
  description: What was done, or would be, in its order.
  returned: success
  type: list
  elements: str
  sample:
    - write /etc/containerd/config.toml (1204 bytes)
    - "restart containerd.service: /etc/containerd/config.toml changes"
restarted:
  description: Units that were started or restarted.
  returned: O(state=present)
  type: list
  elements: str
kept:
  description:
    - Where the site's versions of files lie that were written again.
    - What the site makes of a file of ours is put aside before it is written or removed.
  returned: O(state=present)
  type: list
  elements: str
uploaded:
  description: How many contents were sent, and their bytes.
  returned: O(state=present)
  type: dict
  sample: {contents: 1, bytes: 1204}
report:
  description: What a restore proved and what it did not.
  returned: O(state=restored)
  type: dict
  contains:
    proved:
      description: Things that were read again afterwards and are as they were.
      type: list
      elements: str
    site:
      description: What the site changed since, and which stays as the site has it.
      type: list
      elements: str
    kept:
      description: Where the site's version of a file lies that was put back as a whole.
      type: list
      elements: str
    left:
      description: What is ours and could not be put back, with the reason. Call again when it is settled.
      type: list
      elements: str
    shared:
      description: What other roles still want.
      type: list
      elements: str
    found_record:
      description: Whether there was a record in O(record_dir).
      type: bool
    roles:
      description: The roles that the record knows, those that hold nothing any more among them.
      type: list
      elements: str
    not_checked:
      description: What a restore never looks at.
      type: list
      elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.converged.hpc.plugins.module_utils._record.model.errors import RecordError
from ansible_collections.converged.hpc.plugins.module_utils._record.request.argument_spec import (
    ARGUMENT_SPEC,
    SENT_SPEC,
)
from ansible_collections.converged.hpc.plugins.module_utils._record.run.module_result import answer


def main():
    """Hands the arguments over and turns an error into a failure."""
    module = AnsibleModule(argument_spec=dict(ARGUMENT_SPEC, **SENT_SPEC), supports_check_mode=True)
    try:
        result = answer(module.params, check=module.check_mode, diff=module._diff)  # pylint: disable=protected-access
    except (RecordError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
