"""MMLU: questions from 57 school and university subjects."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Unpack

from evals.tasks.choice import ChoiceSettings, ChoiceTask, right_place
from evals.tasks.hub import Row
from evals.tasks.options import one_of
from trinity.errors import ConfigError
from trinity.types import Item

_NAMES = (
    "abstract_algebra anatomy astronomy business_ethics clinical_knowledge college_biology college_chemistry "
    "college_computer_science college_mathematics college_medicine college_physics computer_security "
    "conceptual_physics econometrics electrical_engineering elementary_mathematics formal_logic global_facts "
    "high_school_biology high_school_chemistry high_school_computer_science high_school_european_history "
    "high_school_geography high_school_government_and_politics high_school_macroeconomics high_school_mathematics "
    "high_school_microeconomics high_school_physics high_school_psychology high_school_statistics "
    "high_school_us_history high_school_world_history human_aging human_sexuality international_law jurisprudence "
    "logical_fallacies machine_learning management marketing medical_genetics miscellaneous moral_disputes "
    "moral_scenarios nutrition philosophy prehistory professional_accounting professional_law professional_medicine "
    "professional_psychology public_relations security_studies sociology us_foreign_policy virology "
    "world_religions"
)
SUBJECTS = tuple(_NAMES.split())
"""The 57 subjects, as the data name them."""


def chosen_subjects(task: str, subjects: Any) -> frozenset[str]:
    """The subjects that a task's option names; None or an empty list = all.

    Raises:
        ConfigError: it is no list, or names a subject that there is not.
    """
    if subjects is None:
        return frozenset(SUBJECTS)
    if isinstance(subjects, str) or not isinstance(subjects, Collection):
        raise ConfigError(f"tasks.{task}.subjects is {str(subjects)[:100]!r}; give a list, as subjects=[anatomy]")
    if unknown := [subject for subject in subjects if subject not in SUBJECTS]:
        raise ConfigError(f"tasks.{task}.subjects: there is no subject {unknown[0]!r}; they are: {', '.join(SUBJECTS)}")
    return frozenset(subjects or SUBJECTS)


class MMLU(ChoiceTask):
    """MMLU (Hendrycks et al., arXiv 2009.03300): four options, no thoughts shown; the domain is the subject.

    Test items come from `test` (14,042 rows), validation items from `validation` (1,531), training items from
    `train_split`: `dev` (285 rows, five a subject), `validation`, or `auxiliary_train` (99,842 rows collected from
    other benchmarks, without a subject; their domain is `auxiliary`).

    Args:
        train_split: where training items come from: dev, validation or auxiliary_train.
        subjects: rows of these subjects alone; None = all.
        settings: see `ChoiceSettings`.

    Raises:
        ConfigError: an option has a value that there is not.
    """

    name = "mmlu"
    repo = "cais/mmlu"
    config = "all"
    columns = ("question", "subject", "choices", "answer")
    licence = "MIT"
    citation = "Hendrycks et al., Measuring Massive Multitask Language Understanding, ICLR 2021, arXiv 2009.03300"

    def __init__(
        self, *, train_split: str = "dev", subjects: Collection[str] | None = None, **settings: Unpack[ChoiceSettings]
    ) -> None:
        """Keep the settings; rows are read when items are first asked for."""
        super().__init__(**settings)
        train = one_of(self.name, "train_split", train_split, ("dev", "validation", "auxiliary_train"))
        self.hub_splits = {"train": train, "val": "validation", "test": "test"}
        self.subjects = chosen_subjects(self.name, subjects)

    def unusable(self, row: Row) -> str | None:
        """A row of a subject that was not asked for; a row without one is of none."""
        return None if row.text("subject", "") in {"", *self.subjects} else "another subject"

    def item(self, row: Row) -> Item:
        """A question of its subject."""
        right = right_place(row, "answer", self.options(row))
        return self.choice_item(row, right, row.text("subject", "auxiliary"), {})
