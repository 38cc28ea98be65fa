"""What tasks of our own share: sized, disjoint splits and grading by comparing keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from random import Random
from typing import Any

from evals.tasks.options import check_number
from trinity.canonical import digest, folded, sha256
from trinity.errors import ConfigError
from trinity.types import SPLITS, Episode, Grade, Item, Judge, Message, Redistribute, Split

_MAX_TRIES_PER_ITEM = 500


class SplitTask(ABC):
    """A task whose three splits are cut by `data_seed`; implements `trinity.types.Task` but for items and key.

    Attributes:
        judged: grading asks a model.
        judge_calls: how many calls one grading makes at most.
        rounds: how often an episode is answered at most (see `reply`).

    Args:
        data_seed: cuts the splits; another seed gives other items or another cut.
        n_train: items of the training split.
        n_val: items of the validation split.
        n_test: items of the test split.

    Raises:
        ConfigError: a size is not a whole number of at least 0.
    """

    name: str
    contract: str
    licence: str = "Apache-2.0"
    redistribute: Redistribute = "yes"
    threshold: float = 1.0
    chance: float = 0.0
    comparable: bool = True
    judged: bool = False
    judge_calls: int = 0
    rounds: int = 1
    grader: str

    def __init__(self, *, data_seed: int, n_train: int, n_val: int, n_test: int) -> None:
        """Keep seed and sizes; items are made when they are first asked for."""
        self.data_seed = data_seed
        self.sizes: Mapping[Split, int] = {"train": n_train, "val": n_val, "test": n_test}
        for split, size in self.sizes.items():
            check_number(f"task {self.name}: n_{split}", size, whole=True, zero=True)
        self._items: dict[Split, tuple[Item, ...]] = {}

    @abstractmethod
    def load(self, split: Split) -> tuple[Item, ...]:
        """All items of `split`, in their fixed order.

        Raises:
            DataError: the data is missing or broken.
            ConfigError: there are fewer items than asked for.
        """

    @abstractmethod
    def key(self, item: Item, text: str) -> str | None:
        """The answer in `text` in its canonical form; None = no answer."""

    def items(self, split: Split) -> Iterator[Item]:
        """Items of `split`, in the same order on every machine.

        Raises:
            DataError: the data is missing or broken; names file and line.
            ConfigError: there are fewer items than asked for.
        """
        if split not in self._items:
            self._items[split] = self.load(split)
        return iter(self._items[split])

    def fingerprint(self) -> str:
        """SHA-256 (hex) of the canonical JSON of all items by split."""
        return digest({split: [_plain(item) for item in self.items(split)] for split in SPLITS})

    def open(self, item: Item) -> list[Message]:
        """One user message: the question and the form of the answer."""
        return [{"role": "user", "content": f"{item.prompt}\n{self.contract}"}]

    def reply(self, item: Item, episode: Episode) -> list[Message] | None:
        """None: one answer ends an item."""
        return None

    def solution(self, item: Item) -> str | None:
        """A reply that must be graded right, for `python -m evals.check`; None = the data holds none."""
        return f"Answer: {item.target}"

    async def grade(self, item: Item, episode: Episode, judge: Judge | None) -> Grade:
        """1 when the answer's key is the target, else 0."""
        answer = None if episode.answer is None else self.key(item, episode.answer)
        return Grade(float(answer == item.target), answer)


class GeneratedTask(SplitTask):
    """A task whose items are drawn by a seeded generator.

    A drawn item belongs to the split that the hash of its folded text names. So splits can not share an item, and
    a split's items do not move when another split's size changes.
    """

    @abstractmethod
    def draw(self, rng: Random, index: int) -> Item:
        """A candidate for the split's `index`-th item, made from `rng` alone."""

    def load(self, split: Split) -> tuple[Item, ...]:
        """Draw until the split is full.

        Raises:
            ConfigError: the generator has too few different items.
        """
        rng = Random(f"{self.name}/{self.data_seed}/{split}")
        found: dict[str, Item] = {}
        for _ in range(self.sizes[split] * _MAX_TRIES_PER_ITEM):
            if len(found) == self.sizes[split]:
                break
            item = self.draw(rng, len(found))
            text = folded(item.prompt)
            if self._split_of(text) == split:
                found.setdefault(text, item)
        if len(found) < self.sizes[split]:
            raise ConfigError(f"task {self.name}: only {len(found)} different {split} items; lower n_{split}")
        return tuple(found.values())

    def _split_of(self, text: str) -> Split:
        return SPLITS[int(sha256(f"{self.data_seed}/{text}")[:8], 16) % len(SPLITS)]


def item_id(task: str, prompt: str) -> str:
    """An id that names the content, so that equal ids mean equal questions under every seed."""
    return f"{task}-{sha256(prompt)[:12]}"


def _plain(item: Item) -> dict[str, Any]:
    return {**asdict(item), "meta": dict(item.meta)}
