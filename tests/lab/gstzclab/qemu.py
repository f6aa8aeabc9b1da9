# SPDX-License-Identifier: LGPL-2.1-or-later
"""QEMU's command line, the question whether KVM really works, and what the console says of a broken kernel."""

import ctypes
import os
import re
import signal
import subprocess
import threading
from pathlib import Path

from . import config
from .config import LabError

# A kernel that said one of these is no ground to test on. WARN_ON alone is not in the list: drivers use it for the mild.
BROKEN = re.compile(rb"\bBUG:|\bOops\b|Kernel panic|KASAN|general protection fault|refcount_t:|blocked for more than \d+ seconds")

PROBE_LIMIT = 15  # seconds


def die_with_parent():
    """For preexec_fn: the kernel kills this process when the server ends, however it ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def machine(accel, directory, append):
    """The part of the command line that the probe and the laboratory share."""
    # without arch-capabilities KVM also works inside many virtual machines whose own MSRs are incomplete
    accel_args = {"kvm": ["-accel", "kvm", "-cpu", "max,arch-capabilities=off"],
                  "tcg": ["-accel", "tcg,thread=multi", "-cpu", "max"],
                  # a nanosecond passes with each instruction, and none while nothing runs but until the next timer
                  "icount": ["-accel", "tcg,thread=single", "-cpu", "max", "-icount", "shift=0,sleep=off"]}[accel]
    return [config.QEMU, "-M", "q35", *accel_args, "-nodefaults", "-display", "none", "-no-reboot",
            "-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
            "-kernel", str(directory / "vmlinuz"), "-initrd", str(directory / "initramfs.gz"),
            "-append", f"console=ttyS0 loglevel=5 panic=-1 watchdog_thresh=60 sysctl.kernel.hung_task_timeout_secs=60 {append}"]


def laboratory(accel, directory, share, agent_fd, qmp_fd):
    """Command line of the VM. agent_fd, qmp_fd: inherited sockets of the guest's agent and of QMP."""
    without = os.environ.get("GSTZC_LAB_WITHOUT", "").split()  # devices to leave out: for tests of the laboratory itself
    displays = [("virtio-gpu-pci", "virtio0"), ("bochs-display", "bochs0")]
    args = machine(accel, directory, "lab.without=" + ",".join(without))
    cpus = 1 if accel == "icount" else max(1, min(4, os.cpu_count() or 1))
    args += ["-m", str(config.MEMORY_MB), "-smp", str(cpus)]
    for device, name in displays:
        if name not in without:
            args += ["-device", f"{device},id={name}"]
    for tag, path, readonly in (("root", "/", ",readonly=on"), ("share", share, "")):
        path = str(path).replace(",", ",,")  # a comma ends a value
        args += ["-fsdev", f"local,id={tag},path={path},security_model=none,multidevs=remap{readonly}",
                 "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
    return args + ["-device", "virtio-serial-pci", "-chardev", f"socket,id=agent,fd={agent_fd}",
                   "-device", "virtserialport,chardev=agent,name=lab.agent",
                   "-chardev", f"socket,id=qmp,fd={qmp_fd}", "-mon", "chardev=qmp,mode=control"]


def accelerator(directory):
    """"kvm" where a guest really boots with it, else "tcg". Asked once per boot of this machine."""
    wish = os.environ.get("GSTZC_LAB_ACCEL", "auto")
    if wish in ("kvm", "tcg", "icount"):
        return wish
    if wish != "auto":
        raise LabError(f"GSTZC_LAB_ACCEL={wish}: kvm, tcg, icount or auto")
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    answer = config.cache_dir() / ("lab-accel-" + Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    if not answer.exists():
        answer.write_text("kvm" if _boots_with_kvm(directory) else "tcg")
    return answer.read_text()


def _boots_with_kvm(directory):
    # An opened /dev/kvm proves little: in nested virtual machines guests start and then stop at an instruction.
    command = machine("kvm", directory, "quiet lab.probe") + ["-m", "512"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          preexec_fn=die_with_parent) as process:
        timer = threading.Timer(PROBE_LIMIT, process.kill)
        timer.start()
        try:
            for line in process.stdout:
                if b"LAB: probe" in line:
                    return True
                if b"KVM internal error" in line or b"KVM: entry failed" in line:
                    return False
            return False
        finally:
            timer.cancel()
            process.kill()
