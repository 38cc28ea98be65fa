"""CRUXEval: what a short Python function returns, or what it must be given to return it."""

from __future__ import annotations

import ast
import re
from typing import Literal, Unpack

from evals.graders.code import VERSION as CODE_VERSION
from evals.graders.code import Verdict, grade_asserts
from evals.tasks.base import item_id
from evals.tasks.code import CodeSettings, CodeTask, parsed, source_of
from evals.tasks.hub import Row
from evals.tasks.literals import canonical_value, read_arguments, read_value
from evals.tasks.options import one_of
from trinity.canonical import folded
from trinity.types import Episode, Grade, Item, Judge

VERSION = "python_value/1"

_FENCE = re.compile(r"^[ \t]{0,6}(?:```|~~~)[ \t]?\w{0,20}[ \t]*$", re.MULTILINE)
_ANSWER = r"(?<!\w)answer[ \t*_]{0,4}(?:is\b[ \t*_]{0,4}:?|[:=])[ \t*_]{0,6}(?!<result>|f\(\.\.\.\))"
_LINE = re.compile(rf"^[ \t>#*_-]{{0,8}}(?:the |my |final ){{0,2}}{_ANSWER}", re.IGNORECASE | re.MULTILINE)
_ANYWHERE = re.compile(_ANSWER, re.IGNORECASE)
_MARKS = " \t\r*_`."


class CRUXEval(CodeTask):
    """CRUXEval (Gu et al., arXiv 2401.03065): 800 functions `f`, each with one call and what it returns.

    `output` (CRUXEval-O) asks for what `f` returns: a literal, compared as a value (`1.0` is `1`, sets have no order)
    and never run. `input` (CRUXEval-I) asks for arguments with which `f` returns a value: plain values (see
    `read_arguments`), on which `f` is run in the sandbox and compared outside of it; other arguments than the row's
    may be right.

    One split on the hub, cut by `data_seed`.

    Args:
        direction: `output` or `input`.
        settings: see `CodeSettings`.

    Raises:
        ConfigError: no such direction.
    """

    name = "cruxeval"
    repo = "cruxeval-org/cruxeval"
    columns = ("code", "input", "output", "id")
    licence = "MIT"
    comparable = True
    citation = "Gu et al. 2024, CRUXEval: A Benchmark for Code Reasoning, Understanding and Execution, arXiv 2401.03065"

    def __init__(self, *, direction: Literal["output", "input"] = "output", **settings: Unpack[CodeSettings]) -> None:
        """Keep the settings; rows are read when items are first asked for."""
        super().__init__(**settings)
        self.direction = one_of(self.name, "direction", direction, ("output", "input"))
        self.prompt_file = f"cruxeval_{direction}"
        self.grader = VERSION if direction == "output" else f"{VERSION} + {CODE_VERSION}"

    async def ready(self) -> None:
        """Make sure that the sandbox works, where one is needed."""
        if self.direction == "input":
            await super().ready()

    def identity(self, row: Row) -> str:
        """The function and its call."""
        return folded(f"{row.text('code')} {row.text('input', '')}")

    def item(self, row: Row) -> Item:
        """A function; the target is the value that it returns, or the row's own call."""
        code, call = source_of(row, "code"), f"f({row.text('input', '')})"
        output = source_of(row, "output").strip()
        try:
            value = canonical_value(read_value(output))
        except ValueError as error:
            raise row.wrong("output", f"a Python value ({error})") from error
        asked, target = (f"Call: {call}", value) if self.direction == "output" else (f"It returns: {output}", call)
        prompt = f"```python\n{code}\n```\n{asked}"
        meta = {"source": row.text("id"), "code": code, "call": call, "output": output}
        return Item(item_id(self.name, prompt), self.name, prompt, target, self.direction, meta=meta)

    def key(self, item: Item, text: str) -> str | None:
        """The value in its canonical form, or the call with its arguments as Python writes them."""
        answer = _declared(_FENCE.sub("", text))
        # As it stands first: a mark at the end may belong to a text, as in `'a*'`.
        readings = (self._read(item, reading) for reading in (answer, answer.strip(_MARKS)))
        return next((reading for reading in readings if reading is not None), None)

    def _read(self, item: Item, answer: str) -> str | None:
        try:
            if self.direction == "output":
                return canonical_value(read_value(answer))
            return f"f({read_arguments(answer, 'f', _names(item.meta['code']))})"
        except (ValueError, TypeError):  # TypeError: a list as a key
            return None

    def solution(self, item: Item) -> str:
        """What the row says."""
        return f"Answer: {item.meta['output'] if self.direction == 'output' else item.meta['call']}"

    async def grade(self, item: Item, episode: Episode, judge: Judge | None) -> Grade:
        """1 for the value that `f` returns, or for arguments with which it returns the value; else 0."""
        answer = None if episode.answer is None else self.key(item, episode.answer)
        if answer is None or self.direction == "output":
            return Grade(float(answer is not None and answer == item.target), answer)
        return Grade(float((await self.verdict(item, answer)).passed), answer)

    async def verdict(self, item: Item, code: str) -> Verdict:
        """Whether the call `code` returns the row's value."""
        source = f"{item.meta['code']}\n\n\ndef answered():\n    return {code}\n"
        checker = f"assert answered() == {item.meta['output']}\n"
        return await grade_asserts(self.sandbox, source, checker, ("answered",), self.limits)


def _declared(text: str) -> str:
    """What stands after the last `Answer:`, or in the next filled line; a line that starts with it goes before others.

    Not as words are read: a value may hold no letter or digit at all (`[]`), or the word `answer` itself.
    """
    marks = list(_LINE.finditer(text)) or list(_ANYWHERE.finditer(text))
    lines = text[marks[-1].end() :].split("\n", 8)[:8] if marks else []
    return next((line.strip() for line in lines if line.strip(_MARKS)), "")


def _names(code: str) -> frozenset[str]:
    """What a program assigns on its top level."""
    tree = parsed(code)
    targets = [
        target for node in (tree.body if tree else ()) if isinstance(node, ast.Assign) for target in node.targets
    ]
    return frozenset(target.id for target in targets if isinstance(target, ast.Name))
