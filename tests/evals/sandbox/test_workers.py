"""Workers are shared, replaced and ended, whatever loop, task or process uses them, and leave nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import uvloop

from evals.sandbox.base import Limits, Program
from evals.sandbox.bubblewrap import Bubblewrap
from evals.sandbox.pool import Pool
from trinity.errors import GraderError

ROOT = Path(__file__).parents[3]
SYSTEM = Path("/usr/bin/python3")
SLEEP = Program("import time; time.sleep(100)")
PATIENT = Limits(idle_s=100, wall_s=100)
PATIENCE_S = 30.0


EARLIER: set[psutil.Process] = set()


@pytest.fixture(autouse=True)
def _earlier() -> Iterator[None]:
    """Processes that other tests of this process have left for theirs to come are nobody's business here."""
    EARLIER.update(psutil.Process().children(recursive=True))
    yield
    EARLIER.clear()


def below(pid: int) -> list[psutil.Process]:
    """Processes that a process has started, and theirs, but for those that ran before this test."""
    return [process for process in psutil.Process(pid).children(recursive=True) if process not in EARLIER]


async def until_running(count: int = 1) -> None:
    """Wait until this many sleeping programs have started: their first and second process beside the worker's."""
    while pythons(os.getpid()) < 4 * count:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.01)


def pythons(pid: int) -> int:
    """How many interpreters a process has started."""
    found = 0
    for process in below(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            found += process.name().startswith("python")
    return found


def workers() -> list[psutil.Process]:
    """The workers that this process has started."""
    found = []
    for process in below(os.getpid()):
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [process] if process.name() == "bwrap" else []
    return found


def all_gone(processes: list[psutil.Process]) -> bool:
    """Whether these processes end within a while."""
    return not psutil.wait_procs(processes, timeout=PATIENCE_S)[1]


async def test_many_runs_leave_nothing(own: Pool) -> None:
    """After a hundred runs there are no more processes and descriptors than after one, and none after closing."""

    async def several(count: int) -> tuple[int, int]:
        outcomes = [await own.run(Program("open('f', 'w').write('x')"), Limits()) for _ in range(count)]
        assert all(outcome.ok for outcome in outcomes)
        return len(below(os.getpid())), psutil.Process().num_fds()

    before = await several(1)
    assert await several(100) == before
    mine = [process for worker in own._idle for process in below(worker.process.pid)]
    assert len(mine) == 2
    await own.close()
    assert all_gone(mine)


async def test_closing_ends_all(own: Pool) -> None:
    """Closing ends the idle workers; the next run starts a new one."""
    before = set(workers()) - {psutil.Process(worker.process.pid) for worker in own._idle}
    assert (await own.run(Program("print(1)"), Limits())).ok
    await own.close()
    assert set(workers()) == before
    assert (await own.run(Program("print(2)"), Limits())).stdout == b"2\n"


async def test_many_tasks(isolated: Pool) -> None:
    """Runs from 64 tasks at once come out right, each with its own output."""
    programs = [Program(f"print({number} ** 2)") for number in range(64)]
    outcomes = await asyncio.gather(*(isolated.run(program, Limits()) for program in programs))
    assert [outcome.stdout for outcome in outcomes] == [b"%d\n" % number**2 for number in range(64)]


async def test_at_most_so_many_at_once(isolated: Pool) -> None:
    """No more programs run at once than the sandbox was made for, and all that may do."""
    await isolated.close()
    sleeps = [asyncio.create_task(isolated.run(SLEEP, PATIENT)) for _ in range(6)]
    await until_running(2)
    await asyncio.sleep(0.3)
    assert len(workers()) == 2
    for task in sleeps:
        task.cancel()
    results = await asyncio.gather(*sleeps, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results)


async def test_cancelling_ends_the_program(isolated: Pool) -> None:
    """A cancelled run ends its processes, and those that waited or come later are served."""
    await isolated.close()
    tasks = [asyncio.create_task(isolated.run(SLEEP, PATIENT)) for _ in range(8)]
    await until_running(2)
    running = below(os.getpid())
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert all_gone(running)
    outcomes = await asyncio.gather(*(isolated.run(Program("print(1)"), Limits()) for _ in range(4)))
    assert all(outcome.stdout == b"1\n" for outcome in outcomes)


@pytest.mark.parametrize("fraction", [0.0, 0.01, 0.03, 0.1])
async def test_cancelling_at_any_moment(isolated: Pool, fraction: float) -> None:
    """Wherever a run is cancelled, the next ones come out right."""
    tasks = [asyncio.create_task(isolated.run(Program("print(1)"), Limits())) for _ in range(6)]
    await asyncio.sleep(fraction)
    for task in tasks[::2]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(getattr(result, "stdout", None) == b"1\n" for result in results[1::2])


async def test_a_lost_worker_is_replaced(own: Pool) -> None:
    """A run whose worker dies is run once more; a worker that died idle is replaced unnoticed."""
    task = asyncio.create_task(own.run(Program("import time; time.sleep(0.4); print('done')"), Limits()))
    await until_running()
    kill_workers()
    assert (await task).stdout == b"done\n"
    kill_workers()
    assert (await own.run(Program("print(1)"), Limits())).stdout == b"1\n"


async def test_a_run_that_keeps_losing_its_worker(own: Pool) -> None:
    """A run that loses its worker twice is an error of the grader, no outcome."""
    task = asyncio.create_task(own.run(SLEEP, PATIENT))
    for _ in range(2):
        await until_running()
        kill_workers()
    with pytest.raises(GraderError, match="the sandbox failed: a worker has ended"):
        await task


async def test_a_session_that_loses_its_worker(own: Pool) -> None:
    """A session whose worker dies is an error of the grader, not an early end of the program."""

    async def talk() -> None:
        async with own.session(SLEEP, PATIENT) as session:
            await until_running()
            kill_workers()
            assert await session.receive() is None
            await session.outcome()

    with pytest.raises(GraderError, match="a worker has ended"):
        await talk()


def kill_workers() -> None:
    """Kill every worker below this process, and wait until they are gone."""
    found = below(os.getpid())
    for process in workers():
        for worker in process.children():
            worker.kill()
    assert all_gone(found)


async def test_a_module_that_is_not_there(isolated: Pool) -> None:
    """A worker that cannot import what it shall preload is an error that names the module."""
    with pytest.raises(GraderError, match="No module named 'no_such_module'"):
        await isolated.run(Program("pass", preload=("no_such_module",)), Limits())


async def test_idle_workers_are_few(own: Pool) -> None:
    """Workers with other modules take each other's place; they do not pile up."""
    for name in ("json", "re", "ast", "csv", "cmath"):
        assert (await own.run(Program("pass", preload=(name,)), Limits())).ok
    assert len(own._idle) == 2
    assert {worker.preload for worker in own._idle} == {("csv",), ("cmath",)}


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_loops_that_end(isolated: Pool, factory: type[asyncio.AbstractEventLoop]) -> None:
    """A sandbox serves one event loop after the other, of either make."""
    for number in range(3):
        with asyncio.Runner(loop_factory=factory) as runner:
            outcome = runner.run(isolated.run(Program(f"print({number})"), Limits()))
            assert outcome.stdout == b"%d\n" % number


def test_threads(isolated: Pool) -> None:
    """Event loops in several threads share a sandbox, also when the thread that started a worker has ended."""
    outputs: list[bytes] = []

    async def several() -> None:
        programs = [isolated.run(Program("print(7)"), Limits()) for _ in range(5)]
        outputs.extend(outcome.stdout for outcome in await asyncio.gather(*programs))

    for _ in range(2):
        threads = [threading.Thread(target=asyncio.run, args=(several(),)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert outputs == [b"7\n"] * 30


def script(body: str) -> list[str]:
    """A command that runs a host of its own."""
    head = """
        import asyncio, os, sys
        from evals.sandbox.base import Limits, Program
        from evals.sandbox.build import sandbox
        box = sandbox({"kind": "bubblewrap", "workers": 2})
        def run(source, **limits):
            return asyncio.run(box.run(Program(source), Limits(**limits)))
    """
    return [sys.executable, "-W", "error", "-c", textwrap.dedent(head) + textwrap.dedent(body)]


@pytest.mark.usefixtures("isolated")
def test_a_host_that_ends() -> None:
    """A host that ends without closing leaves no process and says nothing."""
    body = """
        import psutil
        assert run("print(1)").stdout == b"1\\n"
        print([p.pid for p in psutil.Process().children(recursive=True)])
    """
    done = subprocess.run(script(body), capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    pids = [int(pid) for pid in done.stdout.strip("[]\n").split(",")]
    assert len(pids) >= 3
    assert all_gone([process for pid in pids for process in existing(pid)])


def existing(pid: int) -> list[psutil.Process]:
    """The process of this number, if there is one."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return [psutil.Process(pid)]
    return []


@pytest.mark.usefixtures("isolated")
def test_a_host_that_is_killed() -> None:
    """A host that is killed takes its workers and a running program along."""
    body = """
        run("pass")
        run("import time; time.sleep(1000)", idle_s=1000, wall_s=1000)
    """
    with subprocess.Popen(script(body), cwd=ROOT) as host:
        while pythons(host.pid) < 4:
            assert host.poll() is None
        left = below(host.pid)
        host.kill()
    assert all_gone(left)


@pytest.mark.usefixtures("isolated")
def test_a_host_that_forks() -> None:
    """A fork of the host starts workers of its own and leaves the parent's alone."""
    body = """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        assert run("print(1)").stdout == b"1\\n"
        if not os.fork():
            assert run("print(2)").stdout == b"2\\n"
            sys.exit(5)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 5
        assert run("print(3)").stdout == b"3\\n"
    """
    done = subprocess.run(script(body), capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.usefixtures("isolated")
@pytest.mark.skipif(not SYSTEM.exists(), reason=f"there is no {SYSTEM}")
async def test_another_python() -> None:
    """A sandbox can be given another interpreter; it is named in the facts."""
    pool = Pool(Bubblewrap(str(SYSTEM)), 1)
    await pool.ready()
    outcome = await pool.run(Program("import sys; print(sys.version.split()[0], sys.prefix)"), Limits())
    await pool.close()
    assert outcome.stdout.decode() == f"{pool.facts()['python']} /usr\n"
