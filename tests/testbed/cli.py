# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: `python -m testbed`. Says which commands there are; `commands` does them."""

from __future__ import annotations

import argparse
import errno
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from testbed import commands, layout, privilege
from testbed.errors import BedError
from testbed.recipe import DEFAULT_DEBIAN, SUITES

DEFAULT_WAIT = 120.0


class Parser(argparse.ArgumentParser):
    """argparse with errors in one line, and examples below every help text."""

    def __init__(self, *, examples: Sequence[str] = (), **settings: Any) -> None:
        epilog = "\n".join(["examples:", *(f"  {line}" for line in examples)]) if examples else None
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, epilog=epilog, **settings)

    def error(self, message: str) -> NoReturn:
        print(f"testbed: {message}; see: {self.prog} --help", file=sys.stderr)
        raise SystemExit(2)


def parser() -> Parser:
    """The whole command line."""
    top = Parser(
        prog="testbed",
        description="Real Slurm, Kubernetes and nodes as containers on this machine.",
        examples=["testbed up --nodes 8 --no-kube", "testbed exec bed n1 -- sinfo", "testbed down bed"],
    )
    names = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)

    def command(name: str, help: str, run: commands.Command, *, root: bool, examples: Sequence[str]) -> Parser:
        made: Parser = names.add_parser(name, help=help, description=help.capitalize() + ".", examples=examples)
        made.set_defaults(run=run, root=root)
        return made

    add_up(command("up", "bring a bed up", commands.up, root=True, examples=UP_EXAMPLES))

    one = command(
        "status",
        "show what every part does right now; exit status 1 where one is not as it should be",
        commands.show_status,
        root=True,
        examples=["testbed status", "testbed status bed --json", "testbed status --verify"],
    )
    one.add_argument("name", nargs="?", help="the bed (default: all beds)")
    one.add_argument("--json", action="store_true", help="for programs")
    one.add_argument("--verify", action="store_true", help="also read and hash all of the built Kubernetes programs")

    one = command(
        "inventory",
        "print the Ansible inventory",
        commands.show_inventory,
        root=False,
        examples=["testbed inventory bed > hosts.yml && ansible -i hosts.yml all -m ping"],
    )
    add_name(one)

    one = command(
        "exec",
        "run a command as root on a host; its input, outputs and exit status are yours",
        commands.execute,
        root=True,
        examples=["testbed exec bed n1 -- systemctl status slurmd", "echo hi | testbed exec bed ctl -- cat"],
    )
    add_name(one)
    one.add_argument("host", help="n1, n2, ..., ctl or kube")
    one.add_argument("argv", nargs=argparse.REMAINDER, metavar="-- ARGV", help="the command and its arguments")

    one = command(
        "logs",
        "gather the logs of all components in one folder and print its name",
        commands.gather_logs,
        root=True,
        examples=["testbed logs bed"],
    )
    add_name(one)

    one = command(
        "join",
        "make plain nodes nodes of the cluster too, by hand",
        commands.join_nodes,
        root=True,
        examples=["testbed join bed n1", "testbed join bed"],
    )
    add_name(one)
    one.add_argument("nodes", nargs="*", metavar="NODE", help="which nodes (default: all)")

    one = command(
        "load",
        "add thousands of nodes without machines behind them, for schedulers",
        commands.load_nodes,
        root=True,
        examples=["testbed load bed", "testbed load bed --nodes 1000 --kind kwok", "testbed load bed --remove"],
    )
    add_name(one)
    one.add_argument("--nodes", type=int, default=5000, metavar="N", help="how many (default: %(default)s)")
    one.add_argument("--kind", default="plain", metavar="plain|kwok", help="on kwok nodes pods seem to run")
    one.add_argument("--remove", action="store_true", help="take them away again")

    one = command(
        "down",
        "remove a bed and everything that `up` made for it",
        commands.down,
        root=True,
        examples=["testbed down bed", "testbed down --all"],
    )
    which = one.add_mutually_exclusive_group(required=True)
    which.add_argument("name", nargs="?", help="the bed")
    which.add_argument("--all", action="store_true", help="every bed")
    return top


UP_EXAMPLES = (
    "testbed up",
    "testbed up --name big --nodes 8 --no-kube",
    "testbed up --name site --slurm-conf configless --slurmdbd",
    "testbed up --name plain --wlm none --debian 13",
)


def add_up(up: Parser) -> None:
    """The options of `up`."""
    up.add_argument("--name", default=layout.DEFAULT_NAME, help="name of the bed (default: %(default)s)")
    up.add_argument("--nodes", type=int, default=2, metavar="N", help="batch nodes n1..nN (default: %(default)s)")
    up.add_argument("--wlm", default="slurm", metavar="|".join(layout.WLMS), help="batch system (default: %(default)s)")
    up.add_argument(
        "--slurm-conf",
        default="local",
        metavar="|".join(layout.SLURM_CONFS),
        help="where slurm.conf lies: a copy on every host, one folder for all, or the controller only (default: local)",
    )
    up.add_argument("--slurmdbd", action="store_true", help="accounting with MariaDB, for sacct")
    up.add_argument(
        "--kube", action=argparse.BooleanOptionalAction, default=True, help="a control plane (default: yes)"
    )
    up.add_argument(
        "--debian", type=int, default=DEFAULT_DEBIAN, metavar="|".join(map(str, SUITES)), help="release of the nodes"
    )
    up.add_argument("--bin-dir", type=Path, metavar="FOLDER", help="use these Kubernetes programs, build none")
    up.add_argument("--subnet", metavar="CIDR", help="network of the bed (default: a free /24)")
    up.add_argument(
        "--wait", type=float, default=DEFAULT_WAIT, metavar="SECONDS", help="for Slurm (default: %(default)s)"
    )


def add_name(command: Parser) -> None:
    """The bed that a command is about."""
    command.add_argument("name", help="the bed")


def main(arguments: Sequence[str]) -> int:
    """Run one command; the result is the exit status."""
    options = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, stop)
    try:
        if options.root:
            privilege.ensure_root(arguments)
        return options.run(options)  # type: ignore[no-any-return]
    except BedError as error:
        print(f"testbed: {error}", file=sys.stderr)
        return error.exit_status
    except OSError as error:
        reason = "the disk is full; make room" if error.errno == errno.ENOSPC else str(error)
        print(f"testbed: {error.filename or 'a file'}: {reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("testbed: interrupted", file=sys.stderr)
        return 130


def stop(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends us as Ctrl-C does: with everything cleaned up."""
    raise KeyboardInterrupt
