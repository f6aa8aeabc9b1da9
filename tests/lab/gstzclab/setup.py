# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes the laboratory's directory: kernel, initramfs with modules and agent, GStreamer registry. All or nothing."""

import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from . import config
from .config import LabError, say

READY = "ready"  # written last
KEEP_UNUSED = 30 * 86400  # seconds


def ensure():
    """The laboratory's directory; made first where it is not there yet."""
    directory = config.lab_dir()
    if (directory / READY).exists():
        os.utime(directory)  # used: see _prune
        return directory
    with config.locked(config.cache_dir() / "lab.lock"):
        if not (directory / READY).exists():
            start = time.monotonic()
            say(f"set up {directory} …")
            _make(directory)
            say(f"set up: {time.monotonic() - start:.1f} s")
            _prune(directory)
    return directory


def _prune(current):
    """Removes laboratories of other kernels or recipes that nobody has used for long."""
    for directory in config.cache_dir().glob("lab-*/"):
        if directory != current and time.time() - directory.stat().st_mtime > KEEP_UNUSED:
            shutil.rmtree(directory, ignore_errors=True)


def _make(directory):
    version = config.kernel_version()
    directory.mkdir(parents=True, exist_ok=True)
    # the unfinished parts lie beside their places, so that a name in the laboratory always means a complete file
    # kbuild takes no path with a space or a colon, which the cache directory's may have
    with tempfile.TemporaryDirectory(prefix="setup-", dir=directory) as work, \
            tempfile.TemporaryDirectory(prefix="gst-zerocopy-lab-", dir="/var/tmp") as tree:
        work = Path(work)
        modules = _build_modules(version, Path(tree))
        _initramfs(version, modules, work)
        shutil.copyfile(f"/boot/vmlinuz-{version}", work / "vmlinuz")
        _registry(work / "registry.bin")
        for name in ("initramfs.gz", "vmlinuz", "registry.bin"):
            os.replace(work / name, directory / name)
    (directory / READY).write_text(version + "\n")


def _run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                          text=True, errors="replace", check=False, **options)
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-40:])
        raise LabError(f"{tail}\n{command[0]} failed with status {done.returncode} (its output is above)")
    return done.stdout


def _build_modules(version, tree):
    """vkms and sw_sync, which Debian's kernels leave out, from Debian's own source package of the same version."""
    kbuild = f"/lib/modules/{version}/build"
    source = "/usr/src/linux-source-" + re.match(r"\d+\.\d+", version)[0] + ".tar.xz"
    _run(["tar", "-xf", source, "--strip-components=1", "--wildcards", "*/drivers/gpu/drm/vkms/*", "*/drivers/dma-buf/*"],
         cwd=tree)
    vkms = tree / "drivers/gpu/drm/vkms"
    _run(["make", "-C", kbuild, f"M={vkms}", "CONFIG_DRM_VKMS=m", "modules"])

    # sw_sync is written to be built in: it gets a licence line and the header that a module needs. It stays in its folder,
    # because its trace header is included by a path that ends in drivers/dma-buf.
    swsync = tree / "drivers/dma-buf"
    (swsync / "license.c").write_text('MODULE_LICENSE("GPL");\n')
    (swsync / "Makefile").write_text("obj-m := swsync.o\nswsync-y := sw_sync.o sync_debug.o license.o\n"
                                     "ccflags-y += -I$(src) -include linux/module.h\n")
    _run(["make", "-C", kbuild, f"M={swsync}", "modules"])
    built = [vkms / "vkms.ko", swsync / "swsync.ko"]
    for module in built:
        _run(["strip", "-g", str(module)])
    return built


def _with_needs(version, names):
    """Files of the modules and of what they need, each once, in the order of loading; built-in ones are left out."""
    lib = Path(f"/lib/modules/{version}")

    def name_of(path):
        return path.rsplit("/", 1)[-1].split(".ko")[0].replace("-", "_")

    needs = {}
    for line in (lib / "modules.dep").read_text().splitlines():
        path, _, rest = line.partition(":")
        needs[name_of(path)] = [path, *rest.split()]
    builtin = {name_of(path) for path in (lib / "modules.builtin").read_text().split()}
    files = []
    for name in names:
        key = name.replace("-", "_")
        if key not in needs and key not in builtin:
            raise LabError(f"the kernel {version} has no module {name}")
        files += [lib / path for path in reversed(needs.get(key, [])) if lib / path not in files]
    return files


def _initramfs(version, built, work):
    tree = work / "initramfs"
    for directory in ("bin", "mod", "lab"):
        (tree / directory).mkdir(parents=True)
    shutil.copy("/bin/busybox", tree / "bin/busybox")
    for number, path in enumerate(_with_needs(version, config.MODULES) + built):
        target = tree / "mod" / f"{number:03}-{path.name.split('.ko')[0]}.ko"
        if path.suffix == ".xz":
            with open(target, "wb") as out:
                subprocess.run(["xz", "-dc", path], stdout=out, check=True)
        else:
            shutil.copyfile(path, target)
    (tree / "options").write_text("".join(f"{name} {value}\n" for name, value in config.OPTIONS.items()))
    shutil.copy(config.GUEST / "init", tree / "init")
    for path in [*config.GUEST.glob("*.py"), config.HERE / "gstzclab/frames.py", config.GUEST / "lab-screendump"]:
        shutil.copy(path, tree / "lab" / path.name)
    for path in (tree / "init", tree / "lab/lab-screendump"):
        path.chmod(0o755)
    _run(["sh", "-c", "find . | cpio --quiet -o -H newc --owner=0:0 | gzip -1 > ../initramfs.gz"], cwd=tree)


def _registry(path):
    """GStreamer's registry of the root's plugins: scanning them in an emulated machine takes half a minute."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GST_")}
    _run(["gst-inspect-1.0", "--version"], env=env | {"GST_REGISTRY_1_0": str(path)})
