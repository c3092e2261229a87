# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`pbs_python` of the double: runs one hook for one event, and writes down how it ended."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pbs_double import hook_api, hook_input


def run(host: str, folder: str, arguments: list[str]) -> int:
    """The event and the program come from files, the outcome goes into one."""
    _hook, _input, told, _output, outcome, more = arguments
    given = json.loads(Path(more).read_text())
    given["own"], given["listed"] = hook_input.read(Path(told).read_text())
    home, hook = Path(given["home"]), given["hook"]
    tests = sys.path.pop(0)
    assert Path(__file__).is_relative_to(tests)
    module = hook_api.made(given)
    hook_api.install(module)
    event = module.event()
    sys.argv[:] = [""]
    try:
        # without a name of its own the program sees that of the builtins, as in PBS
        exec(compile(Path(given["script"]).read_bytes(), "<embedded code object>", "exec"), {})
    except SystemExit:
        pass
    except Exception as error:  # noqa: BLE001  whatever the hook lets through
        event.outcome = "error"
        said = f"{given['event']} hook '{hook}' encountered an exception, request rejected"
        for text in (type(error), error):
            internal = f"PBS server internal error (15011) in Error evaluating Python script, {text}"
            hook_api.write_log(home, "0001", "pbs_python", "Svr", "pbs_python", internal)
        hook_api.write_log(home, "0100", "pbs_python", "Hook", hook, said)
    ended = {"outcome": event.outcome, "message": event.message, "vnodes": hook_api.changes(module)}
    Path(outcome).write_text(json.dumps(ended))
    return 0
