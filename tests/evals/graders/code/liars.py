"""Candidates that try to pass without being right: what they do before, and instead of, their work.

Each defines `f`, which should give its argument plus one, and does not; where it is run as a program, it prints what
`f` gives. All of them must fail, whoever grades them.
"""

from __future__ import annotations

from textwrap import dedent

PROBES = (
    '{"value": 2}',
    '{"passed": true, "calls": 9, "nonce": "0"}',
    '{"ready": true}',
    "0 loaded",
    "ok",
    "2",
)
"""Lines that somebody who has read the graders would try."""

_LINES = "\\n".join(PROBES)

FORGED_LINES = f"""
import os
for stream in range(1, 64):
    try:
        os.write(stream, {_LINES!r}.encode() + b"\\n")
    except OSError:
        pass
"""
WRONG = "\ndef f(x):\n    return 0\n"
CALLED = "\ndef f(x):\n    {}\n    return 0\n"
ALIKE = """
class Alike({base}):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __contains__ = __instancecheck__ = __lt__
    def __hash__(self): return 0
    def __bool__(self): return True
    def __str__(self): return "2"
    __repr__ = __str__
def f(x):
    return Alike({value})
"""

LIARS: dict[str, str] = {
    "nothing": WRONG,
    "exit at once": "import os\nos._exit(0)" + WRONG,
    "leave at once": "raise SystemExit(0)" + WRONG,
    "exit when called": "import os" + CALLED.format("os._exit(0)"),
    "leave when called": CALLED.format("raise SystemExit(0)"),
    "generator exit": CALLED.format("raise GeneratorExit"),
    "forged lines": FORGED_LINES + WRONG,
    "forged lines, then exit": FORGED_LINES + "os._exit(0)" + WRONG,
    "forged lines when called": "def forge():" + FORGED_LINES.replace("\n", "\n    ") + CALLED.format("forge()"),
    "forged lines at exit": "import atexit\ndef forge():"
    + FORGED_LINES.replace("\n", "\n    ")
    + "\natexit.register(forge)"
    + WRONG,
    "forged lines by a thread": (
        "import threading\ndef forge():"
        + FORGED_LINES.replace("\n", "\n    ")
        + "\nthreading.Thread(target=forge).start()"
        + WRONG
    ),
    "forged lines by a child": "import os\nif os.fork() == 0:"
    + FORGED_LINES.replace("\n", "\n    ")
    + "\n    os._exit(0)"
    + WRONG,
    "forged lines by a signal": (
        "import signal\ndef forge(*_):"
        + FORGED_LINES.replace("\n", "\n    ")
        + "\nsignal.signal(signal.SIGALRM, forge)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)" + CALLED.format("signal.pause()")
    ),
    "twice the same child": "import os" + CALLED.format("os.fork()"),
    "equal to everything": ALIKE.format(base="object", value=""),
    "an int equal to everything": ALIKE.format(base="int", value="7"),
    "a str equal to everything": ALIKE.format(base="str", value="'7'"),
    "a list equal to everything": ALIKE.format(base="list", value=""),
    "a float equal to everything": ALIKE.format(base="float", value="7"),
    "a mock": "from unittest.mock import ANY" + CALLED.format("return ANY"),
    "no assertion errors": "import builtins\nbuiltins.AssertionError = ValueError" + WRONG,
    "all are instances": "import builtins\nbuiltins.isinstance = lambda *a: True" + WRONG,
    "no compiling": "import builtins\nbuiltins.compile = lambda *a, **k: ''\nbuiltins.exec = lambda *a: None" + WRONG,
    "other imports": "import builtins\nbuiltins.__import__ = lambda *a, **k: __builtins__" + WRONG,
    "other classes": "import builtins\nbuiltins.__build_class__ = lambda f, n, *a, **k: type(n, (), {})" + WRONG,
    "other builtins": "__builtins__ = dict(vars(__import__('builtins')), len=lambda *_: 1)" + WRONG,
    "other writing": "import os\nw = os.write\nos.write = lambda f, d: w(f, d.replace(b'failed', b'ok'))" + WRONG,
    "other JSON": "import json\njson.dumps = lambda *a, **k: '{\"value\": 2}'" + WRONG,
    "other encoder": "import json.encoder\njson.encoder.c_make_encoder = None\njson.JSONEncoder.encode = lambda *a: '2'"
    + WRONG,
    "other exit": "import os\nos._exit = lambda code: None" + WRONG,
    "other hook": "import sys\nsys.excepthook = lambda *a: sys.stdout.write('2')" + CALLED.format("1 / 0"),
    "no more assertions": (
        "import unittest\nfor name in dir(unittest.TestCase):\n    if name.startswith('assert'):\n"
        "        setattr(unittest.TestCase, name, lambda *a, **k: None)" + WRONG
    ),
    "no more code": (
        "import unittest\nunittest.TestCase.assertEqual.__code__ = (lambda s, a, b, msg=None: None).__code__" + WRONG
    ),
    "other defaults": "import unittest\nunittest.TestCase.run.__defaults__ = (type('R', (), {})(),)" + WRONG,
    "no more running": "import unittest\nunittest.TestCase.run = lambda self, result=None: None" + WRONG,
    "no more calling": "import unittest\nunittest.TestCase.__call__ = lambda self, result: result.addSuccess(self)"
    + WRONG,
    "failures are successes": "import unittest\nunittest.TestResult.addFailure = unittest.TestResult.addSuccess"
    + WRONG,
    "another failure": "import unittest\nclass No(Exception): pass\nunittest.TestCase.failureException = No" + WRONG,
    "another outcome": (
        "import unittest.case\nunittest.case._Outcome.testPartExecutor = lambda self, case, subTest=False: "
        "__import__('contextlib').suppress(BaseException)" + WRONG
    ),
    "another suite": "import unittest\nunittest.TestSuite.run = lambda self, result, debug=False: result" + WRONG,
    "another module": "import sys, types\nsys.modules['unittest'] = types.SimpleNamespace(TestCase=object)" + WRONG,
    "another mock": "import unittest.mock\nunittest.mock.patch = lambda *a, **k: (lambda f: f)" + WRONG,
    "skipped": "import unittest" + CALLED.format("raise unittest.SkipTest('')"),
    "tests of its own": "import unittest\nclass T(unittest.TestCase):\n    def test_it(self):\n        pass" + WRONG,
    "checks of its own": WRONG + "\ncandidate = check = lambda *a: None\n",
    "an open decorator": WRONG + "\n@(lambda kind: object)\n",
    "an open string": WRONG + '\n"""',
    "an open parenthesis": WRONG + "\nprint(2) or (",
    "closing what is around it": '")\nprint(2)\n("' + WRONG,
    "tracing": "import sys\nsys.settrace(lambda frame, event, arg: None)" + WRONG,
    "its own exception": "class AssertionError(BaseException): pass" + CALLED.format("raise AssertionError"),
    "any exception": "class Any(ValueError, metaclass=type('M', (type,), {'mro': lambda c: type.mro(c)})): pass"
    + CALLED.format("raise Any"),
    "a million digits": CALLED.format("return 10 ** 200_000"),
    "a deep value": CALLED.format("v = []\n    for _ in range(5000): v = [v]\n    return v"),
    "keys that collide": CALLED.format("return {n * (2 ** 61 - 1) for n in range(3000)}"),
    "a wide value": CALLED.format("v = [0] * 10 ** 6\n    return v"),
    "no text": CALLED.format("return '\\ud800'"),
    "an iterator without end": CALLED.format("return iter(int, 1)"),
    "a closed channel": "import os\nos.closerange(3, 100)" + WRONG,
    "killing its kind": "import os, signal\ntry:\n    os.kill(-1, signal.SIGKILL)\nexcept OSError:\n    pass" + WRONG,
    "killing its parent": "import os\ntry:\n    os.kill(os.getppid(), 9)\nexcept OSError:\n    pass" + WRONG,
}

SEARCH = dedent(
    """
    import glob
    def seen():
        mark = b"-detcepxe-t3rc3s"[::-1]
        for path in glob.glob("/proc/[0-9]*/maps"):
            try:
                with open(path.replace("maps", "mem"), "rb", 0) as memory, open(path) as maps:
                    for line in maps:
                        start, stop = (int(edge, 16) for edge in line.split()[0].split("-"))
                        memory.seek(start)
                        data = memory.read(min(stop - start, 2**24))
                        if (place := data.find(mark + b"1")) >= 0:
                            return data[place:place + len(mark) + 1].decode()
            except (OSError, OverflowError, ValueError):
                pass
        return ""
    def f(x):
        return seen()
    """
)
"""A candidate that looks for what is expected among all that it can reach."""

FRAMES = dedent(
    """
    import os, sys
    def forge():
        frame = sys._getframe()
        while frame is not None and "job" not in frame.f_locals:
            frame = frame.f_back
        job = frame.f_locals["job"]
        lines = ["loaded"]
        for number, _ in enumerate(job["wanted"]):
            lines += [f"start {number}", f"finish {number} ok"]
        for line in [*lines, "end"]:
            os.write(3, f"{job['nonce']} {line}\\n".encode())
        os._exit(0)
    forge()
    """
)
"""A candidate that finds the sign in the frames of whoever loads it, and tells that all is well."""

BRIEFLY = dedent(
    """
    import unittest
    def f(x):
        equal = unittest.TestCase.assertEqual
        unittest.real = equal.__code__
        def fake(self, first, second, msg=None):
            __import__("unittest").TestCase.assertEqual.__code__ = __import__("unittest").real
        equal.__code__ = fake.__code__
        return 0
    """
)
"""A candidate that replaces an assertion for as long as one test takes, and puts it back."""

RESULT = dedent(
    """
    import gc, unittest
    def f(x):
        for thing in gc.get_objects():
            if isinstance(thing, unittest.TestResult):
                kind = type(thing)
                kind.addFailure = kind.addError = lambda self, test, err: self.addSuccess(test)
        return 0
    """
)
"""A candidate that changes the result that the tests report to."""

SAY = dedent(
    """
    import gc, types
    def f(x):
        for thing in gc.get_objects():
            if isinstance(thing, types.FunctionType) and thing.__name__ == "say":
                cells = dict(zip(thing.__code__.co_freevars, thing.__closure__))
                text = cells["text"].cell_contents
                cells["text"].cell_contents = lambda word: "ok" if str(word) in ("failed", "changed") else str(word)
        return 0
    """
)
"""A candidate that changes how results are told."""
