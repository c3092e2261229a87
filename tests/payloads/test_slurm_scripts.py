# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripts that Slurm runs, run for real by each shell: only their paths are those of a scratch folder."""

import contextlib
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import unittest

from marks import oldest_python_only

FILES = os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "roles", "slurm_share", "files"
)
SHELLS = ("dash", "bash")
# The command is not PATH's: each call of ours is written down as one line of JSON, and answered as told.
NODESHARE = """#!{python} -IS
import json, os, sys
with open({calls!r}, "a") as stream:
    print(json.dumps([sys.argv[1:], dict(os.environ)]), file=stream)
sys.exit(int(open({status!r}).read()))
"""
SITE = """#!/bin/sh
echo "site $# $SLURM_JOB_ID ${SPANK_X-unset}" >> LOG
exit CODE
"""
# The count of starts by the older of its two names.
OTHER_NAME = {"SLURM_JOB_RESTART_COUNT": "", "SLURM_RESTART_COUNT": "2"}
HOSTILE = ["", "-rf", "--help", "1 2", "$(touch HERE)", "`touch HERE`", "1\n2", "'; touch HERE; '", "../../etc", "*"]


class ScriptCase(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.top)
        self.log, self.calls, self.status = (os.path.join(self.top, name) for name in ("log", "calls", "status"))
        self.answer(0)
        text = NODESHARE.format(python=sys.executable, calls=self.calls, status=self.status)
        self.write("nodeshare", text)
        os.mkdir(os.path.join(self.top, "leases"))
        self.socket = os.path.join(self.top, "controller.sock")

    def write(self, name, text):
        path = os.path.join(self.top, name)
        with open(path, "w") as stream:
            stream.write(text)
        os.chmod(path, stat.S_IRWXU)
        return path

    def answer(self, status):
        with open(self.status, "w") as stream:
            stream.write(str(status))

    def enable(self):
        self.write("enabled", "")

    def site(self, code):
        return self.write("site script", SITE.replace("LOG", self.log).replace("CODE", str(code)))

    def script(self, name, site=None, **values):
        with open(os.path.join(FILES, name)) as stream:
            text = stream.read()
        values.setdefault("enabled", os.path.join(self.top, "enabled"))
        if name in ("prolog", "epilog"):
            values.setdefault("nodeshare", os.path.join(self.top, "nodeshare"))
        else:
            values.setdefault("python", sys.executable)
            values.setdefault("hand_over", os.path.join(FILES, "hand_over.py"))
            values.setdefault("socket", self.socket)
        if name == "epilog":
            values.setdefault("leases", os.path.join(self.top, "leases"))
        lines = text.split("\n")
        for key, value in values.items():
            (index,) = [number for number, line in enumerate(lines) if line.startswith(key + "=")]
            lines[index] = "{}={}".format(key, value)
        if site is not None:
            lines[lines.index("run_site() { :; }")] = "run_site() {{ '{}' \"$@\"; }}".format(site)
        return self.write(name, "\n".join(lines))

    def run_it(self, script, arguments=(), shell="dash", **environment):
        environment.setdefault("SLURM_JOB_ID", "4711")
        environment.setdefault("SLURM_JOB_RESTART_COUNT", "0")
        environment.setdefault("SLURM_JOB_NODELIST", "n[1-2]")
        done = subprocess.run(
            ["/bin/" + shell, script, *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=self.top,
            timeout=300,
            check=False,
        )
        return done.returncode

    def said(self):
        if not os.path.exists(self.calls):
            return []
        with open(self.calls) as stream:
            return [json.loads(line) for line in stream]

    def logged(self):
        if not os.path.exists(self.log):
            return []
        with open(self.log) as stream:
            return stream.read().splitlines()


class NodeScripts(ScriptCase):
    def test_without_the_flag_nothing_of_ours_runs_and_the_job_goes_on(self):
        for name in ("prolog", "epilog"):
            for shell in SHELLS:
                self.assertEqual(self.run_it(self.script(name), shell=shell), 0)
        self.assertEqual(self.said(), [])

    def test_without_the_flag_nothing_of_ours_is_needed_either(self):
        for name in ("prolog", "epilog"):
            script = self.script(name, nodeshare="/nonexistent/nodeshare")
            self.assertEqual(self.run_it(script), 0)

    def test_a_job_is_told_by_id_and_run(self):
        self.enable()
        self.write("leases/slurm.4711.r2.lease", "{}")
        for shell in SHELLS:
            for name in ("prolog", "epilog"):
                self.assertEqual(self.run_it(self.script(name), shell=shell, SLURM_JOB_RESTART_COUNT="2"), 0)
        begin, end = self.said()[:2]
        self.assertEqual(begin[0], ["begin", "--wlm", "slurm", "--job=4711", "--run=2"])
        self.assertEqual(end[0], ["end", "--wlm", "slurm", "--job=4711", "--run=2"])
        self.assertEqual([call[0] for call in self.said()[2:]], [begin[0], end[0]])

    def test_a_run_is_known_by_the_other_name_of_its_count_too(self):
        self.enable()
        self.write("leases/slurm.4711.r2.lease", "{}")
        for name in ("prolog", "epilog"):
            for shell in SHELLS:
                self.run_it(self.script(name), shell=shell, **OTHER_NAME)
        self.assertEqual([call[0][-1] for call in self.said()], ["--run=2"] * 4)

    def test_the_epilog_of_a_requeued_run_ends_that_run_and_not_the_next(self):
        # Slurm 22.05 and 24.11 say RESTART_COUNT=1 in the Epilog of run 0 when the job was requeued.
        self.enable()
        self.write("leases/slurm.4711.r0.lease", "{}")
        for shell in SHELLS:
            self.run_it(self.script("epilog"), shell=shell, SLURM_JOB_RESTART_COUNT="1")
        self.assertEqual([call[0][-1] for call in self.said()], ["--run=0", "--run=0"])

    @oldest_python_only
    def test_hostile_values_stay_one_argument_and_nothing_of_the_environment_goes_on(self):
        self.enable()
        for shell in SHELLS:
            for text in HOSTILE:
                text = text.replace("HERE", os.path.join(self.top, "here"))
                for name in ("prolog", "epilog"):
                    hostile = {"SLURM_JOB_NAME": text, "LD_PRELOAD": "", "PYTHONPATH": text}
                    hostile.update(SLURM_JOB_ID=text, SLURM_JOB_RESTART_COUNT=text)
                    self.assertEqual(self.run_it(self.script(name), shell=shell, **hostile), 0)
                    argv, environment = self.said()[-1]
                    self.assertEqual(argv[3:], ["--job=" + text, "--run=" + (text or "0")])
                    self.assertEqual(set(environment) - {"LC_CTYPE"}, {"PATH"})
                    self.assertEqual(environment["PATH"], "/usr/sbin:/usr/bin:/sbin:/bin")
        self.assertFalse(os.path.exists(os.path.join(self.top, "here")))

    def test_the_answer_becomes_what_the_site_has_chosen(self):
        self.enable()
        for status, values, expected in (
            (0, {}, 0),
            (69, {}, 69),
            (75, {}, 75),
            (75, {"on_requeue": "start"}, 0),
            (1, {}, 0),
            (1, {"on_failure": "drain"}, 1),
            (2, {}, 0),
        ):
            self.answer(status)
            self.assertEqual(self.run_it(self.script("prolog", **values)), expected, (status, values))
        for status, values, expected in ((0, {}, 0), (69, {}, 69), (1, {}, 0), (1, {"on_failure": "drain"}, 1)):
            self.answer(status)
            self.assertEqual(self.run_it(self.script("epilog", **values)), expected, (status, values))

    def test_a_node_without_nodeshare_starts_jobs_unless_the_site_wants_it_drained(self):
        self.enable()
        gone = os.path.join(self.top, "gone")
        self.assertEqual(self.run_it(self.script("prolog", nodeshare=gone)), 0)
        self.assertEqual(self.run_it(self.script("prolog", nodeshare=gone, on_failure="drain")), 127)


class SiteScripts(ScriptCase):
    ALL = ("prolog", "epilog", "prolog-slurmctld", "epilog-slurmctld")

    def test_the_sites_script_runs_with_its_arguments_and_environment_and_its_status_is_kept(self):
        for enabled in (False, True):
            if enabled:
                self.enable()
            for shell in SHELLS:
                for name in self.ALL:
                    for code in (0, 3, 255):
                        script = self.script(name, site=self.site(code))
                        done = self.run_it(script, ["a b", "c"], shell=shell, SPANK_X="$(x) 'y'")
                        self.assertEqual(done, code, (enabled, shell, name))
                        self.assertEqual(self.logged()[-1], "site 2 4711 $(x) 'y'")

    def test_a_prolog_of_the_site_that_fails_keeps_ours_from_running(self):
        self.enable()
        self.assertEqual(self.run_it(self.script("prolog", site=self.site(4))), 4)
        self.assertEqual(self.said(), [])

    def test_an_epilog_of_the_site_that_fails_does_not_keep_the_lease(self):
        self.enable()
        self.answer(69)
        self.assertEqual(self.run_it(self.script("epilog", site=self.site(4))), 4)
        self.assertEqual(len(self.said()), 1)

    def test_a_script_of_the_site_that_is_missing_fails_as_it_would_without_us(self):
        for name in self.ALL:
            self.assertEqual(self.run_it(self.script(name, site=self.top + "/missing")), 127)

    def test_the_environment_reaches_the_site_unchanged(self):
        path = self.write("site script", "#!/bin/sh\n/usr/bin/env -0 > {}\n".format(self.log))
        given = {"SLURM_JOB_NAME": "a\n$(b) 'c'", "SLURM_JOB_USER": "x y", "SPANK_A": "", "SLURM_JOB_ID": "4711"}
        for shell in SHELLS:
            self.run_it(self.script("prolog", site=path), shell=shell, **given)
            with open(self.log) as stream:
                found = dict(item.split("=", 1) for item in stream.read().split("\0") if item)
            self.assertEqual({name: found.get(name) for name in given}, given)
            self.assertLessEqual(
                set(found) - set(given) - {"SLURM_JOB_RESTART_COUNT", "SLURM_JOB_NODELIST"},
                {"PWD", "OLDPWD", "SHLVL", "_"},
            )


class Listener:
    """A controller that answers, hangs, or hangs up."""

    def __init__(self, path, answer):
        self.heard = []
        self.answer = answer
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(path)
        self.socket.listen(5)
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        self.socket.settimeout(0.1)
        while not self.done.is_set():
            try:
                link, _name = self.socket.accept()
            except socket.timeout:
                continue
            with link, contextlib.suppress(OSError):  # a client may give up first
                self.heard.append(link.makefile("rb").readline())
                if self.answer is None:
                    self.done.wait(900)
                else:
                    link.sendall(self.answer)

    def close(self):
        self.done.set()
        self.thread.join()
        self.socket.close()


class ControllerScripts(ScriptCase):
    BOTH = ("prolog-slurmctld", "epilog-slurmctld")

    def listen(self, answer):
        listener = Listener(self.socket, answer)
        self.addCleanup(listener.close)
        return listener

    def test_the_job_is_handed_over_in_one_line(self):
        self.enable()
        listener = self.listen(b'{"ok": true, "seconds": 0.1}\n')
        for shell in SHELLS:
            for name in self.BOTH:
                self.assertEqual(self.run_it(self.script(name), shell=shell, SLURM_JOB_RESTART_COUNT="3"), 0)
        heard = [json.loads(line.decode("ascii")) for line in listener.heard]
        job = {"wlm": "slurm", "job": "4711", "run": "3", "nodes": "n[1-2]"}
        self.assertEqual(heard, [dict(job, event="prolog"), dict(job, event="epilog")] * 2)

    def test_a_run_is_known_by_the_other_name_of_its_count_too(self):
        self.enable()
        listener = self.listen(b"{}\n")
        for name in self.BOTH:
            self.run_it(self.script(name), **OTHER_NAME)
        self.spool()
        for name in self.BOTH:
            self.run_it(self.script(name), SLURM_JOB_NODELIST="n1", **OTHER_NAME)
        self.assertEqual([json.loads(line.decode("ascii"))["run"] for line in listener.heard], ["2", "2"])
        self.assertEqual(self.notes(), ["4711.2.epilog.n1", "4711.2.prolog.n1"])

    def test_without_flag_or_socket_nothing_is_asked(self):
        for name in self.BOTH:
            self.assertEqual(self.run_it(self.script(name, python="/nonexistent/python")), 0)
        self.enable()
        for name in self.BOTH:
            self.assertEqual(self.run_it(self.script(name, python="/nonexistent/python")), 0)

    def spool(self):
        """What `nodeshare controller` makes: nodes that are held, and a place for notes."""
        self.held, self.jobs = self.socket + ".held", self.socket + ".jobs"
        os.mkdir(self.held)
        os.mkdir(self.jobs)
        self.write("controller.sock.held/n1", "")

    def notes(self):
        return sorted(os.listdir(self.jobs))

    def test_a_job_on_a_node_that_is_held_is_noted_and_no_program_is_started(self):
        self.enable()
        self.spool()
        self.listen(b"{}\n")
        gone = "/nonexistent/python"
        for job, shell in enumerate(SHELLS):
            for name in self.BOTH:
                script = self.script(name, python=gone)
                self.assertEqual(self.run_it(script, shell=shell, SLURM_JOB_ID=str(job), SLURM_JOB_NODELIST="n1"), 0)
        wanted = ["{}.0.{}.n1".format(job, event) for job in range(len(SHELLS)) for event in ("epilog", "prolog")]
        self.assertEqual(self.notes(), wanted)
        for name in wanted:
            found = os.stat(os.path.join(self.jobs, name))
            self.assertEqual((stat.S_IMODE(found.st_mode), found.st_size), (0o600, 0))

    def test_a_job_on_another_node_or_on_several_is_handed_over(self):
        self.enable()
        self.spool()
        listener = self.listen(b"{}\n")
        for nodes in ("n2", "n[1-2]", "n1,n2"):
            for name in self.BOTH:
                self.assertEqual(self.run_it(self.script(name), SLURM_JOB_NODELIST=nodes), 0)
        self.assertEqual(len(listener.heard), 6)
        self.assertEqual(self.notes(), [])

    def test_a_note_that_cannot_be_written_or_is_there_already_becomes_a_request(self):
        self.enable()
        self.spool()
        listener = self.listen(b"{}\n")
        target = self.write("target", "kept")
        os.symlink(target, os.path.join(self.jobs, "4711.0.prolog.n1"))
        os.symlink(os.path.join(self.top, "here"), os.path.join(self.jobs, "4712.0.prolog.n1"))
        script = self.script("prolog-slurmctld")
        for job in ("4711", "4712"):
            for shell in SHELLS:
                self.assertEqual(self.run_it(script, shell=shell, SLURM_JOB_ID=job, SLURM_JOB_NODELIST="n1"), 0)
        os.rename(self.jobs, os.path.join(self.top, "elsewhere"))
        for shell in SHELLS:
            self.assertEqual(self.run_it(script, shell=shell, SLURM_JOB_NODELIST="n1"), 0)
        self.assertEqual(len(listener.heard), 6)
        self.assertFalse(os.path.exists(os.path.join(self.top, "here")))
        with open(target) as stream:
            self.assertEqual(stream.read(), "kept")

    def test_a_node_that_is_given_back_while_the_note_is_written_becomes_a_request(self):
        self.enable()
        self.spool()
        listener = self.listen(b"{}\n")
        script = self.script("prolog-slurmctld")
        with open(script) as stream:
            text = stream.read()
        with open(script, "w") as stream:
            stream.write(text.replace("&& true >", '&& rm "$socket.held/$2" && true >'))
        self.assertEqual(self.run_it(script, SLURM_JOB_NODELIST="n1"), 0)
        self.assertEqual(self.notes(), ["4711.0.prolog.n1"])
        self.assertEqual(len(listener.heard), 1)

    @oldest_python_only
    def test_nothing_hostile_becomes_the_name_of_a_note(self):
        self.enable()
        self.spool()
        self.listen(b"{}\n")
        os.mkdir(os.path.join(self.top, "here"))
        words = [*HOSTILE, "..", ".", "n1/../../here", "../held/n1", "n1\n", "9" * 300, "4711.1", ".1", "-n"]
        for text in words:
            text = text.replace("HERE", os.path.join(self.top, "here", "x"))
            for name in ("SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_JOB_RESTART_COUNT"):
                if text or name != "SLURM_JOB_RESTART_COUNT":
                    given = {"SLURM_JOB_NODELIST": "n1"}
                    given[name] = text
                    for shell in SHELLS:
                        self.assertEqual(self.run_it(self.script("prolog-slurmctld"), shell=shell, **given), 0)
        self.assertEqual([note for note in self.notes() if note != "1.0.prolog.n1"], [])
        self.assertEqual(os.listdir(os.path.join(self.top, "here")), [])
        self.assertEqual(os.listdir(self.held), ["n1"])

    def test_a_controller_that_hangs_is_waited_for_no_longer_than_told(self):
        self.enable()
        listener = self.listen(None)
        self.assertEqual(self.run_it(self.script("prolog-slurmctld", wait="1")), 0)
        self.assertEqual(len(listener.heard), 1)

    def test_a_controller_that_is_dead_or_hangs_up_costs_nothing(self):
        self.enable()
        listener = self.listen(b"")
        self.assertEqual(self.run_it(self.script("prolog-slurmctld")), 0)
        listener.close()
        for name in self.BOTH:
            self.assertEqual(self.run_it(self.script(name, wait="1000")), 0)

    def test_a_queue_that_stays_full_is_given_up(self):
        self.enable()
        full = socket.socket(socket.AF_UNIX)
        self.addCleanup(full.close)
        full.bind(self.socket)
        full.listen(0)
        first = socket.socket(socket.AF_UNIX)
        self.addCleanup(first.close)
        first.connect(self.socket)
        self.assertEqual(self.run_it(self.script("prolog-slurmctld", wait="1000")), 0)

    @oldest_python_only
    def test_what_is_no_job_is_not_handed_over(self):
        self.enable()
        listener = self.listen(b"{}\n")
        for text in [*HOSTILE, '"}', "n1\n", "n 1", "9" * 70000]:
            text = text.replace("HERE", os.path.join(self.top, "here"))
            for name in ("SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_JOB_RESTART_COUNT"):
                if text or name != "SLURM_JOB_RESTART_COUNT":
                    self.assertEqual(self.run_it(self.script("prolog-slurmctld"), **{name: text}), 0)
        self.assertEqual(listener.heard, [])
        self.assertFalse(os.path.exists(os.path.join(self.top, "here")))

    def test_each_starts_python_once_and_has_it_read_less_than_a_bare_import_of_socket(self):
        """The cost of a task, as counts: tests/bench/controller_storm.py measures the time."""
        self.enable()
        self.listen(b"{}\n")
        starts, counting = os.path.join(self.top, "starts"), os.path.join(self.top, "counting")
        self.write("counting", '#!/bin/sh\necho "$1" >> {}\nexec {} -v "$@"\n'.format(starts, sys.executable))
        os.chmod(counting, 0o755)
        bare = self.modules([counting, "-IS", "-c", "import socket"])
        os.unlink(starts)
        for name in self.BOTH:
            ours = self.modules(["/bin/sh", self.script(name, python=counting)])
            self.assertIn("_socket", ours)
            self.assertLess(len(ours), len(bare), sorted(ours - bare))
        with open(starts) as stream:
            self.assertEqual(stream.read().split(), ["-IS", "-IS"])

    def modules(self, argv):
        """Return the names of the modules that a program reads as it starts."""
        environment = {"SLURM_JOB_ID": "4711", "SLURM_JOB_RESTART_COUNT": "0", "SLURM_JOB_NODELIST": "n[1-2]"}
        done = subprocess.run(argv, stderr=subprocess.PIPE, env=environment, cwd=self.top, timeout=300, check=True)
        return {line.split("'")[1] for line in done.stderr.decode().splitlines() if line.startswith("import '")}


if __name__ == "__main__":
    unittest.main()
