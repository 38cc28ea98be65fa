"""The store that runs share: answers outlive processes, are bought once by all of them, and nothing is overwritten."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from tests.llm.support import make_request
from trinity.errors import LedgerError, OfflineError
from trinity.llm import leases, store
from trinity.llm.leases import LEASE_S, LEASE_STATEMENTS, LeaseTable, may_live, new_owner
from trinity.llm.store import SCHEMA, CallStore, MemoryStore, OwnFirst, Store
from trinity.runs.calls import Answer
from trinity.runs.ledger import Ledger
from trinity.runs.sqlite import Schema, open_database
from trinity.types import StoreMode, Usage

ROOT = Path(__file__).parents[2]
Call = tuple[Answer, dict[str, Any]]


def make_call(text: str = "3", sample: int = 0, buyer: str = "us") -> Call:
    """An answered call: answer and request."""
    request = make_request(sample=sample)
    return Answer(request.hash, text, "", "stop", Usage(5, 1), 0.25, 1, buyer), request.to_json()


HASH = make_call()[0].request_hash


@asynccontextmanager
async def opened(path: Path, mode: StoreMode = "use", buyer: str = "us") -> AsyncIterator[Store]:
    """A store, closed afterwards."""
    shared = Store.open(path, mode=mode, buyer=buyer)
    try:
        yield shared
    finally:
        shared.close()


async def test_answers_outlive_the_process_that_bought_them(tmp_path: Path) -> None:
    """What one run stored the next one finds, with its buyer, and nothing else; one clean file is left."""
    path = tmp_path / "new" / "folder" / "store.sqlite"
    answer, request = make_call()
    async with opened(path) as first:
        assert first.path == path
        assert await first.put(answer, request) == answer
    async with opened(path, buyer="them") as second:
        assert await second.get(HASH) == answer
        assert await second.get(make_call(sample=1)[0].request_hash) is None
        assert second.count() == 1
    assert [file.name for file in path.parent.iterdir()] == ["store.sqlite"]
    assert path.stat().st_mode & 0o777 == 0o600


async def test_two_runs_share_one_file(tmp_path: Path) -> None:
    """An answer is seen by another open store at once, and the first answer to a request stays."""
    async with opened(tmp_path / "s.sqlite") as one, opened(tmp_path / "s.sqlite", buyer="them") as other:
        first, second = make_call(), make_call(text="4", buyer="them")
        assert await one.put(*first) == first[0]
        assert await other.get(HASH) == first[0]
        assert await other.put(*second) == first[0]
        assert await other.claim(HASH) == first[0]
        assert one.count() == 1


async def test_a_look_up_never_suspends(tmp_path: Path) -> None:
    """The event loop gets no turn between asking and answer."""
    async with opened(tmp_path / "s.sqlite") as shared:
        await shared.put(*make_call())
        look = shared.get(HASH)
        with pytest.raises(StopIteration) as end:
            look.send(None)
        assert end.value.value == make_call()[0]


async def test_look_ups_of_the_next_turn_see_what_others_stored(tmp_path: Path) -> None:
    """Look-ups of one turn of the event loop share a transaction, those of the next turn begin anew."""
    async with opened(tmp_path / "s.sqlite") as one, opened(tmp_path / "s.sqlite") as other:
        for sample in range(5):
            answer, request = make_call(sample=sample)
            assert await one.get(answer.request_hash) is None
            shared = [one._database.in_transaction]
            await other.put(answer, request)
            assert [*shared, one._database.in_transaction] == [True, False]
            assert await one.get(answer.request_hash) == answer


def test_one_event_loop_after_another(tmp_path: Path) -> None:
    """A look-up that was its loop's last one holds nothing back from the next loop's."""
    one, other = Store.open(tmp_path / "s.sqlite"), Store.open(tmp_path / "s.sqlite")
    look = one.get(HASH)
    loop = asyncio.new_event_loop()
    loop.call_soon(loop.stop)
    loop.call_soon(pytest.raises, StopIteration, look.send, None)
    loop.run_forever()
    loop.close()
    asyncio.run(other.put(*make_call()))
    assert asyncio.run(one.get(HASH)) == make_call()[0]
    one.close()
    other.close()


async def test_claims_are_exclusive(tmp_path: Path) -> None:
    """While one store holds a request another waits: until there is an answer, or until it is released."""
    async with opened(tmp_path / "s.sqlite") as one, opened(tmp_path / "s.sqlite", buyer="them") as other:
        assert await one.claim(HASH) is None
        waiting = asyncio.create_task(other.claim(HASH))
        for _ in range(3):
            await asyncio.sleep(store.POLL_S[1])
            assert not waiting.done()
        await one.put(*make_call())
        assert await waiting == make_call()[0]

        failed = make_call(sample=1)[0].request_hash
        assert await one.claim(failed) is None
        waiting = asyncio.create_task(other.claim(failed))
        await asyncio.sleep(store.POLL_S[0])
        assert not waiting.done()
        await one.release(failed)
        assert await waiting is None


async def test_claims_of_one_store_are_exclusive_too(tmp_path: Path) -> None:
    """Two coroutines of one process never both ask."""
    async with opened(tmp_path / "s.sqlite") as shared:
        assert await shared.claim(HASH) is None
        waiting = asyncio.create_task(shared.claim(HASH))
        await asyncio.sleep(store.POLL_S[0])
        assert not waiting.done()
        await shared.release(HASH)
        assert await waiting is None


async def test_a_cancelled_claim_is_given_back(tmp_path: Path) -> None:
    """Whenever a claiming coroutine is cancelled, the request is free for the next one."""
    async with opened(tmp_path / "s.sqlite") as one, opened(tmp_path / "s.sqlite") as other:
        for turns in range(6):
            claiming = asyncio.create_task(one.claim(HASH))
            for _ in range(turns):
                await asyncio.sleep(0.001 * (turns > 3))
            if claiming.done():
                await one.release(HASH)
            claiming.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await claiming
            assert await asyncio.wait_for(other.claim(HASH), 5) is None
            await other.release(HASH)


async def test_closing_gives_up_claims(tmp_path: Path) -> None:
    """A store that is closed leaves nothing that others would wait for."""
    async with opened(tmp_path / "s.sqlite") as one:
        await one.claim(HASH)
    async with opened(tmp_path / "s.sqlite") as other:
        assert await asyncio.wait_for(other.claim(HASH), 5) is None


async def test_claims_of_a_killed_process_end_at_once(tmp_path: Path) -> None:
    """After SIGKILL nobody waits for a lease to expire."""
    path = tmp_path / "s.sqlite"
    with child(f"shared = Store.open(Path({str(path)!r})); asyncio.run(claim(shared, {HASH!r}))") as process:
        os.kill(process.pid, signal.SIGKILL)
        async with opened(path) as shared:  # nobody has waited for the dead process yet
            assert await asyncio.wait_for(shared.claim(HASH), LEASE_S / 4) is None


@contextlib.contextmanager
def child(code: str) -> Any:
    """A process that runs `code` and says when it has done so; it ends when its input does."""
    head = """
        import asyncio, sys
        from pathlib import Path
        from trinity.llm.store import Store
        async def claim(shared, request_hash):
            assert await shared.claim(request_hash) is None
    """
    lines = [line.strip() if "await" not in line else "    " + line.strip() for line in head.splitlines()]
    code = "\n".join([*lines, code, "print('ready', flush=True)", "sys.stdin.read()"])
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


BUYER = """
import asyncio, sys
from pathlib import Path
from trinity.llm.store import Store
from trinity.llm.transports.base import Request
from trinity.runs.calls import Answer

async def main(path, me):
    shared = Store.open(Path(path), buyer=me)
    async def ask(sample):
        request = Request("e", "m", ({"role": "user", "content": "How many?"},), {}, {}, None, sample)
        answer = await shared.get(request.hash) or await shared.claim(request.hash)
        if answer is None:
            await asyncio.sleep(0.01)
            print(sample, flush=True)
            await shared.put(Answer(request.hash, me, "", "stop", None, 0.1, 1, me), request.to_json())
    sys.stdin.readline()
    await asyncio.gather(*map(ask, range(1000)))
    shared.close()

asyncio.run(main(*sys.argv[1:]))
"""


def test_processes_buy_each_answer_once(tmp_path: Path) -> None:
    """Three processes that ask the same thousand requests at once buy each exactly once between them."""
    path = tmp_path / "store.sqlite"
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    buyers = [subprocess.Popen([sys.executable, "-c", BUYER, path, name], **pipes) for name in "abc"]
    for process in buyers:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    bought = [process.communicate(timeout=120)[0].split() for process in buyers]
    assert [process.returncode for process in buyers] == [0] * 3
    assert sorted(int(sample) for samples in bought for sample in samples) == list(range(1000))


async def test_the_loop_goes_on_while_another_process_writes(tmp_path: Path) -> None:
    """A lock that somebody else holds stops neither look-ups nor other coroutines; the writing waits for it."""
    path = tmp_path / "s.sqlite"
    async with opened(path) as shared:
        await shared.put(*make_call())
        with contextlib.closing(open_database(path, SCHEMA, "open")) as other, other.transaction():
            put = asyncio.create_task(shared.put(*make_call(sample=1)))
            for _ in range(20):
                await asyncio.sleep(0.005)
                assert await shared.get(HASH) is not None
            assert not put.done()
        await put
        assert shared.count() == 2


async def test_what_is_queued_is_committed_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that waits while a transaction is under way shares the next one."""
    commits: list[int] = []

    def counted(group: list[Any]) -> Any:
        commits.append(len(group))
        return commit(group)

    async with opened(tmp_path / "s.sqlite") as shared:
        assert shared._writer is not None
        commit = shared._writer._commit
        monkeypatch.setattr(shared._writer, "_commit", counted)
        gate = threading.Event()
        shared._writer.post(gate.wait)
        puts = [asyncio.create_task(shared.put(*make_call(sample=number))) for number in range(50)]
        await asyncio.sleep(0.05)
        gate.set()
        await asyncio.gather(*puts)
        assert sum(commits) == 51
        assert len(commits) <= 3


async def test_a_failed_job_spoils_no_other(tmp_path: Path) -> None:
    """An answer that cannot be written is refused alone; the store goes on."""
    async with opened(tmp_path / "s.sqlite") as shared:
        good, (answer, request) = make_call(), make_call(sample=1)
        bad: Any = replace(answer, attempts=cast("int", []))
        results = await asyncio.gather(shared.put(*good), shared.put(bad, request), return_exceptions=True)
        assert results[0] == good[0]
        assert isinstance(results[1], LedgerError)
        assert await shared.put(answer, request) == answer


async def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    """When there is no room whoever waits is told, and what was committed stays."""
    async with opened(tmp_path / "s.sqlite") as shared:
        await shared.put(*make_call())
        shared._written_calls._database.one("PRAGMA max_page_count=20")
        huge = [make_call(text="x" * 40_000, sample=number) for number in range(1, 5)]
        results = await asyncio.gather(*(shared.put(*call) for call in huge), return_exceptions=True)
        assert any("full; free some space" in str(result) for result in results)
        for call, result in zip(huge, results, strict=True):
            assert await shared.get(call[0].request_hash) == (None if isinstance(result, Exception) else call[0])
        assert await shared.get(HASH) == make_call()[0]


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    """Nobody waits for a writer that is gone; closing twice is no mistake."""
    shared = Store.open(tmp_path / "s.sqlite")
    shared.close()
    shared.close()
    with pytest.raises(LedgerError, match="the store is closed"):
        await shared.put(*make_call())
    await shared.release(HASH)


async def test_refresh_sees_only_what_its_buyer_bought(tmp_path: Path) -> None:
    """A refreshing run buys anew what others had bought, finds what it bought itself, and replaces the old answer."""
    path = tmp_path / "s.sqlite"
    old, new, later = make_call("3", buyer="them"), make_call("4"), make_call("5")
    async with opened(path, buyer="them") as before:
        await before.put(*old)
    async with opened(path, "refresh") as shared:
        assert await shared.get(HASH) is None
        assert await shared.claim(HASH) is None
        assert await shared.put(*new) == new[0]
        assert await shared.get(HASH) == new[0]
        assert await shared.claim(HASH) == new[0]
        assert await shared.put(*later) == new[0]
    async with opened(path, buyer="them") as after:
        assert await after.get(HASH) == new[0]
        assert after.count() == 1


async def test_claims_are_renewed_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a call takes longer than a lease lives its holder puts the end off, without being asked."""
    monkeypatch.setattr(store, "RENEW_S", 0.01)
    path = tmp_path / "s.sqlite"
    async with opened(path) as shared:
        await shared.claim(HASH)
        with contextlib.closing(open_database(path, SCHEMA, "read")) as look:
            row: Any = partial(look.one, "SELECT expires FROM leases")
            first, later = row(), row()
            for _ in range(500):
                await asyncio.sleep(0.01)
                later = row()
                if later != first:
                    break
            assert later > first


async def test_offline_writes_nothing(tmp_path: Path) -> None:
    """Offline an answer is found, a missing one is refused with its id, and file and folder stay as they are."""
    path = tmp_path / "s.sqlite"
    async with opened(path) as shared:
        await shared.put(*make_call())
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    path.chmod(0o400)
    other = make_call(sample=1)
    async with opened(path, "offline") as shared:
        assert await shared.get(HASH) == await shared.claim(HASH) == make_call()[0]
        line = (
            f"call {other[0].call_id} is not in {path}, and store.mode=offline lets nobody be asked; "
            f"see: python -m trinity.ledger explain {other[0].call_id}"
        )
        for refused in (shared.claim(other[0].request_hash), shared.put(*other)):
            with pytest.raises(OfflineError) as caught:
                await refused
            assert str(caught.value) == line
        await shared.release(other[0].request_hash)
    assert os.listdir(tmp_path) == ["s.sqlite"]  # noqa: PTH208 - so short a look may block
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before


def test_offline_wants_a_file(tmp_path: Path) -> None:
    """A store that is not there is refused and not made."""
    with pytest.raises(LedgerError, match=r"store\.sqlite does not exist"):
        Store.open(tmp_path / "no" / "store.sqlite", mode="offline")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", ["use", "refresh", "offline"])
@pytest.mark.parametrize("content", [b"not a database, " * 500, b"SQLite format 3\x00" + b"\xff" * 8000])
def test_a_broken_file_is_refused_and_left_alone(tmp_path: Path, content: bytes, mode: StoreMode) -> None:
    """A file that is no store is never overwritten."""
    path = tmp_path / "store.sqlite"
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"store\.sqlite"):
        Store.open(path, mode=mode)
    assert path.read_bytes() == content


def test_a_store_of_an_older_version_is_refused(tmp_path: Path) -> None:
    """Yesterday's format is named and left as it is."""
    path = tmp_path / "store.sqlite"
    with contextlib.closing(
        open_database(path, Schema("call store", 0x54530001, ("CREATE TABLE calls (x)",)), "create")
    ):
        pass
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=r"store\.sqlite is no call store of this version"):
        Store.open(path)
    assert path.read_bytes() == before


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    """A store below a file is a LedgerError that names the folder."""
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(LedgerError, match="cannot write the store"):
        Store.open(tmp_path / "file" / "store.sqlite")


async def test_memory_store_keeps_the_same_rules() -> None:
    """Tests meet the rules of runs: the first answer stays, a claim is exclusive until it is answered or released."""
    kept = MemoryStore()
    shared: CallStore = kept
    assert await shared.claim(HASH) is None
    waiting = [asyncio.create_task(shared.claim(HASH)) for _ in range(2)]
    await asyncio.sleep(0)
    await shared.release(HASH)
    done, (still,) = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert [task.result() for task in done] == [None]
    assert await shared.put(*make_call()) == make_call()[0]
    assert await still == make_call()[0]
    assert await shared.put(*make_call(text="4")) == make_call()[0]
    assert await shared.get(HASH) == make_call()[0]
    assert (kept.rows, kept.requests) == ({HASH: make_call()[0]}, {HASH: make_call()[1]})


async def test_own_answers_come_first(tmp_path: Path) -> None:
    """A resumed run uses what its ledger has, whatever the shared store says, and asks the store for all else."""
    own, other = make_call("own"), make_call("shared", sample=1)
    shared = MemoryStore()
    await shared.put(*make_call("shared"))
    await shared.put(*other)
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        ledger.note_call(*own, paid=True, price=None)
        both = OwnFirst(ledger.calls, shared)
        assert await both.get(HASH) == await both.claim(HASH) == own[0]
        assert await both.get(other[0].request_hash) == await both.claim(other[0].request_hash) == other[0]
        new = make_call(sample=2)
        assert await both.claim(new[0].request_hash) is None
        await both.release(new[0].request_hash)
        assert await both.claim(new[0].request_hash) is None
        assert await both.put(*new) == new[0] == await shared.get(new[0].request_hash)
        assert shared.requests[new[0].request_hash] == new[1]


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """The time."""
        return self.now


@pytest.fixture
def tables(tmp_path: Path) -> Any:
    """Two owners' views of one table of leases, and their clock."""
    database = open_database(tmp_path / "l.sqlite", Schema("leases", 4713, LEASE_STATEMENTS), "create")
    clock = Clock()
    yield *(LeaseTable(database, new_owner(), clock=clock) for _ in range(2)), clock
    database.close()


def test_leases_end_unless_they_are_renewed(tables: tuple[LeaseTable, LeaseTable, Clock]) -> None:
    """A lease is its owner's while it is renewed, and anybody's when it has not been for a minute."""
    one, other, clock = tables
    assert one.take(HASH)
    for _ in range(3):
        clock.now += LEASE_S - 1
        one.renew()
        assert not other.take(HASH)
    other.end(HASH)
    assert other.is_held(HASH)
    clock.now += LEASE_S - 0.5
    assert other.is_held(HASH)
    clock.now += 0.5
    assert not other.is_held(HASH)
    assert other.take(HASH)
    one.end_all()
    assert one.is_held(HASH)
    other.end(HASH)
    assert not one.is_held(HASH)


def test_leases_that_ended_are_swept_out(tables: tuple[LeaseTable, LeaseTable, Clock]) -> None:
    """What a killed process left does not stay for ever."""
    one, other, clock = tables
    count = partial(one._database.one, "SELECT COUNT(*) FROM leases")
    one.take(HASH)
    clock.now += LEASE_S
    other.renew()
    assert count() == (1,)
    clock.now += 1
    other.renew()
    assert count() == (0,)


OWNER: list[Any] = json.loads(new_owner())


def test_an_owner_is_a_process_of_a_machine() -> None:
    """Its name holds machine and container, number and start of the process, and what no other owner has."""
    process = psutil.Process()
    place = f"{socket.gethostname()} {Path('/proc/self/ns/pid').readlink()}"
    assert OWNER[:2] == [place, process.pid]
    assert OWNER[2] == pytest.approx(process.create_time() - psutil.boot_time(), abs=1)
    assert (len(OWNER), len(OWNER[3])) == (4, 16)
    assert new_owner() != new_owner()


@pytest.mark.parametrize(
    ("owner", "alive"),
    [
        (lambda: OWNER, True),
        (lambda: [OWNER[0], OWNER[1], OWNER[2] - 60, OWNER[3]], False),
        (lambda: [OWNER[0], dead_pid(), OWNER[2], OWNER[3]], False),
        (lambda: ["another machine", dead_pid(), OWNER[2], OWNER[3]], True),
        (lambda: [OWNER[0], OWNER[1], OWNER[2] + 1.9, OWNER[3]], True),
        (lambda: [OWNER[0], OWNER[1], OWNER[2] - 1.9, OWNER[3]], True),
        (lambda: [OWNER[0], OWNER[1], OWNER[2] + 2.1, OWNER[3]], False),
        (lambda: [OWNER[0], OWNER[1], OWNER[2] - 2.1, OWNER[3]], False),
        (lambda: [OWNER[0], OWNER[1], "then", OWNER[3]], True),
        (lambda: ["damaged"], True),
        (lambda: 5, True),
    ],
)
def test_a_process_is_told_from_a_later_one_of_its_number(owner: Callable[[], list[Any]], *, alive: bool) -> None:
    """An owner is dead when its process is gone or its number belongs to a younger one; elsewhere nobody can tell."""
    assert may_live(json.dumps(owner())) is alive


@pytest.mark.skipif(sys.platform != "linux", reason="says where Linux tells of its start")
def test_a_clock_that_is_set_ends_no_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process is the same one when the clock was put a day ahead or a year back."""
    before = psutil.boot_time()
    for jump_s in (86_400, -365 * 86_400):
        monkeypatch.setattr("psutil._pslinux.boot_time", partial(float, before + jump_s))
        assert may_live(json.dumps(OWNER))


def dead_pid() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    assert not psutil.pid_exists(process.pid)
    return process.pid


def test_an_owner_is_not_looked_at_again_and_again(
    tables: tuple[LeaseTable, LeaseTable, Clock], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within half a second of finding it alive the system is not asked about it; one that is gone holds nothing."""
    looks: list[str] = []
    times = iter([100.0, 100.1, 100.49, 100.5, 100.9, 101.0])

    def alive(owner: str) -> bool:
        looks.append(owner)
        return len(looks) < 3

    monkeypatch.setattr(leases, "may_live", alive)
    monkeypatch.setattr(leases, "time", SimpleNamespace(monotonic=lambda: next(times)))
    one, other, _ = tables
    one.take(HASH)
    assert [(other.is_held(HASH), len(looks)) for _ in range(6)] == [
        *((True, 1), (True, 1), (True, 1)),
        *((True, 2), (True, 2), (False, 3)),
    ]
    assert set(looks) == {one._owner}


async def test_an_offline_reader_beside_a_writer_sees_a_whole_store(tmp_path: Path) -> None:
    """What others buy and move about meanwhile neither looks like damage nor is hidden."""
    path = tmp_path / "s.sqlite"
    async with opened(path) as first:
        await first.put(*make_call())
    async with opened(path, "offline") as reader, opened(path, buyer="them") as writer:
        assert await reader.get(HASH) == make_call()[0]
        bought = [make_call(sample=number, text="x" * 500) for number in range(1, 2000)]
        await asyncio.gather(*(writer.put(*call) for call in bought))
        await asyncio.sleep(0)
        for answer, _ in bought[::100]:
            assert await reader.get(answer.request_hash) == answer
