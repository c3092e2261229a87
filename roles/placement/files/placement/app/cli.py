# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: `placement run | check | why | queues | status | graph`."""

import argparse
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from placement.app.endpoints import control_socket, render
from placement.app.endpoints.control_socket import AskError
from placement.app.endpoints.listening import ListenError
from placement.app.endpoints.page import page
from placement.app.process.daemon import Daemon
from placement.app.process.file_limit import LimitError, assure_files
from placement.app.settings.settings import Settings, SettingsError, is_policy, read_policy, read_settings
from placement.app.telemetry.logs import Log
from placement.app.topology import read_topology
from placement.kube.transport.credentials import Credentials, CredentialsError
from placement.policy.plugins.configuration import Configuration

SETTINGS: Final = Path("/etc/converged/placement.yml")
FAILED: Final = 1

_EXAMPLES: Final = """\
examples:
  placement check                             the settings that role placement has written
  placement check kube-batch-conf.yaml        a policy by itself: what it means here
  placement run --settings /etc/converged/placement.yml
  placement why team-a/trainer-0              what the pod waits for
  placement queues                            shares and what waits
  placement status --json
  placement graph show --nodes                zones, racks, nodes, and what is in use
  placement graph show --html > tree.html     a page with racks, nodes, and what holds room
  placement graph dump > cluster.json         the same as JGF, for Fluxion's tools
"""


def main(argv: list[str] | None = None) -> int:
    """One command; errors are one line."""
    options = _parser().parse_args(argv)
    try:
        return int(options.run(options))
    except (SettingsError, CredentialsError, AskError, LimitError, ListenError) as error:
        print(f"placement: {error}", file=sys.stderr)
        return FAILED
    except BrokenPipeError:
        return FAILED
    except OSError as error:
        print(f"placement: {error.filename or 'system'}: {error.strerror or error}", file=sys.stderr)
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="placement",
        description="Places pods in gangs, by queues and shares.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run the daemon in the foreground")
    run.add_argument("--settings", type=Path, metavar="FILE", help=f"settings (default: {SETTINGS}, where it exists)")
    run.set_defaults(run=_run)

    check = commands.add_parser("check", help="check settings or a policy, and say what they mean")
    check.add_argument("file", type=Path, nargs="?", default=SETTINGS, metavar="FILE")
    check.add_argument("--cluster", action="store_true", help="also load the kubeconfig that the settings name")
    check.add_argument("--alone", action="store_true", help="without the policy that the settings name")
    check.set_defaults(run=_check)

    why = commands.add_parser("why", help="say what a pod waits for")
    why.add_argument("pod", type=_pod, metavar="NAMESPACE/POD")
    why.set_defaults(run=_why)
    commands.add_parser("queues", help="show shares, use and what waits").set_defaults(run=_queues)
    commands.add_parser("status", help="show how the daemon is doing").set_defaults(run=_status)
    graph = commands.add_parser("graph", help="show, write or check the tree of racks and nodes")
    graph.add_argument("do", choices=("show", "dump", "check"), help="as text; as JGF; compare it with the pods")
    graph.add_argument("--nodes", action="store_true", help="show each node, too")
    graph.add_argument("--html", action="store_true", help="show a page for a browser, with all nodes")
    graph.set_defaults(run=_graph, refuse=graph.error)
    for name in ("why", "queues", "status", "graph"):
        command = commands.choices[name]
        command.add_argument("--socket", type=Path, default=Path(Settings().socket), metavar="PATH")
        command.add_argument("--json", action="store_true", help="print the answer as it came")
    return parser


def _pod(text: str) -> tuple[str, str]:
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise argparse.ArgumentTypeError(f"{text!r}: write NAMESPACE/POD")
    return namespace, name


def _run(options: argparse.Namespace) -> int:
    path = _there(options.settings) if options.settings else SETTINGS if SETTINGS.exists() else None
    settings = read_settings(path) if path else Settings()
    assure_files(settings.binders)
    log = Log(settings.log_level)
    for sentence in settings.configuration.report:
        log.info(sentence, source="policy")
    status = Daemon(settings, path, log).run()
    # Threads may be in the middle of TLS connections, whose memory must not be freed under them: a process that ended
    # as usual has died of "free(): invalid pointer" instead of giving its status.
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


def _there(path: Path) -> Path:
    if not path.exists():
        raise SettingsError(f"{path}: no such file; name another, or write it: an empty one stands for all defaults")
    return path


def _check(options: argparse.Namespace) -> int:
    _there(options.file)
    if is_policy(options.file):
        _show(read_policy(options.file))
        return 0
    settings = read_settings(options.file, with_policy=not options.alone)
    if not options.alone:
        read_topology(settings)
    if not options.alone:
        _show(settings.configuration)
    if options.cluster:
        Credentials(Path(settings.kubeconfig) if settings.kubeconfig else None)
    print(f"{options.file}: good")
    return 0


def _show(configuration: Configuration) -> None:
    print(f"actions: {', '.join(configuration.actions)}")
    for number, tier in enumerate(configuration.tiers, 1):
        print(f"tier {number}: {', '.join(choice.name for choice in tier)}")
    for sentence in configuration.report:
        print(f"note: {sentence}")


def _why(options: argparse.Namespace) -> int:
    namespace, name = options.pod
    reply = control_socket.ask(options.socket, {"ask": "why", "namespace": namespace, "name": name})
    return _print(options, reply["explanation"], render.explanation)


def _queues(options: argparse.Namespace) -> int:
    reply = control_socket.ask(options.socket, {"ask": "queues"})
    return _print(options, reply["queues"], render.queues)


def _status(options: argparse.Namespace) -> int:
    return _print(options, control_socket.ask(options.socket, {"ask": "status"}), render.status)


def _graph(options: argparse.Namespace) -> int:
    if options.html and options.do != "show":
        options.refuse("--html: only with show")
    if options.html:
        found = control_socket.ask(options.socket, {"ask": "graph", "do": "picture"})["picture"]
        when = f"{datetime.now(UTC):%d %B %Y, %H:%M:%S} UTC"
        return _print(options, found, lambda picture: "".join(page(picture, when=when)))
    question = {"ask": "graph", "do": options.do, **({"nodes": options.nodes} if options.do == "show" else {})}
    reply = control_socket.ask(options.socket, question)
    if options.do == "dump":
        sys.stdout.write(reply["jgf"])
        return 0
    if options.do == "show":
        return _print(options, reply["lines"], "\n".join)
    _print(options, reply["drift"], render.drift)
    return FAILED if reply["drift"] else 0


def _print(options: argparse.Namespace, found: Any, words: Any) -> int:
    print(json.dumps(found, indent=1) if options.json else words(found))
    return 0
