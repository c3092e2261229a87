# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The batch system as a site has it: configured by hand over years, and not to be broken by us.

Hence comments, odd spacing, keys in mixed case, an Include, ranges of nodes, and a Prolog and an
Epilog of the site's own. Whatever edits such files later has to live with all of it. Pure.
"""

from __future__ import annotations

from testbed.archive import NodeFile, enabled
from testbed.cgroups import Way
from testbed.state import Bed, Host

CONF_DIR, STATE_DIR = "/etc/slurm", "/var/lib/slurm/slurmctld"
NODE_CPUS, NODE_MEMORY_MB = "CPUs=2", 2000
# Two NUMA nodes of two processors each.
MACHINE_CPUS = "CPUs=4 Sockets=2 CoresPerSocket=2 ThreadsPerCore=1"

SLURM_CONF = """\
# slurm.conf of cluster "{cluster}"
# House rules: one change per ticket, and tell the group before a restart.
#
ClusterName={cluster}
{controllers}
SlurmUser=slurm
AuthType=auth/munge

# --- where things lie -------------------------------------------------
StateSaveLocation = {state_dir}
SlurmdSpoolDir    = /var/lib/slurm/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SLURMCTLDLOGFILE=/var/log/slurm/slurmctld.log
SlurmdLogFile   =  /var/log/slurm/slurmd.log      # rotated by hand, ask ops

# --- timers -----------------------------------------------------------
SlurmctldTimeout={takeover}
SlurmdTimeout=60
MessageTimeout=30
KillWait=5
MinJobAge=300
ReturnToService=2

# --- scheduling -------------------------------------------------------
SchedulerType=sched/backfill
SelectType=select/cons_tres
selecttypeparameters=CR_Core_Memory
DefMemPerCPU=500

# --- processes --------------------------------------------------------
ProctrackType={proctrack}
TaskPlugin={task}
MpiDefault=none
JobAcctGatherType=jobacct_gather/linux
# The nodes say more than they should: believe this file.
SlurmdParameters=config_overrides
{parameters}
# --- accounting -------------------------------------------------------
{accounting}

# --- our own scripts (keep these!) ------------------------------------
PrologFlags = Alloc
Prolog={conf_dir}/prolog.sh
Epilog  = {conf_dir}/epilog.sh     # writes the line that billing reads
#PrologSlurmctld=/usr/local/sbin/not-any-more

# --- machines ---------------------------------------------------------
Include nodes.conf
include   partitions.conf
"""

NODES_CONF = """\
# One line per delivery; racks as in the plan on the wall.
NodeName=DEFAULT {cpus} RealMemory={memory}  State=UNKNOWN
{lines}
"""

PARTITIONS_CONF = """\
PartitionName=DEFAULT State=UP  MaxTime=7-00:00:00
PartitionName=batch Nodes={all} Default=YES DefaultTime=01:00:00
partitionname=short   nodes={all}   MaxTime=00:30:00 PriorityTier=10
# the newer rack only
PartitionName=rack2 Nodes={newer} \\
    MaxTime=2-00:00:00
"""

SCRIPT = """\
#!/bin/sh
# {which} of this site: billing reads the line, so do not change its form.
echo "$(date +%FT%T) {which} job=$SLURM_JOB_ID user=$SLURM_JOB_USER node=$SLURMD_NODENAME" >> /var/log/slurm/{which}.log
exit 0
"""

SLURMDBD_CONF = """\
DbdHost=localhost
SlurmUser=slurm
AuthType=auth/munge
LogFile=/var/log/slurm/slurmdbd.log
PidFile=/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc=slurm_acct_db
"""

CGROUP_PLUGINS = {Way.V1: "cgroup/v1", Way.V2: "cgroup/v2", Way.PRIVATE_V2: "cgroup/v1"}


def hostlist(first: int, last: int) -> str:
    """Nodes as Slurm writes them: n3, or n[1-4]."""
    return f"n{first}" if first == last else f"n[{first}-{last}]"


def cluster_name(bed: Bed) -> str:
    """The accounting database takes no hyphens."""
    return bed.name.replace("-", "_")


def slurm_conf(bed: Bed) -> dict[str, str]:
    """File name → text of everything that lies in Slurm's configuration folder."""
    count = len(bed.nodes)
    older = (count + 1) // 2
    lines = [f"NodeName={hostlist(1, older)} Feature=rack1,ib"]
    if older < count:
        lines.append(f"nodename={hostlist(older + 1, count)}   Feature=rack2,ib,bigmem  Weight=20")
    task = "task/cgroup,task/affinity" if bed.node_way.has_limits else "task/none"
    accounting = "AccountingStorageType=accounting_storage/none"
    if bed.slurmdbd:
        accounting = "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=ctl"
    main = SLURM_CONF.format(
        cluster=cluster_name(bed),
        controllers="\n".join(f"slurmctldhost = {host.name}" for host in bed.controllers),
        # After so many seconds a backup takes over.
        takeover=60,
        proctrack="proctrack/cgroup" if bed.node_way.has_limits else "proctrack/linuxproc",
        task=task,
        parameters="SlurmctldParameters=enable_configless\n" if bed.slurm_conf == "configless" else "",
        accounting=accounting,
        conf_dir=CONF_DIR,
        state_dir=STATE_DIR,
    )
    limits = "ConstrainCores=yes\nConstrainRAMSpace=yes\n" if bed.node_way.has_limits else ""
    cpus = MACHINE_CPUS if bed.vm else NODE_CPUS
    return {
        "slurm.conf": main,
        "nodes.conf": NODES_CONF.format(cpus=cpus, memory=NODE_MEMORY_MB, lines="\n".join(lines)),
        "partitions.conf": PARTITIONS_CONF.format(all=hostlist(1, count), newer=hostlist(min(older + 1, count), count)),
        "cgroup.conf": f"CgroupPlugin={CGROUP_PLUGINS[bed.node_way]}\n{limits}",
    }


def scripts() -> dict[str, str]:
    """The site's own Prolog and Epilog."""
    return {f"{which}.sh": SCRIPT.format(which=which) for which in ("prolog", "epilog")}


def files(bed: Bed, host: Host, *, munge_key: bytes) -> list[NodeFile]:
    """What makes `host` part of the batch system. With a shared folder, the configuration lies there instead."""
    if bed.wlm != "slurm" or host.role == "kube":
        return []
    made = [
        NodeFile("/etc/munge/munge.key", munge_key, mode=0o400, owner="munge"),
        NodeFile("/var/lib/slurm", mode=0o755, owner="slurm"),
        NodeFile("/var/log/slurm", mode=0o755, owner="slurm"),
        enabled("munge.service"),
    ]
    if bed.slurm_conf != "shared":
        made += [NodeFile(f"{CONF_DIR}/{name}", text, mode=0o755) for name, text in scripts().items()]
    if bed.slurm_conf == "local" or (bed.slurm_conf == "configless" and host.role == "controller"):
        made += [NodeFile(f"{CONF_DIR}/{name}", text) for name, text in slurm_conf(bed).items()]
    return made + (controller_files(bed) if host.role == "controller" else node_files(bed))


def controller_files(bed: Bed) -> list[NodeFile]:
    """slurmctld; or its database, without which it does not start and which has to be filled first."""
    made = [NodeFile(STATE_DIR, mode=0o755, owner="slurm")]
    if not bed.slurmdbd:
        return [*made, enabled("slurmctld.service")]
    conf = NodeFile("/etc/slurm/slurmdbd.conf", SLURMDBD_CONF, mode=0o600, owner="slurm")
    return [*made, conf, enabled("mariadb.service")]


def node_files(bed: Bed) -> list[NodeFile]:
    """slurmd."""
    made = [NodeFile("/var/lib/slurm/slurmd", mode=0o755), enabled("slurmd.service")]
    if bed.slurm_conf == "configless":
        servers = ",".join(host.name for host in bed.controllers)
        made += [
            NodeFile("/etc/default/slurmd", f'SLURMD_OPTIONS="--conf-server {servers}"\n'),
            # The packaged unit insists on a local slurm.conf.
            NodeFile(
                "/etc/systemd/system/slurmd.service.d/configless.conf",
                "[Unit]\nConditionPathExists=\n[Service]\nRestart=on-failure\nRestartSec=2\n",
            ),
        ]
    return made
