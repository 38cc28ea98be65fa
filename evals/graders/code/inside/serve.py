"""Runs a candidate and calls its functions as it is told to; results leave as JSON, by `wire` and `channel`."""

from __future__ import annotations

import builtins
import random
import sys
import types
from collections.abc import Callable
from typing import Any

from evals.graders.code.inside.channel import messages, mute, tell
from evals.graders.code.inside.wire import TooLargeError, decode, encode


def main() -> None:
    """Load what the first message holds, tell how that went, and answer calls until there are no more."""
    # What a candidate prints is nobody's answer here.
    mute()
    told = messages()
    module = load(next(told))
    if module is None:
        return
    for call in told:
        tell(answer(module, call))


def load(job: dict[str, Any]) -> types.ModuleType | None:
    """The candidate's module; None, and why is told, where it does not load."""
    module = types.ModuleType("solution")
    sys.modules["solution"] = module
    sys.set_int_max_str_digits(0)
    if job["recursion"]:
        sys.setrecursionlimit(job["recursion"])
    random.seed(0)
    try:
        exec(job["starter"], module.__dict__)  # noqa: S102 - imports of ours
        exec(compile(job["source"], "solution.py", "exec", dont_inherit=True), module.__dict__)  # noqa: S102
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is told
        tell({"broken": type(error).__name__})
        return None
    tell({"ready": True})
    return module


def answer(module: types.ModuleType, call: dict[str, Any]) -> dict[str, Any]:
    """What a call came to."""
    try:
        function = find(module, call["call"])
        if function is None:
            return {"missing": True}
        arguments = decode(call["arguments"])
        named = {name: decode(value) for name, value in call["named"].items()}
        return {"value": encode(function(*arguments, **named))}
    except TooLargeError as error:
        return {"value": {"opaque": [str(error), True]}}
    except BaseException as error:  # noqa: BLE001 - as above
        return raised(error)


def find(module: types.ModuleType, name: str) -> Callable[..., Any] | None:
    """A method of a new `Solution`, or else a function of the module."""
    solution = getattr(module, "Solution", None)
    if isinstance(solution, type) and hasattr(solution, name):
        return getattr(solution(), name)  # type: ignore[no-any-return]
    return getattr(module, name, None)


def raised(error: BaseException) -> dict[str, Any]:
    """The exception as the nearest one that Python itself has."""
    known = next(kind for kind in type(error).__mro__ if getattr(builtins, kind.__name__, None) is kind)
    try:
        arguments = encode(list(error.args))
    except BaseException:  # noqa: BLE001 - as above
        arguments = []
    return {"raised": known.__name__, "arguments": arguments}
