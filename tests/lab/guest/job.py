# SPDX-License-Identifier: LGPL-2.1-or-later
"""One job inside the VM: its file system, its process namespace, its exit status."""

import ctypes
import fcntl
import os
import pwd
import shutil
import signal
import struct
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2


class Job:
    """A started job. outputs: name ("out", "err") to fd; with a terminal only "out", which also takes input."""

    def __init__(self, name, pid, outputs, directory):
        self.id, self.pid, self.outputs, self.directory = name, pid, outputs, directory
        self.pidfd = os.pidfd_open(pid)

    def finish(self):
        """After the end of the process: its exit status as a shell gives it; its file system goes."""
        os.close(self.pidfd)
        _, status = os.waitpid(self.pid, 0)
        LIBC.umount2(self.directory.encode(), MNT_DETACH)
        os.rmdir(self.directory)
        return shell_status(status)


def shell_status(status):
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def mount(source, target, kind=None, flags=0, data=None):
    args = [x.encode() if x is not None else None for x in (source, target, kind)]
    if LIBC.mount(*args, flags, data.encode() if data else None):
        raise OSError(ctypes.get_errno(), f"mount {source} on {target}: {os.strerror(ctypes.get_errno())}")


def drm_driver(path):
    """Name of the DRM driver behind a device node, "" where it is none."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        name = ctypes.create_string_buffer(64)
        # struct drm_version: three ints, then length and pointer of name, date and description
        version = bytearray(struct.pack("iiiiQPQPQP", 0, 0, 0, 0, 63, ctypes.addressof(name), 0, 0, 0, 0))
        fcntl.ioctl(fd, 0xC0406400, version)  # DRM_IOCTL_VERSION
        return name.value.decode(errors="replace")
    finally:
        os.close(fd)


def start(request, directory):
    """Starts request["argv"]; directory is made and serves as the job's writable layer."""
    os.makedirs(directory)
    mount("tmpfs", directory, "tmpfs", 0, "mode=755")
    outputs, inner = {}, {}
    if request.get("tty"):
        outputs["out"], terminal = os.openpty()
        inner = {"tty": terminal}
    else:
        outputs["out"], inner["out"] = os.pipe()
        outputs["err"], inner["err"] = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _namespace(request, directory, inner)
        except BaseException as error:  # pylint: disable=broad-except
            os.write(inner.get("err", inner.get("tty", 2)), f"lab: the job could not be started: {error}\n".encode())
        finally:
            os._exit(126)
    for fd in inner.values():
        os.close(fd)
    for fd in outputs.values():
        os.set_blocking(fd, False)
    return Job(request["id"], pid, outputs, directory)


def _namespace(request, directory, inner):
    """In the job's first process: enters new namespaces; the child is their init. Does not return."""
    os.unshare(os.CLONE_NEWNS | os.CLONE_NEWPID)
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    init = os.fork()
    if init:
        for fd in inner.values():
            os.close(fd)
        _, status = os.waitpid(init, 0)
        os._exit(shell_status(status))
    LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: killing the first process kills the whole namespace
    _file_system(request, directory)
    child = os.fork()
    if child == 0:
        _program(request, inner)
    for fd in inner.values():
        os.close(fd)
    while True:  # init of the namespace: takes in what is left over; its own end ends everything in it
        pid, status = os.wait()
        if pid == child:
            os._exit(shell_status(status))


def _file_system(request, directory):
    """The host's files under a tmpfs as root directory, with the kernel's own file systems and the share in their places."""
    root = f"{directory}/root"
    for name in ("upper", "work", "root"):
        os.mkdir(f"{directory}/{name}")
    mount("overlay", root, "overlay", 0, f"lowerdir=/,upperdir={directory}/upper,workdir={directory}/work")
    for name in ("/sys", "/dev"):
        mount(name, root + name, None, MS_BIND | MS_REC)
    mount("proc", f"{root}/proc", "proc")
    mount("tmpfs", f"{root}/run", "tmpfs", 0, "mode=755")
    os.mkdir(f"{root}/run/lab")
    mount("/run/lab", f"{root}/run/lab", None, MS_BIND | MS_REC)
    share = f"{root}/run/lab/share/{request['id']}"
    for number, path in enumerate(request.get("files", [])):  # files that the host's side copied
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        with open(root + path, "ab"):
            pass
        mount(f"{share}/files/{number}", root + path, None, MS_BIND)
    if request.get("out"):
        os.makedirs(root + request["out"], exist_ok=True)
        mount(f"{share}/out", root + request["out"], None, MS_BIND)
    os.chroot(root)
    os.chdir("/")
    os.makedirs("/tmp", mode=0o1777, exist_ok=True)


def _program(request, inner):
    """In the job's own process: becomes the program. Does not return."""
    try:
        os.setsid()
        if "tty" in inner:
            fcntl.ioctl(inner["tty"], 0x540E, 0)  # TIOCSCTTY
            for fd in (0, 1, 2):
                os.dup2(inner["tty"], fd)
        else:
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            os.dup2(inner["out"], 1)
            os.dup2(inner["err"], 2)
        tools = request["env"].get("GSTZC_TOOLS", "")  # the build's folder of zerocopy-inspect
        tools = tools and tools + ":"
        env = request["env"] | {"HOME": "/tmp/lab-home", "XDG_RUNTIME_DIR": "/tmp", "GST_REGISTRY_1_0": "/run/lab/registry.bin",
                                "GSTZC_IN_LAB": "1", "PATH": f"/run/lab/bin:{tools}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        os.makedirs(env["HOME"], exist_ok=True)
        try:
            os.chdir(request["cwd"])
        except OSError as error:
            print(f"lab: the working directory cannot be entered: {error}", file=sys.stderr, flush=True)
            os._exit(126)
        if request.get("user"):
            # the laboratory's registry is root's, and readable by root alone once a program has brought it up to date
            env["GST_REGISTRY_1_0"] = shutil.copy("/run/lab/registry.bin", env["HOME"])
            os.chmod(env["GST_REGISTRY_1_0"], 0o666)
            _become(request["user"], [request["cwd"], request["argv"][0], *env.get("GST_PLUGIN_PATH_1_0", "").split(":")])
        os.umask(0o022)
        os.execvpe(request["argv"][0], request["argv"], env)
    except FileNotFoundError:
        print(f"lab: {request['argv'][0]}: no such program in the laboratory", file=sys.stderr, flush=True)
        os._exit(127)
    except BaseException as error:  # pylint: disable=broad-except
        print(f"lab: {request['argv'][0]}: {error}", file=sys.stderr, flush=True)
    os._exit(126)


def _become(name, paths):
    """Changes to an ordinary user that can reach the paths (opened up in the job's own layer only)."""
    user = pwd.getpwnam(name)
    for path in filter(lambda p: p.startswith("/"), paths):
        parent = os.path.dirname(os.path.realpath(path))
        while parent != "/":
            if os.path.isdir(parent):
                os.chmod(parent, os.stat(parent).st_mode | 0o011)
            parent = os.path.dirname(parent)
    os.chown("/tmp/lab-home", user.pw_uid, user.pw_gid)
    os.setgroups([])
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)


def whereabouts(pid):
    """What the threads below a process are doing, for the log of a job that takes too long."""
    lines = [b"lab: threads of the job:\n"]
    parents = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as file:
                parents[int(entry)] = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
    family = {pid}
    for _ in range(len(parents)):
        more = {child for child, parent in parents.items() if parent in family} - family
        if not more:
            break
        family |= more
    for member in sorted(family - {pid}):
        try:
            for thread in os.listdir(f"/proc/{member}/task"):
                base = f"/proc/{member}/task/{thread}"
                with open(f"{base}/stat", "rb") as stat, open(f"{base}/stack", "rb") as stack:
                    name, _, rest = stat.read().partition(b"(")[2].rpartition(b")")
                    calls = [line.split()[-1].partition(b"+")[0] for line in stack.read().splitlines()[:6]]
                lines.append(b"lab:   %d %s %s %s\n" % (int(thread), name, rest.split()[0], b" < ".join(calls)))
        except OSError:
            continue
    return b"".join(lines)


