# SPDX-License-Identifier: LGPL-2.1-or-later
"""The commands of lab.py: setup, run, shell, stop, status, console."""

import argparse
import fcntl
import os
import re
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
import tty
from pathlib import Path

from . import config, setup
from .config import LabError, say
from .frames import Decoder, encode

START_LIMIT = 30  # seconds until a new server listens
PASSED_ON = re.compile(r"(GST|GSTZC|GTEST|G)_\w+|(A|L|UB|T)SAN_OPTIONS|LD_LIBRARY_PATH|LANG|LC_\w+|TERM")
# directories that come from the made root, not from the machine: what is there differs from call to call
OF_THE_SYSTEM = {"bin", "boot", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "sys", "usr", "var"}


def main(argv):
    parser = argparse.ArgumentParser(prog="lab.py", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("setup", help="make the laboratory's files, unless they are there")
    for name, text in (("run", "run a program in the laboratory"), ("shell", "an interactive shell, or CMD on a terminal")):
        run = commands.add_parser(name, help=text)
        run.add_argument("--timeout", type=float, default=0, metavar="S", help="kill the program after S seconds (status 124)")
        run.add_argument("--file", action="append", default=[], metavar="PATH", help="make this file readable inside")
        run.add_argument("--out", metavar="DIR", help="bring back what the program writes into DIR")
        run.add_argument("--user", metavar="NAME", help="run as this user of the made root instead of root")
        run.add_argument("argv", nargs=argparse.REMAINDER, metavar="CMD")
    commands.add_parser("stop", help="switch the virtual machine off")
    commands.add_parser("status", help="what is running")
    commands.add_parser("console", help="print the console log of the last boot")
    commands.add_parser("serve", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    try:
        return {"setup": cmd_setup, "run": cmd_run, "shell": cmd_run, "stop": cmd_stop, "status": cmd_status,
                "console": cmd_console, "serve": cmd_serve}[args.command](args)
    except LabError as error:
        say(str(error))
        return error.status
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:  # whoever read our output has gone
        return 128 + signal.SIGPIPE


def cmd_setup(_):
    setup.ensure()
    return 0


def cmd_serve(_):
    from . import server  # pylint: disable=import-outside-toplevel
    server.main()
    return 0


def cmd_console(_):
    path = config.state_dir() / "console.log"
    if not path.exists():
        raise LabError("the laboratory has not been booted yet", 1)
    with open(path, "rb") as file:
        shutil.copyfileobj(file, sys.stdout.buffer)
    return 0


def cmd_status(_):
    server = connect()
    if server is None:
        print("not running")
        return 0
    answer = ask(server, {"t": "status"})
    print(f"server {answer['pid']}, {answer['jobs']} jobs so far")
    print(f"machine {answer['vm']}, booted in {answer['boot']:.1f} s ({answer['accel']})" if answer["vm"] else "no machine running")
    return 0


def cmd_stop(_):
    server = connect()
    if server is not None:
        ask(server, {"t": "stop"})
    with config.locked(config.state_dir() / "server.lock"):  # held by the server until it is gone
        return 0


def cmd_run(args):
    argv = args.argv[1:] if args.argv[:1] == ["--"] else args.argv
    terminal = args.command == "shell"
    if not argv and not terminal:
        raise LabError("which program? lab.py run [options] -- CMD…", 2)
    setup.ensure()
    name = (ask(server_connection(), {"t": "job"}) or ask(server_connection(), {"t": "job"}))["id"]  # one may just be ending
    exchange = config.state_dir() / "share" / name
    exchange.mkdir()
    try:
        here = os.stat(".")
        request = {
            "t": "run", "id": name, "argv": argv or ["/bin/bash", "-i"], "tty": terminal, "timeout": args.timeout, "user": args.user,
            "cwd": os.getcwd(), "cwd_id": [here.st_dev, here.st_ino], "files": hand_in(args.file, exchange),
            "env": {key: value for key, value in os.environ.items() if PASSED_ON.fullmatch(key)},
        }
        if args.out:
            (exchange / "out").mkdir()
            request["out"] = os.path.abspath(args.out)
            request["env"]["GSTZC_LAB_OUT"] = request["out"]
        with server_connection() as server:
            code = follow(server, request, terminal)
        if args.out:
            shutil.copytree(exchange / "out", args.out, symlinks=True, dirs_exist_ok=True)
        return code
    finally:
        shutil.rmtree(exchange, ignore_errors=True)


def hand_in(paths, exchange):
    """Copies files that the machine would not see under their own path; returns those paths."""
    files = []
    for path in map(os.path.abspath, paths):
        if not os.path.isfile(path):
            raise LabError(f"--file {path}: no such file", 2)
        if Path(path).parts[1] in OF_THE_SYSTEM:
            (exchange / "files").mkdir(exist_ok=True)
            shutil.copyfile(path, exchange / "files" / str(len(files)))
            files.append(path)
    return files


def follow(server, request, terminal):
    """Sends the job, passes its output on, returns its exit status."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    server.sendall(encode(request))
    with Terminal(server, terminal) as keyboard:
        decoder = Decoder()
        while True:
            data = keyboard.wait()
            if not data:
                raise LabError("the laboratory's server ended during the job (see server.log in the state directory)")
            for message, payload in decoder.feed(data):
                if message["t"] == "end":
                    keyboard.restore()
                    if message.get("text"):
                        say(message["text"])
                    return message["code"]
                if message["t"] == "say":
                    say(message["text"])
                else:
                    write_all(1 if message["t"] == "out" else 2, payload)


def write_all(fd, data):
    data = memoryview(data)
    while data:
        data = data[os.write(fd, data):]


class Terminal:
    """Waits for the server's messages; for an interactive job also passes on keys and the size of the window."""

    def __init__(self, server, interactive):
        self.server = server
        self.saved = None
        self.selector = selectors.DefaultSelector()
        self.selector.register(server, selectors.EVENT_READ)
        self.interactive = interactive

    def __enter__(self):
        if self.interactive:
            self.selector.register(0, selectors.EVENT_READ)
            if os.isatty(0):
                self.saved = termios.tcgetattr(0)
                tty.setraw(0, termios.TCSADRAIN)  # what was typed ahead is kept
                self.resized()
                signal.signal(signal.SIGWINCH, self.resized)
        return self

    def __exit__(self, *_):
        self.restore()

    def restore(self):
        if self.saved:
            termios.tcsetattr(0, termios.TCSADRAIN, self.saved)
            self.saved = None

    def resized(self, *_):
        size = struct.unpack("HHHH", fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))[:2]
        self.server.sendall(encode({"t": "size", "size": size}))

    def wait(self):
        """Bytes from the server; none at its end."""
        while True:
            for key, _ in self.selector.select():
                if key.fileobj is self.server:
                    return self.server.recv(65536)
                keys = os.read(0, 4096)
                if keys:
                    self.server.sendall(encode({"t": "input"}, keys))
                else:
                    self.selector.unregister(0)
                    self.server.sendall(encode({"t": "input"}, b"\x04"))


def connect():
    """A connection to the laboratory's server, or None where none listens."""
    here = os.open(config.state_dir(), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    server = socket.socket(socket.AF_UNIX)
    try:
        server.connect(f"/proc/self/fd/{here}/socket")  # the path of a socket must be short
        return server
    except (FileNotFoundError, ConnectionRefusedError):
        server.close()
        return None
    finally:
        os.close(here)


def server_connection():
    """A connection to the server; starts it where none listens."""
    with config.locked(config.state_dir() / "start.lock"):
        server = connect()
        if server is not None:
            return server
        with config.locked(config.state_dir() / "server.lock"):
            pass  # one that is on its way out has gone now
        log = config.state_dir() / "server.log"
        with open(log, "wb") as output:
            # a session of its own, nothing of the caller's open: it lives on when the caller has ended
            process = subprocess.Popen([sys.executable, str(config.HERE / "lab.py"), "serve"], stdin=subprocess.DEVNULL,  # pylint: disable=consider-using-with
                                       stdout=output, stderr=output, start_new_session=True, cwd="/")
        deadline = time.monotonic() + START_LIMIT
        while process.poll() is None and time.monotonic() < deadline:
            server = connect()
            if server is not None:
                return server
            time.sleep(0.02)
        raise LabError(f"the laboratory's server did not start: {log.read_text(errors='replace')}")


def ask(server, request):
    """One question, one answer; {} where the server gives none."""
    with server:
        server.settimeout(START_LIMIT)
        server.sendall(encode(request))
        decoder = Decoder()
        while data := server.recv(65536):
            for message, _ in decoder.feed(data):
                return message
    return {}
