# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m mutations list|apply|run`."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mutations.faults import LAYERS, Fault, FaultError, chosen, read_faults, with_fault
from mutations.judging import Verdict, judge, run, tail
from mutations.level import fast, hinted, on_beds
from mutations.tree import CHECKOUT, Tree, scratch_tree

EXAMPLES = """\
examples:
  sh tests/bootstrap/enter.sh exec python -m mutations list
  ... python -m mutations run                            every fault, on the fast level
  ... python -m mutations run state kube-lease-conflict  a layer and a single fault
  ... python -m mutations run --hints-only               only the files that should notice
  ... python -m mutations run --control                  the fast level without a fault: it must pass
  ... python -m mutations run --level e2e playbooks      what looks at these on test beds
  ... python -m mutations apply hook-undo /tmp/broken    a copy with the fault, to look at by hand

exit status of run: 0 every fault was found, or only tests on beds can see it; 1 a fault survived that a fast test
should find, or a verdict is unsure; 2 the command line or the list is wrong"""


def main(arguments: Sequence[str]) -> int:
    """Run the command; errors of the list or the command line are told in one line."""
    shape: dict[str, Any] = {"epilog": EXAMPLES, "formatter_class": argparse.RawDescriptionHelpFormatter}
    about = "Puts faults into a copy of the checkout, one at a time, and says which test finds each."
    parser = argparse.ArgumentParser(prog="mutations", description=about, **shape)
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="show the faults and check that each still applies", **shape)
    listing.add_argument("names", nargs="*", metavar="ID", help=f"ids or layers ({', '.join(LAYERS)})")
    applying = commands.add_parser("apply", help="make a copy of the checkout with one fault in it", **shape)
    applying.add_argument("name", metavar="ID")
    applying.add_argument("folder", metavar="FOLDER", type=Path, help="where the copy goes; it must not exist")
    running = commands.add_parser("run", help="run the tests against each fault", **shape)
    running.add_argument("names", nargs="*", metavar="ID", help=f"ids or layers ({', '.join(LAYERS)}); none: all")
    running.add_argument("--level", choices=["fast", "e2e"], default="fast", help="fast: no bed (the default)")
    running.add_argument("--hints-only", action="store_true", help="do not run the whole level where no hint fails")
    running.add_argument("--control", action="store_true", help="run the fast level once without any fault")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        faults = read_faults()
        if options.command == "list":
            return show(chosen(faults, options.names))
        if options.command == "apply":
            return apply(chosen(faults, [options.name]), options.folder)
        given = chosen(faults, options.names)
        check(given)
        if options.control:
            return with_tree(control)
        return with_tree(lambda tree: run_all(given, tree, level=options.level, hints_only=options.hints_only))
    except FaultError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def check(faults: Sequence[Fault], checkout: Path = CHECKOUT) -> None:
    """Raise FaultError for the first fault that does not apply to the checkout as it is."""
    for fault in faults:
        if not (checkout / fault.file).is_file():
            raise FaultError(f"{fault.id}: there is no file {fault.file}")
        with_fault(fault, (checkout / fault.file).read_text(encoding="utf-8"))


def show(faults: Sequence[Fault]) -> int:
    """Print the faults, by layer."""
    check(faults)
    for layer in LAYERS:
        those = [fault for fault in faults if fault.layer == layer]
        if those:
            print(f"{layer} ({len(those)})")
        for fault in those:
            print(f"  {fault.id:32} {fault.file}\n      {fault.breaks}")
    print(f"{len(faults)} faults")
    return 0


def apply(faults: Sequence[Fault], folder: Path) -> int:
    """Make a copy with one fault in it, and say how to use it."""
    if len(faults) != 1:
        raise FaultError("apply takes the id of one fault, and no layer")
    if folder.exists():
        raise FaultError(f"{folder} exists already: name a folder that does not")
    check(faults)
    tree = Tree(folder.absolute())
    tree.fill()
    tree.apply(faults[0])
    print(f"{faults[0].id}: {faults[0].breaks}")
    differs = ["git", "diff", "--", faults[0].file]
    print(subprocess.run(differs, cwd=tree.checkout, capture_output=True, text=True, timeout=60, check=True).stdout)
    print(f"the copy: {tree.checkout}\nits tests: cd {tree.checkout} && sh tests/bootstrap/enter.sh exec pytest ...")
    return 0


def with_tree(work: Callable[[Tree], int]) -> int:
    """Do the work with a scratch copy that goes away afterwards."""
    if "CONVERGED_OWN_CACHE" not in os.environ:
        raise FaultError("start it by: sh tests/bootstrap/enter.sh exec python -m mutations run ...")
    tree = scratch_tree(os.environ)
    try:
        return work(tree)
    finally:
        tree.remove()


def control(tree: Tree) -> int:
    """Run the fast level without a fault: what fails here finds nothing."""
    environ, failed = tree.environ(os.environ), 0
    for command in fast(tree.checkout):
        ran = run(command, tree.checkout, environ)
        failed += not ran.passed
        print(f"{command.what}: {'passed' if ran.passed else 'FAILED'} in {ran.seconds:.0f} s", flush=True)
        if not ran.passed:
            print(tail(ran, 25), flush=True)
    return 1 if failed else 0


def run_all(faults: Sequence[Fault], tree: Tree, *, level: str, hints_only: bool) -> int:
    """Judge each fault, say so at once, and end with a table."""
    environ, verdicts = tree.environ(os.environ), []
    began = time.monotonic()
    for number, fault in enumerate(faults, 1):
        commands = list(on_beds(fault)) if level == "e2e" else list(hinted(fault, tree.checkout))
        if level == "fast" and not hints_only:
            commands += fast(tree.checkout)
        if not commands:
            print(f"[{number}/{len(faults)}] {fault.id}: no test is named for it on this level", flush=True)
            continue
        verdict = judge(fault, tree, commands, environ)
        verdicts.append(verdict)
        print(f"[{number}/{len(faults)}] {fault.id}: {verdict.told()} ({verdict.seconds:.1f} s)", flush=True)
    print(table(verdicts, seconds=time.monotonic() - began, level=level))
    return 1 if any(is_amiss(verdict, level=level) for verdict in verdicts) else 0


def is_amiss(verdict: Verdict, *, level: str) -> bool:
    """Return whether a test is missing or unsound: on the fast level, faults that only beds can show may survive."""
    return not verdict.found and (bool(verdict.unsure) or level == "e2e" or not verdict.fault.beyond)


def table(verdicts: Sequence[Verdict], *, seconds: float, level: str) -> str:
    """Return all verdicts as lines, and the counts."""
    lines = ["", f"{'fault':32} {'layer':10} {'seconds':>7}  verdict"]
    for verdict in verdicts:
        fault = verdict.fault
        beyond = level == "fast" and not verdict.found and fault.beyond
        told = verdict.told().splitlines()[0] + (f"; seen by {', '.join(fault.beyond)}" if beyond else "")
        lines.append(f"{fault.id:32} {fault.layer:10} {verdict.seconds:7.1f}  {told}")
    for layer in LAYERS:
        those = [verdict for verdict in verdicts if verdict.fault.layer == layer]
        if those:
            lines.append(f"{layer}: {sum(verdict.found for verdict in those)} of {len(those)} found")
    found, unsure = sum(verdict.found for verdict in verdicts), sum(bool(verdict.unsure) for verdict in verdicts)
    counts = f"{found} found, {len(verdicts) - found - unsure} survived"
    lines.append(counts + (f", {unsure} unsure" if unsure else "") + f"; {seconds:.0f} s")
    return "\n".join(lines)
