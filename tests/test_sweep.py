"""Sweeps: a folder per job, a table after every job, and a way on after every end."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from hydra.core.hydra_config import HydraConfig
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import DictConfig

from evals.report.sweep import grids, missing, sweep_markdown
from tests.commands import environment
from tests.inprocess import forked, played
from tests.served import pool_words, server
from trinity.cli import main_guard
from trinity.errors import BudgetError, EndpointError
from trinity.launch.app import hydra_command
from trinity.run import USAGE
from trinity.runs import sweep as files
from trinity.runs.ledger import Ledger

Sweep = Callable[..., tuple[int, str]]


class Jobs:
    """A task that notes which jobs it plays; `errors` says by seed how a job ends instead of finishing."""

    def __init__(self) -> None:
        self.played: list[tuple[int, str | None]] = []
        self.errors: dict[int, BaseException] = {}

    def __call__(self, cfg: DictConfig) -> int:
        """Leave what a real run leaves."""
        self.played.append((cfg.seed, cfg.resume))
        folder = Path(HydraConfig.get().runtime.output_dir)
        error = self.errors.get(cfg.seed)
        whole = error is None
        (folder / "manifest.json").write_text(json.dumps({"format": 1, "finished": whole}), "utf-8")
        if error is not None:
            raise error
        ledger = folder / "ledger.sqlite"
        if not ledger.exists():
            Ledger.create(ledger).close()
        kind = "live" if cfg.pool.name == "local" else "scripted"
        found = {"experiment": cfg.name, "pool": cfg.pool.name, "pool_kind": kind, "rows": [row(cfg.seed / 10)]}
        (folder / "summary.json").write_text(json.dumps(found), "utf-8")
        return 0


def row(accuracy: float) -> dict[str, Any]:
    """A row of a run's summary."""
    known = {"method": "single", "variant": "a", "task": "all", "accuracy": accuracy, "ci_low": 0.0, "ci_high": 1.0}
    means = ("calls_mean", "turns_mean", "weighted_tokens_mean", "encoder_tokens_mean")
    empty = dict.fromkeys(("bound_low", "bound_high", "cost_usd_mean", "gflop_mean"))
    counts = dict.fromkeys(("n_items", "n_graded", "n_truncated", "n_estimated"), 4)
    return {**known, "reference": True, **dict.fromkeys(means, 1.0), **empty, **counts}


@pytest.fixture
def jobs() -> Jobs:
    """What the sweep's jobs do."""
    return Jobs()


@pytest.fixture
def sweep(jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Sweep:
    """`sweep("seed=1,2")`: exit code and stderr of `-m pool=scripted seed=1,2` in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["run.py", "-m", *words])
        return main_guard(lambda: hydra_command(jobs, USAGE)), capfd.readouterr().err

    return run


def only_sweep(name: str = "default") -> Path:
    """The one sweep below the working folder."""
    (folder,) = Path("outputs", name).iterdir()
    return folder


def summary(folder: Path) -> dict[str, Any]:
    """What a sweep's summary says."""
    found: dict[str, Any] = json.loads((folder / "summary.json").read_bytes())
    return found


def states(folder: Path) -> list[tuple[str, int | None]]:
    """State and exit code of each job."""
    return [(job["state"], job["exit_code"]) for job in summary(folder)["jobs"]]


class TestNames:
    """The folder of a job."""

    @given(st.permutations(["seed=1", "pool=local", "+experiment=x", "data.n_test=3"]))
    def test_order_does_not_matter(self, words: list[str]) -> None:
        """The same overrides in any order are the same job."""
        assert files.job_name(words) == "cdb9f96c7b54"

    @pytest.mark.parametrize(
        "word",
        [
            *(
                "resume=x",
                "debug=true",
                "concurrency=3",
                "yes=true",
                "plan=true",
                "budget.run.usd=3",
                "budget.phases.val.calls=1",
            ),
            *("store.path=x", "store.mode=offline", "weights.cache=x", "hydra.verbose=true", "hydra/launcher=joblib"),
            *("+pool.limits.main.rpm=3", "retry.attempts=2", "store.mode=refresh"),
        ],
    )
    def test_what_shapes_no_result_names_no_job(self, word: str) -> None:
        """A job taken up with another budget, store or launcher is the same job."""
        assert files.job_name(["seed=1", word]) == files.job_name(["seed=1"])

    @pytest.mark.parametrize(
        "word", ["seed=2", "pool=x", "budget.episode.calls=3", "budget=none", "+storey=1", "data.seed=1", "seed=1,"]
    )
    def test_every_other_word_names_one(self, word: str) -> None:
        """Keys that only begin alike are other keys."""
        assert files.job_name(["seed=1", word]) != files.job_name(["seed=1"])


class TestEnds:
    """How jobs end, and what their sweep then says."""

    def test_table_after_every_job(self, sweep: Sweep, jobs: Jobs) -> None:
        """When a job starts, the table holds those before it; in the end a row per job, in the sweep's order."""
        seen: list[int] = []
        play = jobs.__call__

        def look(cfg: DictConfig) -> int:
            path = only_sweep() / "summary.json"
            seen.append(len(json.loads(path.read_bytes())["rows"]) if path.exists() else 0)
            return play(cfg)

        jobs.__class__ = type("Looking", (Jobs,), {"__call__": lambda _, cfg: look(cfg)})
        assert sweep("seed=3,1,2") == (0, "")
        assert seen == [0, 1, 2]
        assert [one["varied"] for one in summary(only_sweep())["rows"]] == [{"seed": "3"}, {"seed": "1"}, {"seed": "2"}]
        assert (only_sweep() / "summary.md").read_text("utf-8").count("| single a |") == 3

    def test_failed_and_stopped_jobs(self, sweep: Sweep, jobs: Jobs, capfd: pytest.CaptureFixture[str]) -> None:
        """They stop no other job, are listed with overrides and line, and a failed one makes the exit code 1."""
        jobs.errors = {1: EndpointError("nobody listens"), 2: BudgetError("cap reached")}
        code, said = sweep("seed=0,1,2,3")
        assert (code, said) == (1, "error: nobody listens\nerror: cap reached\n")
        assert states(only_sweep()) == [("finished", 0), ("failed", 2), ("stopped", 2), ("finished", 0)]
        first, second = missing(summary(only_sweep()))
        assert "(seed=1) failed, exit code 2: error: nobody listens" in first
        assert "(seed=2) stopped, exit code 2: error: cap reached" in second
        assert "seed=2" in (only_sweep() / "summary.md").read_text("utf-8")

    @pytest.mark.parametrize(
        ("codes", "code"), [([0, 2, 0], 2), ([0, 2, 1], 1), ([0, 0], 0), ([None, 0], 1), ([130, 2], 130), ([], 0)]
    )
    def test_exit_code(self, codes: list[int | None], code: int) -> None:
        """Jobs that only stopped give the worst of their codes, a failed or killed one gives 1."""
        jobs = [{"state": "failed" if one == 1 else "stopped", "exit_code": one} for one in codes]
        assert files.exit_code({"jobs": jobs}) == code

    def test_stopped_by_hand(self, sweep: Sweep, jobs: Jobs) -> None:
        """An interrupt ends the sweep, which says how to go on; the job is stopped and the others wait."""
        jobs.errors = {1: KeyboardInterrupt()}
        code, said = sweep("seed=0,1,2")
        assert (code, said) == (130, f"interrupted; go on with: python -m trinity.run -m resume={only_sweep()}\n")
        assert states(only_sweep()) == [("finished", 0), ("stopped", 130)]
        assert summary(only_sweep())["n_jobs"] == 3

    def test_several_experiments_are_one_sweep(self, sweep: Sweep) -> None:
        """Jobs whose experiments have different names lie in one folder with one table."""
        assert sweep("+experiment=scripted,pool_choice")[0] == 0
        assert {one["experiment"] for one in summary(only_sweep("sweep"))["rows"]} == {"scripted", "pool_choice"}

    def test_a_forecast_leaves_nothing(self, sweep: Sweep, jobs: Jobs, tmp_path: Path) -> None:
        """`plan=true` plays every job's forecast and keeps no folder of them."""

        def forecast(cfg: DictConfig) -> int:
            jobs.played.append((cfg.seed, cfg.resume))
            return 0

        jobs.__class__ = type("Forecast", (Jobs,), {"__call__": lambda _, cfg: forecast(cfg)})
        assert sweep("seed=0,1", "plan=true") == (0, "")
        assert [seed for seed, _ in jobs.played] == [0, 1]
        assert list((tmp_path / "outputs" / "default").iterdir()) == []

    def test_secrets_stay_out(self, sweep: Sweep, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
        """Neither a key of the environment nor the user info of a URL reaches a file of the sweep."""
        monkeypatch.setenv("SOME_API_KEY", "canary-7f3a9c")
        jobs.errors = {1: EndpointError("http://me:canary-url@host/v1 says canary-7f3a9c")}
        sweep("seed=0,1", "+pool.url='http://me:canary-url@host/v1'", "+pool.note=canary-7f3a9c")
        texts = [file.read_bytes() for file in only_sweep().rglob("*") if file.is_file()]
        assert len(texts) > 5
        assert not [text for text in texts if b"canary" in text]


class TestTables:
    """What is shown."""

    def test_kinds_never_share_a_column(self) -> None:
        """Rows of a live and of a scripted pool stand in two tables."""
        rows = [
            {**row(0.1 * number), "job": str(number), "varied": {"pool": kind}, "pool_kind": kind}
            for number, kind in enumerate(["live", "scripted", "live"])
        ]
        found = {"sweep": "s", "varied": ["pool"], "jobs": [], "n_jobs": 3, "rows": rows}
        live, scripted = grids(found)
        assert [line[0] for line in live.rows] == ["0", "2"]
        assert [line[0] for line in scripted.rows] == ["1"]
        assert "live pool" in live.heading
        assert "scripted pool" in scripted.heading

    def test_hostile_text_means_nothing(self) -> None:
        """Overrides and errors are shown as they are, never as markup or control characters."""
        job = {"job": "x", "state": "failed", "exit_code": 1, "overrides": [], "varied": {"name": "<b>|\x1b[31m"}}
        found = {"sweep": "s", "varied": ["name"], "n_jobs": None, "rows": [], "jobs": [{**job, "error": "a\n# b"}]}
        text = sweep_markdown(found)
        assert "<b>" not in text
        assert "\x1b" not in text
        assert "\n# b" not in text

    def test_a_damaged_summary_fails_its_job_alone(self, sweep: Sweep) -> None:
        """Where one job's summary is broken, the others keep their rows and the job says why."""
        sweep("seed=0,1")
        first = summary(only_sweep())["jobs"][0]["job"]
        (only_sweep() / first / "summary.json").write_text("{", "utf-8")
        found = files.collected(only_sweep())
        assert [job["state"] for job in found["jobs"]] == ["failed", "finished"]
        assert "summary.json is damaged" in found["jobs"][0]["error"]
        assert len(found["rows"]) == 1


class TestResume:
    """Taking a sweep up again."""

    @pytest.mark.parametrize("again", [(), ("seed=1,0", "concurrency=3")])
    def test_only_what_is_missing(self, again: tuple[str, ...], sweep: Sweep, jobs: Jobs) -> None:
        """Finished jobs are skipped and keep their rows, begun ones are resumed; the words may be left out."""
        jobs.errors = {1: EndpointError("nobody listens")}
        assert sweep("seed=0,1")[0] == 1
        failed = only_sweep() / summary(only_sweep())["jobs"][1]["job"]
        jobs.errors, jobs.played = {}, []
        assert sweep(f"resume={only_sweep()}", *again) == (0, "")
        assert jobs.played == [(1, str(failed))]
        assert len(summary(only_sweep())["rows"]) == 2

    def test_killed_before_its_manifest(self, sweep: Sweep, jobs: Jobs) -> None:
        """A job of which nothing but a half-made ledger is there begins afresh, in the same folder."""
        sweep("seed=0,1")
        job = only_sweep() / summary(only_sweep())["jobs"][0]["job"]
        for name in ("manifest.json", "summary.json"):
            (job / name).unlink()
        (job / "ledger.new").write_text("half", "utf-8")
        facts = json.loads((job / "job.json").read_bytes())
        (job / "job.json").write_text(json.dumps({**facts, "state": "running", "exit_code": None}), "utf-8")
        jobs.played = []
        assert sweep(f"resume={only_sweep()}")[0] == 0
        assert jobs.played == [(0, None)]
        assert not (job / "ledger.new").exists()

    def test_other_words_are_refused(self, sweep: Sweep, jobs: Jobs) -> None:
        """Words that make other jobs start none of them."""
        sweep("seed=0,1")
        jobs.played = []
        code, said = sweep("seed=0,1,2", f"resume={only_sweep()}")
        assert (code, jobs.played) == (2, [])
        assert "these words make other jobs than that sweep has" in said
        assert said.count("\n") == 1

    def test_without_m_it_says_so(self, sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
        """A sweep's folder is not taken for a run's."""
        sweep("seed=0,1")
        done = played("trinity.run", f"resume={only_sweep()}", cwd=Path.cwd())
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert f"-m resume={only_sweep()}" in done.stderr

    def test_a_job_that_another_process_plays(self, sweep: Sweep, jobs: Jobs) -> None:
        """It is left alone, its file too, while the others go on."""
        jobs.errors = {0: EndpointError("x"), 1: EndpointError("x")}
        sweep("seed=0,1")
        job = only_sweep() / summary(only_sweep())["jobs"][0]["job"]
        before = (job / "job.json").read_bytes()
        jobs.errors, jobs.played = {}, []
        with FileLock(job / "job.lock"):
            code, said = sweep(f"resume={only_sweep()}")
        assert (code, [seed for seed, _ in jobs.played]) == (1, [1])
        assert "another process plays this job" in said
        assert (job / "job.json").read_bytes() == before

    def test_a_job_whose_process_died(self, sweep: Sweep) -> None:
        """A job that says it is running while nobody plays it is stopped, and the sweep's code is 1."""
        sweep("seed=0,1")
        job = only_sweep() / summary(only_sweep())["jobs"][0]["job"]
        (job / "manifest.json").unlink()
        files.note(job, ["seed=0"], 0, "running")
        with FileLock(job / "job.lock"):
            files.settle(only_sweep())
            assert files.collected(only_sweep())["jobs"][0]["state"] == "running"
        files.settle(only_sweep())
        found = files.collected(only_sweep())
        assert found["jobs"][0]["state"] == "stopped"
        assert files.exit_code(found) == 1


ONE_OF_SEVERAL = """
import sys
from pathlib import Path
from trinity.runs import sweep
folder, number = Path(sys.argv[1]), int(sys.argv[2])
(folder / f"job{number}").mkdir()
sweep.note(folder / f"job{number}", [f"seed={number}"], number, "failed", exit_code=1, error="x")
with sweep.summary_of(folder):
    pass
"""


def test_jobs_in_processes_of_their_own(tmp_path: Path) -> None:
    """Jobs that share the disk alone lose no line of the summary, whoever writes it last."""
    files.start_sweep(tmp_path, ["seed=range(4)"], {f"job{number}": [f"seed={number}"] for number in range(4)})
    words = [sys.executable, "-c", ONE_OF_SEVERAL, str(tmp_path)]
    processes = [subprocess.Popen([*words, str(number)], env=environment(), cwd=tmp_path) for number in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    assert [job["number"] for job in summary(tmp_path)["jobs"]] == list(range(4))


def test_a_launchers_process_can_name_a_job(tmp_path: Path) -> None:
    """Where a launcher unpacks a job, what it has to load teaches Hydra's configuration the job's folder."""
    config = {"words": ["seed=1"], "folder": "${job_folder:${words}}"}
    code = f"import trinity.launch.multirun, omegaconf; print(omegaconf.OmegaConf.create({config}).folder)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == files.job_name(["seed=1"])


SMALL = ("+experiment=scripted", "method=[single,best_single]", "data.n_train=2", "data.n_val=2", "data.n_test=3")
TEAM = """\
_target_: trinity.llm.pool.build_pool
_recursive_: false
_convert_: all
name: team{number}
endpoints:
  script:
    _target_: trinity.testing.team
    skills: {{able: {{sums: 1.0}}, weak: {{sums: 0.2}}}}
    latency_ms: {latency_ms}
agents:
  - {{name: able, endpoint: script, model: able, sampling: {{temperature: 0.0}}, active_params: 1.0e+9}}
  - {{name: weak, endpoint: script, model: weak, sampling: {{temperature: 0.0}}, active_params: 1.0e+9}}
"""
DEAF, KILLED = 1, 3
"""Of six jobs: the one whose endpoint nobody serves, and the one that is played when the sweep is killed."""


def six_pools(folder: Path, url: str) -> tuple[str, ...]:
    """Words of a sweep over six pools, of which one asks `url` and the others need nobody."""
    words = pool_words(folder, url)
    pools = folder / "conf" / "pool"
    names = [f"team{number}" for number in range(6)]
    for number, name in enumerate(names):
        text = TEAM.format(number=number, latency_ms="[40, 60]" if number == KILLED else "[0, 1]")
        (pools / f"{name}.yaml").write_text(text, "utf-8")
    (pools / "served.yaml").rename(pools / f"{names[DEAF]}.yaml")
    return (*SMALL, *words[words.index("--config-dir") :], f"pool={','.join(names)}")


def records_of(sweep: Path, number: int) -> int:
    """How many records the job of this number has written."""
    for path in sweep.glob("*/job.json"):
        ledger = path.with_name("ledger.sqlite")
        if json.loads(path.read_bytes())["number"] == number and ledger.exists():
            with Ledger.open(ledger, read_only=True) as opened:
                return sum(1 for _ in opened.records())
    return 0


def stamps(sweep: Path, state: str) -> dict[Path, int]:
    """When each file that the runs in this state left was written."""
    jobs = [sweep / job["job"] for job in summary(sweep)["jobs"] if job["state"] == state]
    kept = (file for job in jobs for file in job.rglob("*") if file.name not in ("job.lock", "job.json"))
    return {file: file.stat().st_mtime_ns for file in kept}


def resumed(sweep: Path) -> list[str]:
    """The pools of the runs that were taken up again."""
    manifests = [json.loads(file.read_bytes()) for file in sweep.glob("*/manifest.json")]
    return sorted(one["pool"] for one in manifests if one["changes"])


def test_six_jobs_one_fails_one_is_killed(tmp_path: Path) -> None:
    """After SIGKILL the table holds what had ended; `resume` plays what is missing, again until nothing is, no more."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = forked("trinity.run", "-m", *six_pools(tmp_path, f"http://127.0.0.1:{port}/v1"), cwd=tmp_path)
    deadline = time.monotonic() + 100
    while not any(records_of(sweep, KILLED) > 2 for sweep in tmp_path.glob("outputs/scripted/*")):
        assert process.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.join()
    (sweep,) = (tmp_path / "outputs" / "scripted").iterdir()
    assert states(sweep) == [("finished", 0), ("failed", 2), ("finished", 0)]
    assert {one["varied"]["pool"] for one in summary(sweep)["rows"]} == {"team0", "team2"}
    first = stamps(sweep, "finished")
    done = played("trinity.run", "-m", f"resume={sweep}", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert f"127.0.0.1:{port}" in done.stderr
    assert states(sweep) == [("finished", 0), ("failed", 2), *[("finished", 0)] * 4]
    assert resumed(sweep) == ["served", "team3"]
    second = stamps(sweep, "finished")
    assert first.items() <= second.items()
    with server(tmp_path, "--port", str(port)):
        done = played("trinity.run", "-m", f"resume={sweep}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert states(sweep) == [("finished", 0)] * 6
    assert second.items() <= stamps(sweep, "finished").items()
    table = (sweep / "summary.md").read_text("utf-8")
    assert {one["varied"]["pool"] for one in summary(sweep)["rows"]} == {f"team{number}" for number in range(6)}
    assert all(f"| team{number} |" in table for number in range(6))
