"""A task that leaks: its test questions are another task's training questions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trinity.testing import SkillTask
from trinity.types import Item, Split


class Copycat(SkillTask):
    """Tests on what `sums` trains on."""

    def __init__(self, *, n_train: int, n_val: int, n_test: int) -> None:
        """As many test items as asked for."""
        super().__init__("copycat", n_train=n_train, n_val=n_val, n_test=n_test)
        self._stolen = SkillTask("sums", n_train=n_test)

    def items(self, split: Split) -> Iterator[Item]:
        """The stolen items, under names of its own."""
        if split == "test":
            for number, item in enumerate(self._stolen.items("train")):
                yield replace(item, task="copycat", item_id=str(number))
