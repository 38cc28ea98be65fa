"""Finds the program in an answer."""

from __future__ import annotations

import ast
import builtins
import re
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from textwrap import dedent
from typing import NamedTuple

from evals.graders.code.syntax import parse

_MAX_PARSED = 50_000
"""Characters of a text that is parsed; a longer one is judged by its lines."""
_MAX_BLOCKS = 100
"""Blocks that are looked at, from the last one back."""
_MAX_LINE = 500
"""Characters of a line that may be a fence."""

_MARKS = ("```", "~~~", "PYTHON]")
_ONE_FENCE = 5
"""Backticks on a line that can not be two fences."""

_NAME = r"(?:i?python|py)[0-9.]{0,5}"
_PYTHON = re.compile(_NAME, re.IGNORECASE)
_MARKED = re.compile(r"^[^\n]*?(?:```|~~~|PYTHON\])[^\n]*$", re.MULTILINE)
_OPENING = re.compile(r"(?P<before>[^`~]{0,300})(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^`]*)")
_CLOSING = re.compile(r"(?P<before>[^`~]*)(?P<fence>`{3,}|~{3,})[ \t]*")
_ONE_LINE = re.compile(rf"[ \t]*```[ \t]*(?:{_NAME})?[ \t]+(?P<code>[^`]+?)[ \t]*```[ \t]*", re.IGNORECASE)
_TAG = re.compile(r"[ \t]*\[(?P<end>/?)PYTHON\][ \t]*")
_THOUGHT = re.compile(
    r"(?<![\"'/])(?:</(?:think|thinking|thought|reasoning)>|<\|end_of_thought\|>)(?![\"'])", re.IGNORECASE
)
_THINKING = re.compile(r"\s{0,100}<(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_STATEMENT = re.compile(
    r"^[ \t]*(?:(?:async[ ]+)?def[ ]+\w+[ ]*\(|class[ ]+\w+[ ]*[(:]|import[ ]+\w+|from[ ]+[\w.]+[ ]+import\b|@\w+"
    r"|(?:for[ ]+\w[^\n]{0,200}[ ]in|while|if|with)\b[^\n]{0,200}:[ \t]*$|print\(|return\b|[\w, ]{1,60}=[ ]*\w+\()",
    re.MULTILINE,
)
_CODE_FIRST = re.compile(r"(?:def|class|import|from|for|while|if|print|with|try|return|async)\b|[@#]")
_PLAIN = (ast.Constant, ast.Name, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.UnaryOp, ast.BinOp, ast.Compare)


class _Opening(NamedTuple):
    """What opens a block: fence, first word behind it in lower case, indentation, and code on the same line."""

    fence: str
    tag: str
    indent: int
    first: str


class _Block(NamedTuple):
    """Where a fenced block stands in the text; `opening` None = all on one line, marked as Python."""

    opening: _Opening | None
    start: int
    end: int


def extract_code(text: str, wanted: Collection[str] = ()) -> str | None:
    """The program in an answer, without white space at its ends that says nothing; None = it holds none.

    That is the last block, fenced by three or more backticks or tildes, that holds code: one marked as Python, or one
    that is not marked and is more than a value or prose. A fence that is never closed ends with the text; one that the
    prompt has opened already need not be there. Where there is no fence, the whole text is the program if it reads as
    Python that does something. Thoughts of a reasoning model are left out; an answer that ends in them has no program.

    A block that calls what only an earlier one defines is an example of its use, and not the program. So is every
    block that does not define one of the `wanted` names, if another does.

    Args:
        text: the answer; read in time linear in its length.
        wanted: names of functions and classes that were asked for.
    """
    said = _after_thoughts(text.replace("\r\n", "\n").replace("\r", "\n"))
    if not any(mark in said for mark in _MARKS):
        return _bare(said)
    opened = _opened(said)
    blocks = deque(_blocks(opened), _MAX_BLOCKS)
    if not blocks:
        return _bare(said)
    return _chosen([code for block in blocks if (code := _code(opened, block))], wanted)


def _bare(text: str) -> str | None:
    """A text without fences, where it is a program."""
    code = _trimmed(text)
    return code if code and _is_code(code, strict=True) else None


def _after_thoughts(text: str) -> str:
    """What follows a reasoning model's thoughts; nothing where they do not end."""
    ends = list(_THOUGHT.finditer(text))
    rest = text[ends[-1].end() :] if ends else text
    return "" if _THINKING.match(rest) else rest


def _opened(text: str) -> str:
    """`text` with the fence that the prompt has opened: code stands before the first fence, which bears no mark."""
    first = _MARKED.search(text)
    if first is None or first[0].strip().strip("`~"):
        return text
    before = re.sub(rf"\A\s*{_NAME}[ \t]*\n", "", text[: first.start()], flags=re.IGNORECASE)
    if not _is_code(_trimmed(before), strict=True):
        return text
    return f"{first[0].strip()}python\n{before}{text[first.start() :]}"


def _blocks(text: str) -> Iterator[_Block]:
    """The fenced blocks, in their order; one that is not closed ends with the text."""
    opening: _Opening | None = None
    start = 0
    for found in _MARKED.finditer(text):
        line = found[0]
        if len(line) > _MAX_LINE:
            continue
        if opening is None:
            if line.count("`") > _ONE_FENCE and (one := _ONE_LINE.fullmatch(line)):
                yield _Block(None, found.start() + one.start("code"), found.start() + one.end("code"))
            elif opening := _opening(line):
                start = found.end()
        elif (before := _closes(line, opening)) is not None:
            yield _Block(opening, start, found.start() + before)
            opening = None
    if opening is not None:
        yield _Block(opening, start, len(text))


@lru_cache(maxsize=256)
def _opening(line: str) -> _Opening | None:
    """What a line opens; None = nothing."""
    if (tag := _TAG.fullmatch(line)) and not tag["end"]:
        return _Opening("[", "python", 0, "")
    found = _OPENING.fullmatch(line)
    if found is None:
        return None
    before, info = found["before"], found["info"].strip()
    word, _, rest = info.strip("{}.").partition(" ")
    indent = 0 if before.strip() else len(before)
    rest = rest.strip() if _CODE_FIRST.match(rest.strip()) else ""
    return _Opening(found["fence"], word.partition(":")[0].strip("{}.,").lower(), indent, rest)


def _closes(line: str, opening: _Opening) -> int | None:
    """Characters of code before the fence on a line that closes the block; None = it does not close it."""
    if line == opening.fence:
        return 0
    if opening.fence == "[":
        tag = _TAG.fullmatch(line)
        return 0 if tag and tag["end"] else None
    found = _CLOSING.fullmatch(line)
    if found is None or found["fence"][0] != opening.fence[0] or len(found["fence"]) < len(opening.fence):
        return None
    before: str = found["before"]
    # What is indented further stands in the code, as in the docstring of a function (CommonMark, section 4.5).
    return None if not before.strip() and len(before) > opening.indent + 3 else len(before)


def _code(text: str, block: _Block) -> str | None:
    """The block's content where it may be the program: marked as Python, or not marked and more than prose."""
    content = text[block.start : block.end]
    if block.opening is None:
        return content
    _, tag, indent, first = block.opening
    if indent:
        content = re.sub(rf"^[ \t]{{1,{indent}}}", "", content, flags=re.MULTILINE)
    code = _trimmed(first + content)
    named = _PYTHON.fullmatch(tag) is not None
    return code if code and (named or (not tag and _is_code(code))) else None


def _trimmed(text: str) -> str:
    """Without empty lines at the start and white space at the end: the first line's indentation says something."""
    return re.sub(r"\A(?:[ \t]*\n)+", "", text.rstrip())


def _chosen(codes: Sequence[str], wanted: Collection[str]) -> str | None:
    """The program among blocks of code."""
    defining = [code for code in codes if _defines(code, wanted)] if wanted else []
    if defining:
        return defining[-1]
    for place in range(len(codes) - 1, 0, -1):
        if not _is_use(codes[place], codes[:place]):
            return codes[place]
    return codes[0] if codes else None


def _is_use(code: str, earlier: Sequence[str]) -> bool:
    """Whether it calls what it has not, and an earlier block has, defined: alone it could not run."""
    tree = _parsed(code)
    if tree is None:
        return False
    missing = _called(tree) - _bound(tree) - set(dir(builtins))
    return bool(missing) and any(_defines(block, missing) for block in earlier)


def _called(tree: ast.AST) -> set[str]:
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {call.id for call in calls if isinstance(call, ast.Name)}


def _bound(tree: ast.AST) -> set[str]:
    """Every name that a program gives a meaning to, wherever it does."""
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            # Who can tell what a star brings along; then nothing is missing.
            bound |= _called(tree) if node.name == "*" else {(node.asname or node.name).partition(".")[0]}
    return bound


def _defines(code: str, names: Collection[str]) -> bool:
    """Whether it defines one of the names, at any indentation: methods count."""
    words = "|".join(re.escape(name) for name in sorted(names))
    pattern = rf"^[ \t]*(?:(?:async[ ]+)?def|class)[ ]+(?:{words})\b|^(?:{words})[ ]*="
    return re.search(pattern, code, re.MULTILINE) is not None


def _is_code(text: str, *, strict: bool = False) -> bool:
    """Whether a text reads as Python and does something.

    Args:
        text: the text.
        strict: prose that happens to read as Python (`Answer: 5`, `x = 5`) is none; nor is what can not be parsed.
    """
    tree = _parsed(text)
    if tree is None:
        return _STATEMENT.search(text) is not None and (not strict or len(text) > _MAX_PARSED)
    return any(_does(statement, strict=strict) for statement in tree.body)


def _does(statement: ast.stmt, *, strict: bool) -> bool:
    if isinstance(statement, ast.Expr):
        return not isinstance(statement.value, _PLAIN)
    if strict and isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return any(isinstance(node, ast.Call) for node in ast.walk(statement))
    return not isinstance(statement, ast.Pass)


def _parsed(text: str) -> ast.Module | None:
    """The syntax tree; None where it is no Python, or too long to be parsed here."""
    if len(text) > _MAX_PARSED:
        return None
    try:
        return parse(dedent(text))
    except SyntaxError:
        return None
