# ruff: noqa: N802 - the names that unittest calls
"""Runs trusted unit tests on a candidate in its own process, and tells how each one ended, by `channel`.

All that it needs later it takes hold of before the candidate's code runs. That keeps out whoever patches what unit
tests are made of; it can not keep out one who searches this process for its sign (see `evals.graders.code.decoys`).
"""

from __future__ import annotations

import builtins
import os
import random
import sys
import types
import unittest
import unittest.mock
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from evals.graders.code.inside.channel import CHANNEL, messages, mute

Say = Callable[..., None]
Snapshot = dict[tuple[str, ...], tuple[Any, ...]]

CORE = ("unittest", *(f"unittest.{name}" for name in ("case", "loader", "mock", "result", "suite", "util")))
"""Modules that nobody has a reason to change, not even for the time of a test."""
LENT = ("builtins", "os")
"""Modules that tests may mock for as long as they run."""


def main() -> None:
    """Run the candidate and the tests of the first message."""
    mute()
    job = next(messages())
    say = speaker(job["nonce"].encode())
    leave = os._exit
    intact = watcher((*CORE, *LENT))
    module = types.ModuleType("__test__")
    sys.modules["__test__"] = module
    random.seed(0)
    run(module, job["source"], "solution", say, leave)
    if not intact((*CORE, *LENT)):
        say("changed")
        leave(0)
    # The candidate may have left others here.
    module.__dict__["__builtins__"] = builtins
    run(module, job["tests"], "tests", say, leave)
    say("loaded")
    numbers = {(kind, method): number for number, (kind, method) in enumerate(job["wanted"])}
    tests = unittest.TestSuite(getattr(module, kind)(method) for kind, method in numbers)
    tests.run(Result(numbers, say, lambda: intact(CORE)))
    say("end" if intact((*CORE, *LENT)) else "changed")
    leave(0)


def run(module: types.ModuleType, source: str, name: str, say: Say, leave: Callable[[int], NoReturn]) -> None:
    """Run a source in the module; tell and leave where it does not run to its end."""
    try:
        exec(compile(source, f"{name}.py", "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - what this is for
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is told
        say("broken", name, type(error).__name__)
        leave(0)


def speaker(nonce: bytes) -> Say:
    """A function that tells the host words; needs nothing that a candidate could change by assignment."""
    write, text, join, encode = os.write, str, b" ".join, str.encode

    def say(*words: object) -> None:
        write(CHANNEL, join([nonce, *(encode(text(word)[:100], "ascii", "replace") for word in words)]) + b"\n")

    return say


class Result(unittest.TestResult):
    """Tells when each test starts and how it ends; `ok` is only what nothing was wrong with.

    Args:
        numbers: of the tests, by class and method.
        say: tells.
        intact: whether unit tests are still made of what they were.
    """

    def __init__(self, numbers: dict[tuple[str, str], int], say: Say, intact: Callable[[], bool]) -> None:
        super().__init__()
        self._numbers, self._say, self._intact = numbers, say, intact
        self._seen: list[str] = []

    def startTest(self, test: unittest.TestCase) -> None:
        """Before a test's preparation."""
        super().startTest(test)
        self._seen.clear()
        self._say("start", self._number(test))

    def stopTest(self, test: unittest.TestCase) -> None:
        """After a test's last clean-up."""
        super().stopTest(test)
        wrong = [word for word in self._seen if word != "ok"] + ([] if self._intact() else ["changed"])
        self._say("finish", self._number(test), wrong[0] if wrong else "".join(self._seen))

    def addSuccess(self, test: unittest.TestCase) -> None:
        """Nothing was wrong."""
        self._seen.append("ok")

    def addError(self, test: Any, err: Any) -> None:
        """An exception; of the preparation of a class or the module where it is of no test."""
        if not isinstance(test, unittest.TestCase):
            self._say("fixture", err[0].__name__)
        self._seen.append(err[0].__name__)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        """An assertion does not hold."""
        self._seen.append("failed")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        """Nothing was shown."""
        self._seen.append("skipped")

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        """A part of a test has ended."""
        self._seen += [] if err is None else ["failed"]

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        """The tests' author wants it to fail."""
        self._seen.append("ok")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        """The tests' author wanted it to fail."""
        self._seen.append("unexpected")

    def _number(self, test: unittest.TestCase) -> int:
        return self._numbers[type(test).__name__, test._testMethodName]  # noqa: SLF001 - `id` can be overridden


def watcher(names: tuple[str, ...]) -> Callable[[tuple[str, ...]], bool]:
    """A function that says whether some of these modules are what they were."""
    modules = {name: sys.modules[name] for name in names}
    before = {name: snapshot(module) for name, module in modules.items()}
    loaded, look = sys.modules, snapshot

    def intact(some: tuple[str, ...]) -> bool:
        return all(loaded.get(name) is modules[name] and holds(look(modules[name]), before[name]) for name in some)

    return intact


def holds(now: Snapshot, before: Snapshot) -> bool:
    """Whether all that was there is still the same; more may have come."""
    return all(
        key in now and len(now[key]) == len(parts) and all(map(same, now[key], parts)) for key, parts in before.items()
    )


def same(one: object, other: object) -> bool:
    """Whether two are one object; nothing of theirs is asked."""
    return one is other


def snapshot(module: types.ModuleType) -> Snapshot:
    """What makes the functions and classes of a module what they are."""
    taken: Snapshot = {}
    for name, value in list(vars(module).items()):
        if callable(value) and name != "_":
            taken[name,] = parts(value)
            if type(value) is type and value.__module__.startswith("unittest"):
                taken |= {(name, key): parts(item) for key, item in members(value)}
    return taken


def members(kind: type) -> Iterator[tuple[str, object]]:
    """Functions and other things that a class holds, without what changes by itself."""
    for key, value in list(vars(kind).items()):
        if isinstance(value, types.FunctionType | property | classmethod | staticmethod):
            yield key, value


def parts(value: object) -> tuple[Any, ...]:
    """An object, and what it would be another function without."""
    function = getattr(value, "__func__", value) if isinstance(value, classmethod | staticmethod) else value
    if isinstance(function, types.FunctionType):
        return value, function.__code__, function.__defaults__, function.__kwdefaults__
    return (value,)
