"""How a program and the prompt that it answers are joined, and where large texts are kept."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from evals.tasks.code import Spool, called, completed, defines, fenced, parsed, preamble, source_of, texts_of
from evals.tasks.hub import Row
from trinity.errors import DataError

PROMPT = 'import math\n\nSCALE = 2\n\ndef double(x):\n    """Twice x."""\n'


def run(source: str) -> object:
    """What `double(3)` gives after our own `source`."""
    names: dict[str, object] = {}
    exec(source, names)
    return names["double"](3)  # type: ignore[operator]


@pytest.mark.parametrize(
    "answer",
    [
        "    return SCALE * x",
        "return SCALE * x",
        "\n    return SCALE * x\n",
        "y = SCALE * x\n    return y",
        "y = SCALE * x\nreturn y",
        "for i in [x]:\n        y = i * SCALE\n    return y",
        "for i in [x]:\n    y = i * SCALE\nreturn y",
        "for i in [x]:\n    return i * SCALE",
        "    return helper(x)\n\ndef helper(x):\n    return SCALE * x",
        "def double(x):\n    return SCALE * x",
        "def double(x: int) -> int:\n    return math.ceil(SCALE * x)",
        "from __future__ import annotations\nimport os\n\ndef double(x: Unknown):\n    return SCALE * x",
        "async def other(): ...\ndouble = lambda x: SCALE * x",
        "SCALE = 3\ndef double(x):\n    return SCALE * x - x",
    ],
)
def test_an_answer_is_the_body_or_the_whole(answer: str) -> None:
    """Whatever part of the function an answer gives, with whatever indentation is left, the program is whole."""
    assert run(completed(PROMPT, answer, "double")) == 6


def test_a_function_of_another_name_is_no_answer_to_the_prompt() -> None:
    """Only a definition of the very name on the top level makes an answer a whole function."""
    assert defines("def double(x):\n  return x", "double")
    assert defines("class double: ...", "double")
    assert defines("double: Callable = twice", "double")
    for code in ("def double_it(x): ...", "    def double(x): ...", "x = double", "double == 3", "# def double(x):"):
        assert not defines(code, "double")


def test_the_preamble_is_what_stands_before_the_function() -> None:
    """Imports, constants and helpers, and nothing where the prompt opens another function."""
    assert preamble(PROMPT, "double") == "import math\n\nSCALE = 2\n\n"
    assert preamble(PROMPT, "triple") == ""


@pytest.mark.parametrize("code", ["(" * 9000, "-" * 9000 + "1", "a" + ".b" * 9000, "x = ", "a\0b", "x = 1\n" * 20_000])
def test_a_program_that_can_not_be_parsed_here_is_none(code: str) -> None:
    """Too nested, too long, or no Python: no tree, no error, and no warning of its escapes."""
    assert parsed(code) is None
    assert isinstance(parsed("'\\d' is 3"), ast.Module)


def test_what_is_called() -> None:
    """Names that sources call, in the order in which they were given."""
    assert called(["a", "b", "c"], "assert b(a(1)) == c", "d.c()", "no python(") == ["a", "b"]


def test_a_program_is_fenced_as_a_model_would() -> None:
    """Line breaks at its ends go, its indentation stays."""
    assert fenced("\n    return 1\n") == "```python\n    return 1\n```"


def test_columns_are_read_as_they_stand() -> None:
    """White space of a program stays; lists of texts may be JSON; anything else is named."""
    row = Row({"code": "    x\n", "none": " ", "list": ["a"], "json": '["b"]', "odd": [1], "text": "c"}, "f.jsonl", 3)
    assert source_of(row, "code") == "    x\n"
    assert [texts_of(row, column) for column in ("list", "json")] == [["a"], ["b"]]
    with pytest.raises(DataError, match=r"^f\.jsonl: row 3: none is ' ', not a text$"):
        source_of(row, "none")
    for column in ("odd", "text", "missing"):
        with pytest.raises(DataError, match=rf"^f\.jsonl: row 3: {column} is .*, not a list of texts$"):
            texts_of(row, column)


def test_a_spool_gives_back_what_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts come back by their key in any order, equal ones are kept once, and no file is left to be found."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spool = Spool()
    texts = ["ä" * 1000, "", "b\n\0c", "ä" * 1000]
    keys = [spool.put(text) for text in texts]
    assert [spool.get(key) for key in reversed(keys)] == texts[::-1]
    assert len(set(keys)) == 3
    assert keys[1] in spool
    assert "0" * 64 not in spool
    assert list(tmp_path.iterdir()) == []
