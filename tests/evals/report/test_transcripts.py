"""Transcripts: whole, each text once in its chunk, restricted ones left out, streamed, and a page that holds them."""

from __future__ import annotations

import base64
import gzip
import json
import re
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from evals.report import html, transcripts
from evals.report.blocks import Part
from evals.report.data import ReportData, agent_names
from evals.report.html import write_html
from evals.report.plots_use import Use, latency_bin
from evals.report.transcripts import Chunk, Index, Transcripts, packed
from tests.evals.report.told import SYSTEM, Texts, manifest, told_run
from trinity.errors import LedgerError

HOSTILE = '</script><script>window.hacked = 1</script><!--\ud800\x00\u2028\u202e"\\'


def unpacked(data: str) -> Any:
    """What `packed` was given."""
    return json.loads(gzip.decompress(base64.b64decode(data)))


def blocks(data: ReportData) -> tuple[Transcripts, list[Chunk], list[Index]]:
    """All chunks and indices of a run."""
    assert data.source is not None
    made = Transcripts(data.source, data.summary, data.manifest)
    found = list(made.blocks())
    chunks = [block for block in found if isinstance(block, Chunk)]
    return made, chunks, [block for block in found if isinstance(block, Index)]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReportData]:
    """Five items, three episodes each."""
    data = told_run(tmp_path_factory.mktemp("told") / "ledger.sqlite", 5)
    yield data
    assert data.source is not None
    data.source.ledger.close()


@pytest.mark.parametrize("value", [{"a": [1, None, 0.5]}, [HOSTILE], "x" * 100_000, []])
def test_packed_values_are_found_again(value: Any) -> None:
    """JSON comes back as it was, lone surrogates included; the packed form has no sign that HTML or a script obeys."""
    data = packed(value)
    assert unpacked(data) == value
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", data)


def test_the_list_has_every_test_episode_by_item(told: ReportData) -> None:
    """Rows stand item by item in the run's order, methods in the order of the table, with what the records say."""
    _, _, (index,) = blocks(told)
    columns = unpacked(index.data)
    rows = list(zip(*(columns[name] for name in transcripts.COLUMNS), strict=True))
    assert len(rows) == 15
    assert rows[3:6] == [
        ("single", "large", "sums", "sums-00001", 0, "correct", 1.0, 40, 1.0, 1),
        ("single", "small", "sums", "sums-00001", 0, "correct", 1.0, 40, 1.0, 1),
        ("coordinator", "sampled", "sums", "sums-00001", 0, "correct", 1.0, 120, 1.0, 3),
    ]


def test_an_episode_has_everything_that_was_said(told: ReportData) -> None:
    """Question, target, graded answer, and every call with agent, role, messages, text, verdict, tokens and time."""
    made, (chunk,), _ = blocks(told)
    content = unpacked(chunk.data)

    def text(number: int) -> str:
        return str(made.shared[-1 - number] if number < 0 else content["texts"][number])

    episode = content["episodes"][5]
    assert [text(episode[name]) for name in ("question", "target", "answer")] == [
        "What is 1 + 1?", "target 2", "graded target 2",
    ]  # fmt: skip
    thinker, worker, verifier = episode["calls"]
    assert [(call["role"], call["agent"]) for call in episode["calls"]] == [
        ("thinker", "small"), ("worker", "large"), ("verifier", "large"),
    ]  # fmt: skip
    assert [(role, text(number)) for role, number in worker["messages"]] == [
        ("system", SYSTEM), ("user", "What is 1 + 1?"),
    ]  # fmt: skip
    assert [text(call["text"]) for call in (thinker, worker)] == ["thinker says 2", "worker says 2"]
    assert (thinker["verdict"], verifier["verdict"]) == (None, "accept")
    assert (worker["tokens"], worker["latency"], worker["finish"], worker["reasoning"]) == (
        [12, 7, 0],
        0.25,
        "stop",
        None,
    )
    alone = content["episodes"][3]["calls"]
    assert [(call["role"], call["agent"]) for call in alone] == [(None, "large")]


def test_a_policy_without_variants_has_roles_too(tmp_path: Path) -> None:
    """The decisions of a method that has one row only stand under its name alone."""
    data = told_run(tmp_path / "l.sqlite", 1)
    assert data.source is not None
    ledger = data.source.ledger
    (played,) = ledger.records(method="coordinator")
    chosen = [row for row in ledger.decisions() if row.key.policy == "coordinator/sampled"]
    for row in chosen:
        ledger.add_decision(replace(row, key=row.key._replace(policy="random")))
    ledger.add_record(replace(played, method="random", variant=""))
    line = {**data.summary["rows"][-1], "method": "random", "variant": "", "task": "sums", "n_replicates": 1}
    _, (chunk,), _ = blocks(replace(data, summary={**data.summary, "rows": [line]}))
    (episode,) = unpacked(chunk.data)["episodes"]
    assert [call["role"] for call in episode["calls"]] == ["thinker", "worker", "verifier"]


def test_each_text_is_in_its_chunk_once(told: ReportData) -> None:
    """Questions and answers that episodes share are stored once, the system prompt once for all chunks."""
    made, (chunk,), _ = blocks(told)
    found = unpacked(chunk.data)["texts"]
    assert len(found) == len(set(found))
    assert found.count("What is 3 + 3?") == 1
    assert SYSTEM not in found
    assert made.shared == [SYSTEM]


def test_chunks_follow_each_other(told: ReportData, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small chunks and indices hold the same episodes as one large one, in the same order, none twice."""
    _, (whole,), (index,) = blocks(told)
    monkeypatch.setattr(transcripts, "CHUNK_EPISODES", 4)
    monkeypatch.setattr(transcripts, "INDEX_EPISODES", 7)
    _, chunks, indices = blocks(told)
    assert [(chunk.first, chunk.n) for chunk in chunks] == [(0, 4), (4, 4), (8, 4), (12, 3)]
    ids = [call["id"] for chunk in chunks for one in unpacked(chunk.data)["episodes"] for call in one["calls"]]
    assert ids == [call["id"] for one in unpacked(whole.data)["episodes"] for call in one["calls"]]
    assert [item for part in indices for item in unpacked(part.data)["item"]] == unpacked(index.data)["item"]


def test_a_chunk_ends_when_its_texts_are_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No chunk takes a further episode once its texts have reached the limit."""
    monkeypatch.setattr(transcripts, "CHUNK_CHARACTERS", 3000)
    data = told_run(tmp_path / "l.sqlite", 6, Texts(reply=lambda number, role: f"{role} {number} " + "x" * 1000))
    _, chunks, _ = blocks(data)
    sizes = [sum(map(len, unpacked(chunk.data)["texts"])) for chunk in chunks]
    assert len(chunks) >= 6
    assert max(sizes) < 3000 + 3 * 1100


@pytest.mark.parametrize("rule", ["ids-only", "never", None])
def test_restricted_texts_stay_in_the_run(tmp_path: Path, rule: str | None) -> None:
    """Unless its task may be redistributed, an episode has no texts anywhere, and the page says why; ids are listed."""
    tasks = [] if rule is None else [{"name": "sums", "redistribute": rule}]
    data = told_run(tmp_path / "l.sqlite", 3, tasks=tasks)
    made, (chunk,), (index,) = blocks(data)
    assert unpacked(chunk.data) == {"texts": [], "episodes": [None] * 9}
    assert (made.shared, made.withheld) == ([], ["sums"])
    assert unpacked(index.data)["item"][0] == "sums-00000"
    text = write_html(tmp_path, data, []).read_text()
    assert told_of_texts(text) == (
        "Scripted pool. Every test episode with its score, without texts: the licences of all tasks keep them in the "
        "run."
    )
    assert not re.search(r"What is|says|target \d|graded", "".join(map(str, contents(text))))


def told_of_texts(text: str) -> str:
    """The paragraph with which a page's transcripts begin."""
    found = re.search(r'id="transcripts">.*?<p>(.*?)</p>', text, re.DOTALL)
    assert found is not None
    return found[1]


def test_answers_recorded_elsewhere_stay_in_the_run(tmp_path: Path) -> None:
    """A page of a recorded pool says so in one sentence, whatever the licence of its tasks, and shows no text."""
    data = told_run(tmp_path / "l.sqlite", 3, pool_kind="recorded")
    _, (chunk,), _ = blocks(data)
    assert unpacked(chunk.data) == {"texts": [], "episodes": [None] * 9}
    assert told_of_texts(write_html(tmp_path, data, []).read_text()) == (
        "Recorded pool. Every test episode with its score, without texts: others recorded these answers, they stay in "
        "the run."
    )


@pytest.mark.parametrize(
    ("kind", "tasks", "says"),
    [
        ("live", [], "Every test episode: whom it asked, what came back."),
        ("live", ["a", "b"], "what came back. Of a, b only ids and scores: the licence keeps the texts in the run."),
        ("recorded", [], "what came back."),
    ],
)
def test_what_can_be_read_is_said(kind: str, tasks: list[str], says: str) -> None:
    """Without withheld tasks everything can be read; of three tasks two are named."""
    assert html._withheld(kind, tasks, 3).endswith(says)


def test_calls_that_are_not_stored_are_named(told: ReportData, tmp_path: Path) -> None:
    """A simulated agent's calls are in no ledger: the episode still lists them."""
    assert told.source is not None
    empty = told_run(tmp_path / "empty.sqlite", 0)
    assert empty.source is not None
    source = type(told.source)(told.source.ledger, empty.source.ledger)
    found = list(Transcripts(source, told.summary, told.manifest).blocks())
    calls = unpacked(found[0].data)["episodes"][5]["calls"]
    assert [set(call) for call in calls] == [{"id"}] * 3


def test_memory_stays_flat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times the episodes take no more memory: what has been given away is let go."""
    monkeypatch.setattr(transcripts, "CHUNK_EPISODES", 30)
    monkeypatch.setattr(transcripts, "INDEX_EPISODES", 30)
    peaks = []
    for n_items in (40, 400):
        data = told_run(
            tmp_path / f"{n_items}.sqlite", n_items, Texts(reply=lambda number, role: f"{number}{role}" * 50)
        )
        assert data.source is not None
        tracemalloc.start()
        assert sum(1 for _ in Transcripts(data.source, data.summary, data.manifest).blocks()) == 2 * n_items * 3 // 30
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


# ------------------------------------------------------------------------------------------------------- the page


def contents(page: str) -> list[Any]:
    """Everything packed in a page."""
    return [
        unpacked(data) for data in re.findall(r'<script type="application/octet-stream"[^>]*>([^<]*)</script>', page)
    ]


def beside(folder: Path) -> dict[str, str]:
    """The files beside a page."""
    return {file.name: file.read_text() for file in sorted((folder / "report_data").glob("*"))}


def test_a_small_run_is_in_its_page(told: ReportData, tmp_path: Path) -> None:
    """Chunks, index and the list of chunks lie in the page; there is nothing beside it."""
    text = write_html(tmp_path, told, [Part("A part", [])]).read_text()
    found = contents(text)
    assert [sorted(one) for one in found] == [
        sorted(transcripts.COLUMNS), ["episodes", "texts"], ["chunks", "shared"],
    ]  # fmt: skip
    assert found[-1] == {"chunks": [[0, 15, None]], "shared": [SYSTEM]}
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert '<a href="#transcripts">Transcripts</a>' in text


def test_what_is_too_large_lies_beside_the_page(
    told: ReportData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the limit chunks become scripts that the page loads; nothing is lost, the list stays in the page."""
    monkeypatch.setattr(transcripts, "CHUNK_EPISODES", 4)
    _, chunks, (index,) = blocks(told)
    monkeypatch.setattr(html, "EMBEDDED", len(index.data) + len(chunks[0].data) + len(chunks[1].data) // 2)
    found = contents(write_html(tmp_path, told, []).read_text())
    places = found[-1]["chunks"]
    assert [place[2] is None for place in places] == [True, False, False, False]
    for number, (_, _, source) in list(enumerate(places))[1:]:
        script = (tmp_path / source).read_text()
        assert script == f'trinityChunk({number},"{chunks[number].data}");\n'
    assert len(beside(tmp_path)) == 3
    assert [sorted(one) for one in found] == [sorted(transcripts.COLUMNS), ["episodes", "texts"], ["chunks", "shared"]]


def test_a_new_page_takes_the_old_one_s_data_away(
    told: ReportData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data that no page uses any more goes when the new page stands; a folder that is empty goes with it."""
    (tmp_path / "report_data").mkdir()
    (tmp_path / "report_data" / "0000-old.js").write_text("old")
    monkeypatch.setattr(html, "EMBEDDED", 0)
    write_html(tmp_path, told, [])
    assert [name.partition("-")[0] for name in beside(tmp_path)] == ["0000"]
    assert "0000-old.js" not in beside(tmp_path)
    monkeypatch.setattr(html, "EMBEDDED", 10_000_000)
    write_html(tmp_path, told, [])
    assert not (tmp_path / "report_data").exists()


def test_a_failed_page_leaves_the_old_one_whole(
    told: ReportData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the ledger breaks off in the middle, page and data are as before and nothing new is left behind."""
    monkeypatch.setattr(html, "EMBEDDED", 0)
    monkeypatch.setattr(transcripts, "CHUNK_EPISODES", 4)
    write_html(tmp_path, told, [])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    calls = count()
    whole = Transcripts._episode

    def breaks(self: Transcripts, *rest: Any) -> Any:
        if next(calls) == 9:
            raise LedgerError("a call is damaged")
        return {**whole(self, *rest), "new": True}

    monkeypatch.setattr(Transcripts, "_episode", breaks)
    with pytest.raises(LedgerError, match="damaged"):
        write_html(tmp_path, told, [])
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before


def test_hostile_texts_are_nothing_but_data(tmp_path: Path) -> None:
    """Texts, ids and names full of markup add no tag to the page, which is valid UTF-8."""
    texts = Texts(prompt=lambda number: f"{HOSTILE}{number}", reply=lambda number, role: f"{role}{HOSTILE}{number}")
    hostile = write_html(tmp_path, told_run(tmp_path / "a.sqlite", 2, texts), []).read_text("utf-8")
    harmless = write_html(tmp_path, told_run(tmp_path / "b.sqlite", 2), []).read_text("utf-8")
    assert re.findall(r"<(\w+)", hostile) == re.findall(r"<(\w+)", harmless)
    assert "hacked" not in hostile
    (chunk,) = [one for one in contents(hostile) if "texts" in one]
    assert f"{HOSTILE}1" in chunk["texts"]


# ------------------------------------------------------------------------------------------------ what is gathered


def test_uses_and_times_are_counted(told: ReportData) -> None:
    """Every choice of the test is counted by turn, every call by its agent and time."""
    assert told.uses == {
        Use("coordinator/sampled", "small", "thinker", 0): 5,
        Use("coordinator/sampled", "large", "worker", 1): 5,
        Use("coordinator/sampled", "large", "verifier", 2): 5,
    }
    assert {name: dict(bins) for name, bins in told.latency.items()} == {
        "small": {latency_bin(0.25): 10}, "large": {latency_bin(0.25): 15},
    }  # fmt: skip
    assert (told.trained, told.attempts) == ({}, {})


def test_agents_are_told_by_their_settings() -> None:
    """By all of them, else by endpoint and model; those that only prompts tell apart share a name."""
    facts = manifest()
    agent = facts["agents"][0]
    facts["agents"] += [
        {**agent, "name": "hot", "sampling": {"temperature": 1}},
        {**agent, "name": "twin", "style": "another prompt"},
    ]
    name = agent_names(facts)
    settings = {"endpoint_id": "told", "model": "m-small", "sampling": {"temperature": 0}, "extra_body": {}}
    assert name(settings) == "small or twin"
    assert name({**settings, "sampling": {"temperature": 1}}) == "hot"
    assert name({**settings, "sampling": {"temperature": 0.8}}) == "small or hot or twin"
    assert name({**settings, "model": "other"}) == "other"
    assert name({}) == "not in the pool"
