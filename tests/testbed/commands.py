# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each command of the command line does: calls the modules that know, prints what they say."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import sys

from testbed import binaries, inventory, join, keys, layout, load, pbs, privilege, reach, status, supplies
from testbed.down import podman_of, release_storage, take_down
from testbed.errors import BedError, UsageError
from testbed.logs import collect_logs
from testbed.paths import beds_dir
from testbed.progress import say
from testbed.state import Bed, BedStore, bed_names
from testbed.up import bring_up


def bed_of(options: argparse.Namespace) -> Bed:
    """The bed that the command line names."""
    layout.check_name(options.name)
    return BedStore(options.name).existing()


def up(options: argparse.Namespace) -> int:
    fields = {field.name for field in dataclasses.fields(layout.Request)}
    request = layout.Request(**{name: value for name, value in vars(options).items() if name in fields})
    if not 0 < options.wait < math.inf:
        raise UsageError(f"--wait {options.wait:g}: give a number of seconds above 0")
    request = dataclasses.replace(request, pbs_exec=pbs.installed_for(request))
    uid = privilege.asking_user(os.environ)
    bed = bring_up(request, uid=uid, wait=options.wait, programs=options.bin_dir)
    say(f"bed '{bed.name}': {' '.join(host.name for host in bed.hosts)} on {bed.subnet}, {bed.way.value}")
    if bed.wlm == "pbs":
        say(f"  PBS is:  {f'OpenPBS in {bed.pbs_exec}' if bed.pbs_exec else 'its double'}")
    if bed.wlm == "torque":
        say("  Torque is: its double")
    say(f"  log in:  {' '.join(keys.ssh_command(bed, bed.hosts[0]))}")
    say(f"  remove:  testbed down {bed.name}")
    return 0


def fill_caches(options: argparse.Namespace) -> int:
    supplies.fill(options.purpose)
    return 0


def show_status(options: argparse.Namespace) -> int:
    beds = [bed_of(options)] if options.name else [BedStore(name).existing() for name in bed_names()]
    found = {bed.name: status.parts(bed) for bed in beds}
    if options.json:
        data = {
            bed.name: {
                "complete": bed.complete,
                "subnet": bed.subnet,
                "cgroups": bed.way.value,
                "parts": [dataclasses.asdict(part) for part in found[bed.name]],
            }
            for bed in beds
        }
        print(json.dumps(data, indent=1))
    else:
        for bed in beds:
            print(f"{bed.name}: {bed.subnet}, {bed.way.value}{'' if bed.complete else ', half made'}")
            for part in found[bed.name]:
                print(f"  {'ok' if part.good else '!!'}  {part.kind:<12} {part.name:<24} {part.state}")
    damaged = binaries.verify_cache() if options.verify else []
    for fault in damaged:
        say(f"  !!  {fault}; the next `testbed up` builds it again")
    whole = all(bed.complete for bed in beds) and not any(status.faults(parts) for parts in found.values())
    return 0 if whole and not damaged else 1


def show_inventory(options: argparse.Namespace) -> int:
    print(inventory.to_yaml(inventory.inventory(bed_of(options))), end="")
    return 0


def execute(options: argparse.Namespace) -> int:
    argv = options.argv[1:] if options.argv[:1] == ["--"] else options.argv
    if not argv:
        raise UsageError("exec: no command given; write: testbed exec NAME HOST -- COMMAND ...")
    bed = bed_of(options)
    host = bed.host(options.host)
    flags = ["--interactive", "--tty"] if sys.stdin.isatty() and sys.stdout.isatty() else ["--interactive"]
    command = podman_of(bed).argv("exec", *flags, host.container, *argv)
    if host.machine:
        program, *rest = reach.remote(bed, host, argv)
        command = [program, *(["-t"] if "--tty" in flags else []), *rest]
    os.execvp(command[0], command)


def gather_logs(options: argparse.Namespace) -> int:
    print(collect_logs(bed_of(options)))
    return 0


def join_nodes(options: argparse.Namespace) -> int:
    bed = bed_of(options)
    for name in options.nodes or [host.name for host in bed.nodes]:
        join.join_node(bed, name, podman_of(bed))
    return 0


def load_nodes(options: argparse.Namespace) -> int:
    kind = load.parse_kind(options.kind)
    bed = bed_of(options)
    if options.remove:
        load.remove_load_nodes(bed, podman_of(bed))
        return 0
    seconds = load.add_load_nodes(bed, options.nodes, kind, podman_of(bed))
    print(f"{options.nodes} {kind.value} nodes in {seconds:.1f} s")
    return 0


def down(options: argparse.Namespace) -> int:
    if options.all:
        names = sorted(path.name for path in beds_dir().glob("*") if path.is_dir())
    else:
        layout.check_name(options.name)
        names = [options.name]
    gone = [name for name in names if take_down(name)]
    if options.all:
        release_storage()
    if not gone and not options.all:
        raise BedError(f"no bed '{options.name}' (there are: {', '.join(bed_names()) or 'none'}); nothing was removed")
    return 0
