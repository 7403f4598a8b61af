"""A stand-in for an agent whose functions try to get out.

Started by `python -m tests.ingest.functions.escaping DIR [LAYER]`.

It has files, memory, sockets and a process, and evaluates one function that attacks each of them, while its
source is loaded and while it is evaluated. It prints what the function says of each attempt, and what became
of its own files, sockets and memory. With the name of a layer, the kernel lacks that one, which is accepted.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path

import pyarrow as pa

from elfmesh.ingest.functions.process import Limits, WorkerFailed, WorkerProcess
from tests.ingest.functions.declared import function
from tests.ingest.functions.lesser_kernel import take_away

SECRET = b"the agent's private key"

ATTACKS = r"""
import ctypes, errno, fcntl, os, resource, signal, socket, struct, sys

PARENT, HOME, ADDRESS, SECRET, SECRET_AT, PORT = {given!r}
LIBC = ctypes.CDLL(None, use_errno=True)
CALLS = {{
    "x86_64": (
        "ptrace=101 readv=310 writev=311 keyctl=250 bpf=321 perf_event_open=298 userfaultfd=323 "
        "io_uring_setup=425 unshare=272 mount=165 pidfd_open=434 memfd_create=319 tkill=200 "
        "openat2=437 inotify_init1=294 sched_setaffinity=203 shmget=29 kcmp=312 setpriority=141 "
        "ioprio_set=251 "
    ),
    "aarch64": (
        "ptrace=117 readv=270 writev=271 keyctl=219 bpf=280 perf_event_open=241 userfaultfd=282 "
        "io_uring_setup=425 unshare=97 mount=40 pidfd_open=434 memfd_create=279 tkill=130 "
        "openat2=437 inotify_init1=26 sched_setaffinity=122 shmget=194 kcmp=272 setpriority=140 "
        "ioprio_set=30 "
    ),
}}[os.uname().machine]
CALLS = {{name: int(number) for name, number in (each.split("=") for each in CALLS.split())}}


class Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]


def call(name, *words):
    found = LIBC.syscall(CALLS[name], *words)
    if found < 0:
        raise OSError(ctypes.get_errno(), name)
    return found


def memory(name, data):
    here = ctypes.create_string_buffer(data, len(data))
    ours, theirs = Iovec(ctypes.addressof(here), len(data)), Iovec(SECRET_AT, len(data))
    one = ctypes.c_ulong(1)
    call(name, PARENT, ctypes.byref(ours), one, ctypes.byref(theirs), one, ctypes.c_ulong(0))


HOW = struct.pack("QQQ", os.O_RDWR, 0, 0)


def at(name):
    return os.path.join(HOME, name)


def own_signals():
    ends = os.pipe()
    fcntl.fcntl(ends[0], fcntl.F_SETOWN, PARENT)
    fcntl.fcntl(ends[0], fcntl.F_SETFL, os.O_ASYNC)
    os.write(ends[1], b"x")


def talk(kind, address):
    with socket.socket(kind, socket.SOCK_STREAM) as made:
        made.connect(address)


def forked():
    if os.fork() == 0:
        os._exit(0)


ACTS = {{
    "unlink": lambda: os.unlink(at("unlink")),
    "rename": lambda: os.rename(at("rename"), at("renamed")),
    "truncate": lambda: os.truncate(at("truncate"), 0),
    "chmod": lambda: os.chmod(at("chmod"), 0o777),
    "chown": lambda: os.chown(at("chmod"), -1, os.getgid()),
    "utime": lambda: os.utime(at("chmod"), (0, 0)),
    "setxattr": lambda: os.setxattr(at("chmod"), "user.a", b"x"),
    "write": lambda: os.open(at("write"), os.O_WRONLY),
    "append": lambda: os.open(at("write"), os.O_RDWR | os.O_APPEND),
    "empty": lambda: os.open(at("write"), os.O_RDONLY | os.O_TRUNC),
    "create": lambda: os.close(os.open(at("created"), os.O_RDONLY | os.O_CREAT, 0o600)),
    "mkdir": lambda: os.mkdir(at("made")),
    "rmdir": lambda: os.rmdir(at("empty")),
    "link": lambda: os.link(at("write"), at("linked")),
    "symlink": lambda: os.symlink("/etc", at("symlinked")),
    "mkfifo": lambda: os.mkfifo(at("fifo")),
    "read a key": lambda: open(at("key.pem")).read(),
    "list the data": lambda: os.listdir(HOME),
    "read /etc": lambda: open("/etc/passwd").read(),
    "read /proc": lambda: open("/proc/%d/cmdline" % PARENT).read(),
    "read memory by /proc": lambda: open("/proc/%d/mem" % PARENT, "rb").close(),
    "read memory": lambda: memory("readv", SECRET),
    "write memory": lambda: memory("writev", b"#" * len(SECRET)),
    "ptrace": lambda: call("ptrace", ctypes.c_long(16), ctypes.c_long(PARENT), 0, 0),
    "seize": lambda: call("ptrace", ctypes.c_long(0x4206), ctypes.c_long(PARENT), 0, 0),
    "tcp": lambda: talk(socket.AF_INET, ("127.0.0.1", PORT)),
    "unix": lambda: talk(socket.AF_UNIX, at("socket")),
    "abstract": lambda: talk(socket.AF_UNIX, "\0" + ADDRESS),
    "socket": lambda: socket.socket().close(),
    "socketpair": lambda: socket.socketpair(),
    "stop": lambda: os.kill(PARENT, signal.SIGUSR1),
    "stop by thread": lambda: call("tkill", PARENT, int(signal.SIGUSR1)),
    "stop its group": lambda: os.killpg(PARENT, signal.SIGUSR1),
    "stop by a pipe": own_signals,
    "limits": lambda: resource.prlimit(PARENT, resource.RLIMIT_CORE, (0, 0)),
    "priority": lambda: call("setpriority", 0, PARENT, 19),
    "ioprio": lambda: call("ioprio_set", 1, PARENT, 3 << 13),
    "affinity": lambda: call("sched_setaffinity", PARENT, ctypes.c_ulong(8), ctypes.byref(ctypes.c_ulong(1))),
    "pidfd": lambda: call("pidfd_open", PARENT, 0),
    "kcmp": lambda: call("kcmp", PARENT, os.getpid(), 0, 0, 0),
    "exec": lambda: os.execv("/bin/false", ["false"]),
    "fork": forked,
    "spawn": lambda: os.posix_spawn("/bin/true", ["true"], {{}}),
    "keyring": lambda: call("keyctl", ctypes.c_long(0), ctypes.c_long(-3), 0),
    "bpf": lambda: call("bpf", ctypes.c_long(0), ctypes.create_string_buffer(128), ctypes.c_long(128)),
    "perf": lambda: call("perf_event_open", ctypes.create_string_buffer(128), 0, -1, -1, ctypes.c_ulong(0)),
    "userfaultfd": lambda: call("userfaultfd", ctypes.c_long(1)),
    "io_uring": lambda: call("io_uring_setup", ctypes.c_long(1), ctypes.create_string_buffer(128)),
    "namespaces": lambda: call("unshare", ctypes.c_long(0x10000000)),
    "mount": lambda: call("mount", b"none", b"/tmp", b"tmpfs", ctypes.c_ulong(0), None),
    "memfd": lambda: call("memfd_create", b"a", ctypes.c_long(0)),
    "openat2": lambda: call("openat2", -100, at("write").encode(), HOW, ctypes.c_ulong(len(HOW))),
    "watch": lambda: call("inotify_init1", 0),
    "shared memory": lambda: call("shmget", ctypes.c_long(7), ctypes.c_long(64), ctypes.c_long(0o1600)),
    "no prctl": lambda: LIBC.prctl(1, 0, 0, 0, 0) and (_ for _ in ()).throw(OSError(1, "prctl")),
}}


def attempt(act):
    try:
        act()
    except OSError as error:
        return errno.errorcode.get(error.errno, "?")
    except (MemoryError, RuntimeError) as error:
        return type(error).__name__
    return "done"


def attempts():
    return ";".join(name + "=" + attempt(act) for name, act in ACTS.items())

WHEN = {when!r}
SAID = attempts() if WHEN == "load" else ""
try:
    HELD = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
except OSError as refused:
    HELD = None


def f(x):
    if HELD is not None:
        HELD.sendto(b"a record", ("127.0.0.1", PORT))
        return "held socket=done;" + (SAID or attempts())
    return SAID or attempts()
"""


def main() -> None:
    """Be attacked twice and tell what came of it."""
    home = Path(sys.argv[1])
    for layer in sys.argv[2:]:
        take_away(layer)
    for name in ("unlink", "rename", "truncate", "chmod", "write", "key.pem"):
        (home / name).write_bytes(SECRET)
        (home / name).chmod(0o600)
    (home / "empty").mkdir()
    before = _state(home)
    memory = ctypes.create_string_buffer(SECRET, len(SECRET))
    tcp, udp, unix, abstract = _listeners(home)
    signals: list[int] = []
    for number in (signal.SIGUSR1, signal.SIGIO):
        signal.signal(number, lambda number, _frame: signals.append(number))
    given = (os.getpid(), str(home), home.name, SECRET, ctypes.addressof(memory), tcp.getsockname()[1])
    reported: dict[str, object] = {}
    for when in ("load", "evaluation"):
        body = ATTACKS.format(given=given, when=when)
        try:
            process = WorkerProcess(
                [function(body, gives="STRING")], Limits(60.0, 128 << 20, not sys.argv[2:])
            )
            answer = process.call(0, [pa.array([1], pa.int64())], 1)
            reported[when] = answer.error or answer.values.to_pylist()[0]
            process.kill()
        except WorkerFailed as error:
            reported[when] = f"failed: {error}"
    received, _, _ = select.select([tcp, udp, unix, abstract], [], [], 0)
    reported["files"] = {name: state for name, state in _state(home).items() if before.get(name) != state}
    reported["gone"] = sorted(set(before) - set(_state(home)))
    reported["memory"] = memory.raw == SECRET
    reported["connections"] = len(received)
    reported["signals"] = signals
    print(json.dumps(reported))


def _listeners(home: Path) -> tuple[socket.socket, ...]:
    tcp, udp = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
    tcp.bind(("127.0.0.1", 0))
    udp.bind(tcp.getsockname())
    unix, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    unix.bind(str(home / "socket"))
    abstract.bind("\0" + home.name)
    for made in (tcp, unix, abstract):
        made.listen()
    return tcp, udp, unix, abstract


def _state(home: Path) -> dict[str, list[int]]:
    """Mode, size, links and time of the change of each file."""
    found = {each.name: each.lstat() for each in home.iterdir() if each.name != "socket"}
    return {
        name: [state.st_mode, state.st_size, state.st_nlink, state.st_mtime_ns]
        for name, state in found.items()
    }


if __name__ == "__main__":
    main()
