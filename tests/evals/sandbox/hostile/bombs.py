"""Programs that use up memory, processors, processes, files or output, or never end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from evals.sandbox.base import MIB
from tests.evals.sandbox.hostile.base import LIMITS, SHORT, Hostile, ends, refused

BOMBS: Mapping[str, Hostile] = {
    "fork bomb": Hostile(
        """
while True:
    try:
        os.fork()
    except OSError:
        pass
""",
        ends("cpu", "wall"),
        SHORT,
    ),
    "shell fork bomb": Hostile(
        "os.system('bomb() { bomb | bomb & }; bomb; wait; sleep 9')", ends("cpu", "idle", "exited"), SHORT
    ),
    "fork at exit": Hostile(
        """
import atexit
atexit.register(lambda: [os.fork() for _ in range(99)])
""",
        ends("exited", "cpu", "idle"),
        SHORT,
    ),
    "thread bomb": Hostile(
        """
import threading
threading.stack_size(65536)
started = 0
try:
    while True:
        threading.Thread(target=time.sleep, args=(9,), daemon=True).start()
        started += 1
except RuntimeError:
    print("tried", started if started < 16 else "BREACH", flush=True)
os._exit(0)
""",
        refused,
    ),
    "threads that burn": Hostile(
        """
import threading
for _ in range(8):
    threading.Thread(target=lambda: [None for _ in iter(int, 1)]).start()
""",
        ends("cpu"),
        SHORT,
    ),
    "fork and memory bomb": Hostile(
        """
for _ in range(9):
    if not os.fork():
        x = b'x' * (60 << 20)
        time.sleep(9)
time.sleep(9)
""",
        ends("memory"),
        LIMITS,
    ),
    "memory in steps": Hostile(
        """
x = []
try:
    while True:
        x.append(b'x' * (1 << 20))
except MemoryError:
    n = len(x)
    del x
    print('tried' if n < 200 else 'BREACH')
""",
        refused,
    ),
    "memory at once": Hostile(
        """
attempt('bytes', bytes, 8 << 30)
print('tried')
""",
        refused,
    ),
    "memory and scratch together": Hostile(
        """
open('f', 'wb').write(bytes(2 << 20))
children = 0
for _ in range(2):
    if not os.fork():
        x = b'x' * (95 << 20)
        time.sleep(9)
time.sleep(9)
""",
        ends("memory"),
    ),
    "decompression bomb": Hostile(
        """
import zlib
x = zlib.compress(bytes(64 << 20), 9)
attempt('bomb', lambda: [zlib.decompress(x) for _ in range(4)])
print('tried')
""",
        refused,
    ),
    "hidden shared memory": Hostile(
        """
import mmap
attempt('mmap', mmap.mmap, -1, 64 << 20)
attempt('memfd', os.memfd_create, 'x')
attempt('zero', open, '/dev/zero')
print('tried')
""",
        refused,
    ),
    "huge pages": Hostile(
        """
import mmap
attempt('mmap', lambda: mmap.mmap(-1, 4 << 20, flags=mmap.MAP_PRIVATE | 0x20 | 0x40000))
print('tried')
""",
        refused,
    ),
    "disk bomb": Hostile(
        """
total = 0
for folder in (".", "/tmp", "/dev/shm"):
    try:
        for n in range(99):
            with open(f"{folder}/{n}", "wb", buffering=0) as file:
                for _ in range(15):
                    total += file.write(bytes(100_000))
    except OSError as error:
        print("refused", error.errno)
print("tried", total if total <= 6 << 20 else "BREACH")
""",
        refused,
    ),
    "one large file": Hostile(
        """
f = open('f', 'wb', buffering=0)
attempt('write', lambda: [f.write(bytes(1 << 20)) for _ in range(4)])
attempt('truncate', f.truncate, 1 << 40)
print('tried')
""",
        refused,
    ),
    "inode bomb": Hostile(
        """
made = 0
try:
    while made < 1000:
        os.mkdir(f"/tmp/{made}")
        made += 1
except OSError:
    pass
attempt("link", os.symlink, "/", "/dev/shm/link")
print("tried", made if made <= 100 else "BREACH")
""",
        refused,
    ),
    "endless output": Hostile(
        """
while True:
    print('x' * 1000)
""",
        ends("output"),
    ),
    "endless output of a child": Hostile(
        """
if not os.fork():
    while True:
        os.write(1, b'x' * 4096)
time.sleep(9)
""",
        ends("output"),
    ),
    "a gigabyte of errors": Hostile(
        """
block = b'x' * (1 << 20)
for _ in range(1024):
    os.write(2, block)
print('tried')
""",
        lambda outcome: refused(outcome) and len(outcome.stderr) == MIB // 4,
        replace(LIMITS, cpu_s=20.0, idle_s=20.0),
    ),
    "many open files": Hostile(
        """
files = []
try:
    while True:
        files.append(open('/dev/null'))
except OSError:
    print('tried', 'BREACH' if len(files) > 64 else '')
""",
        refused,
    ),
    "huge integer": Hostile("x = 9 ** 9 ** 9\n", ends("cpu", "exited"), SHORT),
    "deep recursion": Hostile(
        """
sys.setrecursionlimit(10 ** 9)
x = []
for _ in range(10 ** 6):
    x = [x]
repr(x)
""",
        ends("signalled", "exited", "cpu"),
        SHORT,
    ),
    "deep recursion in Python": Hostile(
        """
sys.setrecursionlimit(10 ** 9)
def f():
    return f() + 1
f()
""",
        ends("exited", "signalled", "cpu", "memory"),
    ),
    "regex bomb": Hostile(
        """
import re
re.match('(a+)+b', 'a' * 50)
""",
        ends("cpu"),
        SHORT,
    ),
    "nested source": Hostile("eval('(' * 10 ** 5 + ')' * 10 ** 5)\n", ends("exited", "signalled")),
    "sleeps for ever": Hostile("time.sleep(1000)\n", ends("idle"), SHORT),
    "waits for input": Hostile(
        """
import select
select.select([], [], [])
""",
        ends("idle"),
        SHORT,
    ),
    "deadlock": Hostile(
        """
import threading
lock = threading.Lock()
lock.acquire()
lock.acquire()
""",
        ends("idle"),
        SHORT,
    ),
    "stops itself": Hostile("os.kill(os.getpid(), signal.SIGSTOP)\n", ends("idle"), SHORT),
    "children that nobody counts": Hostile(
        """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    if not os.fork():
        end = time.process_time() + 0.1
        while time.process_time() < end:
            pass
        os._exit(0)
    try:
        os.wait()
    except OSError:
        pass
""",
        ends("cpu"),
        SHORT,
    ),
    "full sockets": Hostile(
        """
import resource
kept = []
try:
    while True:
        pair = socket.socketpair()
        for end in pair:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
            end.setblocking(False)
            if end.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) > 1 << 20:
                print("BREACH", "a buffer as large as wanted", flush=True)
        kept.append(pair)
        try:
            while True:
                pair[0].send(bytes(1 << 16))
        except OSError:
            continue
except OSError:
    pass
if not os.fork():
    time.sleep(100)
print("tried", flush=True)
time.sleep(100)
""",
        ends("idle", "memory"),
        SHORT,
    ),
    "page tables": Hostile(
        """
import mmap
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
for place in range(1, 60_000):
    where = libc.mmap(place << 30, 4096, mmap.PROT_READ, 0x100022, -1, 0)
    if where in (None, 2 ** 64 - 1):
        break
    ctypes.string_at(where, 1)
time.sleep(100)
""",
        ends("memory"),
        LIMITS,
    ),
}
