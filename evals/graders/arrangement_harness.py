"""Runs inside the sandbox: a puzzle's checking code on a value that comes as JSON; says the verdict as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

_MAKERS: dict[str, Callable[[list[Any]], Any]] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}

Check = Callable[[Any], object]


def unpacked(packed: Any) -> Any:
    """The value that was packed as a kind and its content."""
    kind, content = packed
    if kind == "dict":
        return {unpacked(key): unpacked(value) for key, value in content}
    if kind in _MAKERS:
        return _MAKERS[kind]([unpacked(each) for each in content])
    return content


def accepted(value: Any, inputs_check: Check, constraint_list: list[Check]) -> bool:
    """Whether the form is right and all constraints hold."""
    return bool(inputs_check(value)) and all(constraint(value) for constraint in constraint_list)


def main() -> None:
    """Read the task, run its code with standard output out of its reach, and say what came of it."""
    task = json.load(sys.stdin)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(**told: object) -> NoReturn:
        out.write(json.dumps(told))
        out.flush()
        os._exit(0)

    def verify(value: Any, inputs_check: Check, constraint_list: list[Check]) -> bool:
        if accepted(value, inputs_check, constraint_list):
            say(found=repr(value))
        return False

    space: dict[str, Any] = {"__name__": "puzzle", "verify_function": verify, "verify_fuction": verify}
    try:
        exec(task["checks"], space)  # noqa: S102 - the data set's own code, and this is the sandbox
        exec(task["constraints"], space)  # noqa: S102
        check, constraints = space["inputs_check"], space["constraint_list"]
    except BaseException as error:  # noqa: BLE001 - whatever it raises, it is broken
        say(broken=repr(error)[:300])
    if "traverse" in task:
        exec(task["traverse"], space)  # noqa: S102
        space["count_valid_arrangements"]()
        say(found=None)
    try:
        say(accepted=accepted(unpacked(task["value"]), check, constraints))
    except BaseException:  # noqa: BLE001 - a value that the code cannot deal with is not accepted
        say(accepted=False)


if __name__ == "__main__":
    main()
