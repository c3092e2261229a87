#!/usr/bin/python

# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps settings in a site's slurm.conf, and takes them back line by line."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_conf
short_description: Keep settings in slurm.conf and take them back line by line
version_added: 1.0.0
description:
  - Changes single settings of C(slurm.conf), each in the file in which it lives, also in one that it includes.
    Comments, order, spacing and all other lines stay as they are.
  - Reads the file as Slurm does, with continued lines, escapes, C(Include) and the rule of the release on which of
    several lines counts. A file that Slurm would refuse is not touched; the error names file and line.
  - The result is judged by Slurm's own parser (C(scontrol show hostnames) with the result as its configuration) before
    anything is written. No daemon is needed for that.
  - Before the first change the files enter the record of the host. O(state=restored) undoes our changes line by line,
    so that what the site has changed since stays. The same happens to a setting that is no longer named.
  - One call names all settings that this host shall have.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._slurm
  - converged.hpc._record
options:
  settings:
    description:
      - What keys shall say. Lines that define something (C(NodeName), C(PartitionName), C(Include)) are refused.
    type: list
    elements: dict
    default: []
    suboptions:
      key:
        description:
          - The key, in any case.
        type: str
        required: true
      value:
        description:
          - The value, without quotes.
        type: str
        required: true
      action:
        description:
          - V(set) makes it the value of the key.
          - V(add) makes it one of the lines of a key that may stand on several. Before Slurm 24.05, C(Prolog),
            C(Epilog), C(PrologSlurmctld) and C(EpilogSlurmctld) may not.
          - V(merge) adds the words of a comma list to those of the site. Combinations of C(PrologFlags) that Slurm
            refuses are an error that names them.
          - V(remove) removes every line with this value.
        type: str
        choices: [set, add, merge, remove]
        default: set
  state:
    description:
      - V(present) keeps the settings; V(restored) undoes all that this module has changed on this host, which needs
        neither a running controller nor a readable C(slurm.conf).
      - V(restored) with O(reconfigure=true) fails while C(slurm.conf) names scripts in C(/etc/converged/slurm).
      - V(absent) is an older word for V(restored).
    type: str
    choices: [present, restored, absent]
    default: present
  path:
    description:
      - The path of C(slurm.conf). By default the controller is asked.
    type: path
  reconfigure:
    description:
      - Whether to give C(scontrol reconfigure) when the controller does not follow the files yet, also where an earlier
        run was interrupted.
    type: bool
    default: false
  validate:
    description:
      - Whether Slurm's own parser must accept the result first. A host with slurmd alone has no C(scontrol) to ask; set
        it to V(false) there, where the same text was accepted on the controller.
    type: bool
    default: true
attributes:
  check_mode:
    description: Reads, plans and validates, and writes nothing.
    support: full
  diff_mode:
    description: Shows the changed lines of each file. With O(state=restored) it shows the steps only.
    support: partial
  idempotent:
    description: A second run changes nothing, unless a key needs a restart of Slurm that was not given.
    support: full
seealso:
  - module: converged.hpc.slurm_info
"""

EXAMPLES = r"""
- name: Run our scripts beside those of the site
  converged.hpc.slurm_conf:
    settings:
      - {key: Prolog, value: /usr/local/lib/converged/prolog, action: add}
      - {key: Epilog, value: /usr/local/lib/converged/epilog, action: add}
      - {key: PrologFlags, value: "Alloc,DeferBatch", action: merge}
    reconfigure: true
  become: true

- name: Take all of it back
  converged.hpc.slurm_conf:
    state: restored
    reconfigure: true
  become: true
"""

RETURN = r"""
conf_path:
  description: The main file.
  returned: with O(state=present)
  type: str
  sample: /etc/slurm/slurm.conf
edits:
  description: The lines that were changed, one edit after the other; C(line) counts from 1.
  returned: with O(state=present)
  type: list
  elements: dict
  sample:
    - path: /etc/slurm/slurm.conf
      line: 12
      before: ["PrologFlags=X11\n"]
      after: ["PrologFlags=X11,Alloc,DeferBatch\n"]
digests:
  description: SHA-256 of every file as the module leaves it, so that copies on several hosts can be compared.
  returned: with O(state=present)
  type: dict
  sample: {/etc/slurm/slurm.conf: 9f86d081884c7d65}
steps:
  description: What was done to files, or in check mode would be done.
  returned: always
  type: list
  elements: str
  sample: [edit /etc/slurm/slurm.conf]
proved:
  description: What equals the state before our first change again.
  returned: with O(state=restored)
  type: list
  elements: str
site:
  description: What the site has changed since; its changes were kept.
  returned: with O(state=restored)
  type: list
  elements: str
left:
  description: What could not be put back, with the reason.
  returned: with O(state=restored)
  type: list
  elements: str
pending:
  description: Keys whose value in the files the controller does not follow yet.
  returned: with O(reconfigure=true)
  type: list
  elements: str
restart_needed:
  description: Keys that it did not follow after C(scontrol reconfigure) either.
  returned: with O(reconfigure=true)
  type: list
  elements: str
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.converged.hpc.plugins.module_utils import _programs, _states
from ansible_collections.converged.hpc.plugins.module_utils._record.host.host import Host
from ansible_collections.converged.hpc.plugins.module_utils._record.model.errors import RecordError
from ansible_collections.converged.hpc.plugins.module_utils._record.run.session import Session
from ansible_collections.converged.hpc.plugins.module_utils._slurm import apply, ours
from ansible_collections.converged.hpc.plugins.module_utils._slurm.client import ARGUMENT_SPEC, Slurm
from ansible_collections.converged.hpc.plugins.module_utils._slurm.conf import model as slurm_conf
from ansible_collections.converged.hpc.plugins.module_utils._slurm.conf.edits import Wish
from ansible_collections.converged.hpc.plugins.module_utils._slurm.conf.model import SCRIPT_KEYS, Conf
from ansible_collections.converged.hpc.plugins.module_utils._slurm.errors import ConfError, SlurmError
from ansible_collections.converged.hpc.plugins.module_utils._slurm.running import pending

Result = t.Dict[str, t.Any]

_SPEC: t.Dict[str, t.Any] = {
    "settings": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "key": {"type": "str", "required": True, "no_log": False},
            "value": {"type": "str", "required": True},
            "action": {"type": "str", "choices": ["set", "add", "merge", "remove"], "default": "set"},
        },
    },
    "state": {"type": "str", "choices": ["present", "restored", "absent"], "default": "present"},
    "path": {"type": "path"},
    "reconfigure": {"type": "bool", "default": False},
    "validate": {"type": "bool", "default": True},
    "record_dir": {"type": "path", "default": "/var/lib/converged/record"},
    **ARGUMENT_SPEC,
}


def keep(session: Session, slurm: Slurm, conf: Conf, params: Result, *, check: bool) -> t.Tuple[Result, Conf]:
    """Write the settings into the files; return what changed, and the files as they are then."""
    wishes = [Wish(item["action"], item["key"], item["value"]) for item in params["settings"]]
    plan, outcome = apply.converge(session, slurm, conf, wishes, check=check, validate=params["validate"])
    result: Result = {
        "changed": outcome.changed,
        "steps": outcome.steps,
        "edits": [
            {
                "path": edit.path,
                "line": edit.index + 1,
                "before": [apply.printable(line) for line in edit.before],
                "after": [apply.printable(line) for line in edit.after],
            }
            for edit in plan.edits
        ],
        "diff": [{"prepared": apply.hunks(conf.files[path], text)} for path, text in plan.changed.items()],
    }
    if check:
        return result, slurm_conf.loaded_from(conf, plan.changed)
    # What an earlier call had changed and nobody wishes any more has gone back, which is in no plan of the text before.
    return result, slurm_conf.load(conf.path, release=conf.release, read=apply.read)


def take_back(session: Session, *, check: bool) -> Result:
    """Put everything back as it was, except for what the site has changed since."""
    report = session.restore(apply.ROLE, check=check)
    return {
        "changed": bool(report.steps),
        "steps": report.steps,
        "proved": report.proved,
        "site": report.site,
        "left": report.left,
    }


def follow(slurm: Slurm, conf: Conf, keys: t.Sequence[str], *, check: bool) -> Result:
    """Whether the controller follows the files; has it read them again where it does not."""
    late = pending(conf, slurm.config(), keys)
    needed = apply.follow(slurm, conf, keys) if late and not check else []
    return {"pending": late, "restart_needed": needed}


def run(module: AnsibleModule) -> Result:
    """One call: read, plan, write, have it followed."""
    params, check = module.params, module.check_mode
    slurm = Slurm(
        bin_dir=_programs.slurm_bin_dir(params["bin_dir"]), conf_path=params["path"], timeout=params["timeout"]
    )
    session = Session(Host(), params["record_dir"], holder="slurm_conf")
    if params["state"] == "present":
        result, conf = keep(session, slurm, apply.load(slurm, params["path"]), params, check=check)
        result.update(conf_path=conf.path, digests=apply.digests(conf))
    else:
        # The record is enough for the way back: neither a daemon nor a readable slurm.conf is needed for it.
        result = take_back(session, check=check)
    if params["reconfigure"]:
        if params["state"] == "restored":
            conf = apply.load(slurm, params["path"])
            # Another host, or a program of the site, has written them, so this record does not have them. Without these
            # scripts Slurm would drain each node at its next job.
            named = [] if check else ours.named(conf)
            if named:
                raise ConfError(
                    f"{conf.path} goes on naming scripts of converged.hpc, as the record of this host does not have"
                    f" these settings: {', '.join(named)}. Take them out, and run this again"
                )
        keys = {
            key.lower(): key for key in [*(item["key"] for item in params["settings"]), *SCRIPT_KEYS, "PrologFlags"]
        }
        result.update(follow(slurm, conf, sorted(keys.values()), check=check))
        result["changed"] = result["changed"] or bool(result["pending"])
    return result


def main() -> None:
    """Write the settings of Slurm, or fail with one line."""
    module = AnsibleModule(argument_spec=_SPEC, supports_check_mode=True)
    _states.settle(module, {"absent": "restored"})
    try:
        result = run(module)
    except (SlurmError, RecordError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
