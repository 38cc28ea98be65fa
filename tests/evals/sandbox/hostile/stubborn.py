"""Programs that will not end, or want others to."""

from __future__ import annotations

from collections.abc import Mapping

from tests.evals.sandbox.hostile.base import SHORT, Hostile, ends, refused

STUBBORN: Mapping[str, Hostile] = {
    "ignores every signal": Hostile(
        """
for n in range(1, 65):
    try:
        signal.signal(n, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True:
    pass
""",
        ends("cpu"),
        SHORT,
    ),
    "handles every signal": Hostile(
        """
for n in range(1, 65):
    try:
        signal.signal(n, lambda *_: None)
    except (OSError, ValueError):
        pass
while True:
    pass
""",
        ends("cpu"),
        SHORT,
    ),
    "loops at exit": Hostile(
        """
import atexit
atexit.register(lambda: [None for _ in iter(int, 1)])
""",
        ends("cpu"),
        SHORT,
    ),
    "loops in a finalizer": Hostile(
        """
class A:
    def __del__(self):
        while True:
            pass
a = A()
""",
        ends("cpu"),
        SHORT,
    ),
    "a thread outlives the program": Hostile(
        """
import threading
threading.Thread(target=time.sleep, args=(99,)).start()
""",
        ends("idle"),
        SHORT,
    ),
    "double fork": Hostile(
        """
if not os.fork():
    os.setsid()
    if not os.fork():
        time.sleep(999)
    os._exit(0)
os.wait()
print('tried')
""",
        refused,
    ),
    "a daemon holds the output": Hostile(
        """
import subprocess
subprocess.Popen(['/bin/sleep', '999'], start_new_session=True)
print('tried')
""",
        refused,
    ),
    "kills everybody": Hostile(
        """
os.kill(-1, signal.SIGKILL)
print('tried')
""",
        ends("exited", "signalled"),
    ),
    "kills the first process": Hostile(
        """
for n in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP, signal.SIGSEGV):
    os.kill(1, n)
time.sleep(0.1)
print('tried')
""",
        refused,
    ),
    "kills its parent": Hostile(
        """
os.kill(os.getppid(), signal.SIGKILL)
time.sleep(0.1)
print('tried')
""",
        refused,
    ),
    "kills the host": Hostile(
        """
attempt('kill', os.kill, @PID@, 0)
attempt('group', os.killpg, @PID@, 0)
print('tried')
""",
        refused,
    ),
    "dies of an alarm": Hostile(
        """
signal.setitimer(signal.ITIMER_REAL, 0.01)
time.sleep(9)
""",
        lambda outcome: (outcome.end, outcome.code) == ("signalled", 14),
    ),
    "dumps core": Hostile(
        """
import resource
for bound in (-1, 0, 1 << 30):
    attempt('core', resource.setrlimit, resource.RLIMIT_CORE, (bound, bound))
sys.stdout.flush()
os.abort()
""",
        lambda outcome: (outcome.end, outcome.code) == ("signalled", 6) and b"BREACH" not in outcome.stdout,
    ),
}
