"""AutoLogi: logic puzzles with many answers, each graded by the checking functions that come with the puzzle."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from typing import Any, Literal, Unpack

from evals.graders.arrangement import VERSION, candidates, first_solution, fulfils, packed
from evals.graders.code import Verdict
from evals.sandbox.base import Limits
from evals.tasks.base import item_id
from evals.tasks.code import CodeSettings, CodeTask
from evals.tasks.hub import Row
from evals.tasks.literals import canonical_value, read_value
from evals.tasks.options import one_of
from trinity.canonical import folded
from trinity.errors import GraderError
from trinity.types import Episode, Grade, Item, Judge, Redistribute, Split

_CODE = ("Inputs_Check_code", "Constraint_List_code", "Traverse_code")


class AutoLogi(CodeTask):
    """AutoLogi (Zhu et al., arXiv 2502.16906): 1,575 English and 883 Chinese puzzles in steps of difficulty.

    Any arrangement is right that the puzzle's `inputs_check` and every function of its `constraint_list` accept, run
    in the sandbox. The answer is read as a value that Python would write, with JSON's words allowed; it is handed over
    as data and never run. Sets, lists and tuples are told apart, as the authors' evaluation does. Unlike it, brackets
    and words within strings are left alone, and the answer may follow a name (`inputs = {...}`).

    The rows are in the authors' repository, without a licence, and have to be brought from there: `path` is a copy of
    `AutoLogi_en.jsonl`, `AutoLogi_cn.jsonl`, or the folder with them. One split, cut by `data_seed`.

    Args:
        language: `en` or `cn`.
        settings: see `CodeSettings`; `revision` says nothing here.

    Raises:
        ConfigError: no such language.
    """

    name = "autologi"
    repo = "https://github.com/8188zq/AutoLogi"
    hub_splits: Mapping[Split, str] = {"train": "test", "val": "test", "test": "test"}
    columns = ("prompt", "code")
    optional = ("idx", "lang")
    licence = "none stated"
    redistribute: Redistribute = "ids-only"
    comparable = True
    grader = VERSION
    limits = Limits(cpu_s=10.0)
    citation = (
        "Zhu et al. 2025, AutoLogi: Automated Generation of Logic Puzzles for Evaluating Reasoning Abilities of Large "
        "Language Models, arXiv 2502.16906"
    )

    def __init__(self, *, language: Literal["en", "cn"] = "en", **settings: Unpack[CodeSettings]) -> None:
        """Keep the settings; rows are read when items are first asked for."""
        super().__init__(**settings)
        self.language = one_of(self.name, "language", language, ("en", "cn"))
        self.files = {"test": (f"testing-data/AutoLogi_{language}.jsonl",)}
        self.prompt_file = self.name if language == "en" else f"{self.name}_{language}"

    def identity(self, row: Row) -> str:
        """The puzzle's text."""
        return folded(row.text("prompt"))

    def unusable(self, row: Row) -> str | None:
        """Rows in another language."""
        return None if row.text("lang", self.language) == self.language else "in another language"

    def item(self, row: Row) -> Item:
        """A puzzle; `meta` holds its code.

        Raises:
            DataError: a part of the code is missing.
        """
        prompt = row.text("prompt")
        meta = {"code": _code(row), "source": row.text("idx", "")}
        return Item(item_id(self.name, prompt), self.name, prompt, "", f"logic ({self.language})", meta=meta)

    def key(self, item: Item, text: str) -> str | None:
        """The arrangement in a form that equal ones share."""
        found = _read(text)
        return None if found is None else canonical_value(found[0])

    async def grade(self, item: Item, episode: Episode, judge: Judge | None) -> Grade:
        """1 for an arrangement that the puzzle's code accepts, else 0."""
        found = None if episode.answer is None else _read(episode.answer)
        if found is None:
            return Grade(0.0, None)
        accepted = await fulfils(self.sandbox, item.meta["code"], found[0], self.limits)
        return Grade(float(accepted), canonical_value(found[0]))

    async def verdict(self, item: Item, code: str) -> Verdict:
        """Whether the arrangement in the text `code` is accepted."""
        grade = await self.grade(item, Episode(code), None)
        return Verdict(grade.score == 1, grade.answer or "no arrangement")

    def solution(self, item: Item) -> str | None:
        """The first arrangement that the puzzle's code finds by going through them all; None = none in its time."""
        found: list[str | None] = []

        def find() -> None:
            # In a thread with an event loop of its own: the caller may stand in one that must not be waited in.
            found.append(asyncio.run(first_solution(self.sandbox, item.meta["code"], self.limits)))

        thread = threading.Thread(target=find, daemon=True)
        thread.start()
        thread.join()
        if not found:
            raise GraderError(f"item {item.item_id} of {self.name}: the sandbox failed to look for its solution")
        return found[0] and f"```json\n{found[0]}\n```"


def _code(row: Row) -> dict[str, str]:
    code = row.values["code"]
    if isinstance(code, str):
        try:
            code = json.loads(code)
        except ValueError:
            code = None
    if not isinstance(code, dict) or not all(isinstance(code.get(part), str) and code[part] for part in _CODE):
        raise row.wrong("code", f"an object with the texts {', '.join(_CODE)}")
    return {part: code[part] for part in _CODE}


def _read(text: str) -> tuple[Any] | None:
    """The arrangement in `text`, alone in a tuple; None = there is none."""
    for candidate in candidates(text):
        try:
            value = read_value(candidate)
            packed(value)
        except (ValueError, TypeError):
            continue
        return (value,)
    return None
