# SPDX-License-Identifier: LGPL-2.1-or-later
"""The server: owns one virtual machine, runs jobs of its clients in it one after the other, ends when nobody needs it."""

import asyncio
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

KILL_GRACE = 15  # seconds from the request to kill a job until the VM counts as hung


class Server:
    def __init__(self):
        self.state = config.state_dir()
        self.lab = setup.ensure()
        self.share = self.state / "share"
        shutil.rmtree(self.share, ignore_errors=True)
        self.share.mkdir()
        shutil.copyfile(self.lab / "registry.bin", self.share / "registry.bin")
        self.vm = None
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
        async with listener:
            while not self.stopping.is_set():
                try:
                    await asyncio.wait_for(self.stopping.wait(), 1)
                except TimeoutError:
                    idle = not self.active and time.monotonic() - self.idle_since > config.IDLE_LIMIT
                    old = not self.active and time.monotonic() - self.started > config.LIFETIME
                    if idle or old:
                        break
        os.unlink(path)
        if self.vm:
            await self.vm.stop()
        os.close(here)

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
        """Runs a job and tells the client; never raises for what is the job's or the machine's fault."""
        try:
            if request.get("tty"):
                await self.run_in_vm(request, client)
                return
            if self.turn.locked():
                client.say("another job is running in the laboratory: waiting for it")
            waiting = asyncio.ensure_future(self.turn.acquire())
            await asyncio.wait([waiting, client.gone], return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                waiting.cancel()
                return
            try:
                await self.run_in_vm(request, client)
            finally:
                self.turn.release()
        except LabError as error:
            client.send({"t": "end", "code": error.status, "text": str(error)})

    async def run_in_vm(self, request, client):
        if self.vm is None or not self.vm.alive:
            self.vm = Machine(self.lab, self.state)
            await self.vm.boot()
            client.say(f"booted in {self.vm.boot_time:.1f} s ({self.vm.accel})")
        machine, name = self.vm, request["id"]
        console_from = machine.console_size
        events = machine.subscribe(name)
        deadline = time.monotonic() + request["timeout"] if request.get("timeout") else None
        machine.send({**request, "t": "run"})
        killed = None  # when and why
        client.on_message = lambda message, payload: machine.send({**message, "id": name}, payload)
        try:
            while True:
                waits = [asyncio.ensure_future(events.get()), machine.failed] + ([] if killed else [client.gone])
                limit = killed[0] + KILL_GRACE if killed else deadline
                await asyncio.wait(waits, timeout=None if limit is None else max(0, limit - time.monotonic()),
                                   return_when=asyncio.FIRST_COMPLETED)
                event = waits[0].result() if waits[0].done() else waits[0].cancel()
                if event is not None:
                    message, payload = event
                    if message["t"] in ("out", "err"):
                        client.send({"t": message["t"]}, payload)
                        await client.drain()
                        continue
                    if killed:
                        raise LabError(killed[1] + machine.console_tail(console_from), config.TIMED_OUT)
                    if "error" in message:
                        raise LabError(message["error"])
                    # an oops in the job's last moments is still on its way through the console
                    await machine.settle()
                    machine.check()
                    client.send({"t": "end", "code": message["code"]})
                    return
                machine.check()
                if killed is None and client.gone.done():
                    killed = (time.monotonic(), "the client went away")
                elif killed is None and deadline is not None and time.monotonic() >= deadline:
                    killed = (time.monotonic(), f"the job was killed after {request['timeout']:g} s\n")
                elif killed and time.monotonic() >= killed[0] + KILL_GRACE:
                    await machine.fail("a killed job did not end: the machine hangs")
                    machine.check()
                else:
                    continue
                machine.send({"t": "kill", "id": name})
        finally:
            machine.unsubscribe(name)
            if not machine.alive or machine.failed.done():
                await machine.stop()


class Client:
    """The client of a job. gone: done when it has hung up."""

    def __init__(self, reader, writer, decoder):
        self.reader, self.writer, self.decoder = reader, writer, decoder
        self.on_message = lambda message, payload: None
        self.gone = asyncio.ensure_future(self.listen())

    async def listen(self):
        while True:
            try:
                data = await self.reader.read(65536)
            except ConnectionError:
                data = b""
            if not data:
                return
            for message, payload in self.decoder.feed(data):
                self.on_message(message, payload)

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
