"""Finds the plan in what a model wrote: between its marks, or else the last list of actions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from evals.graders.plan.lines import LineReader, Read
from evals.graders.plan.problem import STATEMENT, Posed
from evals.graders.plan.strips import Action, shown

_WINDOW = 100_000
"""Characters that are read, from the end: a plan of a thousand actions has half of them."""
_SHOWN = 80

_OPEN = re.compile(r"\[(?:pddl )?plan\]", re.IGNORECASE)
_CLOSE = re.compile(r"\[(?:plan end|end plan|end of plan|/plan|pddl plan end)\]", re.IGNORECASE)
_THOUGHTS = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_EMPHASIS = re.compile(r"[*`'\"\u201c\u201d\u2018\u2019\[\]]|^#{1,6}[ ]|(?<!\w)_|_(?!\w)")
_NUMBER = re.compile(
    r"[-+•>–]?[ ]{0,4}(?:(?:step|action|move)[ ]{0,2})?[#(]?([0-9]{1,4})(?:\.[0-9]{1,6}[ ]?:|[.):]|[ ][-–:])[.): ]{0,4}"
    r"|(?:step|action|move)[ ]{1,2}([0-9]{1,4})(?=[ ])[ ]"
)
_BULLET = re.compile(r"[-+•>–][ ]{1,4}")
_LABEL = re.compile(r"(?:[a-z]{1,12}[ ])?(?:step|action|move)s?[ ]?:[ ]{0,4}")
_INLINE = re.compile(r"(?<=[\w.;,)])[ ](?=[0-9]{1,3}[.)][ ])")
_COMMENT = ("#", ";", "//", "```", "...")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a model proposes.

    Attributes:
        actions: in their order.
        broken: a line within the plan that cannot be read; None = all can.
    """

    actions: tuple[Action, ...]
    broken: str | None = None

    @property
    def key(self) -> str:
        """Actions in PDDL's form, one a line; an unreadable line stands at the end, an empty plan as `()`."""
        return "\n".join(filter(None, (shown(self.actions), self.broken and f"unreadable: {self.broken}"))) or "()"


class _Line(NamedTuple):
    """A line with what it says; `number` of its list item, `depth` of its indentation."""

    text: str
    read: Read
    number: int | None
    depth: int
    bullet: bool
    filled: bool = False

    @property
    def acts(self) -> bool:
        return bool(self.read.actions) or self.read.broken

    @property
    def item(self) -> bool:
        return self.number is not None or (self.bullet and not self.text.endswith(":"))


@dataclass(slots=True)
class _List:
    """Lines that belong together: items that are numbered on, or actions below one another.

    `gap` says that an empty line followed, `start` and `end` which lines of the text are the first and the last one.
    """

    lines: list[_Line] = field(default_factory=list)
    numbered: bool = False
    gap: bool = False
    start: int = 0
    end: int = 0

    @property
    def acts(self) -> bool:
        return any(line.read.actions for line in self.lines)

    @property
    def plan(self) -> list[_Line]:
        """The lines from the first action to the last one; items before the first one belong to it."""
        acting = [index for index, line in enumerate(self.lines) if line.acts]
        items = [index for index, line in enumerate(self.lines) if line.item]
        return self.lines[min(*acting, *items, len(self.lines)) : max(acting) + 1]

    @property
    def counts(self) -> bool:
        """Whether it may be the plan: it begins with an action, and is numbered or has nothing but actions."""
        lines = self.plan[:1] if self.numbered else self.plan
        return self.acts and all(line.acts if self.numbered else line.read.actions for line in lines)

    def goes_on_with(self, line: _Line) -> bool:
        """Whether the line belongs to it."""
        if self.numbered:
            return line.number == (self.lines[-1].number or 0) + 1
        closed = line.text.endswith(":") or (self.gap and not (line.acts and self.acts))
        return line.number is None and not closed

    def above(self, line: _Line) -> bool:
        """Whether the line stands below its last item and is nothing of its own."""
        explains = bool(self.lines) and line.depth > self.lines[-1].depth and (self.numbered or self.lines[-1].acts)
        return line.number is None and (explains or (self.numbered and not (line.acts or line.bullet)))

    def fill(self, below: _Line) -> None:
        """Give the last numbered item the actions below it; where it is one itself, they only explain it."""
        item = self.lines[-1]
        if self.numbered and below.acts and (not item.acts or item.filled):
            read = Read(item.read.actions + below.read.actions, item.read.broken or below.read.broken)
            self.lines[-1] = item._replace(read=read, filled=True)


def read_plan(text: str, posed: Posed) -> Plan | None:
    """The plan in `text`; None = there is none.

    Between `[PLAN]` and `[PLAN END]` (the last pair counts) every line has to be an action, a comment or a heading.
    Without these marks the last list of actions counts, numbered or not, with what explains an action below it left
    out. A line in the midst of the plan that is no action makes it broken. Actions may be sentences, PDDL or calls, in
    any case and with marks of emphasis; see `lines.LineReader`. A text that only says that there is no plan has none.
    What follows a next `[STATEMENT]` behind a plan is not read: models go on with problems of their own.
    """
    plain = unicodedata.normalize("NFKC", text[-_WINDOW:])
    tail, reader = _own(plain[-_WINDOW:]), LineReader(posed)
    if (marked := _marked(tail)) is not None:
        return _strict(list(_lines(marked, reader)))
    lists = _lists(_lines(_CLOSE.split(tail, maxsplit=1)[0], reader))
    if not lists:
        return None
    chosen = max(lists, key=lambda each: (each.counts, each.acts, each.end))
    if max(len(text), len(plain)) > _WINDOW and chosen.start <= 1:  # the first line may be cut
        return Plan((), "a plan that is longer than what is read")
    return _plan(chosen.plan)


def _own(text: str) -> str:
    """The text behind its thoughts, and up to a problem that it poses after its own plan."""
    thoughts = list(_THOUGHTS.finditer(text))
    own = text[thoughts[-1].end() :] if thoughts else text
    closed = _CLOSE.search(own)
    run_on = own.find(STATEMENT, closed.end()) if closed else -1
    return own if run_on < 0 else own[:run_on]


def _marked(text: str) -> str | None:
    """What stands between the last marks; where only one of the two is, the actions next to it."""
    closes, opens = list(_CLOSE.finditer(text)), list(_OPEN.finditer(text))
    if closes:
        start = max((mark.end() for mark in opens if mark.end() <= closes[-1].start()), default=None)
        if start is not None:
            return text[start : closes[-1].start()]
    if opens and not closes:
        return re.split(r"\n[ \t]*\n", text[opens[-1].end() :].strip(), maxsplit=1)[0]
    return None


def _lines(text: str, reader: LineReader) -> Iterator[_Line]:
    for raw in text.lower().expandtabs(4).splitlines():
        for part in _INLINE.split(raw) if _NUMBER.match(raw.strip()) else [raw]:
            line = _EMPHASIS.sub("", part).rstrip(" ,\\")
            number, bullet = _NUMBER.match(line.strip()), _BULLET.match(line.strip())
            mark = number or bullet
            body = line.strip()[mark.end() if mark else 0 :]
            label = _LABEL.match(body)
            read = reader.read(body[label.end() if label else 0 :].strip())
            depth = len(line) - len(line.lstrip())
            said = part.strip() if any(map(str.isalnum, part)) else ""
            yield _Line(said, read, int(number[1] or number[2]) if number else None, depth, bool(bullet))


def _strict(lines: Sequence[_Line]) -> Plan | None:
    """Every line an action; headings, comments and what explains an item below it are left out."""
    kept: list[_Line] = []
    for line in lines:
        below = bool(kept) and line.depth > kept[0].depth and line.number is None
        remark = not line.acts and (below or line.text.endswith(":"))
        explained = below and kept[0].number is not None
        if line.text and not remark and not explained and not line.text.startswith(_COMMENT):
            kept.append(line)
    if kept and not any(line.acts for line in kept):
        return None
    return _plan(kept)


def _lists(lines: Iterable[_Line]) -> list[_List]:
    """The lists in a text, each with at least one line that is an action or begins as one."""
    last = numbered = _List()
    lists = [last]
    for index, line in enumerate(lines):
        if not line.text:
            last.gap = True
            continue
        if last.above(line):
            last.fill(line)
            continue
        if line.number is not None:
            last = numbered = numbered if numbered.goes_on_with(line) else _List(numbered=True, start=index)
        elif last.numbered or not last.goes_on_with(line):
            last = _List(start=index)
        if last is not lists[-1]:
            lists.append(last)
        last.lines.append(line)
        last.gap, last.end = False, index
    return [each for each in lists if any(line.acts for line in each.lines)]


def _plan(lines: Sequence[_Line]) -> Plan:
    broken = next((line.text for line in lines if line.read.broken or not line.read.actions), None)
    actions = tuple(action for line in lines for action in line.read.actions)
    return Plan(actions, None if broken is None else broken[:_SHOWN])
