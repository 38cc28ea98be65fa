"""RLPR: questions of many fields with short free answers, and the benchmarks that its authors evaluated on."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Unpack

from evals.graders.algebra.pool import Verdict
from evals.graders.free_form import VERSION as FREE_FORM
from evals.graders.free_form import match
from evals.graders.letter import read_letter
from evals.tasks.base import item_id
from evals.tasks.benchmark import BenchmarkSettings
from evals.tasks.hub import Row, Source
from evals.tasks.mathematical import MathematicalTask
from evals.tasks.options import one_of
from trinity.canonical import folded
from trinity.errors import ConfigError
from trinity.types import Episode, Grade, Item, Judge, Redistribute

BENCHMARKS = (
    *("Math-500_Avg2", "Minerva_Avg4", "AIME2024_Avg16", "MMLUPro-1000_Avg2", "gpqa_diamond_Avg4", "TheoremQA_Avg2"),
    "WebInstruct-verified-val_Avg2",
)
"""Files of the evaluation set; the number says how often the authors had each of its questions answered."""
TRAIN_REPO = "openbmb/RLPR-Train-Dataset"
_LETTERS = tuple("ABCDEFGHIJ")
_INSTRUCTION = re.compile(
    r"\s*(?:Please |Let's )?(?:reason|think) step by step,? and (?:put|provide|write|give) (?:your|the) final answer"
    r"[^\n]{0,80}\s*$",
    re.IGNORECASE,
)


class RLPR(MathematicalTask):
    r"""RLPR (Yu et al., arXiv 2506.18254): free answers, graded against their reference without a model.

    Test items come from the authors' evaluation set (`openbmb/RLPR-Evaluation`, a file a benchmark), validation and
    training items from their training set (77,687 rows). `test_from=train` cuts all three from the training set, as
    work on coordination does that calls the benchmark RLPR (TRINITY and Conductor give sizes of splits of it).

    Grading: where the reference is an option's letter, by letter; else by `graders.free_form`, which knows formulas,
    numbers within a hundredth and equal words, and no paraphrase. The authors let a model judge answers in words: their
    numbers are therefore higher on such questions. Requests for a form in the authors' prompts are taken off, since
    the prompt file makes its own.

    The evaluation set holds GPQA, whose texts nobody may pass on: with it nothing of a run may leave but scores.

    Args:
        benchmarks: files of the evaluation set, some of `BENCHMARKS`; None = all.
        test_from: `evaluation`, or `train` for a cut of the training set.
        settings: see `BenchmarkSettings`; `path` is a file of rows, which are then every split, or a folder with the
            files of the evaluation set and `train.*`, and `revision` the evaluation set's.

    Raises:
        ConfigError: an option has a value that there is not.
    """

    name = "rlpr"
    repo = "openbmb/RLPR-Evaluation"
    columns = ("prompt", "reward_model")
    optional = ("data_source", "ability", "extra_info", "uid")
    licence = "mixed: MATH, MMLU-Pro, TheoremQA MIT; WebInstruct-verified Apache-2.0; GPQA CC-BY-4.0, not to be shown"
    citation = "Yu et al. 2025, RLPR: Extrapolating RLVR to General Domains without Verifiers, arXiv 2506.18254"
    grader = FREE_FORM
    prompt_file = "rlpr"

    def __init__(
        self,
        *,
        benchmarks: Collection[str] | None = None,
        test_from: str = "evaluation",
        **settings: Unpack[BenchmarkSettings],
    ) -> None:
        """Keep the settings; rows are read when items are first asked for."""
        super().__init__(**settings)
        self.benchmarks = _chosen(benchmarks)
        chosen = one_of(self.name, "test_from", test_from, ("evaluation", "train"))
        test = "test" if chosen == "evaluation" else "train"
        self.hub_splits = {"train": "train", "val": "train", "test": test}
        self.files = {"test": tuple(f"{name}.parquet" for name in self.benchmarks)}
        closed = test == "test" and any("gpqa" in name for name in self.benchmarks)
        self.redistribute: Redistribute = "never" if closed else "ids-only"

    def source_of(self, there: str) -> Source:
        """The evaluation set for `test`, the training set for `train`."""
        return self.source if there == "test" else Source(self.name, TRAIN_REPO, None, None, self.path)

    def identity(self, row: Row) -> str:
        """The question's text."""
        return folded(_question(row))

    def unusable(self, row: Row) -> str | None:
        """Rows of other benchmarks, as a file of all may hold them."""
        source = row.text("data_source", "")
        return "of another benchmark" if source in BENCHMARKS and source not in self.benchmarks else None

    def item(self, row: Row) -> Item:
        """A question; its domain is the benchmark, of training rows the field."""
        prompt, target = _question(row), _part(row, "reward_model", "ground_truth")
        extra = row.values.get("extra_info")
        field = extra.get("category") if isinstance(extra, dict) else None
        domain = str(field or row.text("data_source", row.text("ability", "general")))
        lettered = target in _LETTERS and re.search(r"(?<![A-Za-z])A[).:]", prompt) is not None
        meta = {"choice": lettered, "uid": row.text("uid", "")}
        return Item(item_id(self.name, prompt), self.name, prompt, target, domain, meta=meta)

    def key(self, item: Item, text: str) -> str | None:
        """The letter where options are asked about, else the answer in its usual spelling."""
        return read_letter(text, [""] * len(_LETTERS)) if item.meta["choice"] else super().key(item, text)

    async def verdict(self, item: Item, answer: str | None) -> Verdict:
        """Whether an answer matches the reference."""
        return await match(item.target, answer, question=item.prompt)

    async def grade(self, item: Item, episode: Episode, judge: Judge | None) -> Grade:
        """By letter or by reference."""
        if not item.meta["choice"] or episode.answer is None:
            return await super().grade(item, episode, judge)
        letter = self.key(item, episode.answer)
        return Grade(float(letter == item.target), letter)


def _chosen(benchmarks: Any) -> tuple[str, ...]:
    if benchmarks is None:
        return BENCHMARKS
    if isinstance(benchmarks, str) or not isinstance(benchmarks, Collection) or not benchmarks:
        raise ConfigError(f"tasks.rlpr.benchmarks is {str(benchmarks)[:100]!r}; give a list, as [TheoremQA_Avg2]")
    if unknown := [name for name in benchmarks if name not in BENCHMARKS]:
        raise ConfigError(
            f"tasks.rlpr.benchmarks: there is no {str(unknown[0])[:60]!r}; they are {', '.join(BENCHMARKS)}"
        )
    return tuple(name for name in BENCHMARKS if name in benchmarks)


def _question(row: Row) -> str:
    """What the last user message asks, without its request for a form."""
    messages = row.values.get("prompt")
    asked = [
        message.get("content")
        for message in (messages if isinstance(messages, list) else [])
        if isinstance(message, dict) and message.get("role") == "user"
    ]
    if not asked or not isinstance(asked[-1], str) or not asked[-1].strip():
        raise row.wrong("prompt", "a list of messages, one of them a user's")
    return _INSTRUCTION.sub("", asked[-1]).strip()


def _part(row: Row, column: str, name: str) -> str:
    value = row.values.get(column)
    text = str(value.get(name) or "").strip() if isinstance(value, dict) else ""
    if not text:
        raise row.wrong(column, f"an object with {name}")
    return text
