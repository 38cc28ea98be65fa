"""A program finds an ordinary interpreter, and its bounds end it, each by its name."""

from __future__ import annotations

import json
import textwrap
from dataclasses import replace

import pytest

from evals.sandbox.base import MIB, Limits, Outcome, Program
from evals.sandbox.pool import Pool

GREEDY_CHILDREN = """
import os, time
for _ in range(3):
    if not os.fork():
        x = b"x" * (90 << 20)
        time.sleep(60)
time.sleep(60)
"""


async def run(pool: Pool, source: str, *, stdin: bytes = b"", limits: Limits | None = None) -> Outcome:
    """What comes of an indented source."""
    return await pool.run(Program(textwrap.dedent(source), stdin), limits or Limits())


@pytest.fixture(params=["isolated", "plain"])
def pool(request: pytest.FixtureRequest) -> Pool:
    """Each kind of sandbox: a program cannot tell them apart unless it tries to."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Pool)
    return found


@pytest.mark.parametrize(
    ("source", "end", "code"),
    [
        ("pass", "exited", 0),
        ("import sys; sys.exit()", "exited", 0),
        ("raise SystemExit(3)", "exited", 3),
        ("import sys; sys.exit(259)", "exited", 3),
        ("exit(4)", "exited", 4),
        ("import sys; sys.exit('no')", "exited", 1),
        ("1 / 0", "exited", 1),
        ("x = (", "exited", 1),
        ("import os; os._exit(9)", "exited", 9),
        ("import os; os.kill(os.getpid(), 15)", "signalled", 15),
        ("import os; os.abort()", "signalled", 6),
        ("import ctypes; ctypes.string_at(0)", "signalled", 11),
    ],
)
async def test_ends(pool: Pool, source: str, end: str, code: int) -> None:
    """Exit code and signal are those that a shell would have seen."""
    outcome = await run(pool, source)
    assert (outcome.end, outcome.code) == (end, code)
    assert outcome.ok == ((end, code) == ("exited", 0))


async def test_streams(pool: Pool) -> None:
    """Standard input is a file that tells its size, standard output and error are told apart, bytes stay bytes."""
    source = """
        import os, sys
        assert os.fstat(0).st_size == 11
        try:
            os.write(0, b"!")
        except OSError:
            pass
        else:
            raise AssertionError("written to")
        first = sys.stdin.buffer.readline()
        sys.stdout.write(first.decode())
        sys.stdout.flush()
        sys.stdout.buffer.write(sys.stdin.buffer.read())
        print("wrong", file=sys.stderr)
    """
    outcome = await run(pool, source, stdin="größe\n".encode() + b"\xff\0\n")
    assert (outcome.stdout, outcome.stderr) == ("größe\n".encode() + b"\xff\0\n", b"wrong\n")


async def test_large_input_and_output(pool: Pool) -> None:
    """More than a pipe holds comes through both ways."""
    data = b"0123456789abcdef" * 250_000
    outcome = await run(pool, "import sys\nsys.stdout.buffer.write(sys.stdin.buffer.read())", stdin=data)
    assert outcome.ok
    assert outcome.stdout == data


async def test_unread_input(pool: Pool) -> None:
    """A program need not read what it is given."""
    outcome = await run(pool, "print('done')", stdin=bytes(4 * MIB))
    assert (outcome.end, outcome.stdout) == ("exited", b"done\n")


async def test_traceback_shows_the_program_alone(pool: Pool) -> None:
    """An error is reported as by an interpreter that was started with the program, whose source can be looked up."""
    outcome = await run(pool, "def f():\n    return 1 / 0\nf()")
    lines = outcome.stderr.decode().splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    places = [line.split(", ")[1:] for line in lines if "File" in line]
    assert places == [["line 3", "in <module>"], ["line 2", "in f"]]
    assert "    return 1 / 0" in lines
    assert lines[-1] == "ZeroDivisionError: division by zero"


async def test_end_of_the_interpreter(pool: Pool) -> None:
    """Threads are waited for, then exit handlers run, objects are finalized, and what was printed is written."""
    source = """
        import atexit, threading, time
        class Last:
            def __del__(self):
                print("object")
        last = Last()
        atexit.register(print, "handler")
        threading.Thread(target=lambda: (time.sleep(0.05), print("thread"))).start()
        print("program")
    """
    outcome = await run(pool, source)
    assert (outcome.end, outcome.stdout) == ("exited", b"program\nthread\nhandler\nobject\n")


async def test_surroundings(pool: Pool) -> None:
    """A fresh `__main__` in an empty folder, a fixed hash seed, UTF-8, UTC, and no variables but those listed."""
    source = """
        import json, os, sys, time
        print(json.dumps({
            "name": __name__, "argv": len(sys.argv), "file": os.path.isfile(__file__), "folder": os.listdir("."),
            "same": sys.modules["__main__"].__dict__ is globals(), "builtins": __builtins__.print is print,
            "hash": os.environ["PYTHONHASHSEED"],
            "encoding": [sys.stdout.encoding, sys.getfilesystemencoding()], "zone": time.timezone,
            "home": os.path.expanduser("~") == os.getcwd(), "umask": os.umask(0), "names": sorted(globals()),
            "secret": [k for k in os.environ if "KEY" in k or "TOKEN" in k],
        }))
    """
    outcome = await run(pool, source)
    found = json.loads(outcome.stdout)
    assert set(found.pop("names")) >= {"__name__", "__builtins__", "__file__", "json"}
    assert found == {
        "name": "__main__",
        "argv": 1,
        "file": True,
        "folder": [],
        "same": True,
        "builtins": True,
        "hash": "0",
        "encoding": ["utf-8", "utf-8"],
        "zone": 0,
        "home": True,
        "umask": 0o022,
        "secret": [],
    }


async def test_strings_hash_alike(pool: Pool) -> None:
    """The order of a set is the same in every run."""
    outcomes = [await run(pool, "print({str(n) for n in range(50)})") for _ in range(2)]
    assert outcomes[0].stdout == outcomes[1].stdout


async def test_files(pool: Pool) -> None:
    """Files lie in the working folder, in folders of their own, and can be imported and changed."""
    program = Program(
        "import helper, pathlib\nprint(helper.x, pathlib.Path('data/a.bin').read_bytes())\nopen('data/b', 'w').close()",
        files={"helper.py": b"x = 'found'", "data/a.bin": b"\0\xff"},
    )
    outcome = await pool.run(program, Limits())
    assert outcome.stdout == b"found b'\\x00\\xff'\n"


async def test_processes_and_threads(pool: Pool) -> None:
    """Children, pools of them and threads work as long as they keep within the bounds."""
    source = """
        import multiprocessing, subprocess, sys, concurrent.futures as f
        def square(x):
            return x * x
        if __name__ == "__main__":
            with multiprocessing.get_context("fork").Pool(2) as pool:
                print(pool.map(square, range(4)))
            with f.ThreadPoolExecutor(4) as threads:
                print(list(threads.map(square, range(4))))
            print(subprocess.run([sys.executable, "-c", "print('child')"], capture_output=True, text=True).stdout)
    """
    outcome = await run(pool, source)
    assert outcome.stdout == b"[0, 1, 4, 9]\n[0, 1, 4, 9]\nchild\n\n", outcome


async def test_preload(isolated: Pool) -> None:
    """A preloaded module is there before the program starts, and only where it was asked for."""
    source = "import sys\nprint('fractions' in sys.modules)"
    preloaded = await isolated.run(Program(source, preload=("fractions",)), Limits())
    bare = await isolated.run(Program(source), Limits())
    assert (preloaded.stdout, bare.stdout) == (b"True\n", b"False\n")


async def test_installed_packages(isolated: Pool) -> None:
    """Packages of the interpreter can be imported and compute with one thread."""
    source = """
        import os
        import numpy as np
        print(np.arange(4) @ np.arange(4), len(os.listdir("/proc/self/task")))
    """
    outcome = await run(isolated, source)
    assert outcome.stdout == b"14 1\n", outcome


@pytest.mark.parametrize(
    ("source", "end"),
    [
        ("while True: pass", "cpu"),
        ("import time; time.sleep(60)", "idle"),
        ("input()\nimport threading; threading.Event().wait()", "idle"),
        ("while True: print('x' * 999)", "output"),
        ("import time\nwhile True: time.sleep(0.001)", "idle"),
        (GREEDY_CHILDREN, "memory"),
    ],
)
async def test_bounds(pool: Pool, source: str, end: str) -> None:
    """Each bound ends a program and is named; there is no exit code then."""
    limits = Limits(cpu_s=0.4, idle_s=0.4, memory_bytes=192 * MIB, output_bytes=100_000)
    outcome = await pool.run(Program(source, b"line\n"), limits)
    assert (outcome.end, outcome.code) == (end, None)
    assert len(outcome.stdout) <= 100_000


async def test_wall(pool: Pool) -> None:
    """The wall ends what neither uses a processor much nor is idle for long enough."""
    outcome = await run(pool, "import time; time.sleep(60)", limits=Limits(wall_s=0.3, idle_s=60))
    assert outcome.end == "wall"


async def test_time_over_at_the_end(pool: Pool) -> None:
    """A program that has used too much when it ends is told so, though nobody looked in time."""
    source = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass"
    assert (await run(pool, source, limits=Limits(cpu_s=0.1))).end == "cpu"
    assert (await run(pool, source, limits=Limits(cpu_s=5))).end == "exited"


async def test_time_of_children_counts(pool: Pool) -> None:
    """The processor time of a program is that of all its processes."""
    source = """
        import os, time
        for _ in range(3):
            if not os.fork():
                end = time.process_time() + 0.1
                while time.process_time() < end:
                    pass
                os._exit(0)
        for _ in range(3):
            os.wait()
    """
    outcome = await run(pool, source)
    assert outcome.ok
    assert 0.3 <= outcome.cpu_s < 2


async def test_errors_beyond_the_bound_are_dropped(pool: Pool) -> None:
    """Standard error that is too long is cut and ends nobody; standard output just as long as allowed is kept."""
    limits = replace(Limits(), output_bytes=1000)
    outcome = await run(pool, "import os\nos.write(2, b'e' * 5000)\nos.write(1, b'o' * 1000)", limits=limits)
    assert (outcome.end, outcome.stdout, outcome.stderr) == ("exited", b"o" * 1000, b"e" * 1000)
    outcome = await run(pool, "import os\nos.write(1, b'o' * 1001)", limits=limits)
    assert (outcome.end, outcome.stdout) == ("output", b"o" * 1000)


async def test_memory_beyond_the_bound_is_refused(pool: Pool) -> None:
    """One process that asks for too much gets a MemoryError, which it may catch."""
    source = """
        try:
            x = bytearray(300 << 20)
        except MemoryError:
            print("refused")
        x = bytearray(50 << 20)
    """
    outcome = await run(pool, source, limits=Limits(memory_bytes=200 * MIB))
    assert (outcome.end, outcome.stdout) == ("exited", b"refused\n"), outcome


async def test_deep_recursion(pool: Pool) -> None:
    """A recursion as deep as programs for contests need runs, with the calls that they start with."""
    source = """
        import functools, resource, sys, threading
        resource.setrlimit(resource.RLIMIT_STACK, (1 << 28, resource.getrlimit(resource.RLIMIT_STACK)[1]))
        sys.setrecursionlimit(1 << 20)
        threading.stack_size(1 << 27)
        @functools.lru_cache(None)
        def depth(n):
            return 0 if n == 0 else depth(n - 1) + 1
        def plain(n):
            return 0 if n == 0 else plain(n - 1) + 1
        print(plain(100_000), depth(30_000))
        thread = threading.Thread(target=lambda: print(depth(60_000)))
        thread.start()
        thread.join()
    """
    outcome = await run(pool, source)
    assert outcome.stdout == b"100000 30000\n60000\n", outcome
