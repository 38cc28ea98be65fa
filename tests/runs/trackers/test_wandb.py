"""W&B's tracker against its real library: what the files hold, and every way in which a network can be missing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from tests.commands import ROOT, environment
from tests.tracking import METRICS, PRIVATE, SUMMARY, dying, folder_of_a_run, forget_account, silent, started
from tests.wandb_file import Segment, segments
from trinity.errors import ConfigError
from trinity.runs.trackers import wandb as ours
from trinity.runs.trackers.wandb import WandbTracker, WorkerError, worker_environment
from trinity.runs.trackers.wandb_results import LONGEST, Quota, flattened, picked
from trinity.runs.trackers.wandb_results import _cut as cut
from trinity.runs.trackers.wandb_worker import Choice, answers, api_key, chosen_mode, told

KEY = "0123456789canary9876543210canary01234567"
PATIENT = 60.0


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No key and no setting of whoever runs the tests."""
    forget_account(monkeypatch, tmp_path / "netrc")


def tracked(folder: Path, tracker: WandbTracker, generations: range = range(2)) -> tuple[list[str], list[Segment]]:
    """The lines that a run says, and what it left in its folder."""
    said: list[str] = []
    tracker.start(started(folder, said))
    for number in generations:
        tracker.generation(number, METRICS)
    tracker.finish(SUMMARY, folder)
    return said, segments(folder)


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Segment, Path]:
    """One run without a network: what it said, its file, its folder."""
    folder = folder_of_a_run(tmp_path_factory.mktemp("offline") / "run")
    said, (found,) = tracked(folder, WandbTracker(mode="offline", finish_s=PATIENT))
    return said, found, folder


def test_the_file_holds_the_generations(offline: tuple[list[str], Segment, Path]) -> None:
    """A step a generation, its numbers, choices as counts and as a histogram; what is unknown is left out."""
    first, second, _ = offline[1].history
    assert [row["_step"] for row in offline[1].history] == [0, 1, 2]
    assert [row["coordinator/generation"] for row in (first, second)] == [0, 1]
    assert {key: first[f"coordinator/{key}"] for key in ("fitness/mean", "sigma", "agents/big", "roles/worker")} == {
        "fitness/mean": 0.6,
        "sigma": 0.25,
        "agents/big": 4,
        "roles/worker": 5,
    }
    assert "coordinator/validation" not in first
    assert first["coordinator/choice/agents"] == {"_type": "histogram", "values": [4, 1], "bins": [0, 1, 2]}


def test_the_file_holds_config_and_summary(offline: tuple[list[str], Segment, Path]) -> None:
    """The configuration as it was, and every value of the summary to the last digit, unknown ones as null."""
    found = offline[1]
    assert {key: found.config[key] for key in ("name", "seed", "data", "note")} == {
        "name": "x",
        "seed": 3,
        "data": {"n_test": 3},
        "note": None,
    }
    assert found.config["run"]["graders"] == {"sums": "exact/1"}
    assert found.summary["single/qwen-2.5/7b/all/accuracy"] == 0.1 + 0.2
    assert found.summary["single/qwen-2.5/7b/sums/ci_low"] is None
    assert found.summary["totals/paid_calls"] == 12345678901234567
    assert (found.group, found.name, found.project, found.exit_code) == ("", "x/run", "trinity", 0)


def test_tables_figures_and_artifacts(offline: tuple[list[str], Segment, Path]) -> None:
    """Records, transcripts, report, picture, checkpoint; of the restricted task no text is in any of them."""
    _, found, folder = offline
    rows = found.table("records")
    assert [(row["item_id"], row["answer"]) for row in rows] == [
        *((f"secret-{index}", None) for index in range(3)),
        *((f"sums-{index}", "four") for index in range(3)),
    ]
    calls = found.table("transcripts")
    assert [row["item_id"] for row in calls] == ["sums-0", "sums-1", "sums-2"]
    assert calls[1]["prompt"] == "[system] Be brief.\n\n[user] sums question 1"
    assert calls[1]["text"] == "four"
    assert found.file("report") == b"<p>report</p>"
    assert found.file("figures/cost").startswith(b"<svg")
    sent = pq.read_table(found.artifacts["records"]["records.parquet"]).to_pylist()
    assert [row["answer"] for row in sent] == [None] * 3 + ["four"] * 3
    (policy,) = found.artifacts["checkpoint"].items()
    assert (policy[0], policy[1].read_bytes()) == ("coordinator/best.safetensors", b"theta")
    kept = [file for file in (folder / "wandb").rglob("*") if file.is_file()]
    assert not [file for file in kept if file.suffix != ".parquet" and PRIVATE.encode() in file.read_bytes()]


def test_nothing_of_machine_and_user_is_taken(offline: tuple[list[str], Segment, Path]) -> None:
    """The library's own metadata, requirements, console and code files do not exist, and no host is named."""
    names = {file.name for file in (offline[2] / "wandb").rglob("*") if file.is_file()}
    assert not names & {"wandb-metadata.json", "requirements.txt", "output.log", "conda-environment.yaml", "diff.patch"}
    sent = (next(offline[1].folder.glob("*.wandb"))).read_bytes()
    assert os.uname().nodename.encode() not in sent or len(os.uname().nodename) < 5
    assert len(sys.argv[0]) < 5 or sys.argv[0].encode() not in sent


def test_one_line_says_how_to_send_it(offline: tuple[list[str], Segment, Path]) -> None:
    """Offline is said once, with the command that uploads the run; nothing else is."""
    said, _, folder = offline
    assert said == [f"W&B: offline; send it later: wandb sync --include-online {folder}/wandb/*run-*"]


def test_a_resumed_run_is_the_same_run(tmp_path: Path) -> None:
    """An abandoned run keeps what it tracked; the next process goes on under its id, and no generation comes twice."""
    folder = folder_of_a_run(tmp_path / "run")
    first = WandbTracker(mode="offline", finish_s=PATIENT)
    first.start(started(folder))
    first.generation(0, METRICS)
    first.generation(1, METRICS)
    first.abandon("BudgetError")
    said, (before, after) = tracked(folder, WandbTracker(mode="offline", finish_s=PATIENT), range(1, 4))
    assert before.run_id == after.run_id
    assert [row["_step"] for row in before.history] == [0, 1]
    assert [row["_step"] for row in after.history] == [2, 3, 4]
    assert (before.exit_code, after.exit_code) == (1, 0)
    assert len(said) == 1


def test_a_job_with_two_trainers(tmp_path: Path) -> None:
    """The sweep's folder is the group, the job's the name; the second trainer's steps come after the first's."""
    folder = folder_of_a_run(tmp_path / "2026-01-01" / "0123abcd")
    (folder.parent / "sweep.json").write_text("{}")
    tracker = WandbTracker(mode="offline")
    tracker.start(started(folder))
    for trainer in ("coordinator", "short"):
        for number in range(2):
            tracker.generation(number, {**METRICS, "trainer": trainer})
    tracker.abandon("RuntimeError")
    (found,) = segments(folder)
    assert (found.group, found.name) == ("2026-01-01", "0123abcd")
    assert [row["_step"] for row in found.history] == [0, 1, 2, 3]
    assert [row.get("short/generation") for row in found.history] == [None, None, 0, 1]
    state = json.loads((folder / ours.FOLDER / ours.STATE).read_bytes())
    assert state == {"id": found.run_id, "generations": {"coordinator": 1, "short": 1}, "ends": 0}


def test_disabled_leaves_nothing(tmp_path: Path) -> None:
    """A disabled tracker starts no process and writes no file."""
    said, found = tracked(tmp_path, WandbTracker(mode="disabled"))
    assert (said, found, list(tmp_path.iterdir())) == ([], [], [])


def test_a_process_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    """After SIGKILL all that was tracked is in the file, W&B's processes end; its library was never in ours."""
    folder = folder_of_a_run(tmp_path / "run")
    code = (
        "import os, sys; from pathlib import Path; from tests.tracking import METRICS, started\n"
        "from trinity.runs.trackers.wandb import WandbTracker\n"
        "before = sys.exit, sys.excepthook, dict(os.environ)\n"
        "tracker = WandbTracker(mode='offline'); tracker.start(started(Path(sys.argv[1])))\n"
        "for number in range(40): tracker.generation(number, METRICS)\n"
        "assert before == (sys.exit, sys.excepthook, dict(os.environ)) and 'wandb' not in sys.modules\n"
        f"os.kill(os.getpid(), {signal.SIGKILL:d})\n"
    )
    words = [sys.executable, "-c", code, str(folder)]
    temporary = tmp_path / ("deep" * 30)  # longer than a socket's path may be
    temporary.mkdir()
    surroundings = environment(TMPDIR=str(temporary))
    done = subprocess.run(words, cwd=ROOT, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    deadline = time.monotonic() + 60
    while workers(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    (found,) = segments(folder)
    assert [row["_step"] for row in found.history] == [*range(40)]
    assert found.exit_code == 1
    assert workers(folder) == []
    assert list(temporary.iterdir()) == []


def workers(folder: Path) -> list[int]:
    """Live processes that work in a run's `wandb` folder: ours, and the library's own."""
    return [
        process.pid
        for process in psutil.process_iter(["cwd", "status"])
        if process.info["cwd"] == str(folder / "wandb") and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def test_a_silent_server_means_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes connections and never answers: offline at once, with one line, and the key nowhere."""
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    folder = folder_of_a_run(tmp_path / "run")
    with silent() as url:
        said, (found,) = tracked(folder, WandbTracker(base_url=url, finish_s=PATIENT))
    assert len(said) == 1
    assert said[0].startswith(f"W&B: offline, for {url} does not answer; send it later: wandb sync ")
    assert found.artifacts.keys() >= {"records", "checkpoint"}
    assert workers(folder) == []
    assert not [file for file in folder.rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()]


def test_a_network_that_dies_midway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Online first, then nobody answers: the results are kept under the same id, and no process stays behind."""
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    folder = folder_of_a_run(tmp_path / "run")
    with dying() as (url, server):
        said, found = tracked(folder, WandbTracker(base_url=url, finish_s=PATIENT))
        assert any("UpsertBucket" in question for question in server.asked)
        assert workers(folder) == []
    assert said[0].startswith("W&B: online; ")
    assert said[1].startswith(f"W&B: TimeoutError: {url} does not answer any more; what it did not take is kept: ")
    assert len(said) == 2
    results = [segment for segment in found if "records" in segment.artifacts]
    assert len(results) == 1
    assert results[0].summary["single/qwen-2.5/7b/all/accuracy"] == 0.1 + 0.2
    assert len({segment.run_id for segment in found}) == 1
    assert not [file for file in folder.rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()]


def test_a_server_that_refuses_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is not let in goes on offline; the line says why and not with which key."""
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    folder = folder_of_a_run(tmp_path / "run")
    with dying(refuses=True) as (url, _):
        said, found = tracked(folder, WandbTracker(base_url=url, finish_s=PATIENT))
    assert len(said) == 2
    assert said[1].startswith("W&B: offline; ")
    assert KEY not in "".join(said)
    assert [row["_step"] for row in found[0].history] == [0, 1, 2]


def test_a_library_that_dies_is_an_error(tmp_path: Path) -> None:
    """The worker is killed: the tracker says so instead of waiting."""
    folder = folder_of_a_run(tmp_path / "run")
    tracker = WandbTracker(mode="offline")
    tracker.start(started(folder))
    for pid in workers(folder):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerError, match="its library has died"):
        tracker.finish(SUMMARY, folder)
    tracker.abandon("WorkerError")
    assert workers(folder) == []


def test_the_worker_sees_no_other_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keys of providers stay here; W&B's key and proxies go; files and temporary files lead nowhere else."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("WANDB_SERVICE", "somebody else's")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    monkeypatch.setenv("SSL_CERT_DIR", "/certs")
    seen = worker_environment(tmp_path, "/tmp/x")
    assert not {"OPENAI_API_KEY", "WANDB_SERVICE"} & seen.keys()
    assert (seen["WANDB_API_KEY"], seen["HTTPS_PROXY"], seen["TMPDIR"]) == (KEY, "http://proxy", "/tmp/x")
    places = {name: value for name, value in seen.items() if name == "HOME" or name.endswith("_DIR")}
    assert (places.pop("WANDB_DIR"), places.pop("SSL_CERT_DIR")) == (str(tmp_path.parent), "/certs")
    assert len(places) == 5
    assert all(value.startswith(str(tmp_path / "local")) for value in places.values())


@pytest.mark.parametrize(
    ("wanted", "key", "answer", "choice"),
    [
        ("offline", KEY, True, Choice("offline")),
        (None, KEY, True, Choice("online")),
        ("online", KEY, True, Choice("online")),
        (None, None, True, Choice("offline", ", for there is no API key (WANDB_API_KEY)")),
        ("online", None, True, Choice("offline", ", for there is no API key (WANDB_API_KEY)")),
        ("online", KEY, False, Choice("offline", ", for http://w does not answer")),
    ],
)
def test_the_mode_follows_key_and_network(wanted: str | None, key: str | None, answer: bool, choice: Choice) -> None:
    """Online only where it is not refused, there is a key, and the server answers."""
    assert chosen_mode(wanted, "http://w", key, lambda *_: answer) == choice


def test_a_server_answers_or_not() -> None:
    """An error is an answer; silence, a closed port and nonsense are none."""
    with dying(refuses=True) as (url, _):
        assert answers(url, 5.0)
    assert not answers(url, 5.0)
    with silent() as quiet:
        assert not answers(quiet, 0.2)
    assert not answers("nonsense", 1.0)


def test_an_error_is_told_without_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """However the library quotes the key, and wherever the line is cut."""
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    line = told(ValueError("x" * 280 + f" {KEY}\n" + "y" * 300))
    assert line == f"ValueError: {'x' * 280} *** yyy"
    assert KEY[:6] not in line


def test_the_key_of_netrc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `wandb login` left counts where the environment has none; a broken file is no key."""
    assert api_key("api.example") is None
    (tmp_path / "netrc").write_text(f"machine api.example\n login user\n password {KEY}\n")
    (tmp_path / "netrc").chmod(0o600)
    assert api_key("other.example", "api.example") == KEY
    assert api_key("other.example") is None
    monkeypatch.setenv("WANDB_API_KEY", "another")
    assert api_key("api.example") == "another"
    monkeypatch.delenv("WANDB_API_KEY")
    (tmp_path / "netrc").write_text("machine")
    assert api_key("api.example") is None


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("mode", "onlin", "tracker.mode: there is no 'onlin'; choose from: online, offline, disabled"),
        ("finish_s", 4.0, "tracker.finish_s=4.0: must be at least 5"),
        ("records", -1, "tracker.records=-1: must be at least 0"),
        ("transcripts", -1, "tracker.transcripts=-1: must be at least 0"),
    ],
)
def test_settings_are_checked(key: str, value: str | float, told: str) -> None:
    """A setting that makes no sense is named before anything is paid."""
    with pytest.raises(ConfigError) as caught:
        WandbTracker(**{key: value})  # type: ignore[arg-type]  # the mistake that is tested
    assert str(caught.value) == told


def test_the_environment_may_choose_the_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """WANDB_MODE counts where the configuration says nothing."""
    monkeypatch.setenv("WANDB_MODE", "nonsense")
    assert WandbTracker(mode="offline")._mode == "offline"
    with pytest.raises(ConfigError, match="nonsense"):
        WandbTracker()


def test_a_quota_is_shared_evenly() -> None:
    """Small rows are taken whole, the room they leave goes to the others; what is left out is said."""
    keys = [("a", "", "t"), ("b", "", "t"), ("c", "", "t")]
    quota = Quota(dict(zip(keys, (2, 50, 50), strict=True)), 20)
    assert [sum(quota.takes(key) for _ in range(60)) for key in keys] == [2, 9, 9]
    assert not quota.takes(("d", "", "t"))
    assert quota.left("x", "y") == "the table of x shows 20 of 102 test episodes; all are in y"
    assert Quota(dict.fromkeys(keys, 3), 9).left("x", "y") == ""
    assert Quota({}, 5).left("x", "y") == ""


def test_only_what_is_picked_is_read(tmp_path: Path) -> None:
    """Of each quota the first test records in the file's order."""
    path = folder_of_a_run(tmp_path / "run") / "records.parquet"
    key = ("single", "qwen-2.5/7b", "sums")
    some, none = picked(path, Quota({key: 3}, 2), Quota({key: 3}, 0))
    assert [record.item_id for record in some] == ["sums-0", "sums-1"]
    assert none == []


def test_a_summary_is_flattened() -> None:
    """Each value by method, variant, task and metric; nested counts one by one; lists as they are."""
    row = {"method": "vote", "variant": "", "task": "all", "accuracy": None, "statuses": {"wrong": 2}, "unknown": ["a"]}
    found = flattened({"rows": [row], "totals": {"paid_calls": 3}, "effort": {"vote": {"episodes": 1}}, "pool": "p"})
    assert {name: value for name, value in found.items() if "/" in name} == {
        "vote/-/all/accuracy": None,
        "vote/-/all/statuses/wrong": 2,
        "vote/-/all/unknown": ["a"],
        "totals/paid_calls": 3,
        "effort/vote/episodes": 1,
    }


def test_long_and_broken_texts_are_cut_and_mended() -> None:
    """The middle of a long text goes and says how long it was; a lone surrogate becomes its escape."""
    text = cut("a" * LONGEST + "b" * LONGEST)
    assert text.startswith("a" * (LONGEST // 2))
    assert text.endswith("b" * (LONGEST // 2))
    assert f"[... {LONGEST} characters left out ...]" in text
    assert cut("x\ud800") == "x\\ud800"
    assert cut("short") == "short"
