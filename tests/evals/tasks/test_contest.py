"""How contest problems are asked, and how their tests are read."""

from __future__ import annotations

import pytest

from evals.tasks.contest import paired, statement
from evals.tasks.hub import Row
from trinity.errors import DataError


def test_a_statement_leaves_out_what_is_empty() -> None:
    """Headings stand over what there is, in the order given."""
    row = Row({"title": "Sum", "text": "Add.", "note": ""}, "f", 1)
    parts = (("", "title"), ("", "text"), ("Input:", "missing"), ("Note:", "note"))
    assert statement(row, parts, [("1\n", "2\n")]) == "Sum\n\nAdd.\n\nExample 1, input:\n1\nExample 1, output:\n2"


@pytest.mark.parametrize(("inputs", "outputs"), [(["1"], []), (None, None), (["1"], [2]), ("12", "34")])
def test_tests_that_do_not_pair_are_named(inputs: object, outputs: object) -> None:
    """As many outputs as inputs, all of them texts."""
    with pytest.raises(DataError, match="row 4: tests is None, not inputs and outputs, as many of each"):
        paired(Row({}, "f", 4), "tests", inputs, outputs)
