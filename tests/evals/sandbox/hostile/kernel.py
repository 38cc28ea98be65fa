"""Programs that ask the kernel for what no program needs."""

from __future__ import annotations

from collections.abc import Mapping

from tests.evals.sandbox.hostile.base import SHORT, Hostile, ends, refused

KERNEL: Mapping[str, Hostile] = {
    "ptrace": Hostile(
        """
for pid in (1, os.getppid(), 0):
    attempt(f'attach {pid}', syscall, N['ptrace'], 16, pid, 0, 0)
    attempt(f'seize {pid}', syscall, N['ptrace'], 0x4206, pid, 0, 0)
attempt('me', syscall, N['ptrace'], 0, 0, 0, 0)
print('tried')
""",
        refused,
    ),
    "another's memory": Hostile(
        """
buffer = ctypes.create_string_buffer(64)
vector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 64)
for name in ('process_vm_readv', 'process_vm_writev'):
    attempt(name, syscall, N[name], 1, vector, 1, vector, 1, 0)
attempt('kcmp', syscall, N['kcmp'], 1, os.getpid(), 0, 0, 0)
print('tried')
""",
        refused,
    ),
    "mounts": Hostile(
        """
attempt('tmpfs', syscall, N['mount'], b'none', b'/tmp', b'tmpfs', 0, 0)
attempt('proc', syscall, N['mount'], b'proc', b'/proc', b'proc', 0, 0)
attempt('writable', syscall, N['mount'], b'none', b'/usr', b'none', 32 | 4096, 0)
for p in (b'/proc', b'/tmp', b'/sandbox', b'/usr', b'/'):
    attempt(p, syscall, N['umount2'], p, 2)
for name in ('open_tree', 'fsopen', 'move_mount', 'mount_setattr'):
    attempt(name, syscall, N[name], 0, b'/', 0, 0, 0)
os.system('mount -t tmpfs x /tmp')
print('tried')
""",
        refused,
    ),
    "other roots": Hostile(
        """
os.mkdir('root')
attempt('chroot', os.chroot, 'root')
attempt('pivot', syscall, N['pivot_root'], b'.', b'.')
print('tried')
""",
        refused,
    ),
    "nested namespaces": Hostile(
        """
for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x8000000, 0x4000000, 0x2000000, 0x10000000 | 0x20000):
    attempt(f'unshare {flag:x}', syscall, N['unshare'], flag)
    attempt(f'clone {flag:x}', syscall, N['clone'], flag | 17, 0, 0, 0, 0)
attempt('clone3', syscall, N['clone3'], bytes(88), 88)
attempt('setns', syscall, N['setns'], os.open('/', os.O_RDONLY), 0)
for tool in ('unshare -r true', 'bwrap --ro-bind / / true', 'nsenter -t 1 -a true'):
    print('BREACH' if os.system(tool + ' 2>/dev/null') == 0 else 'refused', tool)
print('tried')
""",
        refused,
    ),
    "forbidden calls": Hostile(
        """
for name in sorted(N):
    if name not in ('clone', 'personality'):
        attempt(name, syscall, N[name], -1, 0, 0, 0, 0)
print('tried')
""",
        refused,
    ),
    "unknown calls": Hostile(
        """
for n in (463, 467, 470, 500, 511, 512, 520, 547, 1000, 0x40000000, 0x40000000 + 165):
    attempt(str(n), syscall, n, 0, 0, 0)
print('tried')
""",
        refused,
    ),
    "by another door": Hostile(
        """
import mmap, platform
if platform.machine() == "x86_64":
    page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | 0x20, prot=7)
    page.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")
    where = ctypes.addressof(ctypes.c_char.from_buffer(page))
    print("BREACH", ctypes.CFUNCTYPE(ctypes.c_int)(where)(), flush=True)
os.kill(os.getpid(), 31)
""",
        lambda outcome: (outcome.end, outcome.code) == ("signalled", 31) and b"BREACH" not in outcome.stdout,
    ),
    "keys of the kernel": Hostile(
        """
attempt('add', syscall, N['add_key'], b'user', b'x', b'y', 1, -3)
attempt('ask', syscall, N['request_key'], b'user', b'x', 0, 0)
attempt('ctl', syscall, N['keyctl'], 0, -3, 1)
print('tried')
""",
        refused,
    ),
    "leftover shared memory": Hostile(
        """
attempt('shm', syscall, N['shmget'], 4711, 4096, 0o1666)
attempt('msg', syscall, N['msgget'], 4711, 0o1666)
attempt('mq', syscall, N['mq_open'], b'x', 0o102, 0o666, 0)
print('tried')
""",
        refused,
    ),
    "types for the terminal": Hostile(
        """
import fcntl
for n in (0, 1, 2):
    attempt(str(n), fcntl.ioctl, n, 0x5412, b'x')
attempt('tty', open, '/dev/tty')
print('tried')
""",
        refused,
    ),
    "wants to be root": Hostile(
        """
for f in (os.setuid, os.setgid, os.seteuid, os.setegid):
    attempt(f.__name__, f, 0)
attempt('groups', os.setgroups, [0])
print('BREACH' if 0 in os.getresuid() else 'tried')
""",
        refused,
    ),
    "setuid programs": Hostile(
        """
import subprocess
for command in (["su", "-c", "id"], ["mount", "-t", "tmpfs", "x", "/tmp"], ["passwd", "-S"], ["sudo", "-n", "id"]):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        print("BREACH" if "uid=0" in done.stdout or done.returncode == 0 else "refused", command)
    except OSError as error:
        print("refused", error)
status = open("/proc/self/status").read() if os.path.exists("/proc/self/status") else "NoNewPrivs:\\t1"
print("tried" if "NoNewPrivs:\\t1" in status else "BREACH")
""",
        refused,
    ),
    "capabilities": Hostile(
        r"""
import re
text = open('/proc/self/status').read()
print(re.findall('Cap.*', text))
print('BREACH' if re.search('Cap(Inh|Prm|Eff|Bnd|Amb):\\s*0*[1-9a-f]', text) else 'tried')
attempt('capset', lambda: 1 / (not libc.capset(b'\x22\x05\x08\x20' + bytes(4), b'\xff' * 24)))
""",
        refused,
    ),
    "raises its limits": Hostile(
        """
import resource as r
for n in ('CPU', 'AS', 'NPROC', 'FSIZE', 'NOFILE', 'CORE', 'MEMLOCK'):
    attempt(n, r.setrlimit, getattr(r, 'RLIMIT_' + n), (-1, -1))
attempt('other', r.prlimit, 1, r.RLIMIT_CPU, (0, 0))
print('tried')
""",
        refused,
    ),
    "raises its priority": Hostile(
        """
attempt('nice', os.nice, -5)
attempt('fifo', os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))
attempt('rr', os.sched_setscheduler, 0, os.SCHED_RR, os.sched_param(1))
print('tried')
""",
        refused,
    ),
    "lowers its priority to dodge the clock": Hostile(
        """
os.nice(19)
while True:
    pass
""",
        ends("cpu", "wall"),
        SHORT,
    ),
    "personality": Hostile(
        """
attempt('personality', syscall, N['personality'], 0x0040000)
print('tried')
""",
        refused,
    ),
    "locks memory": Hostile(
        """
attempt('mlock', lambda: 1 / (not libc.mlockall(3)))
print('tried')
""",
        refused,
    ),
    "changes the clock": Hostile(
        """
attempt('clock', time.clock_settime, time.CLOCK_REALTIME, 0.0)
attempt('name', socket.sethostname, 'x')
print('tried')
""",
        refused,
    ),
    "hides from the watch": Hostile(
        """
libc.prctl(4, 0, 0, 0, 0)
children = []
for _ in range(3):
    if not os.fork():
        libc.prctl(4, 0, 0, 0, 0)
        x = b'x' * (90 << 20)
        time.sleep(9)
time.sleep(9)
""",
        ends("memory"),
    ),
}
