# SPDX-License-Identifier: LGPL-2.1-or-later
"""The laboratory's agent: runs jobs inside the VM for the server on the host, and passes requests of programs to it.

Each job gets a file system (the host's files with a tmpfs over them) and a process namespace of its own; both end with it."""

import fcntl
import os
import selectors
import signal
import socket
import struct
import termios
import time

import job
from frames import Decoder, encode

RUN = "/run/lab"
CARDS = ("bochs", "vgem", "virtio_gpu", "vkms")  # DRM drivers by the name they report
DEVICES = ("/dev/udmabuf", "/dev/dma_heap/system", "/dev/video0", "/sys/kernel/debug/sync/sw_sync")
DEVICE_WAIT = 10  # seconds that a device may take to appear


def open_port(name):
    """The virtio-serial port of that name, once the kernel has found it."""
    base = "/sys/class/virtio-ports"
    while True:
        for port in os.listdir(base) if os.path.isdir(base) else []:
            with open(f"{base}/{port}/name", encoding="ascii") as file:
                if file.read().strip() == name:
                    return os.open(f"/dev/{port}", os.O_RDWR | os.O_CLOEXEC)
        time.sleep(0.05)


def missing_devices():
    """Names of the devices that a laboratory has to have and this one has not."""
    deadline = time.monotonic() + DEVICE_WAIT
    while True:
        drivers = set()
        for card in sorted(os.listdir("/dev/dri")) if os.path.isdir("/dev/dri") else []:
            if card.startswith("card"):
                drivers.add(job.drm_driver(f"/dev/dri/{card}"))
        missing = [path for path in DEVICES if not os.path.exists(path)]
        missing += [f"DRM card of {name}" for name in CARDS if not any(d.startswith(name) for d in drivers)]
        if not missing or time.monotonic() > deadline:
            return missing
        time.sleep(0.1)


class Agent:
    def __init__(self):
        self.port = open_port("lab.agent")
        os.set_blocking(self.port, False)
        self.jobs = {}
        self.callers = {}  # connections of lab-screendump and the like, by request number
        self.requests = 0
        self.decoder = Decoder()
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.port, selectors.EVENT_READ, self.from_host)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(f"{RUN}/agent.sock")
        os.chmod(f"{RUN}/agent.sock", 0o666)
        self.listener.listen()
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)

    def send(self, message, payload=b""):
        data = memoryview(encode(message, payload))
        while data:  # the port is a queue to the host: when it is full, the host has to read first
            try:
                data = data[os.write(self.port, data):]
            except BlockingIOError:
                time.sleep(0.005)

    def serve(self):
        self.send({"t": "ready", "missing": missing_devices(), "uptime": time.clock_gettime(time.CLOCK_BOOTTIME)})
        while True:
            for key, _ in self.selector.select():
                key.data(key.fileobj)

    def from_host(self, _):
        try:
            data = os.read(self.port, 65536)
        except BlockingIOError:
            return
        if not data:
            raise SystemExit("the host closed the port")
        for message, payload in self.decoder.feed(data):
            getattr(self, "do_" + message["t"])(message, payload)

    def do_ping(self, message, _):
        self.send({"t": "pong", "seq": message["seq"]})

    def do_run(self, message, _):
        try:
            with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
                file.write("3")  # the host's files may have changed since the last job
            started = job.start(message, f"{RUN}/jobs/{message['id']}")
        except OSError as error:
            self.send({"t": "exit", "id": message["id"], "error": f"the job could not be started: {error}"})
            return
        self.jobs[message["id"]] = started
        for name, fd in started.outputs.items():
            self.selector.register(fd, selectors.EVENT_READ, lambda fd, n=name, j=started: self.output(j, n, fd))
        self.selector.register(started.pidfd, selectors.EVENT_READ, lambda _, j=started: self.reap(j))

    def output(self, started, name, fd):
        try:
            data = os.read(fd, 65536)
        except BlockingIOError:
            return
        except OSError:  # a terminal whose programs are gone
            data = b""
        self.pass_on(started, name, fd, data)

    def pass_on(self, started, name, fd, data):
        """Sends what a job has written; no data is the end of that output."""
        if data:
            self.send({"t": name, "id": started.id}, data)
        else:
            self.selector.unregister(fd)
            os.close(fd)
            del started.outputs[name]

    def reap(self, started):
        self.selector.unregister(started.pidfd)
        while started.outputs:  # the namespace is gone: what is in the pipes is all there will be
            for name, fd in list(started.outputs.items()):
                os.set_blocking(fd, False)
                try:
                    data = os.read(fd, 65536)
                except OSError:
                    data = b""
                self.pass_on(started, name, fd, data)
        code = started.finish()
        del self.jobs[started.id]
        self.send({"t": "exit", "id": started.id, "code": code})

    def do_kill(self, message, _):
        started = self.jobs.get(message["id"])
        if started:
            self.send({"t": "err", "id": started.id}, job.whereabouts(started.pid))
            os.kill(started.pid, signal.SIGKILL)

    def do_input(self, message, payload):
        started = self.jobs.get(message["id"])
        deadline = time.monotonic() + 1
        while payload and started and "out" in started.outputs:
            try:
                payload = payload[os.write(started.outputs["out"], payload):]
            except OSError:  # the terminal's queue is full, or its programs are gone
                if time.monotonic() > deadline:
                    return
                time.sleep(0.01)

    def do_size(self, message, _):
        started = self.jobs.get(message["id"])
        if started and "out" in started.outputs:
            fcntl.ioctl(started.outputs["out"], termios.TIOCSWINSZ, struct.pack("HHHH", *message["size"], 0, 0))

    def accept(self, _):
        caller, _ = self.listener.accept()
        self.selector.register(caller, selectors.EVENT_READ, self.request)

    def request(self, caller):
        """One line "screendump DEVICE" of a program in the VM; the answer is one line "ok FILE" or "error TEXT"."""
        self.selector.unregister(caller)
        try:
            words = caller.recv(4096).decode(errors="replace").split()
        except OSError:
            words = []
        if len(words) != 2 or words[0] != "screendump":
            self.answer(caller, "error unknown request")
            return
        self.requests += 1
        self.callers[self.requests] = caller
        self.send({"t": "screendump", "seq": self.requests, "device": words[1]})

    def do_answer(self, message, _):
        caller = self.callers.pop(message["seq"], None)
        if caller:
            self.answer(caller, message["text"])

    @staticmethod
    def answer(caller, text):
        try:
            caller.sendall(text.encode() + b"\n")
        except OSError:
            pass  # the program did not wait for it
        caller.close()


if __name__ == "__main__":
    Agent().serve()
