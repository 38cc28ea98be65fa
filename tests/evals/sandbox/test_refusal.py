"""Where nothing can isolate nothing is run, and one line says why; what is asked of bubblewrap and docker."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evals.sandbox import bubblewrap
from evals.sandbox.base import Limits, Program
from evals.sandbox.bubblewrap import Bubblewrap, outermost, parents, spare_user
from evals.sandbox.build import RISK, sandbox
from evals.sandbox.docker import Docker
from evals.sandbox.interpreter import interpreter
from evals.sandbox.pool import Pool
from tests.conftest import Compose
from trinity.errors import ConfigError, GraderError


def on_path(monkeypatch: pytest.MonkeyPatch, folder: Path, **programs: str) -> None:
    """Let PATH hold nothing but these shell scripts."""
    for name, body in programs.items():
        file = folder / name
        file.write_text(f"#!/bin/sh\n{body}\n")
        file.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.parametrize(
    ("pool", "reason"),
    [
        (Pool(Bubblewrap(None), 1), r"there is no bwrap on PATH; install bubblewrap \(apt install bubblewrap\)"),
        (Pool(Docker(), 1), "there is no docker on PATH"),
    ],
)
async def test_nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pool: Pool, reason: str) -> None:
    """Without the program it says what to install, and how the risk is named; runs are refused, too."""
    on_path(monkeypatch, tmp_path)
    with pytest.raises(ConfigError, match=f"{reason}.*sandbox=none sandbox.{RISK}=true") as caught:
        await pool.ready()
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match=reason):
        await pool.run(Program("print(1)"), Limits())


async def test_namespaces_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where the kernel refuses namespaces, bubblewrap's own reason is in the line, and runs are grader errors."""
    message = "bwrap: No permissions to create new namespace, likely because the kernel does not allow it."
    on_path(monkeypatch, tmp_path, bwrap=f"echo '{message}' >&2; exit 1")
    pool = Pool(Bubblewrap(None), 1)
    with pytest.raises(ConfigError, match=f"sandbox=bubblewrap: .*isolated here: {message}"):
        await pool.ready()
    with pytest.raises(GraderError, match=f"the sandbox failed: {message}"):
        await pool.run(Program("print(1)"), Limits())


@pytest.mark.parametrize(
    ("script", "reason"), [("exit 3", "exit code 3"), ("echo nonsense; sleep 0.2; exit 1", "exit code 1")]
)
async def test_a_broken_bubblewrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, reason: str) -> None:
    """A bubblewrap that ends without a reason, or says what no worker says, is refused."""
    on_path(monkeypatch, tmp_path, bwrap=f"PATH=/usr/bin:/bin; {script}")
    with pytest.raises(ConfigError, match=reason):
        await Pool(Bubblewrap(None), 1).ready()


async def test_walls_that_do_not_stand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A bubblewrap that puts up no walls runs no program: the worker cannot lock one away from there."""
    script = 'while [ "$1" != -- ]; do shift; done; shift; shift 4; exec PYTHON -S -s -B SCRIPT'
    file = Path(bubblewrap.__file__).parent / "inside" / "supervisor.py"
    on_path(monkeypatch, tmp_path, bwrap=script.replace("PYTHON", sys.executable).replace("SCRIPT", str(file)))
    monkeypatch.setattr(bubblewrap, "spare_user", lambda _: None)
    with pytest.raises(ConfigError, match="bubblewrap has put up no walls"):
        await Pool(Bubblewrap(None), 1).ready()


async def test_an_unknown_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no filter of system calls is known, nothing is run."""
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(ConfigError, match="does not know riscv64"):
        await Pool(Bubblewrap(None), 1).ready()


async def test_another_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere than on Linux nothing is run."""
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(ConfigError, match="on Linux only, not on darwin"):
        await Pool(Bubblewrap(None), 1).ready()


def test_an_interpreter_that_is_none() -> None:
    """A Python that does not run is named."""
    with pytest.raises(ConfigError, match=r"sandbox.python: /no/python does not run .* name a Python 3.9 or later"):
        interpreter("/no/python")
    with pytest.raises(ConfigError, match="/bin/false does not run"):
        interpreter("/bin/false")


async def test_no_daemon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Docker without a daemon is refused with docker's reason."""
    on_path(monkeypatch, tmp_path, docker="echo 'Cannot connect to the Docker daemon. Is it running?' >&2; exit 1")
    with pytest.raises(ConfigError, match=r"no daemon to run containers \(Cannot connect to the Docker daemon"):
        await Pool(Docker(), 1).ready()


async def test_docker_speaks_to_its_container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A worker in a container serves one program over the command's standard streams, and is removed."""
    file = Path(bubblewrap.__file__).parent / "inside" / "supervisor.py"
    log = tmp_path / "log"
    script = f"""
        echo "$1" >> {log}
        case "$1" in
            version) echo 27.0 ;;
            run) exec {sys.executable} -S -s -B {file} ;;
        esac
    """
    on_path(monkeypatch, tmp_path, docker=script)
    pool = Pool(Docker(), 1)
    await pool.ready()
    assert pool.facts()["kind"] == "docker"
    program = Program("print(input() + open('f').read())", b"in\n", {"f": b"file"})
    for _ in range(2):
        assert (await pool.run(program, Limits())).stdout == b"infile\n"
    async with pool.session(Program("import os\nos.write(3, os.read(3, 9))"), Limits()) as session:
        await session.send(b"a")
        assert await session.receive() == b"a"
        assert (await session.outcome()).ok
    await pool.close()
    lines = log.read_text().split()
    assert lines[:2] == ["version", "run"]
    assert lines.count("run") == lines.count("rm") == 4


def test_command_of_docker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The container has no network, no capabilities but to become somebody, a read-only system, and bounds."""
    on_path(monkeypatch, tmp_path, docker="")
    command = Docker("my/image:1", "python3.12").command("name-1")
    assert command[:4] == [str(tmp_path / "docker"), "run", "--rm", "--interactive"]
    assert {
        "--name=name-1",
        "--network=none",
        "--read-only",
        "--cap-drop=ALL",
        "--security-opt=no-new-privileges",
        "--user=0:0",
        "--ipc=private",
    } < set(command)
    assert {word for word in command if word.startswith("--cap-add")} == {
        "--cap-add=SETUID",
        "--cap-add=SETGID",
        "--cap-add=KILL",
    }
    assert any(word.startswith("--memory=") for word in command)
    assert any(word.startswith("--pids-limit=") for word in command)
    assert not any("KEY" in word or "privileged" in word.replace("no-new-privileges", "") for word in command)
    image = command.index("my/image:1")
    assert command[image - 1] == "--entrypoint=python3.12"
    assert command[image + 1 :] == ["-S", "-s", "-B", "/worker/evals/sandbox/inside/supervisor.py"]
    assert Docker().settings()["uid_of_program"] >= 200_000


def test_command_of_bubblewrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A worker has namespaces of its own, nothing writable but what is mounted later, and dies with its parent."""
    on_path(monkeypatch, tmp_path, bwrap="")
    command = Bubblewrap(None, [str(tmp_path)]).command("name")
    assert {"--unshare-pid", "--unshare-ipc", "--unshare-net", "--die-with-parent", "--new-session"} < set(command)
    assert {"--bind", "--share-net", "--dev", "--bind-try", "--cap-add"} & set(command) == set()
    devices = [command[place + 1] for place, word in enumerate(command) if word == "--dev-bind"]
    assert devices == ["/dev/null", "/dev/random", "/dev/urandom"]
    bound = [command[place + 1] for place, word in enumerate(command) if word == "--ro-bind"]
    assert str(tmp_path) in bound
    assert not {"/", "/home", "/root", "/etc", "/proc", "/sys", "/dev", "/tmp", "/var", str(Path.home())} & set(bound)
    environment = Bubblewrap(None).environment()
    assert environment["PYTHONHASHSEED"] == "0"
    assert not any("KEY" in name or "TOKEN" in name for name in environment)


@pytest.mark.parametrize("path", ["/", str(Path.home())])
def test_too_much_to_see(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str) -> None:
    """A home or the whole system is shown to nobody."""
    on_path(monkeypatch, tmp_path, bwrap="")
    with pytest.raises(ConfigError, match=f"generated code would see all of {path};"):
        Bubblewrap(None, [path]).command("name")


@pytest.mark.parametrize(
    ("user", "ranges", "found"),
    [
        (1000, "0 0 4294967295", None),
        (0, "0 0 4294967295", 200_007),
        (0, "0 100000 65536", None),
        (0, "0 1000 1\n1 100000 1000000", 200_007),
    ],
)
def test_spare_user(monkeypatch: pytest.MonkeyPatch, user: int, ranges: str, found: int | None) -> None:
    """Root takes a user number that its namespace maps; others, and root in a narrow namespace, take none."""
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setattr(Path, "read_text", lambda _: ranges)
    assert spare_user(7) == found


def test_outermost_and_parents(tmp_path: Path) -> None:
    """What lies in the system's folders or in one another is bound once; what is missing is left out."""
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    paths = [str(inner), str(tmp_path / "a"), "/usr/lib", "/usr", "/no/such/folder"]
    assert outermost(paths) == [str(tmp_path / "a")]
    assert parents(["/a/b/c", "/a/d"]) == ["/a", "/a/b"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "chroot"}, "sandbox.kind: there is no 'chroot'; choose from: bubblewrap, docker, none"),
        ({}, "sandbox.kind: there is no 'None'"),
        ({"kind": "bubblewrap", "image": "x"}, "sandbox.image: bubblewrap has no such setting; choose from: kind"),
        ({"kind": "bubblewrap", "workers": 0}, "sandbox.workers: 0 is no number"),
        ({"kind": "bubblewrap", "workers": "two"}, "sandbox.workers: 'two' is no number"),
        ({"kind": "none"}, f"sandbox=none isolates nothing.*say sandbox.{RISK}=true"),
        ({"kind": "none", RISK: False}, "sandbox=none isolates nothing"),
        ({"kind": "none", RISK: "yes"}, "sandbox=none isolates nothing"),
    ],
)
def test_settings_refused(settings: Mapping[str, Any], message: str) -> None:
    """A mistake in the settings, or a risk that is not named, is a line that says what may be set."""
    with pytest.raises(ConfigError, match=message):
        sandbox(settings)


def test_equal_settings_share_a_sandbox() -> None:
    """Equal settings give one sandbox, others another; settings that are left out count as their defaults."""
    first = sandbox({"kind": "bubblewrap", "workers": 3, "readonly": ["/opt"]})
    assert sandbox({"readonly": ("/opt",), "kind": "bubblewrap", "workers": 3, "python": None}) is first
    assert sandbox({"kind": "bubblewrap", "workers": 4, "readonly": ["/opt"]}) is not first
    assert (first.kind, first.facts()["workers"]) == ("bubblewrap", 3)


@pytest.mark.parametrize("kind", ["bubblewrap", "docker", "none"])
def test_configurations(compose_config: Compose, kind: str) -> None:
    """Each configuration makes its sandbox; that of `none` only with the word that its risk is known."""
    from omegaconf import OmegaConf

    more = [f"sandbox.{RISK}=true"] if kind == "none" else []
    found = OmegaConf.to_container(compose_config(f"sandbox={kind}", *more).sandbox)
    assert isinstance(found, dict)
    assert sandbox({str(key): value for key, value in found.items()}).kind == kind
