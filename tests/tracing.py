"""Which functions of ours a piece of work calls, in the order in which each is called first."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

from tests.commands import ROOT


@contextmanager
def first_calls() -> Iterator[list[tuple[str, str]]]:
    """File and qualified name of every function of this checkout, filled in when the block ends."""
    seen: dict[int, CodeType] = {}
    named: list[tuple[str, str]] = []

    def note(frame: FrameType, _: str, __: object) -> None:
        seen.setdefault(id(frame.f_code), frame.f_code)  # kept, so that no other gets its id

    # A profiler would hear of every call of C as well, which makes a run several times slower.
    before = sys.gettrace()
    threading.settrace(note)
    sys.settrace(note)
    try:
        yield named
    finally:
        sys.settrace(before)
        threading.settrace(before)
        named += [(_place(code), code.co_qualname) for code in seen.values() if _place(code)]


def _place(code: CodeType) -> str:
    """The file's path within the checkout; empty for other people's."""
    file = Path(code.co_filename)
    inside = file.is_relative_to(ROOT) and not file.is_relative_to(ROOT / ".venv")
    return file.relative_to(ROOT).as_posix() if inside else ""
