"""Programs that look for what is not theirs, or write to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.evals.sandbox.hostile.base import LIMITS, Hostile, refused

SPIES: Mapping[str, Hostile] = {
    "reads keys": Hostile(
        """
print(os.environ)
os.system('env')
print('BREACH' if '@CANARY@' in str(os.environ) else 'tried', flush=True)
""",
        lambda outcome: outcome.ok and b"BREACH" not in outcome.stdout and b"canary" not in outcome.stdout.lower(),
    ),
    "reads everybody's keys": Hostile(
        """
import glob
for path in glob.glob("/proc/*/environ") + glob.glob("/proc/*/task/*/environ") + glob.glob("/proc/*/cmdline"):
    try:
        text = open(path, "rb").read()
    except OSError:
        continue
    if b"@CANARY@" in text:
        print("BREACH", path)
print("tried")
""",
        refused,
    ),
    "reads home": Hostile(
        """
attempt('file', open, '@FILE@')
for p in ('@HOME@/.ssh', '@HOME@/.bashrc', '@HOME@/.bash_history', '/home'):
    attempt(p, os.listdir if os.path.isdir(p) else open, p)
print('tried')
""",
        refused,
    ),
    "searches everywhere": Hostile(
        """
name = os.path.basename("@FILE@")
for folder, folders, files in os.walk("/"):
    folders[:] = [f for f in folders if os.path.join(folder, f) not in ("/usr", "/proc", sys.prefix, sys.base_prefix)]
    if name in files:
        print("BREACH", folder)
print("tried")
""",
        refused,
        replace(LIMITS, cpu_s=20.0, idle_s=20.0),
    ),
    "reads accounts": Hostile(
        """
for p in ('/etc/shadow', '/etc/passwd', '/etc/hostname', '/etc/ssl'):
    attempt(p, open, p)
print('tried')
""",
        refused,
    ),
    "reads the machine's processes": Hostile(
        """
found = [n for n in os.listdir('/proc') if n.isdigit()]
print('tried' if len(found) <= 2 else 'BREACH', found)
attempt('host', os.listdir, '/proc/@PID@/fd')
""",
        refused,
    ),
    "reads the suite": Hostile(
        """
for n in ('trinity', 'evals', 'evals.graders', 'tests'):
    attempt(n, __import__, n)
print([n for n in sys.modules if n.startswith(('evals', 'trinity'))] and 'BREACH' or 'tried')
""",
        refused,
    ),
    "follows links out": Hostile(
        """
os.symlink('@FILE@', 'link')
attempt('link', open, 'link')
os.symlink('/proc/1/root', 'root')
attempt('root', os.listdir, 'root/')
attempt('up', open, '../' * 30 + '@FILE@'[1:])
print('tried')
""",
        refused,
    ),
    "writes through links": Hostile(
        """
os.symlink('/usr/bin', 'bin')
attempt('write', open, 'bin/new', 'w')
attempt('hard', os.link, '/usr/bin/env', 'env')
attempt('code', os.link, '/bin/sh', '/tmp/sh')
print('tried')
""",
        refused,
    ),
    "writes to the system": Hostile(
        """
for p in ('/x', '/usr/x', '/etc/x', '/bin/x', '/dev/x', '/worker/x', '/proc/x', '@HOME@/x', sys.prefix + '/x'):
    attempt(p, open, p, 'w')
attempt('mode', os.chmod, '/usr/bin/env', 0o777)
attempt('gone', os.remove, '/usr/bin/env')
print('tried')
""",
        refused,
    ),
    "writes to the kernel": Hostile(
        """
for p in ('/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', '/proc/sys/vm/drop_caches',
          '/sys/kernel/uevent_helper', '/proc/1/oom_score_adj', '/proc/self/uid_map',
          '/proc/self/setgroups', '/sys/fs/cgroup/cgroup.procs'):
    def write(p=p):
        with open(p, 'w') as file:
            file.write('0 0 1')
    attempt(p, write)
def lower():
    with open('/proc/self/oom_score_adj', 'w') as file:
        file.write('-1000')
attempt('oom', lower)
print('tried')
""",
        refused,
    ),
    "opens devices": Hostile(
        """
for n in ('mem', 'kmsg', 'sda', 'vda', 'tty', 'ptmx', 'fuse', 'kvm', 'loop0', 'console', 'net/tun'):
    attempt(n, open, f'/dev/{n}', 'rb')
attempt('mknod', os.mknod, 'dev', 0o60666, os.makedev(1, 1))
print('tried')
""",
        refused,
    ),
    "unpickles": Hostile(
        """
import pickle
class A:
    def __reduce__(self):
        return (open, ('@FILE@',))
attempt('load', pickle.loads, pickle.dumps(A()))
print('tried')
""",
        refused,
    ),
}
