"""MT-Bench: 80 open questions with a follow-up each, both answers rated by a judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from evals.graders import judge as judging
from evals.graders.judge import ATTEMPTS, HIGHEST, LOWEST, Exchange, rate
from evals.tasks.base import item_id
from evals.tasks.benchmark import Benchmark, BenchmarkSettings
from evals.tasks.hub import Row
from evals.tasks.options import one_of
from trinity.canonical import folded, sha256
from trinity.errors import ConfigError, GraderError
from trinity.types import Episode, Grade, Item, Judge, Message

ROUNDS = 2
HANDLED = ("drop", "keep", "leave_out")
"""What may be done with references that were reported wrong."""

_WITH_REFERENCE = ("math", "reasoning", "coding")
_HASH_DIGITS = 12
_REPORTED: Mapping[int, tuple[str, str]] = {
    104: ("262e1e6b972c", "691eed883573"),
    105: ("a8f43fa0c0c5", "693d343d7d33"),
    109: ("15b02d95b874", "5281f28caa31"),
    111: ("2baaed1a1c38", "a11068c4fc13"),
    113: ("b05fa059af88", "787f057c0101"),
    114: ("4009a9d57b17", "441549254d24"),
    120: ("bcc959ce43ce", "47c1d3d2b028"),
    122: ("284c5c35b6e0", "06fdcf1c507f"),
    124: ("f728ac18db91", "7c43bcc8e7ee"),
    125: ("a86a38f520f8", "b75cfe0871c0"),
    126: ("fe4c8e4ec063", "b0a9dfc1a897"),
    128: ("2e0c7bc23b06", "cfc84b28adfc"),
    130: ("0e57bb7c062e", "003d2f34ca05"),
}
"""Questions whose GPT-4 reference was reported wrong in at least one turn (lm-sys/FastChat, pull request 3158).

Number -> start of the SHA-256 of the folded first question, and of the references of FastChat's own question file,
which were looked through and are right.
"""


def scaled(rating: float) -> float:
    """A rating from 1 to 10 as a score: (rating - 1) / 9, so that no answer, score 0, is the lowest rating."""
    return (rating - LOWEST) / (HIGHEST - LOWEST)


def published(score: float) -> float:
    """A score, or a mean of scores, on the scale of published tables: 1 + 9 x score."""
    return LOWEST + (HIGHEST - LOWEST) * score


class MTBench(Benchmark):
    """MT-Bench (Zheng et al., arXiv 2306.05685): eight categories of ten questions, each with a follow-up.

    A judge rates the answer to each turn from 1 to 10, the second with the first before it. The score is the mean of
    both ratings, scaled to [0, 1] (`scaled`); `published` takes a mean score back to published tables, whose numbers
    depend on the judge: compare within one judge only. The record's answer is the ratings. A turn without an answer
    has the lowest rating.

    References are shown to the judge for mathematics, reasoning and coding, as in the paper's judge. Of the 30 that
    GPT-4 wrote for it, 13 were reported wrong; for those questions any reference counts as doubted but the one that
    the authors' question file has. `facts` names them.

    Rows are read in the columns of lighteval/mt-bench (`turns`, `question_id`) and of HuggingFaceH4/mt_bench_prompts
    (`prompt`, `prompt_id`). One split on the hub, cut by `data_seed`.

    Args:
        good_from: mean rating from which an episode counts as correct; scores do not depend on it.
        doubted: `drop` doubted references, so that the judge sees none, `keep` them, as published numbers did, or
            `leave_out` their questions.
        settings: see `BenchmarkSettings`.
    """

    name = "mt_bench"
    repo = "lighteval/mt-bench"
    hub_splits = {"train": "train", "val": "train", "test": "train"}  # noqa: RUF012 - as the class it comes from
    columns = ("category",)
    optional = ("turns", "prompt", "question_id", "prompt_id", "reference")
    citation = "Zheng et al. 2023, Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena, arXiv 2306.05685"
    licence = "Apache-2.0"
    grader = judging.VERSION
    comparable = False
    judged = True
    judge_calls = ROUNDS * ATTEMPTS
    rounds = ROUNDS
    reply_bytes = 4096

    def __init__(self, *, good_from: float = 8, doubted: str = "drop", **settings: Unpack[BenchmarkSettings]) -> None:
        """Keep the settings; rows are read when items are first asked for.

        Raises:
            ConfigError: `good_from` is no rating, or `doubted` is unknown.
        """
        super().__init__(**settings)
        if not LOWEST <= good_from <= HIGHEST:
            raise ConfigError(f"tasks.mt_bench.good_from is {good_from}; give a rating from 1 to 10")
        self.threshold = scaled(good_from)
        self.doubted = one_of(self.name, "doubted", doubted, HANDLED)
        self._doubted: set[int | str] = set()

    def item(self, row: Row) -> Item:
        """A question; `meta` holds both turns, what the judge is shown as references, and whether they are doubted.

        Raises:
            DataError: there are not two questions, the second is too long, or references are not as many.
        """
        turns, doubted = _turns(row), _is_doubted(row)
        if len(turns[1].encode("utf-8", "replace")) > self.reply_bytes - 64:
            raise row.error(f"the second question has more than {self.reply_bytes - 64} bytes")
        number = row.values.get("question_id", row.values.get("prompt_id"))
        if doubted:
            self._doubted.add(number if isinstance(number, (int, str)) else turns[0][:40])
        meta = {
            "number": number,
            "turns": turns,
            "references": [] if doubted and self.doubted == "drop" else _references(row),
            "doubted": doubted,
        }
        return Item(item_id(self.name, turns[0]), self.name, turns[0], "", row.text("category"), meta=meta)

    def identity(self, row: Row) -> str:
        """The folded text of both questions."""
        return folded("\n".join(_turns(row)))

    def unusable(self, row: Row) -> str | None:
        """A question with a doubted reference, where those are to be left out."""
        return "its reference was reported wrong" if self.doubted == "leave_out" and _is_doubted(row) else None

    def facts(self) -> dict[str, Any]:
        """As of any benchmark, and the questions of the items loaded whose references are doubted."""
        numbers = sorted(self._doubted, key=str)
        return {**super().facts(), "doubted_references": {"handled": self.doubted, "questions": numbers}}

    def reply(self, item: Item, episode: Episode) -> list[Message] | None:
        """The second question after the first answer."""
        turns: Sequence[str] = item.meta["turns"]
        done = len(episode.replies)
        return [{"role": "user", "content": turns[done]}] if 0 < done < len(turns) else None

    def key(self, item: Item, text: str) -> str | None:
        """The answer itself; open answers can not be voted on."""
        return text.strip() or None

    def solution(self, item: Item) -> str | None:
        """None: no answer is the right one."""
        return None

    async def grade(self, item: Item, episode: Episode, judge: Judge | None) -> Grade:
        """Mean rating of both answers on [0, 1]; the answer read is the ratings.

        Raises:
            GraderError: there is no judge, or it gave no rating, asked twice.
        """
        if judge is None:
            raise GraderError(f"task {self.name}: answers are rated by a judge, and none is configured")
        exchanges = _exchanges(item.meta, episode)
        ratings = [await rate(judge, exchanges[: turn + 1]) for turn in range(len(exchanges))]
        told = ", ".join(f"{rating:g}" for rating in ratings)
        return Grade(scaled(sum(ratings) / len(ratings)), f"ratings {told}")


def _exchanges(meta: Mapping[str, Any], episode: Episode) -> list[Exchange]:
    """What was asked, answered and known in each turn; a turn that was not reached has an empty answer."""
    turns, references = meta["turns"], meta["references"]
    answers = [*(episode.replies or (episode.answer or "",)), *([""] * len(turns))]
    return [Exchange(*turn) for turn in zip(turns, answers, references or [None] * len(turns), strict=False)]


def _turns(row: Row) -> list[str]:
    """Both questions, from the column that there is."""
    column = "turns" if "turns" in row.values else "prompt"
    if column not in row.values:
        raise row.error(f"has no column turns or prompt; found {', '.join(map(str, row.values)) or 'none'}")
    turns = row.values[column]
    if not isinstance(turns, list) or len(turns) != ROUNDS or not all(isinstance(turn, str) for turn in turns):
        raise row.wrong(column, "a list of two questions")
    return list(turns)


def _references(row: Row) -> list[str]:
    """The references of both turns where the judge is shown any, else none."""
    found = row.values.get("reference") or []
    if row.text("category") not in _WITH_REFERENCE or not found:
        return []
    if not isinstance(found, list) or len(found) != ROUNDS or not all(isinstance(text, str) for text in found):
        raise row.wrong("reference", "a list of two references")
    return list(found)


def _is_doubted(row: Row) -> bool:
    """Whether the row's reference was reported wrong, or stands in for one that was and is not known to be right."""
    references, question = _references(row), _short_hash(_turns(row)[0])
    reported = _REPORTED.get(_number(row)) or next((one for one in _REPORTED.values() if one[0] == question), None)
    return bool(references) and reported is not None and _short_hash("\n".join(references)) != reported[1]


def _number(row: Row) -> int:
    number = row.values.get("question_id")
    return number if isinstance(number, int) else 0


def _short_hash(text: str) -> str:
    return sha256(folded(text))[:_HASH_DIGITS]
