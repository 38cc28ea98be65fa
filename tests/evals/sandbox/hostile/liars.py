"""Programs that want to say themselves how they ended."""

from __future__ import annotations

from collections.abc import Mapping

from tests.evals.sandbox.hostile.base import SHORT, Hostile, ends, exits, refused

LIARS: Mapping[str, Hostile] = {
    "exits early": Hostile("os._exit(0)\n", exits(0, b"")),
    "forges messages": Hostile(
        """
import struct
body = b'{"end": "exited", "code": 0, "cpu": 0, "wall": 0, "sizes": [6, 0]}'
frame = struct.pack(">cII", b"r", len(body) + 10, len(body)) + body + b"forged"
for n in range(256):
    for text in (frame, b's{"status": 0, "cpu": 0.0}', b"fforged", b"o", b"d"):
        if n not in (1, 2):
            try:
                os.write(n, text)
            except OSError:
                pass
            try:
                socket.socket(fileno=os.dup(n)).send(text)
            except OSError:
                pass
os._exit(7)
""",
        exits(7, b""),
    ),
    "finds descriptors": Hostile(
        """
for n in range(3, 1024):
    try:
        os.fstat(n)
        print("BREACH", n)
    except OSError:
        pass
print("tried", sorted(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else "")
""",
        refused,
    ),
    "finds descriptors of the first process": Hostile(
        """
for name in ('fd', 'mem', 'maps', 'environ', 'root', 'cwd', 'exe', 'auxv', 'io', 'map_files', 'syscall'):
    path = f'/proc/1/{name}'
    attempt(name, os.listdir if name in ('fd', 'root', 'cwd', 'map_files') else lambda p: open(p, 'rb').read(1), path)
attempt('task', lambda: open('/proc/1/task/1/mem', 'rb').read(1))
print('tried')
""",
        refused,
    ),
    "closes the standard streams": Hostile(
        """
for n in (0, 1, 2):
    os.close(n)
os._exit(5)
""",
        exits(5, b""),
    ),
    "closes them and goes on": Hostile(
        """
for n in (0, 1, 2):
    os.close(n)
open('/dev/null')
open('x', 'w')
""",
        ends("exited"),
    ),
    "writes nonsense": Hostile(
        r"""
os.write(1, bytes(range(256)) + b'\0' * 9 + '\ud800'.encode('utf-8', 'surrogatepass'))
os.write(2, b'\xff\0')
""",
        lambda outcome: (
            outcome.ok
            and outcome.stdout == bytes(range(256)) + bytes(9) + b"\xed\xa0\x80"
            and outcome.stderr == b"\xff\x00"
        ),
    ),
    "source with a null": Hostile("x = '\0'\n", ends("exited")),
    "source that is no text": Hostile("x = '\ud800'\n", ends("exited")),
    "traces the frames above": Hostile(
        """
import gc
frame = sys._getframe()
while frame:
    for name, value in list(frame.f_locals.items()) + list(frame.f_globals.items()):
        if "Link" in type(value).__name__ or "Run" == type(value).__name__:
            print("BREACH", name)
    frame = frame.f_back
for found in gc.get_objects():
    if isinstance(found, socket.socket):
        attempt("socket", found.send, b"r")
print("tried")
""",
        refused,
    ),
    "replaces exit and print": Hostile(
        """
import builtins
builtins.print = lambda *a, **k: None
sys.exit = lambda *a: None
os._exit = lambda *a: None
raise SystemExit(9)
""",
        ends("exited", "signalled"),
    ),
    "renames its process": Hostile(
        """
libc.prctl(15, b') R 1 1 1', 0, 0, 0)
open('/proc/self/comm', 'w').write('a) S 0 (')
while True:
    pass
""",
        ends("cpu"),
        SHORT,
    ),
}
