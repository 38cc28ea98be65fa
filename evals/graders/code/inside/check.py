"""Runs trusted tests that call the candidate's functions in another process, by `wire` and `channel`."""

from __future__ import annotations

import ast
import builtins
import os
import random
import sys
import types
from collections.abc import Callable
from typing import Any, NoReturn

from evals.graders.code.inside.channel import messages, mute, tell
from evals.graders.code.inside.wire import close, decode, encode

TESTS = "tests.py"
SAME = "__same__"
"""Name under which the tests find `same`."""


class LeftError(BaseException):
    """The candidate left by an exception that no test may catch."""


class Remote:
    """The candidate's functions, as far as the tests see them.

    Attributes:
        calls: how often one of them was called.
    """

    def __init__(self) -> None:
        self.calls = 0
        self._told = messages()

    def job(self) -> dict[str, Any]:
        """The next message of the host's."""
        return next(self._told)

    def function(self, name: str) -> Callable[..., Any]:
        """A function that is called over there with copies of its arguments."""

        def call(*arguments: Any, **named: Any) -> Any:
            self.calls += 1
            sent = {key: encode(value) for key, value in named.items()}
            tell({"call": name, "arguments": encode(list(arguments)), "named": sent})
            return self._answer(self.job(), name)

        call.__name__ = call.__qualname__ = name
        return call

    def _answer(self, told: dict[str, Any], name: str) -> Any:
        if "value" in told:
            return decode(told["value"])
        if "missing" in told:
            raise NameError(f"name {name!r} is not defined")
        kind = getattr(builtins, str(told["raised"]), None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            raise kind(*decode(told["arguments"]))
        raise LeftError(str(told["raised"])[:100])


class Tolerant(ast.NodeTransformer):
    """Makes `assert a == b` forgive the last digits of floats (see `same`), also as a part of `and`."""

    def visit_Assert(self, node: ast.Assert) -> ast.Assert:
        """An assertion with its equations replaced."""
        node.test = self._eased(node.test)
        return node

    def _eased(self, test: ast.expr) -> ast.expr:
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            test.values = [self._eased(value) for value in test.values]
        elif isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
            return ast.Call(ast.Name(SAME, ast.Load()), [test.left, test.comparators[0]], [])
        return test


def same(given: Any, wanted: Any) -> Any:
    """`given == wanted`, or floats in lists, tuples and dictionaries of one shape that agree to 1e-6."""
    return (given == wanted) or near(given, wanted)


def near(given: Any, wanted: Any) -> bool:
    """Whether both are alike but for the last digits of floats that are wanted; whole numbers are exact."""
    if type(wanted) is float and type(given) in (int, float):
        return close(given, wanted)
    if type(given) is not type(wanted) or not isinstance(wanted, list | tuple | dict) or len(given) != len(wanted):
        return bool(type(given) is type(wanted) and given == wanted)
    if isinstance(wanted, dict):
        return given.keys() == wanted.keys() and all(near(given[key], wanted[key]) for key in wanted)
    return all(near(one, other) for one, other in zip(given, wanted, strict=True))


def main() -> None:
    """Run the tests of the first message, and tell what came of them."""
    mute()
    remote = Remote()
    job = remote.job()
    try:
        tree = ast.parse(job["tests"], TESTS)
        code = compile(ast.fix_missing_locations(Tolerant().visit(tree)), TESTS, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        leave(job, fault=f"the tests are no Python: {error}")
    module = types.ModuleType("tests")
    sys.modules["tests"] = module
    sys.set_int_max_str_digits(0)
    random.seed(0)
    module.__dict__.update({name: remote.function(name) for name in job["names"]}, **{SAME: same})
    try:
        exec(code, module.__dict__)  # noqa: S102 - trusted, and sandboxed all the same
    except BaseException as error:  # noqa: BLE001 - whatever it is, the tests did not pass
        leave(job, passed=False, calls=remote.calls, error=type(error).__name__, line=line_of(error))
    leave(job, passed=True, calls=remote.calls)


def line_of(error: BaseException) -> int:
    """The line of the tests on which an exception left them."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == TESTS else line
        trace = trace.tb_next
    return line


def leave(job: dict[str, Any], **verdict: Any) -> NoReturn:
    """Tell the verdict, with the sign that the host has given, and end."""
    tell({"nonce": job["nonce"], **verdict})
    os._exit(0)
