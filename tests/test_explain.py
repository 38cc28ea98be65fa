"""`python -m trinity.ledger explain`: where an answer is, or what the nearest one has that it has not."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commands import command
from trinity.ledger import main
from trinity.llm.explain import described
from trinity.llm.store import SCHEMA
from trinity.llm.transports.base import Request
from trinity.runs.calls import Answer, CallTable
from trinity.runs.files import write_json
from trinity.runs.ledger import Ledger
from trinity.runs.manifest import FORMAT
from trinity.runs.nearest import Difference
from trinity.runs.sqlite import open_database
from trinity.types import Replicate, Spend, Usage

Explain = Callable[..., tuple[int, str, str]]
LONG = "The quick brown fox jumps over the lazy dog. " * 12


def make_request(content: str = LONG, **changes: Any) -> Request:
    """A request about `content`."""
    values: dict[str, Any] = {
        "endpoint_id": "e",
        "model": "m",
        "messages": ({"role": "user", "content": content},),
        "sampling": {"temperature": 0.7},
        "extra_body": {},
        "replicate": Replicate("train", 0),
        "sample": 0,
    }
    return Request(**{**values, **changes})


def make_answer(request: Request, buyer: str = "0011223344556677") -> Answer:
    """An answer to it."""
    return Answer(request.hash, "four", "", "stop", Usage(9, 1), 0.5, 2, buyer)


STORED = make_request()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with a store of one answer and a run that names it."""
    (tmp_path / "run").mkdir()
    database = open_database(tmp_path / "store.sqlite", SCHEMA, "create")
    CallTable(database).put(make_answer(STORED), STORED.to_json())
    database.close()
    Ledger.create(tmp_path / "run" / "ledger.sqlite").close()
    write_json(tmp_path / "run" / "manifest.json", {"format": FORMAT, "recipe": {"store": {"path": "store.sqlite"}}})
    return tmp_path


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Explain:
    """Call the command within this process: exit code, stdout, stderr."""

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["ledger", "explain", *words])
        code = main()
        return code, *capsys.readouterr()

    return call


def test_a_stored_call_is_found(run: Explain) -> None:
    """An id, the beginning of one, a whole hash: exit 0 and who bought it."""
    for name in (STORED.call_id, STORED.hash[:4].upper(), STORED.hash):
        code, out, _ = run(name, "--store", "store.sqlite")
        assert code == 0
        assert out == (
            f"call {STORED.call_id} is in store.sqlite: bought by the run with uid 0011223344556677 in attempt 2, "
            "4 characters, 10 tokens\n"
        )


def test_the_runs_own_call_is_found(run: Explain, folder: Path) -> None:
    """What is only in the run's ledger is found there, and the store is said not to have it."""
    request = make_request("own")
    with Ledger.open(folder / "run" / "ledger.sqlite") as ledger:
        ledger.note_call(make_answer(request, ledger.uid), request.to_json(), paid=True, price=None)
    code, out, _ = run(request.call_id, "--run", "run")
    assert code == 0
    assert f"call {request.call_id} is in the ledger of run: bought by this run" in out
    assert f"call {request.call_id} is not in store.sqlite" in out


def test_a_request_in_a_file_is_explained(run: Explain, folder: Path) -> None:
    """A request that is not stored: exit 1, the nearest one, and the fields that differ and no other."""
    asked = make_request(LONG.replace("lazy", "tired", 1), sampling={"temperature": 1.0}, sample=3)
    (folder / "request.json").write_text(json.dumps(asked.to_json()), "utf-8")
    code, out, _ = run("request.json", "--store", "store.sqlite")
    assert code == 1
    bought = "bought by the run with uid 0011223344556677 in attempt 2, 4 characters, 10 tokens"
    assert out.splitlines() == [
        f"call {asked.call_id} is not in store.sqlite",
        f"the nearest stored one is call {STORED.call_id}, {bought}; it differs in",
        "  messages[0].content: from character 35 on",
        "    asked  The quick brown fox jumps over the [tired] dog. The quick brown fox jumps over the...",
        "    stored The quick brown fox jumps over the [lazy] dog. The quick brown fox jumps over the...",
        "  sample: asked 3 | stored 0",
        "  sampling.temperature: asked 1.0 | stored 0.7",
    ]


def test_misses_and_failures_of_a_run_are_explained(run: Explain, folder: Path) -> None:
    """A call that a run wanted offline, or that failed, is known by its id."""
    missed, failed = make_request(sample=1), make_request(model="n")
    with Ledger.open(folder / "run" / "ledger.sqlite") as ledger:
        ledger.note_miss(missed.hash, missed.to_json())
        for kind in ("timeout", "rate_limit", "timeout"):
            number = ledger.begin_attempt(failed.hash, 1, "train", Spend())
            ledger.end_attempt(number, kind, None, "", Spend(), failed.to_json())
    code, out, _ = run(missed.call_id, "--run", "run")
    assert code == 1
    assert "run wanted it offline\n" in out
    assert out.endswith("  sample: asked 1 | stored 0\n")
    code, out, _ = run(failed.call_id, "--run", "run")
    assert code == 1
    assert "run asked and failed: timeout x2, rate_limit x1\n" in out
    assert out.endswith('  model: asked "n" | stored "m"\n')


def test_without_a_store_the_run_is_searched(run: Explain, folder: Path) -> None:
    """Where the run's store is gone the nearest call of the run itself is shown."""
    (folder / "store.sqlite").unlink()
    missed = make_request(sample=1)
    with Ledger.open(folder / "run" / "ledger.sqlite") as ledger:
        ledger.note_miss(missed.hash, missed.to_json())
    code, out, _ = run(missed.call_id, "--run", "run")
    assert code == 1
    assert out.endswith(
        "there is no store at store.sqlite\nrun wanted it offline\nnothing is stored there that could be near\n"
    )
    with Ledger.open(folder / "run" / "ledger.sqlite") as ledger:
        ledger.note_call(make_answer(STORED), STORED.to_json(), paid=False, price=None)
    assert f"the nearest stored one is call {STORED.call_id}" in run(missed.call_id, "--run", "run")[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("beef0000", "--store", "store.sqlite"), "no request that starts with beef0000 is known to store.sqlite"),
        (("beef0000", "--run", "run"), "is known to run and store.sqlite"),
        (("nothing.json", "--run", "run"), "'nothing.json' is neither a file nor a call id"),
        (("abc", "--run", "run"), "'abc' is neither a file nor a call id"),
        (("broken.json", "--run", "run"), "broken.json is damaged"),
        (("list.json", "--run", "run"), "list.json holds no request"),
        (("no_text.json", "--run", "run"), "no_text.json holds no request"),
        (("beef0000", "--run", "none"), "none/ledger.sqlite does not exist"),
        (("beef0000", "--store", "none.sqlite"), "none.sqlite does not exist"),
        (("beef0000",), "outputs/store.sqlite does not exist"),
        ((), "the following arguments are required: REQUEST"),
    ],
)
def test_mistakes_are_one_line(words: tuple[str, ...], said: str, run: Explain, folder: Path) -> None:
    """A request that nobody knows, a file that holds none, a missing run or store: exit 2 and what is wrong."""
    (folder / "broken.json").write_text("{", "utf-8")
    (folder / "list.json").write_text("[1]", "utf-8")
    (folder / "no_text.json").write_text('{"messages": [{"role": "user", "content": 5}]}', "utf-8")
    code, out, err = run(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_an_ambiguous_beginning_is_refused(run: Explain, folder: Path) -> None:
    """Two requests with the same first digits: both are named."""
    with Ledger.open(folder / "run" / "ledger.sqlite") as ledger:
        for digit in "ab":
            number = ledger.begin_attempt("cafe" + digit * 60, 1, "train", Spend())
            ledger.end_attempt(number, "timeout", None, "", Spend())
    code, _, err = run("cafe", "--run", "run")
    assert code == 2
    assert "several requests start with cafe: cafea" in err
    code, out, err = run("cafea", "--run", "run")
    assert code == 2
    assert "timeout x1" in out
    assert "its request was not kept; give it as a JSON file" in err


@pytest.mark.parametrize(
    "text", ["\x1b[31mred", "a\x07b", "\u202eabc", "x\ud800y", "a\nb\\n", "\u009b0m", "\x1b]0;x\x07" * 99]
)
def test_hostile_text_reaches_no_terminal(text: str) -> None:
    """Control and direction characters, lone surrogates and line breaks come out escaped, in names and values."""
    for asked, stored in ((text, None), (text, LONG), (LONG, LONG + text), ("a", text)):
        for line in described(Difference(f"sampling.{text}", asked, stored)):
            assert line.isprintable()
            assert line.isascii()
            assert len(line) < 2500


def test_it_is_a_command(folder: Path) -> None:
    """`python -m trinity.ledger` runs as a user runs it."""
    done = command("trinity.ledger", "explain", STORED.call_id, "--store", "store.sqlite", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"call {STORED.call_id} is in store.sqlite")
    assert command("trinity.ledger", "--help", cwd=folder).returncode == 0
