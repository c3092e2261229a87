# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: `python -m testbed`. Says which commands there are; `commands` does them."""

from __future__ import annotations

import argparse
import errno
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from testbed import commands, layout, privilege
from testbed.errors import BedError
from testbed.paths import cache_dir
from testbed.recipe import DEFAULT_DEBIAN, SUITES

DEFAULT_WAIT = 300.0


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
        description="Real Slurm or a double of PBS or Torque, Kubernetes and nodes as containers on this machine.",
        examples=["testbed up --nodes 8 --no-kube", "testbed exec bed n1 -- sinfo", "testbed down bed"],
    )
    names = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    for command in COMMANDS:
        made: Parser = names.add_parser(
            command.name, help=command.help, description=f"{command.help.capitalize()}.", examples=command.examples
        )
        made.set_defaults(run=command.run, root=command.root)
        command.add_arguments(made)
    return top


def add_supplies(supplies: Parser) -> None:
    supplies.add_argument(
        "--for",
        dest="purpose",
        default="all",
        metavar="demo|all",
        help="what the demo's bed is made of, or all that any bed is (default: %(default)s)",
    )


def add_status(status: Parser) -> None:
    status.add_argument("name", nargs="?", help="the bed (default: all beds)")
    status.add_argument("--json", action="store_true", help="for programs")
    status.add_argument("--verify", action="store_true", help="also read and hash all of the built Kubernetes programs")


def add_exec(execute: Parser) -> None:
    add_name(execute)
    execute.add_argument("host", help="n1, n2, ..., ctl or kube")
    execute.add_argument("argv", nargs=argparse.REMAINDER, metavar="-- ARGV", help="the command and its arguments")


def add_join(join: Parser) -> None:
    add_name(join)
    join.add_argument("nodes", nargs="*", metavar="NODE", help="which nodes (default: all)")


def add_load(load: Parser) -> None:
    add_name(load)
    load.add_argument("--nodes", type=int, default=5000, metavar="N", help="how many (default: %(default)s)")
    load.add_argument("--kind", default="plain", metavar="plain|kwok", help="on kwok nodes pods seem to run")
    load.add_argument("--remove", action="store_true", help="take them away again")


def add_down(down: Parser) -> None:
    which = down.add_mutually_exclusive_group(required=True)
    which.add_argument("name", nargs="?", help="the bed")
    which.add_argument("--all", action="store_true", help="every bed")


UP_EXAMPLES = (
    "testbed up",
    "testbed up --name big --nodes 8 --no-kube",
    "testbed up --name site --slurm-conf configless --slurmdbd",
    "testbed up --name plain --wlm none --debian 13",
    "testbed up --name ha --controllers 2",
    "testbed up --name pbs --wlm pbs",
    "testbed up --name torque --wlm torque",
    "testbed up --name kernel --vm --nodes 1",
)


def add_up(up: Parser) -> None:
    """The options of `up`."""
    up.add_argument("--name", default=layout.DEFAULT_NAME, help="name of the bed (default: %(default)s)")
    up.add_argument("--nodes", type=int, default=2, metavar="N", help="batch nodes n1..nN (default: %(default)s)")
    up.add_argument(
        "--controllers", type=int, default=1, metavar="N", help="hosts of the batch controller, a backup from 2 on"
    )
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
    up.add_argument("--vm", action="store_true", help="nodes are virtual machines with a kernel of their own (slow)")
    up.add_argument(
        "--security", default="", metavar="selinux", help="with --vm: Debian's policy of SELinux, permissive"
    )
    up.add_argument("--bin-dir", type=Path, metavar="FOLDER", help="use these Kubernetes programs, build none")
    up.add_argument("--subnet", metavar="CIDR", help="network of the bed (default: a free /24)")
    up.add_argument(
        "--wait",
        type=float,
        default=DEFAULT_WAIT,
        metavar="SECONDS",
        help="for the batch system (default: %(default)s)",
    )


def add_name(command: Parser) -> None:
    """The bed that a command is about."""
    command.add_argument("name", help="the bed")


@dataclass(frozen=True, slots=True)
class Command:
    """One word of the command line: what it says of itself, what carries it out, and whether that needs root."""

    name: str
    help: str
    run: Callable[[argparse.Namespace], int]
    root: bool
    add_arguments: Callable[[Parser], None]
    examples: tuple[str, ...]


COMMANDS = (
    Command("up", "bring a bed up", commands.up, True, add_up, UP_EXAMPLES),
    Command(
        "supplies",
        "fill the caches with the programs and images that beds are made of; quick when they are there",
        commands.fill_caches,
        True,
        add_supplies,
        ("testbed supplies", "testbed supplies --for demo", "nice testbed supplies &"),
    ),
    Command(
        "status",
        "show what every part does right now; exit status 1 where one is not as it should be",
        commands.show_status,
        True,
        add_status,
        ("testbed status", "testbed status bed --json", "testbed status --verify"),
    ),
    Command(
        "inventory",
        "print the Ansible inventory",
        commands.show_inventory,
        False,
        add_name,
        ("testbed inventory bed > hosts.yml && ansible -i hosts.yml all -m ping",),
    ),
    Command(
        "exec",
        "run a command as root on a host; its input, outputs and exit status are yours",
        commands.execute,
        True,
        add_exec,
        ("testbed exec bed n1 -- systemctl status slurmd", "echo hi | testbed exec bed ctl -- cat"),
    ),
    Command(
        "logs",
        "gather the logs of all components in one folder and print its name",
        commands.gather_logs,
        True,
        add_name,
        ("testbed logs bed",),
    ),
    Command(
        "join",
        "make plain nodes nodes of the cluster too, by hand",
        commands.join_nodes,
        True,
        add_join,
        ("testbed join bed n1", "testbed join bed"),
    ),
    Command(
        "load",
        "add thousands of nodes without machines behind them, for schedulers",
        commands.load_nodes,
        True,
        add_load,
        ("testbed load bed", "testbed load bed --nodes 1000 --kind kwok", "testbed load bed --remove"),
    ),
    Command(
        "down",
        "remove a bed and everything that `up` made for it",
        commands.down,
        True,
        add_down,
        ("testbed down bed", "testbed down --all"),
    ),
)


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
        print(f"testbed: {explained(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("testbed: interrupted", file=sys.stderr)
        return 130


def explained(error: OSError) -> str:
    """A file that could not be read or written, and what to do."""
    name = str(error.filename or "a file")
    if error.errno == errno.ENOSPC:
        return f"{name}: the disk is full; make room"
    advice = "; set CONVERGED_CACHE to a folder that can be made" if name.startswith(str(cache_dir())) else ""
    return f"{name}: {error.strerror or error}{advice}"


def stop(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends us as Ctrl-C does: with everything cleaned up."""
    raise KeyboardInterrupt
