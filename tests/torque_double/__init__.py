# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Torque for tests: a double that answers and runs scripts as Torque 6.1 does, and the real one where it is installed.

The double knows nothing of the collection. What it says is written down from the real one, and the tests of the double
run unchanged on the real one; a test that passes on one of them only is a fault of the double.

`double.started(FOLDER)` makes a cluster below a folder. Installed elsewhere, a command is a script that ends with
`sys.exit(double.run("qsub", FOLDER, sys.argv[1:]))`, and a MoM one with `mom.run(HOST, HOME, FOLDER, [])`; all that
share the folder, and the names in the environment's TORQUE_DOUBLE_HOSTS (the server first), are one cluster. HOME is
the MoM's folder, as Torque's is /var/spool/torque: prologue and epilogue stand in HOME/mom_priv. A file `owner` in the
folder has the number of a process, with which the MoMs end. `momctl` is `momctl.control(HOST, HOME, FOLDER, words)`.
"""
