"""What coroutines share of a turn of the event loop: time for found answers, and work that is done once for all."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from trinity.llm import turns
from trinity.llm.turns import SLICE_S, WOKEN, OncePerTurn, Slices


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 5.0

    def __call__(self) -> float:
        """The time."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock by which time of a turn is used up."""
    one = Clock()
    monkeypatch.setattr(turns, "time", SimpleNamespace(perf_counter=one))
    return one


async def test_a_turn_has_its_time_and_the_next_one_its_own(clock: Clock) -> None:
    """Two milliseconds from the first question of a turn on; the next turn begins anew."""
    slices = Slices()
    assert not slices.used_up()
    clock.now += SLICE_S - 0.0001
    assert not slices.used_up()
    clock.now += 0.0002
    assert slices.used_up()
    await asyncio.sleep(0)
    assert not slices.used_up()
    clock.now += SLICE_S + 0.0001
    assert slices.used_up()


@pytest.mark.usefixtures("clock")
async def test_who_waits_is_let_in_by_eights_in_the_order_of_coming() -> None:
    """Of twenty that wait eight go on in each turn; one that was cancelled takes nobody's place but its own."""
    slices, gone = Slices(), list[int]()

    async def wait(number: int) -> None:
        slices.used_up()
        await slices.wait()
        gone.append(number)

    tasks = [asyncio.create_task(wait(number)) for number in range(20)]
    seen = []
    await asyncio.sleep(0)
    tasks[1].cancel()
    for _ in range(9):
        if len(gone) not in seen:
            seen.append(len(gone))
        await asyncio.sleep(0)
    assert gone == [0, *range(2, 20)]
    assert seen == [0, WOKEN - 1, 2 * WOKEN - 1, 19]
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_who_finds_the_time_used_up_waits_again(clock: Clock) -> None:
    """The first that goes on takes all the time of its turn, so the second comes a turn later."""
    slices, gone = Slices(), list[int]()

    async def wait(number: int) -> None:
        slices.used_up()
        await slices.wait()
        clock.now += 2 * SLICE_S
        gone.append(number)

    tasks = [asyncio.create_task(wait(number)) for number in range(3)]
    turns_of = list[int]()
    for _ in range(15):
        turns_of.append(len(gone))
        await asyncio.sleep(0)
    assert gone == [0, 1, 2]
    assert set(turns_of) == {0, 1, 2, 3}
    await asyncio.gather(*tasks)


async def test_work_is_done_once_for_all_who_ask_in_a_turn() -> None:
    """Who asks while it is done gets another; a waiter that is cancelled stops it for nobody else."""
    begun, go = list[int](), asyncio.Event()

    async def act() -> None:
        begun.append(len(begun))
        await go.wait()

    once = OncePerTurn(act)
    first = [asyncio.create_task(once()) for _ in range(3)]
    for _ in range(3):
        await asyncio.sleep(0)
    assert begun == [0]
    late = asyncio.create_task(once())
    first[0].cancel()
    for _ in range(3):
        await asyncio.sleep(0)
    assert begun == [0, 1]
    assert not any(task.done() for task in (*first[1:], late))
    go.set()
    await asyncio.gather(*first[1:], late)
    assert first[0].cancelled()
    assert begun == [0, 1]
