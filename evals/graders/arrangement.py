"""Reads the arrangement that answers a puzzle, and asks the puzzle's own checking code about it in a sandbox."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

from evals.sandbox.base import Limits, Outcome, Program, Sandbox
from trinity.errors import GraderError

VERSION = "arrangement/1"

WINDOW = 100_000
"""Characters of a text's end in which the arrangement is looked for."""

_FENCE = re.compile(r"```[ \t]{0,4}\w{0,20}[ \t]{0,4}\n(.*?)```", re.DOTALL)
_NAMED = re.compile(r"\s{0,40}\w{1,40}\s{0,4}=(?!=)")
# Bounded, so that quotation marks without an end cost no more than their own length.
_STRING = r"'(?:[^'\\\n]|\\.){0,300}+'|\"(?:[^\"\\\n]|\\.){0,300}+\""
_FOREIGN = re.compile(rf"({_STRING})|//[^\n]*|\b(true|false|null)\b")
_WORDS = {"true": "True", "false": "False", "null": "None"}
_OPENS, _CLOSES = "{[(", "}])"


def candidates(text: str) -> Iterator[str]:
    """Texts that may be the arrangement, as Python writes values, the best first.

    The last fenced block, without a name that it is assigned to, and the last value in braces within it; without a
    block the last value in braces of the text. Brackets count where there are no braces. JSON's words and `//` remarks
    are written as Python's.
    """
    tail = text[-WINDOW:]
    blocks = _FENCE.findall(tail)
    for block in blocks[-1:]:
        yield _python(_NAMED.sub("", block, count=1) if _NAMED.match(block) else block)
    where = blocks[-1] if blocks else tail
    enclosed = _last_enclosed(where, "{") or _last_enclosed(where, "[")
    if enclosed is not None:
        yield _python(enclosed)


def _python(text: str) -> str:
    return _FOREIGN.sub(lambda found: found[1] or _WORDS.get(found[2] or "", ""), text).strip()


def _last_enclosed(text: str, opening: str) -> str | None:
    """The last outermost part that `opening` begins and its bracket ends; brackets within strings are not seen."""
    depth, start, last = 0, 0, None
    closing = _CLOSES[_OPENS.index(opening)]
    for found in re.finditer(rf"{_STRING}|[{re.escape(opening + closing)}]", text):
        if found[0] == opening:
            start = found.start() if depth == 0 else start
            depth += 1
        elif found[0] == closing and depth:
            depth -= 1
            last = (start, found.end()) if depth == 0 else last
    return None if last is None else text[last[0] : last[1]]


def packed(value: Any) -> Any:
    """A value as JSON that tells lists, tuples, sets and dictionaries with any keys apart (see the harness).

    Raises:
        ValueError: it holds something else than these, texts, numbers and None.
    """
    if isinstance(value, dict):
        return ["dict", [[packed(key), packed(each)] for key, each in value.items()]]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [type(value).__name__, [packed(each) for each in value]]
    if isinstance(value, (str, int, float, type(None))):
        return ["plain", value]
    raise ValueError(f"{type(value).__name__} is no part of an arrangement")


async def fulfils(sandbox: Sandbox, code: Mapping[str, str], value: Any, limits: Limits) -> bool:
    """Whether the checking code accepts an arrangement.

    `code` holds `Inputs_Check_code`, which defines `inputs_check(inputs)`, and `Constraint_List_code`, which defines
    `constraint_list`, functions of the same value. One that raises does not accept it, and neither does one that comes
    to no end within its bounds. The value goes in as JSON; nothing of the answer is ever run.

    Raises:
        GraderError: the code itself is broken, or the sandbox failed.
    """
    task = {"checks": code["Inputs_Check_code"], "constraints": code["Constraint_List_code"], "value": packed(value)}
    outcome = await sandbox.run(_program(task), limits)
    if outcome.end in {"cpu", "idle", "wall", "memory", "output"}:
        return False
    return bool(_told(outcome)["accepted"])


async def first_solution(sandbox: Sandbox, code: Mapping[str, str], limits: Limits) -> str | None:
    """The first arrangement that `Traverse_code` (`count_valid_arrangements()`) comes to and that is accepted.

    It is given as Python writes it; None = it comes to none within its bounds, or is broken.

    Raises:
        GraderError: the sandbox failed.
    """
    task = {"checks": code["Inputs_Check_code"], "constraints": code["Constraint_List_code"]}
    outcome = await sandbox.run(_program({**task, "traverse": code["Traverse_code"]}), limits)
    if not outcome.ok:
        return None
    found = json.loads(outcome.stdout).get("found")
    return found if isinstance(found, str) else None


def _program(task: Mapping[str, Any]) -> Program:
    source = resources.files("evals.graders").joinpath("arrangement_harness.py").read_text("utf-8")
    return Program(source, stdin=json.dumps(task).encode())


def _told(outcome: Outcome) -> dict[str, Any]:
    """What the harness says.

    Raises:
        GraderError: it says that the code is broken, or nothing.
    """
    try:
        told = json.loads(outcome.stdout)
    except ValueError as error:
        raise GraderError(f"the puzzle's checking code ended without a word: {outcome.stderr[-300:]!r}") from error
    if not isinstance(told, dict) or "accepted" not in told:
        raise GraderError(f"the puzzle's checking code is broken: {str(told)[:300]}")
    return told
