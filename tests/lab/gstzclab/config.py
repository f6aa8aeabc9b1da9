# SPDX-License-Identifier: LGPL-2.1-or-later
"""Paths, limits and the identity of a laboratory: what is set up where, and which environment variables change it."""

import fcntl
import hashlib
import os
import sys
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
GUEST = HERE / "guest"
KERNEL_FILE = Path("/etc/gst-zerocopy-kernel")
QEMU = "qemu-system-x86_64"

# exit statuses of `run` that are not the job's
SKIPPED, TIMED_OUT, VM_FAILED = 77, 124, 125

BOOT_LIMIT = float(os.environ.get("GSTZC_LAB_BOOT_LIMIT", "180"))  # seconds until the guest is ready
IDLE_LIMIT = float(os.environ.get("GSTZC_LAB_IDLE", "60"))  # seconds without a job until the VM is switched off
LIFETIME = float(os.environ.get("GSTZC_LAB_LIFETIME", "7200"))  # seconds after which a VM takes no new job
KILL_GRACE = float(os.environ.get("GSTZC_LAB_KILL_GRACE", "15"))  # seconds that a killed job may take before the VM counts as hung
MEMORY_MB = int(os.environ.get("GSTZC_LAB_MEMORY", "1536"))

# Kernel modules in the order of loading; what they need is added. vkms and swsync are ours (setup.py).
MODULES = ["configfs", "9pnet_virtio", "9p", "overlay", "virtio-gpu", "bochs", "vgem", "vivid"]
# vivid: a capture device (node type bit 0), and an HDMI output (bit 8) that takes contiguous memory only;
# no more nodes, so that the VM boots fast
OPTIONS = {"vivid": "n_devs=2 node_types=0x1,0x100 allocators=0,1 num_outputs=1,1 output_types=0,1", "vkms": "enable_overlay=1"}


class LabError(Exception):
    """Something that the user has to know; status is the exit status of the command."""

    def __init__(self, text, status=VM_FAILED):
        super().__init__(text)
        self.status = status


def say(text):
    print(f"lab: {text}", file=sys.stderr, flush=True)


def cache_dir():
    cache = os.environ.get("GSTZC_CACHE")
    if cache:
        return Path(cache)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gst-zerocopy"


def kernel_version():
    """Version of the made root's kernel, or a LabError with status 77 that says what is missing."""
    if not KERNEL_FILE.exists():
        raise LabError("this is not the made Debian 13 root of scripts/lab (no laboratory kernel)", SKIPPED)
    version = KERNEL_FILE.read_text().strip()
    for path in (f"/boot/vmlinuz-{version}", f"/lib/modules/{version}/build", f"/usr/bin/{QEMU}", "/bin/busybox"):
        if not os.path.exists(path):
            raise LabError(f"{path} is missing in the made Debian 13 root", SKIPPED)
    return version


def _digest(paths, start):
    digest = hashlib.sha256(start.encode())
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def lab_dir():
    """Where the laboratory of this kernel, these packages and these recipes is or will be."""
    recipes = [HERE / "gstzclab/setup.py", HERE / "gstzclab/frames.py", *sorted(p for p in GUEST.iterdir() if p.is_file())]
    start = repr((kernel_version(), MODULES, OPTIONS))
    return cache_dir() / ("lab-" + _digest([Path("/var/lib/dpkg/status"), *recipes], start))


def state_dir():
    """Where the running VM of this laboratory, this controller and this root keeps its socket, console log and shared files."""
    name = os.environ.get("GSTZC_LAB_STATE", "default")
    root = os.stat("/usr")  # a root that was made anew is another one, with the same packages in it
    code = _digest(sorted(HERE.glob("gstzclab/*.py")), f"{root.st_dev}:{root.st_ino}")
    path = lab_dir() / f"state-{name}-{code}"
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def locked(path):
    """Holds an exclusive flock on path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
