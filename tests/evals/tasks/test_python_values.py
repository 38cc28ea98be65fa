"""Python expressions: the built value is what Python gives."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from evals.tasks.python_values import PythonValues
from trinity.errors import ConfigError


def test_python_agrees_with_the_built_values() -> None:
    """Python's own value of 600 expressions is the target."""
    for item in PythonValues(data_seed=5, n_train=600, n_val=0, n_test=0).items("train"):
        value = eval(item.meta["expression"], {"__builtins__": {}}, dict(vars(__import__("builtins"))))
        assert value == int(item.target), item.meta["expression"]


def test_kinds_are_varied_and_expressions_grow_with_difficulty() -> None:
    """All five kinds occur about equally often, and the mean length rises with the difficulty."""
    items = list(PythonValues(data_seed=0, n_train=400, n_val=0, n_test=0).items("train"))
    kinds = Counter(item.domain for item in items)
    assert set(kinds) == {"arithmetic", "string", "list", "dict", "conditional"}
    assert min(kinds.values()) > 40
    lengths = [
        sum(len(ast.dump(ast.parse(item.meta["expression"]))) for item in items if item.difficulty == level)
        for level in (1, 2, 3, 4)
    ]
    assert lengths == sorted(lengths)


def test_no_answer_dominates() -> None:
    """The most frequent target is right in less than one in eight items, so guessing does not pay."""
    items = list(PythonValues(data_seed=0, n_train=400, n_val=0, n_test=0).items("train"))
    assert Counter(item.target for item in items).most_common(1)[0][1] < 50


def test_more_items_than_there_are_is_refused() -> None:
    """A generator that runs dry says which size to lower instead of looping for ever."""

    class Dry(PythonValues):
        """Draws one and the same item."""

        def draw(self, rng, index):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            """Always the first one."""
            return super().draw(type(rng)(0), 0)

    with pytest.raises(ConfigError, match=r"lower n_train"):
        Dry(data_seed=0, n_train=2, n_val=0, n_test=0).items("train")
