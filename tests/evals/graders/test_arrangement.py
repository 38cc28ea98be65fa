"""How the arrangement of a puzzle is found in a text, and what the puzzle's own code says of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from evals.graders import arrangement_harness
from evals.graders.arrangement import candidates, first_solution, fulfils, packed
from evals.sandbox.base import Limits, Outcome, Program, Sandbox
from tests.evals.tasks.rows_puzzles import autologi
from tests.sandboxes import isolated
from trinity.errors import GraderError

CODE: dict[str, str] = autologi(1)[0]["code"]
RIGHT = {"left": {"Ann", "Cid"}, "right": {"Ben"}}
LIMITS = Limits(cpu_s=5.0)
HARNESS = Path(arrangement_harness.__file__).read_text()


@pytest.fixture
async def box() -> AsyncIterator[Sandbox]:
    """A sandbox, where this machine has one."""
    made = await isolated()
    yield made
    await made.close()


class Told:
    """A sandbox that runs nothing and has one outcome."""

    def __init__(self, **outcome: Any) -> None:
        plain = {"end": "exited", "code": 0, "stdout": b"", "stderr": b"", "cpu_s": 0, "wall_s": 0}
        self.outcome = Outcome(**{**plain, **outcome})
        self.ran: list[tuple[Program, Limits]] = []

    async def run(self, program: Program, limits: Limits) -> Outcome:
        """The outcome."""
        self.ran.append((program, limits))
        return self.outcome


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("So it is\n```json\n{'a': {'x'}}\n```\nas wanted.", "{'a': {'x'}}"),
        ("```python\ninputs = {'a': 1}\n```", "{'a': 1}"),
        ("```\n[1]\n```\nNo:\n```\n[2]\n```", "[2]"),
        ("```json\n{\"a\": true, 'b': null} // done\n```", "{\"a\": True, 'b': None}"),
        ("```json\n{'a': 'true // null'}\n```", "{'a': 'true // null'}"),
        ("The answer is {'a': [1, 2]} I think.", "{'a': [1, 2]}"),
        ("First {'a': 1}, then {'a': {'b'}}, not [3].", "{'a': {'b'}}"),
        ("The order is [2, [3]].", "[2, [3]]"),
        ("A brace in a text: {'a': '}'}", "{'a': '}'}"),
    ],
)
def test_the_arrangement_is_the_last_value(text: str, expected: str) -> None:
    """The last fenced block goes first, then the last value in braces, then in brackets; JSON's words are Python's."""
    assert next(iter(candidates(text))) == expected


@pytest.mark.parametrize("text", ["", "No arrangement is possible.", "{ [", "}]", "```json"])
def test_a_text_without_a_value_has_none(text: str) -> None:
    """Nothing in brackets and no block: no candidate."""
    assert list(candidates(text)) == []


@pytest.mark.parametrize("part", ["{", "[", "}", "```\n", "'", '"\\', "//", "{'a':", "a = ", "```json\n{}\n```\n"])
def test_hostile_texts_are_read(part: str) -> None:
    """Ten megabytes made to be slow give a few candidates, none longer than what is read."""
    assert all(len(each) <= 100_000 for each in candidates(part * (10_000_000 // len(part))))


def test_kinds_are_kept_apart() -> None:
    """Lists, tuples, sets and dictionaries are told apart, also within one another; other things are refused."""
    assert packed({1: ("a", [None])}) == [
        "dict",
        [[["plain", 1], ["tuple", [["plain", "a"], ["list", [["plain", None]]]]]]],
    ]
    assert packed({"a"}) == ["set", [["plain", "a"]]]
    with pytest.raises(ValueError, match=r"^bytes is no part of an arrangement$"):
        packed([b"a"])


async def test_the_puzzles_code_decides(box: Sandbox) -> None:
    """What its checks accept is right; a broken constraint, another form, and what makes a check raise are not."""
    other = {"left": {"Cid", "Ben"}, "right": {"Ann"}}
    wrong = {"left": {"Ann", "Ben"}, "right": {"Cid"}}
    lists = {"left": ["Ann", "Cid"], "right": ["Ben"]}
    mixed = {"left": {1, "Cid"}, "right": {"Ben"}}
    answers: tuple[Any, ...] = (RIGHT, other, wrong, lists, mixed, [], "Ann")
    assert [await fulfils(box, CODE, each, LIMITS) for each in answers] == [True, True, *[False] * 5]


async def test_a_check_that_raises_or_does_not_end_accepts_nothing(box: Sandbox) -> None:
    """An exception and a bound both mean that the value is not accepted; what a check prints does not matter."""
    raising = {**CODE, "Inputs_Check_code": "def inputs_check(inputs):\n    return inputs['nobody']"}
    endless = {**CODE, "Inputs_Check_code": "def inputs_check(inputs):\n    while True:\n        pass"}
    chatty = {**CODE, "Inputs_Check_code": "print('{\"accepted\": false}')\n" + CODE["Inputs_Check_code"]}
    assert not await fulfils(box, raising, RIGHT, LIMITS)
    assert not await fulfils(box, endless, RIGHT, Limits(cpu_s=0.5))
    assert await fulfils(box, chatty, RIGHT, LIMITS)


async def test_broken_code_is_an_error(box: Sandbox) -> None:
    """Code that cannot be set up grades nothing."""
    for part in ("Inputs_Check_code", "Constraint_List_code"):
        with pytest.raises(GraderError, match="checking code is broken"):
            await fulfils(box, {**CODE, part: "nothing = here +"}, RIGHT, LIMITS)
    with pytest.raises(GraderError, match="checking code is broken"):
        await fulfils(box, {**CODE, "Constraint_List_code": "constraints = []"}, RIGHT, LIMITS)


async def test_the_first_solution_is_found(box: Sandbox) -> None:
    """Going through all arrangements gives one that is accepted; code that finds none, or breaks, gives none."""
    found = await first_solution(box, CODE, LIMITS)
    assert found is not None
    assert eval(found) in ({"left": {"Ann", "Cid"}, "right": {"Ben"}}, {"left": {"Ben", "Cid"}, "right": {"Ann"}})
    never = {**CODE, "Constraint_List_code": "constraint_list = [lambda inputs: False]"}
    assert await first_solution(box, never, LIMITS) is None
    assert await first_solution(box, {**CODE, "Traverse_code": "nothing = here +"}, LIMITS) is None


async def test_silence_is_an_error_and_a_bound_is_none() -> None:
    """A program that says nothing is a failure of the grader; one that ran into a bound has not accepted."""
    silent: Any = Told(stderr=b"x" + b"y" * 300)
    with pytest.raises(GraderError) as found:
        await fulfils(silent, CODE, RIGHT, LIMITS)
    assert str(found.value) == f"the puzzle's checking code ended without a word: {b'y' * 300!r}"
    for end in ("cpu", "idle", "wall", "memory", "output"):
        bounded: Any = Told(end=end, code=None)
        assert await fulfils(bounded, CODE, RIGHT, LIMITS) is False
        assert await first_solution(bounded, CODE, LIMITS) is None
    for stdout, told in ((b"[1]", "[1]"), (b'{"broken": "' + b"z" * 400 + b'"}', "{'broken': '" + "z" * 288)):
        odd: Any = Told(stdout=stdout)
        with pytest.raises(GraderError) as found:
            await fulfils(odd, CODE, RIGHT, LIMITS)
        assert str(found.value) == f"the puzzle's checking code is broken: {told}"


async def test_what_the_puzzles_code_is_given() -> None:
    """The harness, and as JSON the code with the packed value, or with the code that goes through all arrangements."""
    codes = {"checks": CODE["Inputs_Check_code"], "constraints": CODE["Constraint_List_code"]}
    asked: Any = Told(stdout=b'{"accepted": true}')
    assert await fulfils(asked, CODE, {"left": ["Ann"]}, LIMITS) is True
    searched: Any = Told(stdout=b'{"found": "[1]"}')
    assert await first_solution(searched, CODE, LIMITS) == "[1]"
    odd: Any = Told(stdout=b'{"found": 1}')
    assert await first_solution(odd, CODE, LIMITS) is None
    value = ["dict", [[["plain", "left"], ["list", [["plain", "Ann"]]]]]]
    tasks = ({**codes, "value": value}, {**codes, "traverse": CODE["Traverse_code"]})
    for box, task in zip((asked, searched), tasks, strict=True):
        ((program, limits),) = box.ran
        assert limits == LIMITS
        assert program.source == HARNESS
        assert json.loads(program.stdin) == task


def test_the_end_of_a_text_is_read() -> None:
    """A value that begins 100,000 characters before the end is the last one that is found; a name goes off it once."""
    assert list(candidates("[1]" + "x" * 99_997)) == ["[1]"]
    assert list(candidates("[1]" + "x" * 99_998)) == []
    assert list(candidates("```\na = b = {'c': 1}\n```")) == ["b = {'c': 1}", "{'c': 1}"]
    assert list(candidates("```\na == [1]\n```")) == ["a == [1]", "[1]"]
    assert list(candidates("{1} [2] {3")) == ["{1}"]
    assert list(candidates("} {{1} {2}} }")) == ["{{1} {2}}"]
