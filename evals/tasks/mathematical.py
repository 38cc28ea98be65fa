"""What tasks share whose answers are graded as mathematics."""

from __future__ import annotations

import asyncio
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from evals.graders.algebra.pool import Verdict, checkers
from evals.graders.mathematics import VERSION, answer_key, check, read_answer
from evals.tasks.benchmark import Benchmark
from trinity.errors import ConfigError
from trinity.types import Episode, Grade, Item, Judge


class MathematicalTask(Benchmark):
    """A benchmark whose answers are compared by their meaning (`graders.mathematics`); `target` is the right one."""

    grader = VERSION
    prompt_file: str | None = "mathematics"

    def key(self, item: Item, text: str) -> str | None:
        """The answer in the spelling in which equal ones most often agree; no algebra is done for a vote."""
        return answer_key(text)

    def solution(self, item: Item) -> str | None:
        """The right answer in a box."""
        return f"So it is $\\boxed{{{item.target}}}$."

    async def verdict(self, item: Item, answer: str | None) -> Verdict:
        """Whether an answer is right.

        Raises:
            GraderError: the grader failed.
        """
        return await check(item.target, answer, question=item.prompt)

    async def grade(self, item: Item, episode: Episode, judge: Judge | None) -> Grade:
        """1 when the answer means what the target does, else 0.

        Raises:
            GraderError: the grader failed.
        """
        if episode.answer is None:
            return Grade(0.0, None)
        found = await self.verdict(item, read_answer(episode.answer))
        return Grade(float(found.right), self.key(item, episode.answer))

    async def ready(self) -> None:
        """Make sure that what answers are compared with is there.

        Raises:
            ConfigError: Math-Verify is not installed.
        """
        _math_verify(self.name)

    def facts(self) -> dict[str, Any]:
        """Where items come from, and the version of Math-Verify."""
        return {**super().facts(), "math_verify": _math_verify(self.name)}

    async def close(self) -> None:
        """End the processes that compare; they start again where another task needs them."""
        await asyncio.to_thread(checkers().close)


def _math_verify(task: str) -> str:
    try:
        return version("math-verify")
    except PackageNotFoundError as error:
        raise ConfigError(f"task {task}: math-verify is not installed; pip install math-verify") from error
