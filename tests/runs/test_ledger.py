"""A ledger keeps all that a replay needs, once, in order, and through a crash."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trinity.errors import LedgerError
from trinity.runs.behind import FLUSH_ROWS
from trinity.runs.calls import Answer
from trinity.runs.ledger import Ledger
from trinity.runs.rows import Attempt, CallUse, DecisionKey, DecisionRow, RecordKey, Totals
from trinity.runs.sqlite import to_text
from trinity.types import Item, Phase, Price, Record, Replicate, Spend, Usage

MakeCall = Callable[..., tuple[Answer, dict[str, Any]]]
MakeRecord = Callable[..., Record]
PRICE = Price(0.1, 0.4, "table of today")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """An empty ledger."""
    with Ledger.create(tmp_path / "ledger.sqlite") as opened:
        yield opened


def decision(turn: int = 1, logit: float = 0.1, item_id: str = "i1", policy: str = "p") -> DecisionRow:
    """A choice with easily told logits."""
    return DecisionRow(
        DecisionKey(policy, "sums", item_id, Replicate("train", 3), turn),
        "t" * 64,
        np.array([logit, -1, 2, 0, 1], np.float32),
        np.array([0.1, 0.2, 0.3, 0.4, 1 / 3]),
        "big",
        "worker",
        17,
    )


def rows_on_disk(ledger: Ledger, table: str) -> int:
    """What another reader of the file sees when the write that runs has ended."""
    if ledger._behind._flight is not None:
        wait([ledger._behind._flight.end])
    with Ledger.open(ledger.path, read_only=True) as reader:
        found = reader._reader.one(f"SELECT COUNT(*) FROM {table}")
    assert found is not None
    return int(found[0])


def test_uid_is_its_own_and_stays(tmp_path: Path) -> None:
    """A ledger's uid is the same whenever it is opened, and no other ledger has it."""
    uids = []
    for name in ("a.sqlite", "b.sqlite"):
        with Ledger.create(tmp_path / name) as made:
            uids.append(made.uid)
    with Ledger.open(tmp_path / "a.sqlite") as again, Ledger.open(tmp_path / "b.sqlite", read_only=True) as other:
        assert [again.uid, other.uid] == uids
    assert len(set(uids)) == 2
    assert all(len(uid) == 16 for uid in uids)


def test_calls_are_noted_once(ledger: Ledger, make_call: MakeCall) -> None:
    """The first note of a call counts, and says who paid at which price, written yet or not."""
    answer, request = make_call()
    for _ in range(2):
        ledger.note_call(answer, request, paid=True, price=PRICE)
        ledger.note_call(*make_call(text="other"), paid=False, price=None)
        assert ledger.calls.get(answer.request_hash) == answer
    assert ledger.calls.request(answer.request_hash) == request
    assert ledger.call_use(answer.request_hash) == CallUse(answer.request_hash, paid=True, price=PRICE)
    assert ledger.call_use("0" * 64) is None


def test_totals_tell_paid_from_reused(ledger: Ledger, make_call: MakeCall) -> None:
    """Counts and tokens are summed apart; a call without usage counts and adds no tokens."""
    assert ledger.totals() == Totals(0, 0, Usage(), Usage())
    ledger.note_call(*make_call("a"), paid=True, price=PRICE)
    ledger.note_call(*make_call("b", usage=Usage(1, 2, 3, 0, estimated=True)), paid=True, price=None)
    ledger.note_call(*make_call("c", usage=None), paid=True, price=None)
    ledger.note_call(*make_call("d", usage=Usage(5)), paid=False, price=None)
    assert ledger.totals() == Totals(3, 1, Usage(11, 4, 4, 4, estimated=True), Usage(5))


def test_attempts_are_kept_apart_from_answers(ledger: Ledger) -> None:
    """Failed attempts come back in order and never as an answer; those answered or still open are not among them."""
    failed = [Attempt("a" * 64, 1, "rate_limit", 429, "slow \ud800 down"), Attempt("a" * 64, 2, "timeout", None, "")]
    numbers = [ledger.begin_attempt("a" * 64, attempt, "train", Spend()) for attempt in (1, 2, 3, 4)]
    for number, attempt in zip(numbers, failed, strict=False):
        ledger.end_attempt(number, *attempt[2:], Spend())
    ledger.end_attempt(numbers[2], "answered", None, "", Spend())
    assert list(ledger.attempts()) == failed
    assert ledger.calls.count() == 0


def test_spend_counts_open_attempts_as_their_reserve(ledger: Ledger) -> None:
    """An attempt counts as what was set aside until it ends, then as what it cost, phase by phase."""
    reserve, cost = Spend(1.0, 100, 1), Spend(0.25, 30, 1)
    given: list[Phase] = ["test", "train", "train"]
    numbers = [ledger.begin_attempt("a" * 64, 1, phase, reserve) for phase in given]
    assert ledger.spent() == {"train": Spend(2.0, 200, 2), "test": reserve}
    ledger.end_attempt(numbers[1], "answered", None, "", cost)
    assert ledger.spent() == {"train": Spend(1.25, 130, 2), "test": reserve}


def test_an_unknown_price_stays_unknown(ledger: Ledger) -> None:
    """One attempt without a price makes its phase's cost unknown, not smaller."""
    for reserve in (Spend(1.0, 5, 1), Spend(None, 7, 1)):
        ledger.begin_attempt("a" * 64, 1, "val", reserve)
    assert ledger.spent() == {"val": Spend(None, 12, 2)}


def test_attempts_go_on_counting_after_a_crash(tmp_path: Path) -> None:
    """What was flushed before a crash counts in the next process, and new attempts never take an old one's place."""
    path = tmp_path / "ledger.sqlite"
    before = Ledger.create(path)
    before.begin_attempt("a" * 64, 1, "train", Spend(1.0, 1, 1))
    before.flush()
    with Ledger.open(path) as after:
        number = after.begin_attempt("a" * 64, 1, "train", Spend(1.0, 1, 1))
        after.end_attempt(number, "answered", None, "", Spend(0.5, 1, 1))
        assert after.spent() == {"train": Spend(1.5, 2, 2)}
    before.close()


def test_requests_of_misses_and_failures_are_known(ledger: Ledger, make_call: MakeCall) -> None:
    """What was asked for and not there, or failed, can be read again; it is no call of the run."""
    (missed, missed_request), (failed, failed_request) = make_call("missed"), make_call("failed")
    ledger.note_miss(missed.request_hash, missed_request)
    number = ledger.begin_attempt(failed.request_hash, 1, "train", Spend())
    ledger.end_attempt(number, "timeout", None, "", Spend(), failed_request)
    assert list(ledger.misses()) == [missed.request_hash]
    assert ledger.calls.request(missed.request_hash) == missed_request
    assert ledger.calls.request(failed.request_hash) == failed_request
    assert list(ledger.calls) == []
    ledger.note_call(failed, failed_request, paid=True, price=None)
    assert ledger.calls.get(failed.request_hash) == failed


def test_decisions_come_back_bit_for_bit(ledger: Ledger) -> None:
    """Logits, noise and all else of a choice come back as they were, before and after they are written."""
    row = decision(logit=float(np.float32(1e-7)), item_id="i\ud800")
    ledger.add_decision(row)
    found = ledger.decision(row.key)
    assert found is not None
    assert found.key == row.key
    assert (found.logits.tobytes(), found.logits.dtype) == (row.logits.tobytes(), np.dtype(np.float32))
    assert (found.noise.tobytes(), found.noise.dtype) == (row.noise.tobytes(), np.dtype(np.float64))
    assert (found.transcript_hash, found.agent, found.role, found.encoder_tokens) == ("t" * 64, "big", "worker", 17)
    assert ledger.decision(row.key._replace(turn=2)) is None


def test_last_decision_of_a_key_counts(ledger: Ledger) -> None:
    """An episode that is played again leaves the choices that its record came of."""
    for logit in (0.25, 0.5):
        ledger.add_decision(decision(logit=logit))
        ledger.flush()
    assert [row.logits[0] for row in ledger.decisions()] == [0.5]


def test_rows_are_written_in_batches(ledger: Ledger, make_call: MakeCall) -> None:
    """Choices, calls and attempts wait in memory until there are enough of them or somebody reads."""
    ledger.note_call(*make_call(), paid=True, price=None)
    ledger.begin_attempt("a" * 64, 1, "train", Spend())
    for turn in range(FLUSH_ROWS - 3):
        ledger.add_decision(decision(turn))
    assert [rows_on_disk(ledger, table) for table in ("decisions", "calls", "attempts")] == [0, 0, 0]
    ledger.add_decision(decision(FLUSH_ROWS))
    assert [rows_on_disk(ledger, table) for table in ("decisions", "calls", "attempts")] == [FLUSH_ROWS - 2, 1, 1]
    ledger.add_decision(decision(FLUSH_ROWS + 1))
    assert [row.key.turn for row in ledger.decisions()] == [*range(FLUSH_ROWS - 3), FLUSH_ROWS, FLUSH_ROWS + 1]


def test_closing_writes_what_is_pending(tmp_path: Path) -> None:
    """No choice is lost when a ledger is closed, twice even."""
    ledger = Ledger.create(tmp_path / "ledger.sqlite")
    ledger.add_decision(decision())
    ledger.close()
    ledger.close()
    with Ledger.open(tmp_path / "ledger.sqlite") as again:
        assert again.decision(decision().key) is not None


def test_record_is_written_with_what_came_before(ledger: Ledger, make_call: MakeCall, make_record: MakeRecord) -> None:
    """Another reader never sees a record without the choices, calls and attempts before it."""
    tables = ("decisions", "calls", "call_use", "attempts", "records")
    ledger.add_decision(decision())
    ledger.note_call(*make_call(), paid=True, price=None)
    ledger.begin_attempt("a" * 64, 1, "train", Spend())
    assert [rows_on_disk(ledger, table) for table in tables] == [0] * 5
    ledger.add_record(make_record())
    assert [rows_on_disk(ledger, table) for table in tables] == [1] * 5


def test_failed_record_loses_no_decision(ledger: Ledger, make_record: MakeRecord) -> None:
    """A record that cannot be stored leaves nothing, and the choices wait for the next one."""
    ledger.add_decision(decision())
    with pytest.raises(ValueError, match="not JSON compliant"):
        ledger.add_record(make_record(latency_s=float("nan")))
    assert (rows_on_disk(ledger, "decisions"), rows_on_disk(ledger, "records")) == (0, 0)
    ledger.add_record(make_record())
    assert rows_on_disk(ledger, "decisions") == 1


def test_records_come_back_as_they_were(ledger: Ledger, make_record: MakeRecord) -> None:
    """A record with hostile text, odd floats and missing values is found by its key, equal."""
    row = make_record(answer="\x00 \ud800 {x} %s", score=0.1 + 0.2, difficulty=None, item_id="i\udfff", call_ids=())
    ledger.add_record(row)
    assert ledger.record(RecordKey.of(row)) == row
    assert ledger.record(RecordKey.of(row)._replace(seed=5)) is None


def test_records_are_streamed_in_canonical_order(ledger: Ledger, make_record: MakeRecord) -> None:
    """Order is by method, variant, task, split, item, phase as it is played, index and seed, however they came."""
    ordered = [
        make_record(method="a", variant="z"),
        *(
            make_record(method="b", item_id="i1", replicate=Replicate(phase, index))
            for phase in ("train", "val", "reeval", "test")
            for index in (0, 2, 10)
        ),
        make_record(method="b", item_id="i10"),
        make_record(method="b", item_id="i2", seed=0),
        make_record(method="b", item_id="i2", seed=1),
        make_record(method="b", task="words", split="test"),
        make_record(method="b", task="words", split="val"),
    ]
    for row in reversed(ordered):
        ledger.add_record(row)
    assert list(ledger.records()) == ordered


def test_ungraded_records_are_deleted_and_no_other(ledger: Ledger, make_record: MakeRecord) -> None:
    """Resume asks again what failed or hit a cap of the run, nothing else."""
    statuses = ["correct", "wrong", "no_answer", "truncated", "refused", "error", "over_budget"]
    for status in statuses:
        ledger.add_record(make_record(item_id=status, status=status))
    assert ledger.delete_ungraded() == 2
    assert [row.status for row in ledger.records()] == ["correct", "no_answer", "refused", "truncated", "wrong"]


def item(item_id: str, task: str = "sums", prompt: str = "1 + 1 = \ud800?") -> Item:
    """A question with nested meta."""
    return Item(item_id, task, prompt, "2", "math", 0.5, "constructed", {"options": ["1", "2"], "n": {"a": None}})


def test_items_keep_their_order(ledger: Ledger) -> None:
    """Items come back equal, by task and split, in the order in which they were given; a second time adds none."""
    given = [item("b"), item("a"), item("c")]
    for _ in range(2):
        ledger.add_items("test", iter(given))
    ledger.add_items("test", [item("d"), item("x", task="words")])
    ledger.add_items("val", [item("v")])
    assert list(ledger.items("sums", "test")) == [*given, item("d")]
    assert list(ledger.items("words", "test")) == [item("x", task="words")]
    assert list(ledger.items("sums", "train")) == []


def test_changed_item_is_refused(ledger: Ledger) -> None:
    """A ledger never mixes two versions of the data; nothing of the refused batch stays."""
    ledger.add_items("test", [item("a")])
    with pytest.raises(LedgerError, match="item 'a' of task 'sums' differs"):
        ledger.add_items("test", [item("b"), item("a", prompt="other")])
    assert list(ledger.items("sums", "test")) == [item("a")]


def test_generations_and_meta_keep_the_last_value(ledger: Ledger) -> None:
    """A generation or entry that is stored again replaces the one before; trainers are told apart."""
    for sigma in (0.5, 0.25):
        ledger.add_generation("cma", 10, {"sigma": sigma, "fitness": [0.1, 1 / 3]})
    ledger.add_generation("cma", 9, {})
    ledger.add_generation("random", 9, {"x": None})
    assert list(ledger.generations("cma")) == [(9, {}), (10, {"sigma": 0.25, "fitness": [0.1, 1 / 3]})]
    assert ledger.meta("run") is None
    ledger.set_meta("run", {"id": 1})
    ledger.set_meta("run", {"id": 2})
    assert ledger.meta("run") == {"id": 2}


def test_read_only_ledger_refuses_to_write(ledger: Ledger, make_record: MakeRecord) -> None:
    """A ledger that was opened for reading cannot be changed."""
    with Ledger.open(ledger.path, read_only=True) as reader, pytest.raises(LedgerError, match="read only"):
        reader.add_record(make_record())


def test_wrong_files_are_refused(tmp_path: Path, ledger: Ledger) -> None:
    """An existing ledger is not created over, a missing one not opened."""
    with pytest.raises(LedgerError, match="File exists"):
        Ledger.create(ledger.path)
    with pytest.raises(LedgerError, match="does not exist"):
        Ledger.open(tmp_path / "none.sqlite")


@pytest.mark.parametrize(
    ("change", "read"),
    [
        ("UPDATE records SET content = X'5B5D'", lambda ledger: list(ledger.records())),
        ("UPDATE records SET content = 5", lambda ledger: list(ledger.records())),
        ("UPDATE decisions SET logits = X'00'", lambda ledger: list(ledger.decisions())),
        ("UPDATE decisions SET phase = 9", lambda ledger: list(ledger.decisions())),
        ("UPDATE items SET content = X'FF'", lambda ledger: list(ledger.items("sums", "test"))),
        ("UPDATE items SET content = X'7B7D'", lambda ledger: list(ledger.items("sums", "test"))),
        ("UPDATE generations SET payload = X'7B'", lambda ledger: list(ledger.generations("cma"))),
        ("UPDATE meta SET value = X''", lambda ledger: ledger.meta("k")),
        ("UPDATE attempts SET detail = X'7B'", lambda ledger: list(ledger.attempts())),
        ("UPDATE call_use SET price_json = X'7B7D'", lambda ledger: ledger.call_use("a" * 64)),
    ],
)
def test_damaged_rows_are_named(
    ledger: Ledger, make_record: MakeRecord, make_call: MakeCall, change: str, read: Callable[[Ledger], object]
) -> None:
    """A row that does not decode is a `LedgerError` naming the file, whatever table it is in."""
    ledger.add_decision(decision())
    ledger.add_record(make_record())
    ledger.add_items("test", [item("a")])
    ledger.add_generation("cma", 0, {})
    ledger.set_meta("k", 1)
    ledger.note_call(*make_call(request_hash="a" * 64), paid=True, price=PRICE)
    ledger.end_attempt(ledger.begin_attempt("a" * 64, 1, "val", Spend()), "timeout", None, "", Spend())
    read(ledger)
    assert ledger._behind._writer is not None
    ledger._behind._writer.execute(change)
    with pytest.raises(LedgerError, match=r"in .*ledger\.sqlite is damaged"):
        read(ledger)


def test_full_disk_keeps_what_was_committed(ledger: Ledger, make_record: MakeRecord) -> None:
    """When the disk is full the error names the file; what was written before is whole and in order."""
    assert ledger._behind._writer is not None
    list(ledger._behind._writer.query("PRAGMA max_page_count=60"))

    def fill() -> None:
        for number in range(1000):
            ledger.add_record(make_record(item_id=f"{number:04d}", answer="x" * 2000))
            if number % 10 == 0:
                ledger.flush()

    with pytest.raises(LedgerError, match=r"ledger\.sqlite: .*full; free some space"):
        fill()
    with Ledger.open(ledger.path, read_only=True) as reader:
        ids = [row.item_id for row in reader.records()]
    assert ids
    assert ids == [f"{number:04d}" for number in range(len(ids))]
    list(ledger._behind._writer.query("PRAGMA max_page_count=100000"))


def test_what_a_full_disk_refused_is_written_when_there_is_room(ledger: Ledger, make_record: MakeRecord) -> None:
    """Rows stay collected, in order, until they can be written; every call before that says why they are not."""
    assert ledger._behind._writer is not None
    list(ledger._behind._writer.query("PRAGMA max_page_count=1"))
    for number in range(3):
        with contextlib.suppress(LedgerError):
            ledger.add_record(make_record(item_id=str(number), answer="x" * 9000))
    with pytest.raises(LedgerError, match="full"):
        ledger.flush()
    with pytest.raises(LedgerError, match="full"):
        list(ledger.records())
    list(ledger._behind._writer.query("PRAGMA max_page_count=100000"))
    assert [row.item_id for row in ledger.records()] == ["0", "1", "2"]


def test_the_log_stays_short(tmp_path: Path, make_record: MakeRecord) -> None:
    """A long run uses its log again and again, also after a stream was left half read, and ends with one file."""
    path = tmp_path / "ledger.sqlite"
    log = path.with_name("ledger.sqlite-wal")
    sizes = []
    with Ledger.create(path) as ledger:
        ledger.add_record(make_record(item_id="first"))
        half_read = ledger.records()
        next(half_read)
        for number in range(6):
            add_large_records(ledger, make_record, 100)
            sizes.append(log.stat().st_size)
            if number == 1:
                del half_read
        assert len(list(ledger.records())) == 101
    assert sizes[-1] == sizes[-2] < 20 << 20
    assert [file.name for file in tmp_path.iterdir()] == ["ledger.sqlite"]


async def test_the_disk_is_not_waited_for(ledger: Ledger, make_call: MakeCall, make_record: MakeRecord) -> None:
    """While a write takes its time, records are found though not written; they are written with what comes next."""
    rows = [make_record(item_id=item_id) for item_id in "abc"]
    with sqlite3.connect(ledger.path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        ledger.note_call(*make_call(), paid=True, price=None)
        ledger.add_record(rows[0])
        ledger.add_record(rows[1])
        assert [ledger.record(RecordKey.of(row)) for row in rows] == [*rows[:2], None]
        waiting = asyncio.create_task(ledger.flushed())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        other.execute("COMMIT")
    await waiting
    assert [rows_on_disk(ledger, table) for table in ("records", "calls")] == [2, 1]
    ledger.add_record(rows[2])
    assert list(ledger.records()) == rows


async def test_many_may_wait_for_the_disk(ledger: Ledger, make_record: MakeRecord) -> None:
    """Whoever waits goes on when what was there is written, though others write and add meanwhile."""

    async def add(number: int) -> None:
        for step in range(5):
            ledger.add_record(make_record(item_id=f"{number}-{step}"))
            await asyncio.sleep(0)
            await ledger.flushed()

    async with asyncio.timeout(60):
        await asyncio.gather(*map(add, range(30)))
    assert rows_on_disk(ledger, "records") == 150
    launched = ledger._behind._launched
    await ledger.flushed()
    assert ledger._behind._launched == launched


def add_large_records(ledger: Ledger, make_record: MakeRecord, count: int) -> None:
    """Add or replace so many records, each committed before the next one is made."""
    for number in range(count):
        ledger.add_record(make_record(item_id=f"{number:04d}", answer="x" * 4000))
        ledger.flush()


CHILD = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from conftest import call, record_row
from test_ledger import decision
from trinity.runs.ledger import Ledger
from trinity.types import Spend

ledger = Ledger.create(Path(sys.argv[1]))
for number in range(10**9):
    answer, request = call(f"question {number}")
    attempt = ledger.begin_attempt(answer.request_hash, 1, "train", Spend(1.0, 1, 1))
    ledger.end_attempt(attempt, "answered", None, "", Spend(1.0, 1, 1))
    ledger.note_call(answer, request, paid=True, price=None)
    ledger.add_decision(decision(item_id=str(number)))
    ledger.add_record(record_row(item_id=f"{number:09d}", call_ids=(answer.call_id,)))
    ledger.flush()
    print(number, flush=True)
"""


def killed_child(path: Path, records: int) -> int:
    """Kill a process while it writes; the last record that it reported."""
    folder = Path(__file__).parent
    command = [sys.executable, "-c", CHILD, str(path), str(folder), str(folder.parents[1])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if int(line) >= records:
                break
        os.kill(child.pid, signal.SIGKILL)
        rest = [line for line in child.stdout if line.endswith("\n")]
    return int(rest[-1]) if rest else int(line)


def test_a_killed_run_loses_nothing_that_it_reported(tmp_path: Path) -> None:
    """After SIGKILL every reported record is there, with its call and its choice, and the ledger goes on."""
    path = tmp_path / "ledger.sqlite"
    last = killed_child(path, records=300)
    with Ledger.open(path) as ledger:
        records = list(ledger.records())
        assert len(records) - 1 in (last, last + 1)
        assert list(ledger.calls.damaged()) == []
        assert ledger.spent()["train"].calls == len(records)
        for number, row in enumerate(records):
            call = ledger.calls.get_by_prefix(row.call_ids[0])
            assert call is not None
            request = ledger.calls.request(call.request_hash)
            assert request is not None
            assert request["messages"][1]["content"] == f"question {number}"
            assert ledger.call_use(call.request_hash) is not None
            assert ledger.decision(decision(item_id=str(number)).key) is not None
        ledger.add_record(records[0])


def test_a_killed_run_can_be_read_at_once(tmp_path: Path) -> None:
    """A reader needs no writer to have cleaned up first."""
    path = tmp_path / "ledger.sqlite"
    last = killed_child(path, records=20)
    with Ledger.open(path, read_only=True) as ledger:
        assert sum(1 for _ in ledger.records()) >= last + 1


def test_keys_with_lone_surrogates_do_not_collide(ledger: Ledger, make_record: MakeRecord) -> None:
    """Ids that UTF-8 cannot hold are told apart as any others."""
    for item_id in ("a\ud800", "a\ud801", "a"):
        ledger.add_record(make_record(item_id=item_id))
    assert len({to_text(row.item_id) for row in ledger.records()}) == 3


def test_iteration_may_go_on_while_records_are_added(ledger: Ledger, make_record: MakeRecord) -> None:
    """A half-read stream neither blocks a writer nor breaks."""
    for number in range(5):
        ledger.add_record(make_record(item_id=str(number)))
    stream = ledger.records()
    next(stream)
    ledger.add_record(make_record(item_id="5"))
    ledger.flush()
    assert {row.item_id for row in stream} >= {"1", "2", "3", "4"}
