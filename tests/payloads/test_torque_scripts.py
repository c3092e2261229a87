# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripts that Torque runs, run for real by each shell: only their paths are those of a scratch folder."""

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

from marks import oldest_python_only

FILES = os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "roles", "torque_share", "files"
)
SHELLS = [path for path in map(shutil.which, ("dash", "bash")) if path]
NODESHARE = """#!{python} -IS
import json, os, sys, time
with open({calls!r}, "a") as stream:
    print(json.dumps([sys.argv[1:], dict(os.environ)]), file=stream)
time.sleep(float(open({wait!r}).read()) if sys.argv[1] == "begin" else 0)
open({done!r}, "w").close()
sys.exit(int(open({status!r}).read()) if sys.argv[1] == "begin" else 0)
"""
# It writes down what it was given, what it has of its own descriptors, and ends as told.
SITE = """#!/bin/sh
echo "NAME $# $1 $PWD ${PBS_JOBID-unset}" >> LOG
echo "banner of the site"
END
"""
HOSTILE = ("", "a b", "$(touch HERE)", "`touch HERE`", "x\ny", "'; touch HERE; '", '"', "-rf", "\\", "*")
SECONDS = 30


class ScriptCase(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.top)
        for folder in ("etc/site", "mom_priv/jobs", "leases", "state"):
            os.makedirs(os.path.join(self.top, folder))
        self.log, self.calls = self.path("log"), self.path("calls")
        self.files = {name: self.path(name) for name in ("calls", "status", "wait", "done")}
        self.answer(0)
        python = NODESHARE.format(python=sys.executable, **self.files)
        self.write("nodeshare", python)
        settings = {"nodeshare": [self.path("nodeshare")], "mom_priv": self.path("mom_priv"), "names": ["n1"]}
        settings.update(site=self.path("etc/site"), leases=self.path("leases"), state=self.path("state"))
        self.settings = settings
        self.configure()
        with open(os.path.join(FILES, "pelogue.py")) as stream:
            program = stream.read().replace("/etc/converged/torque/pelogue.json", self.path("etc/pelogue.json"))
        self.write("etc/pelogue.py", program)
        self.write("enabled", "")
        self.write("id", "#!/bin/sh\necho 0\n")
        self.write("nodes", "n1\nn1\nn2\n")

    def path(self, name):
        return os.path.join(self.top, name)

    def write(self, name, text):
        with open(self.path(name), "w") as stream:
            stream.write(text)
        os.chmod(self.path(name), stat.S_IRWXU)

    def configure(self, **values):
        self.write("etc/pelogue.json", json.dumps(dict(self.settings, **values)))

    def answer(self, status, wait=0.0):
        self.write("status", str(status))
        self.write("wait", str(wait))

    def site(self, name, end="exit 0"):
        text = SITE.replace("LOG", self.log).replace("END", end).replace("NAME", name)
        self.write("etc/site/" + name, text)

    def script(self, name):
        with open(os.path.join(FILES, "pelogue")) as stream:
            text = stream.read()
        values = {"name": name, "folder": self.path("etc"), "enabled": self.path("enabled"), "python": sys.executable}
        for key, value in values.items():
            text, count = re.subn("(?m)^{}=.*$".format(key), "{}={}".format(key, value), text)
            self.assertEqual(count, 1)
        self.write("mom_priv/" + name, text.replace("/usr/bin/id", self.path("id")))
        return self.path("mom_priv/" + name)

    def start(self, shell, name, arguments=(), **environ):
        known = {"PATH": "/bin:/usr/bin", "PBS_NODENUM": "0", "PBS_NODEFILE": self.path("nodes")}
        known.update(environ)
        given = list(arguments) or ["0.srv", "alice", "users", "t1", "nodes=2:ppn=2,mem=300mb", "batch", "", "SC"]
        if not arguments and name.startswith("epilogue"):
            given = ["0.srv", "alice", "users", "t1", "5", "nodes=2:ppn=2", "cput=0", "batch", "", "0", "SC"]
        return subprocess.Popen(
            [shell, self.script(name), *given],
            env=known,
            cwd=self.path("mom_priv"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            universal_newlines=True,
        )

    def run_script(self, shell, name, arguments=(), **environ):
        child = self.start(shell, name, arguments, **environ)
        out, _err = child.communicate(timeout=SECONDS)
        return child.returncode, out

    def told(self):
        if not os.path.exists(self.calls):
            return []
        with open(self.calls) as stream:
            found = [json.loads(line)[0] for line in stream]
        os.remove(self.calls)
        return found

    def logged(self):
        if not os.path.exists(self.log):
            return []
        with open(self.log) as stream:
            found = stream.read().splitlines()
        os.remove(self.log)
        return found

    def until(self, found, what):
        give_up = time.monotonic() + SECONDS
        while not found():
            self.assertLess(time.monotonic(), give_up, what)
            time.sleep(0.01)

    def each(self):
        for shell in SHELLS:
            with self.subTest(shell=os.path.basename(shell)):
                yield shell

    # What it does

    def test_a_job_begins_with_what_it_has_here_behind_the_sites_own_script_whose_words_reach_the_user(self):
        self.site("prologue")
        for shell in self.each():
            code, out = self.run_script(shell, "prologue")
            self.assertEqual((code, out), (0, "banner of the site\n"))
            self.assertEqual(self.logged(), ["prologue 8 0.srv {} unset".format(self.path("mom_priv"))])
            expected = ["begin", "--wlm=torque", "--job=0.srv", "--run=1", "--limit=57", "--cpus=2", "--mem=209715200"]
            self.assertEqual(self.told(), [expected])

    def test_an_epilogue_ends_each_lease_of_the_job_and_answers_as_the_sites_script(self):
        self.site("epilogue", "exit 3")
        for shell in self.each():
            self.write("leases/torque.0=2Esrv.r2.lease", "{}")
            code, _out = self.run_script(shell, "epilogue")
            self.assertEqual(code, 3)
            self.assertEqual(self.told(), [["end", "--wlm=torque", "--job=0.srv", "--run=2"]])

    def test_without_the_flag_or_without_our_program_the_sites_script_runs_alone_with_torques_own_rules(self):
        self.site("prologue", "kill -9 $$")
        for shell in self.each():
            for missing in ("enabled", "etc/pelogue.py"):
                os.rename(self.path(missing), self.path("away"))
                self.assertEqual(self.run_script(shell, "prologue")[0], -9)
                self.assertEqual(self.run_script(shell, "epilogue.parallel")[0], 0)  # the site has none
                os.rename(self.path("away"), self.path(missing))
            self.assertEqual(self.told(), [])

    # The site's exit codes

    def test_each_exit_code_of_the_sites_prologue_reaches_torque_and_no_lease_is_left(self):
        for shell in self.each():
            for code in (1, 2, 99, 128, 255):
                self.site("prologue", "exit {}".format(code))
                self.assertEqual(self.run_script(shell, "prologue")[0], code)
                self.assertEqual(self.told(), [])

    def test_a_site_script_that_a_signal_kills_counts_as_success_as_it_does_in_torque(self):
        self.site("prologue", "kill -9 $$")
        self.site("epilogue.parallel", "kill -9 $$")
        for shell in self.each():
            self.assertEqual(self.run_script(shell, "prologue")[0], 0)
            self.assertEqual(self.run_script(shell, "epilogue.parallel", PBS_NODENUM="1")[0], 0)
            self.assertEqual([one[0] for one in self.told()], ["begin", "end"])

    def test_a_script_without_an_interpreter_stops_neither_torque_nor_us(self):
        self.write("etc/site/prologue", "exit 1\n")
        for shell in self.each():
            self.assertEqual(self.run_script(shell, "prologue")[0], 0)
            self.assertEqual([one[0] for one in self.told()], ["begin"])

    # Trap 1: killed by a signal

    def test_a_prologue_that_a_signal_kills_goes_on_in_nodeshare_so_the_job_that_torque_starts_has_its_lease(self):
        for shell in self.each():
            self.answer(0, wait=0.5)
            child = self.start(shell, "prologue")
            self.until(lambda: os.path.exists(self.calls), "nodeshare was called")
            os.killpg(child.pid, signal.SIGKILL)  # Torque's alarm kills the session
            child.communicate(timeout=SECONDS)
            self.assertEqual(child.returncode, -signal.SIGKILL)
            self.until(lambda: os.path.exists(self.path("done")), "nodeshare has done what it was called for")
            os.remove(self.path("done"))
            self.assertEqual([one[0] for one in self.told()], ["begin"])

    def test_our_program_killed_by_a_signal_or_broken_never_fails_a_prologue(self):
        for shell in self.each():
            for text in ("import os\nos.kill(os.getpid(), 9)\n", "raise SystemExit(99)\n", "syntax error", ""):
                self.write("etc/pelogue.py", text)
                for name, sister in (("prologue", "0"), ("prologue.parallel", "1"), ("epilogue.parallel", "1")):
                    self.assertEqual(self.run_script(shell, name, PBS_NODENUM=sister)[0], 0)

    def test_a_sweep_tells_of_each_job_that_the_mom_has(self):
        for name in ("0.srv.JB", "0.srv.SC", "31-1.srv.JB"):
            self.write("mom_priv/jobs/" + name, "")
        self.write("leases/torque.0=2Esrv.r3.lease", "")
        subprocess.check_call([sys.executable, "-IS", self.path("etc/pelogue.py"), "sweep"])
        self.assertEqual(self.told(), [["repair", "--wlm=torque", "0.srv/3", "31[1].srv/1"]])

    # Trap 2: qsub -T

    def test_a_user_who_has_another_script_run_as_root_gets_the_sites_plain_one_and_a_lease(self):
        for name in ("prologue", "prologue.parallel", "prologue.user", "epilogue.precancel", "epilogue"):
            self.site(name)
        for shell in self.each():
            for chosen, ran in (("prologue.user", "prologue"), ("prologue.parallel", "prologue")):
                self.run_script(shell, chosen)
                self.assertEqual([line.split()[0] for line in self.logged()], [ran])
                self.assertEqual([one[0] for one in self.told()], ["begin"])
            self.run_script(shell, "epilogue.precancel")
            self.assertEqual([line.split()[0] for line in self.logged()], ["epilogue"])
            self.assertEqual([one[0] for one in self.told()], ["end"])

    def test_a_users_script_that_runs_as_the_user_is_the_sites_and_nothing_more(self):
        self.write("id", "#!/bin/sh\necho 1000\n")
        names = ("prologue.user", "epilogue.user.parallel", "epilogue.precancel")
        for name in names:
            self.site(name, "exit 4")
        for shell in self.each():
            for name in names:
                self.assertEqual(self.run_script(shell, name)[0], 4)
                self.assertEqual([line.split()[0] for line in self.logged()], [name])
                self.assertEqual(self.told(), [])

    # Trap 3 and 6: sisters

    def test_nothing_of_ours_fails_a_sister_and_takes_its_node_down(self):
        for shell in self.each():
            for status in (1, 2, 99):
                self.answer(status)
                self.assertEqual(self.run_script(shell, "prologue.parallel", PBS_NODENUM="1")[0], 0)
            self.configure(nodeshare=["/nonexistent"])
            for name in ("prologue.parallel", "epilogue.parallel"):
                self.assertEqual(self.run_script(shell, name, PBS_NODENUM="1")[0], 0)
            self.configure()

    def test_a_sister_that_the_site_has_refuse_ends_its_lease_itself_as_torque_runs_no_epilogue_there(self):
        self.answer(69)
        for shell in self.each():
            code, _out = self.run_script(shell, "prologue.parallel", PBS_NODENUM="1")
            self.assertEqual(code, 2)
            begin, end = self.told()
            self.assertEqual((begin[0], end), ("begin", ["end", *begin[1:4]]))

    def test_a_begin_that_does_not_answer_holds_a_mom_no_longer_than_the_site_says(self):
        self.configure(timeout_seconds=1)
        self.answer(0, wait=600)
        for shell in self.each():
            began = time.monotonic()
            self.assertEqual(self.run_script(shell, "prologue.parallel", PBS_NODENUM="1")[0], 0)
            self.assertLess(time.monotonic() - began, SECONDS)

    def test_closed_descriptors_of_epilogue_parallel_break_nothing(self):
        self.site("epilogue.parallel")
        for shell in self.each():
            path = self.script("epilogue.parallel")
            closing = 'exec "$0" "$@" >&- 2>&-'
            argv = [
                shell,
                "-c",
                closing,
                shell,
                path,
                "0.srv",
                "alice",
                "users",
                "t1",
                "0",
                "",
                "",
                "batch",
                "",
                "0",
                "",
            ]
            code = subprocess.call(argv, cwd=self.path("mom_priv"), env={"PATH": "/bin:/usr/bin", "PBS_NODENUM": "1"})
            self.assertEqual(code, 0)
            self.assertEqual([line.split()[0] for line in self.logged()], ["epilogue.parallel"])
            self.assertEqual([one[0] for one in self.told()], ["end"])

    # Trap 4: tried again for ever

    def test_a_refused_job_pauses_longer_each_time_is_another_run_and_starts_in_the_end(self):
        self.answer(75)
        shell = SHELLS[0]
        began = time.monotonic()
        self.assertEqual(self.run_script(shell, "prologue")[0], 2)
        self.assertGreaterEqual(time.monotonic() - began, 1.0)  # its pause
        self.assertEqual([one[0] for one in self.told()], ["begin", "end"])
        self.write("leases/torque.0=2Esrv.r1.ended", "")
        self.write("state/torque.0=2Esrv.tries", "10")
        self.assertEqual(self.run_script(shell, "prologue")[0], 0)
        self.assertEqual([one[:4] for one in self.told()], [["begin", "--wlm=torque", "--job=0.srv", "--run=2"]])
        self.assertFalse(os.path.exists(self.path("state/torque.0=2Esrv.tries")))

    # Trap 5: the alarm

    def test_a_lease_ends_before_torques_alarm_although_the_sites_epilogue_goes_on(self):
        self.write("mom_priv/config", "$prologalarm 9\n")  # 9 s: ours acts long before
        self.site("epilogue", "while [ ! -e {} ]; do sleep 0.05; done; exit 5".format(self.path("go")))
        for shell in self.each():
            child = self.start(shell, "epilogue")
            self.until(lambda: os.path.exists(self.calls), "the lease ends while the site's script runs")
            self.assertIsNone(child.poll())
            self.write("go", "")
            child.communicate(timeout=SECONDS)
            self.assertEqual(child.returncode, 5)
            self.told()
            os.remove(self.path("go"))

    # What users write

    @oldest_python_only
    def test_what_a_user_writes_is_no_command_and_reaches_the_sites_script_as_it_is(self):
        for shell in self.each():
            for text in HOSTILE:
                words = [text.replace("HERE", self.path("pwned")) for _one in range(6)]
                self.site("prologue", 'printf "%s" "$4" > {}'.format(self.path("seen")))
                self.assertEqual(self.run_script(shell, "prologue", ["0.srv", *words])[0], 0)
                with open(self.path("seen")) as stream:
                    self.assertEqual(stream.read(), words[2])
                [begin] = self.told()
                self.assertEqual(begin[:4], ["begin", "--wlm=torque", "--job=0.srv", "--run=1"])
            self.assertFalse(os.path.exists(self.path("pwned")))

    @oldest_python_only
    def test_a_job_id_that_is_none_starts_its_job_and_calls_nothing(self):
        for shell in self.each():
            for job in (*HOSTILE, "../../0.srv", "0.srv --exclusive"):
                self.assertEqual(self.run_script(shell, "prologue", [job, "alice"])[0], 0)
            self.assertEqual(self.told(), [])

    def test_an_accident_of_ours_lets_a_job_start(self):
        self.configure(nodeshare=[self.path("nodeshare"), "\0"])  # no program can be started with such a word
        for shell in self.each():
            self.assertEqual(self.run_script(shell, "prologue")[0], 0)

    def test_settings_that_cannot_be_read_let_a_job_start(self):
        self.write("etc/pelogue.json", "{")
        for shell in self.each():
            self.assertEqual(self.run_script(shell, "prologue")[0], 0)


if __name__ == "__main__":
    unittest.main()
