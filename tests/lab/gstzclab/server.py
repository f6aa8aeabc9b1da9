# SPDX-License-Identifier: LGPL-2.1-or-later
"""The server: owns one virtual machine, runs jobs of its clients in it one after the other, ends when nobody needs it."""

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import sys
import time

from . import config, setup
from .config import LabError
from .frames import Decoder, encode
from .vm import Machine

class Server:
    def __init__(self):
        self.state = config.state_dir()
        self.lab = setup.ensure()
        self.share = self.state / "share"
        shutil.rmtree(self.share, ignore_errors=True)
        self.share.mkdir()
        shutil.copyfile(self.lab / "registry.bin", self.share / "registry.bin")
        self.vm = None
        self.starting = asyncio.Lock()
        self.turn = asyncio.Lock()  # jobs without a terminal have the devices for themselves
        self.jobs = 0
        self.active = 0
        self.started = self.idle_since = time.monotonic()
        self.stopping = asyncio.Event()

    async def main(self):
        here = os.open(self.state, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        path = f"/proc/self/fd/{here}/socket"  # short, however long the path of the state directory is
        if os.path.lexists(path):
            os.unlink(path)
        listener = await asyncio.start_unix_server(self.client, path, limit=1 << 20)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.stopping.set)
        try:
            await self.wait_for_end()
        finally:
            listener.close()  # takes the socket away
            if self.vm:
                await self.vm.stop()
            with contextlib.suppress(TimeoutError):  # clients whose job has ended with the machine still hear of it
                await asyncio.wait_for(listener.wait_closed(), 5)
            os.close(here)

    async def wait_for_end(self):
        """Until somebody stops the server, or nobody has needed it for long, or it is old and has nothing to do."""
        while not self.stopping.is_set():
            try:
                await asyncio.wait_for(self.stopping.wait(), 1)
            except TimeoutError:
                now = time.monotonic()
                # an old server still waits a little: a client that has its job's name comes back to run it
                limit = config.IDLE_LIMIT if now - self.started < config.LIFETIME else min(config.IDLE_LIMIT, 5)
                if not self.active and now - self.idle_since > limit:
                    return

    async def client(self, reader, writer):
        """One connection: a request, then messages until its end."""
        self.active += 1
        try:
            request, decoder = None, Decoder()
            while request is None:
                data = await reader.read(65536)
                if not data:
                    return
                request = next((message for message, _ in decoder.feed(data)), None)
            if request["t"] == "stop":
                self.stopping.set()
            elif request["t"] == "status":
                self.reply(writer, self.status())
            elif request["t"] == "job":
                self.reply(writer, {"t": "job", "id": self.next_id()})
            elif request["t"] == "run":
                await self.run(request, Client(reader, writer, decoder))
            await writer.drain()
        except (ConnectionError, BrokenPipeError):
            pass
        finally:
            self.active -= 1
            self.idle_since = time.monotonic()
            writer.close()

    @staticmethod
    def reply(writer, message, payload=b""):
        writer.write(encode(message, payload))

    def status(self):
        running = bool(self.vm and self.vm.alive)
        return {"t": "status", "pid": os.getpid(), "vm": self.vm.process.pid if running else None, "jobs": self.jobs,
                "accel": self.vm.accel if running else None, "boot": self.vm.boot_time if running else None}

    def next_id(self):
        self.jobs += 1
        return f"job{self.jobs}"

    async def run(self, request, client):
        """Runs a job and tells the client its end, whosever fault that is."""
        try:
            self.check_visible(request)
            if request.get("tty"):
                code = await self.run_in_vm(request, client)
            else:
                code = await self.run_in_turn(request, client)
            client.send({"t": "end", "code": code})
        except LabError as error:
            client.send({"t": "end", "code": error.status, "text": str(error)})
        except Exception as error:  # pylint: disable=broad-except
            client.send({"t": "end", "code": config.VM_FAILED, "text": f"the laboratory's server failed: {error!r}"})
            raise

    @staticmethod
    def check_visible(request):
        """The machine sees what this process sees, whose mounts are those of the time when it was started."""
        path, identity = request["cwd"], tuple(request["cwd_id"])
        try:
            found = os.stat(path)
        except OSError:
            found = None
        if found is None or (found.st_dev, found.st_ino) != identity:
            raise LabError(f"{path} was not there when the laboratory was started: stop it (scripts/lab --stop) and try again")

    async def run_in_turn(self, request, client):
        if self.turn.locked():
            client.say("another job is running in the laboratory: waiting for it")
        waiting = asyncio.ensure_future(self.turn.acquire())
        await asyncio.wait([waiting, client.gone], return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            raise LabError("the client went away")
        try:
            return await self.run_in_vm(request, client)
        finally:
            self.turn.release()

    async def booted(self, client):
        """The machine, which is started unless it runs. Two jobs do not start two."""
        async with self.starting:
            if self.vm is None or not self.vm.alive:
                if self.vm:
                    client.say(f"starting anew, because {await self.vm.stop()}")
                self.vm = Machine(self.lab, self.state)
                await self.vm.boot()
                client.say(f"booted in {self.vm.boot_time:.1f} s ({self.vm.accel})")
            return self.vm

    async def run_in_vm(self, request, client):
        """The job's exit status; LabError where it was killed or the machine failed."""
        machine, name, limit = await self.booted(client), request["id"], request.get("timeout")
        console_from = machine.console_size
        relay = asyncio.ensure_future(self.relay(machine.subscribe(name), client))
        machine.send(request | {"t": "run"})
        client.attach(lambda message, payload: machine.send(message | {"id": name}, payload))
        try:
            await asyncio.wait([relay, machine.failed, client.gone], timeout=limit or None, return_when=asyncio.FIRST_COMPLETED)
            killed = None
            if not relay.done() and not machine.failed.done():
                killed = "the client went away" if client.gone.done() else f"the job was killed: it ran longer than {limit:g} s"
                machine.send({"t": "kill", "id": name})
                await asyncio.wait([relay, machine.failed], timeout=config.KILL_GRACE, return_when=asyncio.FIRST_COMPLETED)
                if not relay.done():
                    await machine.fail("the machine hangs: a killed job did not end")
            await machine.settle()
            machine.check(console_from)
            if killed:
                raise LabError(f"{killed}\n{machine.console_tail(console_from)}", config.TIMED_OUT)
            done = relay.result()
            if "error" in done:
                raise LabError(done["error"])
            return done["code"]
        finally:
            relay.cancel()
            machine.unsubscribe(name)
            if machine.failing:
                await machine.stop()

    @staticmethod
    async def relay(events, client):
        """Passes the job's output to the client until its end, which it returns."""
        while True:
            message, payload = await events.get()
            if message["t"] == "exit":
                return message
            client.send({"t": message["t"]}, payload)
            await client.drain()


class Client:
    """The client of a job. gone: done when it has hung up."""

    def __init__(self, reader, writer, decoder):
        self.reader, self.writer, self.decoder = reader, writer, decoder
        self.early, self.handler = [], None
        self.gone = asyncio.ensure_future(self.listen())

    async def listen(self):
        data = b""  # first what came together with the request
        while True:
            for message, payload in self.decoder.feed(data):
                if self.handler:
                    self.handler(message, payload)
                else:
                    self.early.append((message, payload))
            try:
                data = await self.reader.read(65536)
            except ConnectionError:
                return
            if not data:
                return

    def attach(self, handler):
        """handler gets the client's messages, beginning with those that came before the job was started."""
        for message, payload in self.early:
            handler(message, payload)
        self.early, self.handler = [], handler

    def send(self, message, payload=b""):
        self.writer.write(encode(message, payload))

    def say(self, text):
        self.send({"t": "say", "text": text})

    async def drain(self):
        try:
            await self.writer.drain()
        except ConnectionError:
            pass


def main():
    """Entry of the server process. The lock says that it lives; it is held until the process ends."""
    lock = os.open(config.state_dir() / "server.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit("another server is running")
    asyncio.run(Server().main())
