"""Competition problems of Easy2Hard-Bench, rated by how many contestants solved them."""

from __future__ import annotations

from evals.graders.letter import read_letter
from evals.graders.math_text import VERSION, normal_form, read_result
from evals.tasks.base import item_id
from evals.tasks.hub import Row
from evals.tasks.stratified import COLUMNS, StratifiedTask
from trinity.canonical import folded
from trinity.types import Item, Redistribute

LETTERS = tuple("ABCDE")


class Easy2HardAMC(StratifiedTask):
    r"""E2H-AMC (Ding et al., arXiv 2409.18433): problems of AMC, AIME and HMMT; difficulty is the rating from IRT.

    The options are those of `StratifiedTask`. What is assumed of the hub's rows, none of which is part of this suite:
    `problem` is the whole question, `answer` the right result as a text or a number, most often a whole number, else
    LaTeX. Answers are matched exactly: by letter where `answer` is one of A to E alone, as a number where it is one
    (`12`, `12.0`, `\frac{3}{4}`), else as normalised LaTeX text (see `math_text.read_result`). The texts belong to
    the contests' organisers, so they stay in the run's folder.
    """

    name = "easy2hard_amc"
    config = "E2H-AMC"
    columns = (*COLUMNS, "problem", "answer", "contest")
    optional = ("tag", "subtest", "year", "month", "index")
    licence = "CC-BY-SA-4.0; problem texts are their organisers' (MAA, HMMT)"
    redistribute: Redistribute = "ids-only"
    grader = VERSION

    def identity(self, row: Row) -> str:
        """The problem's text: AMC 10 and 12 share problems."""
        return folded(row.text("problem"))

    def item(self, row: Row) -> Item:
        """A problem; its domain is the tag (`AMC12`), else the contest."""
        prompt = row.text("problem")
        target = _target(row)
        meta = {column: row.text(column, "") for column in ("contest", "subtest", "year", "month", "index")}
        return Item(
            item_id(self.name, prompt), self.name, prompt, target, row.text("tag", row.text("contest")),
            row.number("rating"), "irt", meta,
        )  # fmt: skip

    def key(self, item: Item, text: str) -> str | None:
        """The letter, number or LaTeX text of the answer."""
        return read_letter(text, [""] * len(LETTERS)) if item.target in LETTERS else read_result(text)


def _target(row: Row) -> str:
    form = normal_form(row.text("answer"))
    if form is None:
        raise row.wrong("answer", "an answer")
    letter = form.strip("(){}")
    return letter if letter in LETTERS else form
