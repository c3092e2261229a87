# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Ansible says, in short: its output is for logs, and a person wants to know who changes and what. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

_RESULT = re.compile(r"(?:ok|changed|skipping|failed|fatal): \[(\S+?)(?: -> (\S+?))?\]")
_THING = re.compile(r"\+\+\+ (?:after: )?(.+)")
_TOGETHER = re.compile(r"on (\S+), \d+ hosts?: (.+)")
_RECAP = re.compile(r"(\S+) +: ok=(\d+) +changed=(\d+) +unreachable=(\d+) +failed=(\d+) ")
_VERDICT = re.compile(r"(?:warn|note|refuse) \[|(?:fit (?:to|for) .*|refused|left out of this run|not judged): ")
_EXAMPLE = re.compile(r"^    ansible-playbook -i \S+ converged\.hpc\.(\w+(?: --\w+)*)", re.MULTILINE)
_PROVED = re.compile(r'"proved": "(.+)"')


def plan(text: str) -> list[str]:
    """For each host what would change, folded by folder; then the lines of slurm.conf, as they are."""
    things: dict[str, dict[str, None]] = {}
    waiting: list[str] = []
    conf: list[str] = []
    diff: list[str] | None = None
    together = False
    for line in text.splitlines():
        if found := _TOGETHER.match(line):
            things.setdefault(found[1], {}).update(dict.fromkeys(found[2].split(", ")))
            together, conf = True, conf or diff or []
            diff = [] if found[2].endswith("/slurm.conf") else None
        elif found := _RESULT.match(line):
            # What is done elsewhere for a host is not done to that host: the cluster's objects are nobody's files.
            owner = "Kubernetes" if found[2] else found[1]
            things.setdefault(owner, {}).update(dict.fromkeys(waiting))
            waiting, conf, diff, together = [], conf or diff or [], None, False
        elif found := _THING.match(line):
            if together:
                continue
            waiting.append(found[1])
            diff = [] if found[1].endswith("/slurm.conf") else None
        elif diff is not None and line[:1] in "+-" and line and not (together and line.startswith("--- ")):
            diff.append(f"      {line}")
    made = []
    for names in dict.fromkeys(tuple(names) for _host, names in sorted(things.items()) if names):
        hosts = [host for host, others in sorted(things.items()) if tuple(others) == names]
        made += [f"    {', '.join(hosts)}: {len(names)} things", *(f"      {line}" for line in folded(names))]
    return [*made, "    slurm.conf, the same on every host:", *conf] if conf else made


def folded(names: Sequence[str]) -> list[str]:
    """A line for each kind of things; of files, only where they lie."""
    kinds: dict[str, list[str]] = {}
    for name in names:
        word, _space, rest = name.partition(" ")
        if rest:
            kinds.setdefault(f"{word}s", []).append(rest)
        elif name.startswith("/"):
            kinds.setdefault("files and folders", []).append(name)
    made = []
    for kind, found in kinds.items():
        if kind == "files and folders":
            kind, found = (
                f"{len(found)} files and folders in",
                sorted({"/".join(path.split("/")[:4]) for path in found}),
            )
            found = [path for path in found if not any(path.startswith(f"{other}/") for other in found)]
        made.append(f"{kind}: {', '.join(found)}".replace(" in:", " in"))
    return made


def verdicts(text: str) -> list[str]:
    """What the check before says of each host."""
    return [f"    {line}" for line in text.splitlines() if _VERDICT.match(line)]


def play(line: str) -> str:
    """The name of the play that begins with this line; nothing for other lines."""
    found = re.match(r"PLAY \[(.+)\]", line)
    return found[1] if found else ""


def recap(text: str) -> dict[str, tuple[int, int]]:
    """By host: what changed, and what failed."""
    return {row[1]: (int(row[3]), int(row[4]) + int(row[5])) for row in map(_RECAP.match, text.splitlines()) if row}


def proofs(text: str) -> list[str]:
    """The proof of each host, from what `restore` prints."""
    host, made = "", []
    for line in text.splitlines():
        if found := _RESULT.match(line):
            host = found[1]
        elif found := _PROVED.search(line):
            made.append(f"    {host}: {found[1]}")
    return sorted(made)


def promised(readme: str) -> list[str]:
    """The playbooks of README's example, with their options, in its order."""
    return _EXAMPLE.findall(readme)
