"""GPQA: questions of graduate level that a search engine does not answer."""

from __future__ import annotations

from typing import Unpack

from evals.tasks.benchmark import BenchmarkSettings
from evals.tasks.choice import ChoiceTask
from evals.tasks.hub import Row
from evals.tasks.options import one_of
from trinity.types import Item, Redistribute

_WRONG = ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")


class GPQA(ChoiceTask):
    """GPQA (Rein et al., arXiv 2311.12022): physics, chemistry and biology; the domain is the high-level one.

    The data are gated, and their authors ask that no example be shown in plain text: texts stay in the run's folder.
    The columns put the right answer first, so options are always shown in an order that `data_seed` and the question
    give. One split on the hub, called train, cut by `data_seed`.

    Args:
        subset: diamond (198 rows), main (448, diamond among them) or extended (546, main among them).
        settings: see `BenchmarkSettings`.

    Raises:
        ConfigError: there is no such subset.
    """

    name = "gpqa"
    repo = "Idavidrein/gpqa"
    hub_splits = {"train": "train", "val": "train", "test": "train"}  # noqa: RUF012 - as in the base class
    question_column = "Question"
    columns = ("Question", "Correct Answer", *_WRONG)
    optional = ("High-level domain", "Subdomain", "Record ID")
    licence = "CC-BY-4.0; gated: no examples in plain text"
    redistribute: Redistribute = "never"
    data_order = False
    citation = "Rein et al., GPQA: A Graduate-Level Google-Proof Q&A Benchmark, COLM 2024, arXiv 2311.12022"

    def __init__(self, *, subset: str = "diamond", **settings: Unpack[BenchmarkSettings]) -> None:
        """Keep the settings; rows are read when items are first asked for."""
        super().__init__(shuffle_options=True, **settings)
        self.config = f"gpqa_{one_of(self.name, 'subset', subset, ('diamond', 'main', 'extended'))}"

    def options(self, row: Row) -> list[str]:
        """The right answer and three wrong ones."""
        return [row.text(column) for column in ("Correct Answer", *_WRONG)]

    def item(self, row: Row) -> Item:
        """A question of its domain."""
        meta = {"subdomain": row.text("Subdomain", ""), "record": row.text("Record ID", "")}
        return self.choice_item(row, 0, row.text("High-level domain", "science"), meta)
