"""What tasks share whose answers are Python programs: a sandbox, its bounds, and how program and prompt are joined."""

from __future__ import annotations

import ast
import json
import re
import tempfile
import weakref
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from textwrap import dedent, indent
from typing import Any, NotRequired, Unpack

from evals.graders.code import VERSION, Verdict, extract_code
from evals.graders.code.syntax import parse
from evals.sandbox.base import Limits, Sandbox
from evals.tasks.base import SplitTask
from evals.tasks.benchmark import Benchmark, BenchmarkSettings, filled, prompt_text
from evals.tasks.hub import Row
from evals.tasks.options import check_number
from trinity.canonical import sha256
from trinity.errors import ConfigError, GraderError
from trinity.types import Episode, Grade, Item, Judge, Message

_MAX_PARSED = 50_000
"""Characters of a program that is parsed here; longer ones are judged by their text alone."""
_FUTURE = re.compile(r"^from __future__ import [^\n]*\n?", re.MULTILINE)
_BOUNDS = tuple(field.name for field in fields(Limits))


class CodeSettings(BenchmarkSettings):
    """Settings of every benchmark whose answers are programs.

    Attributes:
        sandbox: settings of the sandbox that programs run in.
        limits: bounds of a program that differ from the task's own, by their names in `Limits`; None = its own.
    """

    sandbox: Mapping[str, Any]
    limits: NotRequired[Mapping[str, Any] | None]


class ProgramTask(SplitTask):
    """A task that asks for a program and runs it in a sandbox, which is built when it is first needed.

    Two programs are never the same answer in other words, so answers are not voted on.

    Attributes:
        limits: bounds of a program.
        prompt_file: name of the prompt file where it is not the task's.
        heavy: columns that are too large to be held for every row: `item` finds in their place one column `heavy`,
            the key for `heavy_columns`.
    """

    comparable = False
    grader = VERSION
    limits: Limits = Limits()
    prompt_file: str | None = None
    heavy: tuple[str, ...] = ()
    _sandbox: Sandbox | None = None

    def hold(self, sandbox: Mapping[str, Any], limits: Mapping[str, Any] | None) -> None:
        """Keep what the sandbox is built of, and the bounds.

        Raises:
            ConfigError: `limits` names no bound, or gives one that is no positive number.
        """
        self._sandbox_settings = dict(sandbox)
        self._spool = Spool()
        self.limits = replace(self.limits, **_bounds(f"tasks.{self.name}.limits", limits))

    @property
    def sandbox(self) -> Sandbox:
        """Where programs run.

        Raises:
            ConfigError: a setting is wrong.
        """
        if self._sandbox is None:
            from evals.sandbox.build import sandbox

            self._sandbox = sandbox(self._sandbox_settings)
        return self._sandbox

    async def ready(self) -> None:
        """Make sure that the sandbox works.

        Raises:
            ConfigError: nothing can isolate here, or the sandbox lacks what the items need.
        """
        await self.sandbox.ready()

    async def close(self) -> None:
        """End the sandbox's workers."""
        if self._sandbox is not None:
            await self._sandbox.close()

    def sandbox_facts(self) -> dict[str, Any]:
        """What the manifest keeps of the sandbox; nothing where no program has run."""
        return {} if self._sandbox is None else {"sandbox": dict(self._sandbox.facts())}

    def heavy_columns(self, key: str) -> list[Any]:
        """Values of the columns `heavy` of the row with this key.

        Raises:
            GraderError: no such row has been read.
        """
        if key not in self._spool:
            raise GraderError(
                f"task {self.name}: the tests {key[:12]} are of no row that was read; load its items first"
            )
        values: list[Any] = json.loads(self._spool.get(key))
        return values

    def kept(self, row: Row) -> Row:
        """The row without its heavy columns, which go to a temporary file."""
        if not self.heavy:
            return row
        key = self._spool.put(json.dumps([row.values.get(column) for column in self.heavy]))
        rest = {column: value for column, value in row.values.items() if column not in self.heavy}
        return replace(row, values={**rest, "heavy": key})

    @abstractmethod
    async def verdict(self, item: Item, code: str) -> Verdict:
        """Whether the program `code` solves `item`.

        Raises:
            GraderError: the sandbox failed, or the item has no tests.
        """

    def open(self, item: Item) -> list[Message]:
        """One user message: the prompt file with the question in it."""
        prompt = prompt_text(self.prompt_file or self.name, type(self))
        return [{"role": "user", "content": filled(prompt, question=item.prompt)}]

    def key(self, item: Item, text: str) -> str | None:
        """The program in `text`."""
        return extract_code(text, self.wanted(item))

    def wanted(self, item: Item) -> Sequence[str]:
        """Functions or classes that a program must define; none where it is run as it is."""
        return ()

    async def grade(self, item: Item, episode: Episode, judge: Judge | None) -> Grade:
        """1 when the program passes all tests, else 0."""
        code = None if episode.answer is None else self.key(item, episode.answer)
        if code is None:
            return Grade(0.0, None)
        return Grade(float((await self.verdict(item, code)).passed), code)


class CodeTask(ProgramTask, Benchmark):
    """A benchmark of programs (see `Benchmark`; the settings are those of `CodeSettings`)."""

    def __init__(
        self,
        *,
        sandbox: Mapping[str, Any],
        limits: Mapping[str, Any] | None = None,
        **settings: Unpack[BenchmarkSettings],
    ) -> None:
        """Keep the settings; rows are read and the sandbox is built when they are first needed."""
        super().__init__(**settings)
        self.hold(sandbox, limits)

    def facts(self) -> dict[str, Any]:
        """What the manifest keeps of items and sandbox."""
        return {**Benchmark.facts(self), **self.sandbox_facts()}


class Spool:
    """Texts in a temporary file that nobody else sees, found by their SHA-256; each is kept once."""

    def __init__(self) -> None:
        """Hold nothing; the file is made with the first text."""
        self._file: Any = None
        self._places: dict[str, tuple[int, int]] = {}

    def __contains__(self, key: str) -> bool:
        """Whether the text of this key is held."""
        return key in self._places

    def put(self, text: str) -> str:
        """Keep `text`; gives its key."""
        key = sha256(text)
        if key in self._places:
            return key
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this object
            weakref.finalize(self, self._file.close)
        data = text.encode()
        self._places[key] = (self._file.seek(0, 2), len(data))
        self._file.write(data)
        return key

    def get(self, key: str) -> str:
        """The text of `key`."""
        start, length = self._places[key]
        self._file.seek(start)
        return str(self._file.read(length), "utf-8")


def source_of(row: Row, column: str) -> str:
    """The text of a column as it stands there: white space at the ends of a program says something.

    Raises:
        DataError: it holds no text.
    """
    value = row.values.get(column)
    if isinstance(value, str) and value.strip():
        return value
    raise row.wrong(column, "a text")


def texts_of(row: Row, column: str) -> list[str]:
    """The texts of a column that holds a list of them, or such a list as JSON.

    Raises:
        DataError: it holds something else.
    """
    value = row.values.get(column)
    try:
        value = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        value = None
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        return value
    raise row.wrong(column, "a list of texts")


def fenced(code: str) -> str:
    """The program as a model answers with it."""
    return f"```python\n{code.strip(chr(10))}\n```"


def parsed(code: str) -> ast.Module | None:
    """The syntax tree of a program; None where it is none, or too long or too nested to be parsed here."""
    if len(code) > _MAX_PARSED:
        return None
    try:
        return parse(code)
    except SyntaxError:
        return None


def defines(code: str, name: str) -> bool:
    """Whether a program gives `name` a meaning on its top level; told by its lines, whether it can be parsed or not."""
    word = re.escape(name)
    return (
        re.search(
            rf"^(?:(?:async )?def {word}\b|class {word}\b|{word} *(?::[^=\n]{{0,200}})?=(?!=))", code, re.MULTILINE
        )
        is not None
    )


def preamble(prompt: str, name: str) -> str:
    """The part of a prompt before it opens the function `name`: imports, constants and helpers."""
    opening = re.search(rf"^(?:async )?def {re.escape(name)}\b", prompt, re.MULTILINE)
    return prompt[: opening.start()] if opening else ""


def joined(before: str, code: str) -> str:
    """`code` after `before`, its imports from `__future__` first of all, where alone they may stand."""
    return "".join(_FUTURE.findall(code)) + before + "\n" + _FUTURE.sub("", code)


def completed(prompt: str, code: str, name: str) -> str:
    """The whole program that `code` is an answer to `prompt` of: code that opens the function `name`.

    An answer that defines `name` is the whole function and goes after the prompt's imports and helpers. Any other is
    taken for the function's body and goes after the whole prompt, with the indentation that it may have lost.
    """
    if defines(code, name):
        return joined(preamble(prompt, name), code)
    return f"{prompt.rstrip()}\n{_indented(prompt.rstrip(), code)}"


def _indented(prompt: str, body: str) -> str:
    """A function's body, with the indentation that its first line, or the whole of it, has lost."""
    first, _, rest = body.strip("\n").partition("\n")
    if first[:1].isspace():
        return body
    one = f"    {first}\n{rest}"
    only_first = all(line[:1].isspace() for line in rest.splitlines() if line.strip())
    return one if only_first and parsed(f"{prompt}\n{one}") else indent(dedent(body), "    ")


def called(names: Sequence[str], *sources: str) -> list[str]:
    """Those of `names` that the `sources` call, in their order."""
    trees = [tree for source in sources if (tree := parsed(source))]
    found = {
        node.func.id
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    return [name for name in names if name in found]


def _bounds(place: str, limits: Mapping[str, Any] | None) -> dict[str, Any]:
    """`limits` as arguments of `Limits`.

    Raises:
        ConfigError: one is no bound, or no positive number.
    """
    given = {name: value for name, value in (limits or {}).items() if value is not None}
    for name, value in given.items():
        if name not in _BOUNDS:
            raise ConfigError(f"{place}.{name}: there is no such bound; the bounds are {', '.join(_BOUNDS)}")
        check_number(f"{place}.{name}", value, whole=not name.endswith("_s"))
    return given
