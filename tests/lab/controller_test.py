#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tests of the laboratory's controller, on the host side: what `lab.py run` promises to its callers.

They use machines of their own (GSTZC_LAB_STATE), so that one that is broken on purpose is nobody else's."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

from gstzclab import config  # noqa: E402

LAB = Path(__file__).resolve().parent / "lab.py"
STATE = f"test{os.getpid()}"
LIMIT = 300  # seconds for one call; a machine may have to boot
ENV = os.environ | {"GSTZC_LAB_STATE": STATE, "GSTZC_LAB_IDLE": "6", "GSTZC_LAB_KILL_GRACE": "4"}


def lab(*args, **env):
    """Runs lab.py; the result has returncode, stdout and stderr."""
    return subprocess.run([sys.executable, LAB, *args], capture_output=True, text=True, timeout=LIMIT, check=False, env=ENV | env)


def run(*command, options=(), **more):
    return lab("run", *options, "--", *command, **more)


def sh(script, **more):
    return run("sh", "-c", script, **more)


def processes():
    """Process ids of the server and of QEMU, as `status` tells them."""
    text = lab("status").stdout
    return [int(re.search(rf"^{word} (\d+)", text, re.M)[1]) for word in ("server", "machine")]


def gone(pid, within=10):
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


def tearDownModule():
    lab("stop")
    for path in config.lab_dir().glob(f"state-{STATE}-*"):
        shutil.rmtree(path)


class Controller(unittest.TestCase):
    def test_exit_status_and_both_streams_come_back(self):
        done = sh("echo to stdout; echo to stderr >&2; exit 7")
        self.assertEqual((done.returncode, done.stdout), (7, "to stdout\n"), done.stderr)
        self.assertIn("to stderr\n", done.stderr)

    def test_a_signal_is_reported_as_a_shell_does(self):
        self.assertEqual(sh("kill -ABRT $$").returncode, 128 + signal.SIGABRT)

    def test_a_missing_program_is_127_and_named(self):
        done = run("no-such-program")
        self.assertEqual(done.returncode, 127)
        self.assertIn("no-such-program", done.stderr)

    def test_two_runs_share_one_boot(self):
        first = sh("cat /proc/sys/kernel/random/boot_id")
        second = sh("cat /proc/sys/kernel/random/boot_id")
        self.assertEqual((first.returncode, second.returncode), (0, 0))
        self.assertEqual(first.stdout, second.stdout)
        self.assertNotIn("booted in", second.stderr)

    def test_output_comes_while_the_program_runs(self):
        with subprocess.Popen([sys.executable, LAB, "run", "--", "sh", "-c", "echo first; sleep 3; echo second"],
                              stdout=subprocess.PIPE, text=True, env=ENV) as process:
            self.assertEqual(process.stdout.readline(), "first\n")
            start = time.monotonic()
            self.assertEqual(process.stdout.readline(), "second\n")
            self.assertGreater(time.monotonic() - start, 1.5)
            self.assertEqual(process.wait(30), 0)

    def test_large_output_is_complete(self):
        done = sh("seq 1 200000")
        self.assertEqual(done.stdout, "".join(f"{i}\n" for i in range(1, 200001)))

    def test_working_directory_arguments_and_environment_are_kept(self):
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "here").write_text("found\n")
            done = subprocess.run([sys.executable, LAB, "run", "--", "sh", "-c", 'pwd; cat here; echo "$1|$GST_DEBUG|$UNRELATED"', "sh", "a  b"],
                                  cwd=directory, capture_output=True, text=True, timeout=LIMIT, check=False,
                                  env=ENV | {"GST_DEBUG": "kmssink:5", "UNRELATED": "x"})
            self.assertEqual(done.stdout, f"{directory}\nfound\na  b|kmssink:5|\n")

    def test_programs_of_the_build_are_found(self):
        with tempfile.TemporaryDirectory() as directory:
            program = Path(directory, "of-the-build")
            program.write_text("#!/bin/sh\necho found\n")
            program.chmod(0o755)
            done = subprocess.run([sys.executable, LAB, "run", "--", "of-the-build"], capture_output=True, text=True, timeout=LIMIT,
                                  check=False, env=ENV | {"GSTZC_TOOLS": directory})
            self.assertEqual(done.stdout, "found\n", done.stderr)

    def test_a_changed_host_file_is_seen_by_the_next_run(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            for text in ("one", "two, and longer"):
                file.seek(0)
                file.truncate()
                file.write(text)
                file.flush()
                self.assertEqual(run("cat", file.name).stdout, text)

    def test_a_run_leaves_nothing_behind(self):
        with tempfile.TemporaryDirectory() as directory:
            self.assertEqual(sh(f"echo x > {directory}/made; sleep 1000 & exit 0").returncode, 0)
            self.assertEqual(os.listdir(directory), [])
            self.assertEqual(sh(f"ls {directory}; pgrep sleep").stdout, "")

    def test_files_come_back_from_the_out_directory(self):
        with tempfile.TemporaryDirectory() as directory:
            out = Path(directory, "result")
            done = sh(f"mkdir {out}/sub; echo one > {out}/a; echo two > $GSTZC_LAB_OUT/sub/b; exit 3", options=("--out", str(out)))
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertEqual((out / "a").read_text() + (out / "sub/b").read_text(), "one\ntwo\n")

    def test_a_file_of_the_hosts_system_directories_is_handed_in(self):
        # /dev/shm is a file system that the machine does not see
        with tempfile.NamedTemporaryFile("w", dir="/dev/shm") as file:
            file.write("handed in")
            file.flush()
            self.assertEqual(run("cat", file.name, options=("--file", file.name)).stdout, "handed in")
        self.assertEqual(run("true", options=("--file", "/nonexistent")).returncode, 2)

    def test_another_user_is_no_root(self):
        done = sh("id -un; cat /dev/dri/card0", options=("--user", "nobody"))
        self.assertEqual(done.stdout, "nobody\n")
        self.assertIn("Permission denied", done.stderr)

    def test_a_program_that_takes_too_long_is_killed_with_what_it_started(self):
        start = time.monotonic()
        done = sh("sleep 987 & echo started; sleep 987", options=("--timeout", "3"))
        self.assertEqual((done.returncode, done.stdout), (124, "started\n"), done.stderr)
        self.assertLess(time.monotonic() - start, 60)
        self.assertIn("longer than 3 s", done.stderr)
        self.assertIn("console of the laboratory", done.stderr)
        self.assertIn("nanosleep", done.stderr)  # where its threads were
        self.assertEqual(sh("pgrep sleep").returncode, 1)

    def test_a_program_ends_with_its_client(self):
        with subprocess.Popen([sys.executable, LAB, "run", "--", "sh", "-c", "echo started; sleep 987"], stdout=subprocess.PIPE,
                              text=True, env=ENV) as process:
            self.assertEqual(process.stdout.readline(), "started\n")
            process.kill()
        self.assertEqual(sh("pgrep sleep").returncode, 1)

    def test_a_shell_has_a_terminal(self):
        keys, terminal = os.openpty()
        with subprocess.Popen([sys.executable, LAB, "shell"], stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True, env=ENV) as process:
            os.write(keys, b"tty; echo $((6 * 7)); exit 9\n")
            watchdog = threading.Timer(LIMIT, process.kill)
            watchdog.start()
            output = process.stdout.read()
            watchdog.cancel()
        os.close(keys)
        os.close(terminal)
        self.assertEqual(process.returncode, 9, output)
        self.assertRegex(output, r"(?m)^/dev/pts/\d+\r?$")
        self.assertRegex(output, r"(?m)^42\r?$")

    def test_screendump_is_complete_when_the_command_returns(self):
        done = sh("lab-screendump bochs0 /tmp/x.ppm && head -c 2 /tmp/x.ppm && stat -c ' %s' /tmp/x.ppm")
        self.assertRegex(done.stdout, r"^P6 \d+\n", done.stderr)
        done = sh("lab-screendump nonesuch /tmp/x.ppm")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nonesuch", done.stderr)


class Machine(unittest.TestCase):
    """What happens when the machine or its server dies."""

    @classmethod
    def setUpClass(cls):
        if run("true").returncode == 77:
            raise unittest.SkipTest("no laboratory")

    def test_a_crash_is_125_with_the_console_and_the_next_run_boots_again(self):
        done = sh("echo c > /proc/sysrq-trigger; sleep 60")
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("sysrq", done.stderr)
        self.assertIn("Kernel panic", done.stderr)
        again = run("true")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("booted in", again.stderr)

    def test_a_kernel_warning_of_a_broken_kernel_in_the_last_moment_is_125(self):
        done = sh("echo '<2>BUG: said by the test' > /dev/kmsg")
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("BUG: said by the test", done.stderr)

    def test_a_machine_that_hangs_is_125(self):
        self.assertEqual(run("true").returncode, 0)
        _, machine = processes()
        os.kill(machine, signal.SIGSTOP)
        done = run("true", options=("--timeout", "2"))
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("hangs", done.stderr)
        self.assertTrue(gone(machine))

    def test_no_machine_outlives_its_server(self):
        self.assertEqual(run("true").returncode, 0)
        server, machine = processes()
        os.kill(server, signal.SIGKILL)
        self.assertTrue(gone(machine))
        self.assertEqual(run("true").returncode, 0)

    def test_stop_ends_server_machine_and_program(self):
        with subprocess.Popen([sys.executable, LAB, "run", "--", "sh", "-c", "echo started; sleep 987"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=ENV) as process:
            self.assertEqual(process.stdout.readline(), "started\n")
            pids = processes()
            self.assertEqual(lab("stop").returncode, 0)
            _, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 125)
        self.assertIn("switched off", errors)
        self.assertTrue(all(gone(pid) for pid in pids))
        self.assertEqual(lab("status").stdout, "not running\n")

    def test_an_idle_machine_is_switched_off(self):
        self.assertEqual(run("true").returncode, 0)
        self.assertTrue(all(gone(pid, 30) for pid in processes()))

    def test_instructions_are_the_time_where_they_are_counted(self):
        own = {"GSTZC_LAB_STATE": f"{STATE}-counted", "GSTZC_LAB_ACCEL": "icount", "GSTZC_LAB_BOOT_LIMIT": "280"}
        loop = "read t _ < /proc/$$/schedstat; echo $t; for ((i = 0; i < 50000; ++i)); do :; done; "
        done = run("bash", "-c", 5 * loop + "nproc", **own)
        lab("stop", **own)
        self.assertEqual(done.returncode, 0, done.stderr)
        *times, cpus = map(int, done.stdout.split())
        self.assertEqual(cpus, 1)
        took = [after - before for before, after in zip(times[1:], times[2:])]  # the first loop warms up
        self.assertLess(max(took) / min(took), 1.02, took)

    def test_a_missing_device_is_125_and_named(self):
        done = run("true", GSTZC_LAB_STATE=f"{STATE}-missing", GSTZC_LAB_WITHOUT="vivid bochs0")
        lab("stop", GSTZC_LAB_STATE=f"{STATE}-missing")
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("no /dev/video0", done.stderr)
        self.assertIn("no DRM card of bochs", done.stderr)
        self.assertIn("console of the laboratory", done.stderr)


if __name__ == "__main__":
    try:
        config.kernel_version()
    except config.LabError as reason:
        print(f"skipped: {reason}")
        sys.exit(reason.status)
    unittest.main(verbosity=2)
