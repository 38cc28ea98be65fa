"""MMLU-Redux 2: 5,700 questions of MMLU whose labels were checked by hand."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Unpack

from evals.tasks.choice import ChoiceSettings, ChoiceTask, place_of, right_place
from evals.tasks.hub import Row, Source
from evals.tasks.mmlu import SUBJECTS, chosen_subjects
from evals.tasks.options import one_of
from trinity.canonical import folded
from trinity.types import Item

OK = "ok"
WRONG = "wrong_groundtruth"


class MMLURedux(ChoiceTask):
    """MMLU-Redux 2.0 (Gema et al., arXiv 2406.04127): 100 questions of each of MMLU's 57 subjects.

    Its `error_type` says what is wrong with a question: nothing (`ok`), the label (`wrong_groundtruth`), no or several
    right options, an unclear question or unclear options, or that only an expert could tell. `labels` says which are
    asked:

    - `ok_only`: those without an error. The others are left out, counted by error. The domain is the subject.
    - `all`: all, with MMLU's labels. The domain is the error type, so that reports by domain show the accuracy on
      questions without an error (`ok`) beside that on each kind of flagged ones, and the total that on both.
    - `corrected`: those without an error, and those with a wrong label for which the right option is named, with that
      label. The domain is the error type again.

    The subject stands in `meta` in any case. One split on the hub, cut by `data_seed`.

    Args:
        labels: ok_only, all or corrected.
        subjects: rows of these subjects alone; None = all.
        settings: see `ChoiceSettings`; on the hub a subject is a configuration, in a copy a column `subject` says it.

    Raises:
        ConfigError: an option has a value that there is not.
    """

    name = "mmlu_redux"
    repo = "edinburgh-dawg/mmlu-redux-2.0"
    columns = ("question", "choices", "answer", "error_type")
    optional = ("correct_answer", "subject")
    licence = "CC-BY-4.0; questions of MMLU: MIT"
    citation = "Gema et al., Are We Done with MMLU?, NAACL 2025, arXiv 2406.04127"

    def __init__(
        self, *, labels: str = "ok_only", subjects: Collection[str] | None = None, **settings: Unpack[ChoiceSettings]
    ) -> None:
        """Keep the settings; rows are read when items are first asked for."""
        super().__init__(**settings)
        self.labels = one_of(self.name, "labels", labels, ("ok_only", "all", "corrected"))
        self.subjects = chosen_subjects(self.name, subjects)

    @property
    def source(self) -> Source:
        """The rows of the chosen subjects, each a configuration on the hub."""
        subjects = tuple(subject for subject in SUBJECTS if subject in self.subjects)
        return _BySubject(self.name, self.repo, subjects, self.revision, self.path)

    def unusable(self, row: Row) -> str | None:
        """A subject that was not asked for, or a label that is not to be used."""
        if row.text("subject", "") not in {"", *self.subjects}:
            return "another subject"
        error = row.text("error_type")
        if self.labels == "all" or error == OK:
            return None
        if self.labels == "corrected" and error == WRONG:
            return None if _corrected(row, self.options(row)) is not None else f"{error} without a right option named"
        return error

    def item(self, row: Row) -> Item:
        """A question of its subject; see the class for its domain."""
        options, error, subject = self.options(row), row.text("error_type"), row.text("subject", "unknown")
        right: int | None = right_place(row, "answer", options)
        if self.labels == "corrected" and error == WRONG:
            right = _corrected(row, options)
        if right is None:
            raise row.wrong("correct_answer", "one of the options")
        meta = {"subject": subject, "error_type": error}
        return self.choice_item(row, right, subject if self.labels == "ok_only" else error, meta)


class _BySubject(Source):
    """Rows of several configurations of the hub, each of which says its configuration as its subject."""

    def rows(self, split: str, columns: Collection[str], optional: Collection[str] = ()) -> Iterator[Row]:
        """The rows of one subject after the other; a local copy is read as it is."""
        if self.path is not None:
            yield from super().rows(split, columns, optional)
            return
        for subject in self.config or ():
            for row in Source(self.task, self.repo, subject, self.revision).rows(split, columns, optional):
                yield Row({**row.values, "subject": subject}, row.origin, row.index)


def _corrected(row: Row, options: Sequence[str]) -> int | None:
    """The place of the option that `correct_answer` names: by letter, by index from 0, or by its text.

    None where it names none, or where index and text name different ones.
    """
    given = row.text("correct_answer", "")
    mark = given[:1] if given[1:2] in {")", "."} else given
    named = {place for place, option in enumerate(options) if folded(option) == folded(given)}
    named |= {place for place in [place_of(mark, len(options))] if place is not None}
    return named.pop() if len(named) == 1 else None
