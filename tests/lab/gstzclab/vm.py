# SPDX-License-Identifier: LGPL-2.1-or-later
"""One boot of the virtual machine: QEMU's process, its console, the agent's messages, QMP."""

import asyncio
import contextlib
import json
import socket
import time

from . import config, qemu
from .config import LabError
from .frames import Decoder, encode

PING_EVERY, PONG_WITHIN = 5, 60  # seconds; an emulated machine on a busy host may be slow to answer
QMP_LIMIT = 20
CONSOLE_SHOWN = 60  # lines


class Machine:
    def __init__(self, lab, state):
        self.lab, self.state, self.share = lab, state, state / "share"
        self.accel = qemu.accelerator(lab)
        self.process = None
        self.console = state / "console.log"
        self.console_size = 0
        self.boot_time = 0.0
        self.failing = False  # known before failed is: the console is still being read then
        self.failed = asyncio.get_running_loop().create_future()  # result: what happened
        self.queues = {}
        self.last_heard = time.monotonic()
        self.tasks = []
        self.qmp_turn = asyncio.Lock()
        self.qmp_commands = 0
        self.ready = asyncio.get_running_loop().create_future()
        self.agent = self.qmp = None

    @property
    def alive(self):
        return self.process is not None and self.process.returncode is None and not self.failing

    async def boot(self):
        """Starts QEMU and waits for the agent. Raises LabError with the console where that fails."""
        start = time.monotonic()
        agent, agent_end = socket.socketpair()
        qmp, qmp_end = socket.socketpair()
        command = qemu.laboratory(self.accel, self.lab, self.share, agent_end.fileno(), qmp_end.fileno())
        with agent_end, qmp_end, open(self.state / "qemu.log", "wb") as log:
            self.process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=log,
                pass_fds=(agent_end.fileno(), qmp_end.fileno()), preexec_fn=qemu.die_with_parent)
        reader, self.agent = await asyncio.open_connection(sock=agent)
        self.qmp = await asyncio.open_connection(sock=qmp)
        self.tasks = [asyncio.ensure_future(task) for task in (self.read_console(), self.read_agent(reader))]
        await asyncio.wait([self.ready, self.failed], timeout=config.BOOT_LIMIT, return_when=asyncio.FIRST_COMPLETED)
        if not self.ready.done() and not self.failed.done():
            await self.fail(f"the machine did not boot within {config.BOOT_LIMIT:g} s")
        missing = self.ready.result()["missing"] if self.ready.done() else []
        if missing:
            await self.fail("the laboratory has no " + ", no ".join(missing))
        if self.failed.done():
            await self.stop()
            self.check()
        self.boot_time = time.monotonic() - start
        self.tasks.append(asyncio.ensure_future(self.watch()))

    async def stop(self):
        """Ends QEMU and everything that belongs to it. Returns why the machine cannot be used any more."""
        if self.process and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for writer in (self.agent, self.qmp and self.qmp[1]):
            if writer:
                writer.close()
        self.failing = True
        if not self.failed.done():
            self.failed.set_result("the machine was switched off")
        return self.failed.result()

    async def fail(self, why):
        """The machine cannot be used any more. Takes what the console still says about it."""
        self.failing = True
        await asyncio.sleep(1)
        if not self.failed.done():
            self.failed.set_result(why)

    def check(self, console_from=0):
        if self.failed.done():
            raise LabError(f"{self.failed.result()}\n{self.console_tail(console_from)}")

    def console_tail(self, start):
        """The end of what the console said since the offset start, in bytes."""
        text = self.console.read_bytes()[start:].decode(errors="replace") if self.console.exists() else ""
        lines = text.replace("\r", "").splitlines()[-CONSOLE_SHOWN:]
        with open(self.state / "qemu.log", encoding="utf-8", errors="replace") as log:
            lines += [f"qemu: {line}" for line in log.read().splitlines()[-5:]]
        return "\n".join(["--- console of the laboratory:", *lines, "---"])

    async def settle(self):
        """Waits for the console to be quiet for a moment: what the kernel says in a job's last moments belongs to the job."""
        size = -1
        while size != self.console_size:
            size = self.console_size
            await asyncio.sleep(0.05)
        if self.failing:
            await asyncio.wait([self.failed], timeout=5)

    async def read_console(self):
        with open(self.console, "wb", buffering=0) as file:
            tail = b""
            while data := await self.process.stdout.read(65536):
                file.write(data)
                self.console_size += len(data)
                lines = (tail + data).split(b"\n")
                tail = lines[-1][-4096:]
                broken = next((line for line in lines if qemu.BROKEN.search(line)), None)
                if broken and not self.failing:
                    self.failing = True
                    line = broken.decode(errors="replace").strip()
                    self.tasks.append(asyncio.ensure_future(self.fail(f"the kernel of the laboratory is broken: {line}")))
        code = await self.process.wait()
        await self.fail(f"the machine ended (QEMU's status {code})")

    async def read_agent(self, reader):
        decoder = Decoder()
        while data := await reader.read(65536):
            self.last_heard = time.monotonic()
            for message, payload in decoder.feed(data):
                if message["t"] == "ready":
                    self.ready.set_result(message)
                elif message["t"] == "screendump":
                    self.tasks.append(asyncio.ensure_future(self.screendump(message)))
                elif message.get("id") in self.queues:
                    await self.queues[message["id"]].put((message, payload))
                    self.last_heard = time.monotonic()  # a client that does not read is not the machine's fault

    async def watch(self):
        number = 0
        while self.alive:
            number += 1
            self.send({"t": "ping", "seq": number})
            await asyncio.sleep(PING_EVERY)
            full = any(queue.full() for queue in self.queues.values())
            if not full and time.monotonic() - self.last_heard > PONG_WITHIN:
                await self.fail(f"the machine hangs: no answer for {PONG_WITHIN} s")

    def send(self, message, payload=b""):
        self.agent.write(encode(message, payload))

    def subscribe(self, name):
        self.queues[name] = asyncio.Queue(64)
        return self.queues[name]

    def unsubscribe(self, name):
        queue = self.queues.pop(name)
        while not queue.empty():  # frees a reader that waits for room
            queue.get_nowait()

    async def screendump(self, request):
        name = f"screendump-{request['seq']}.ppm"
        try:
            await asyncio.wait_for(self.command("screendump", filename=str(self.share / name), device=request["device"]), QMP_LIMIT)
            text = f"ok {name}"
        except (LabError, TimeoutError) as error:
            text = f"error {error or 'QEMU gave no answer'}"
        self.send({"t": "answer", "seq": request["seq"], "text": text})

    async def command(self, name, **arguments):
        """Runs a QMP command; QEMU writes a screendump's file before it answers."""
        reader, writer = self.qmp
        async with self.qmp_turn:
            for step in ({"execute": "qmp_capabilities"}, {"execute": name, "arguments": arguments}):
                self.qmp_commands += 1  # an answer that comes after its time-out is not the next command's
                writer.write(json.dumps(step | {"id": self.qmp_commands}).encode())
                answer = {}
                while answer.get("id") != self.qmp_commands:
                    answer = json.loads(await reader.readline())
                if "error" in answer and step["execute"] == name:
                    raise LabError(answer["error"]["desc"])
