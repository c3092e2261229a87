# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: its grammar and its help. Values that come from jobs are checked in model/jobs/job_key.py."""

import argparse
import re
from typing import Sequence

from ..model import settings
from ..model.jobs import job_key

EXAMPLES = """\
examples:
  nodeshare begin --wlm slurm --job 4711 --run 0 --cpus 8 --mem 16GiB    a job starts: returns when the node is free
  nodeshare begin --wlm pbs --job 15.srv --run 1 --cpus 2 --mem 8GiB --cgroup pbs_jobs.service/jobid/15.srv
  nodeshare end --wlm slurm --job 4711 --run 0                           it has ended: returns at once
  nodeshare adopt --wlm slurm 4711 4712/1                                jobs that run already (job or job/run)
  nodeshare adopt --wlm pbs '15.srv/1 --cpus=2 --mem=8GiB'               the same with what they have, as in begin
  nodeshare repair                                                       boot and timer: puts right what was missed
  nodeshare repair --wlm pbs '15.srv/1 --cpus=2'                         and has leases for the jobs that run here
  nodeshare off; nodeshare on                                            batch only, now, without the API; and back
  nodeshare show --json
  nodeshare controller                                                   the service on a batch controller

exit codes:
  0   done; for begin: the job may start
  1   the command could not do its work (the line on stderr says why)
  2   wrong usage
  69  begin or end failed, and the site's choice is to drain the node
  75  begin failed or pods may not be disturbed: the job should be requeued
"""
CONTROLLER_EXAMPLES = """\
examples:
  nodeshare controller                                         with /etc/converged/controller.json
  nodeshare controller --settings FILE                         with settings of your own
  journalctl -u converged-controller                           one line per job
  kubectl get nodes -o custom-columns='NAME:.metadata.name,HELD:.metadata.annotations.converged\\.hpc/held-by'

a job is one line of JSON to /run/converged/controller.sock, and the answer another:
  {"event": "prolog", "wlm": "slurm", "job": "4711", "run": "0", "nodes": "n[1-2]"}
  {"ok": true, "reason": "", "seconds": 0.123}
"""
_SIZE = re.compile(r"(\d{1,15})(?:([KMGTP])(?:i?B)?|B)?", re.ASCII | re.IGNORECASE)
_CGROUP = re.compile(r"(?!\.{1,2}(?:/|$))[!-.0-~]{1,255}(?:/(?!\.{1,2}(?:/|$))[!-.0-~]{1,255})*", re.ASCII)


class UsageError(Exception):
    """What argparse has to say, as one line: begin and end turn it into the site's outcome."""


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> "None":  # type: ignore[override]
        raise UsageError(message)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse a command line. A job waits for `begin` and `end`: where one of them comes first, no other is made up."""
    alone = argv[0] if argv and argv[0] in ("begin", "end") else ""
    parser = Parser(
        prog="nodeshare",
        description="Gives this node to batch jobs when they start, and back when they have ended.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--settings", default=settings.PATH, metavar="FILE", help="default: %(default)s")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    commands.required = True
    for name, text in (("begin", "a batch job starts on this node"), ("end", "a batch job has ended on this node")):
        if alone and alone != name:
            continue
        command = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        command.add_argument("--wlm", required=True, metavar="SYSTEM", help="one of " + ", ".join(job_key.SYSTEMS))
        command.add_argument("--job", required=True, metavar="ID", help="the batch system's job id")
        command.add_argument("--run", default="0", metavar="N", help="how often the job was restarted (0)")
        command.add_argument("--start", type=count, metavar="EPOCH", help="start time, where the caller knows it")
        if name == "begin":
            _add_share(command)
            command.add_argument("--limit", type=count, metavar="SECONDS", help="be done by then")
    if not alone:
        _add_others(commands)
    return parser.parse_args(list(argv))


def _add_others(commands: "argparse._SubParsersAction[Parser]") -> None:
    from ..controller import settings as controller_settings

    command = commands.add_parser("adopt", help="record jobs that run already, before Kubernetes comes")
    command.add_argument("--wlm", required=True, metavar="SYSTEM")
    command.add_argument(
        "jobs", nargs="*", type=adopted, metavar="JOB[/RUN]", help="in the same word what it has here, as of begin"
    )
    command = commands.add_parser("repair", help="compare leases with what runs, and put right what was missed")
    command.add_argument("--linger", action="store_true", help="wait until the node may go back (the return unit)")
    command.add_argument("--wlm", default="", metavar="SYSTEM", help="of the jobs that are named")
    command.add_argument("jobs", nargs="*", metavar="JOB[/RUN]", help="that runs here by the batch system, as of adopt")
    commands.add_parser("fence", help="behind a start of the kubelet: draw again what keeps pods and jobs apart")
    commands.add_parser("off", help="kill switch: batch only, now, without the API")
    commands.add_parser("on", help="end `off`; also gives an idle node back without its linger")
    command = commands.add_parser("forget", help="the way back: give back what jobs have taken, stopped services too")
    command.add_argument(
        "--leave", action="append", default=[], metavar="UNIT", help="not to be started, as it is about to be removed"
    )
    command = commands.add_parser("show", help="who holds this node, and how")
    command.add_argument("--json", action="store_true")
    command = commands.add_parser(
        "controller",
        help="the service on a batch controller: taints and drains all nodes of a job at once",
        description="Takes jobs from PrologSlurmctld and EpilogSlurmctld over a socket, until SIGTERM.",
        epilog=CONTROLLER_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_argument("--settings", default=controller_settings.PATH, metavar="FILE", help="default: %(default)s")


def _add_share(command: argparse.ArgumentParser) -> None:
    command.add_argument("--cpus", type=count, metavar="N", help="cores on this node")
    command.add_argument("--mem", type=size, metavar="SIZE", help="memory on this node: bytes, or 16GiB, 4000M")
    command.add_argument(
        "--device",
        action="append",
        default=[],
        type=device,
        metavar="NAME[=COUNT]",
        help="as Kubernetes counts it, such as nvidia.com/gpu=2; may be given for each kind",
    )
    command.add_argument("--exclusive", action="store_true", help="the job has the whole node")
    command.add_argument(
        "--cgroup",
        type=cgroup,
        metavar="PATH",
        help="of the job, below the cpuset hierarchy (cgroup v2: below the one there is)",
    )


def count(text: str) -> int:
    if not re.fullmatch(r"\d{1,12}", text, re.ASCII):
        raise argparse.ArgumentTypeError("{} is not a count".format(ascii(text[:40])))
    return int(text)


def size(text: str) -> int:
    """Bytes. Batch systems count in powers of 1024 whether they write K, KB or KiB."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError("{} is not a size such as 16GiB".format(ascii(text[:40])))
    power: int = " KMGTP".index(found.group(2).upper()) if found.group(2) else 0
    return int(found.group(1)) * int(1024**power)


def device(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9:._/-]{1,64}(?:=[0-9]{1,6})?", text, re.ASCII):
        raise argparse.ArgumentTypeError("{} is not a device name".format(ascii(text[:40])))
    return text


def cgroup(text: str) -> str:
    if len(text) > 1000 or not _CGROUP.fullmatch(text):
        raise argparse.ArgumentTypeError("{} is not a relative path of a cgroup".format(ascii(text[:40])))
    return text


def adopted(text: str) -> argparse.Namespace:
    """Parse a job that runs already, with its share if that is known."""
    parser = Parser(allow_abbrev=False, add_help=False)
    parser.add_argument("job")
    _add_share(parser)
    try:
        found = parser.parse_args(text.split(" "))
    except UsageError as error:
        raise argparse.ArgumentTypeError("{}: {}".format(ascii(text[:40]), error)) from error
    job, slash, run = found.job.partition("/")
    found.job, found.run = job, run if slash else "0"
    return found
