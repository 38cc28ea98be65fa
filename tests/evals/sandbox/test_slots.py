"""Slots are taken in order, given back whatever happens, and belong to no event loop."""

from __future__ import annotations

import asyncio
import threading

from evals.sandbox.slots import Slots


async def test_in_order() -> None:
    """Those who wait are served in the order in which they came, never more at once than there are slots."""
    slots = Slots(2)
    order: list[int] = []
    inside = 0

    async def use(number: int) -> None:
        nonlocal inside
        await slots.take()
        inside += 1
        assert inside <= 2
        order.append(number)
        await asyncio.sleep(0)
        inside -= 1
        slots.give()

    await asyncio.gather(*(use(number) for number in range(9)))
    assert order == list(range(9))


async def refused(slots: Slots) -> bool:
    """Whether there is no slot to be had now: none was made on the way."""
    waiting = asyncio.create_task(slots.take())
    await asyncio.sleep(0)
    taken = waiting.done()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    return not taken


async def test_cancelled_while_waiting() -> None:
    """One that is cancelled while it waits takes nothing."""
    slots = Slots(1)
    await slots.take()
    waiting = asyncio.create_task(slots.take())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert waiting.cancelled()
    slots.give()
    await asyncio.wait_for(slots.take(), 1)
    assert await refused(slots)


async def test_cancelled_while_being_served() -> None:
    """A slot that is on its way to one who is cancelled goes to the next."""
    for turns in range(3):
        slots = Slots(1)
        await slots.take()
        first, second = (asyncio.create_task(slots.take()) for _ in range(2))
        await asyncio.sleep(0)
        slots.give()
        for _ in range(turns):
            await asyncio.sleep(0)
        if not first.done():
            first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        if not first.cancelled():
            slots.give()
        await asyncio.wait_for(second, 1)
        assert await refused(slots)


def test_across_loops() -> None:
    """A slot given back in one loop is taken in another; a waiter whose loop has ended is passed over."""
    slots = Slots(1)
    asyncio.run(slots.take())
    ended = asyncio.new_event_loop()
    lost = ended.create_task(slots.take())
    ended.run_until_complete(asyncio.sleep(0))
    taken = threading.Event()
    waits = threading.Event()

    async def wait() -> None:
        task = asyncio.create_task(slots.take())
        await asyncio.sleep(0)
        waits.set()
        await task
        taken.set()

    thread = threading.Thread(target=asyncio.run, args=(wait(),))
    thread.start()
    assert waits.wait(10)
    lost.cancel()
    ended.run_until_complete(asyncio.gather(lost, return_exceptions=True))
    ended.close()
    slots.give()
    assert taken.wait(10)
    thread.join()


def test_a_loop_that_has_ended() -> None:
    """A slot is not lost to a waiter whose loop is closed."""
    slots = Slots(1)
    asyncio.run(slots.take())
    ended = asyncio.new_event_loop()
    slots._waiting.append((ended, ended.create_future()))
    ended.close()
    slots.give()
    asyncio.run(asyncio.wait_for(slots.take(), 1))
    assert asyncio.run(refused(slots))
