"""Ctrl-C and SIGTERM: a command puts its things away, says in one line how to go on, and is gone within seconds.

The first signal cancels what waits in an event loop, and raises KeyboardInterrupt in what computes. A command that does
not hear of it is ended after `PATIENCE_S`, and by a second signal at once: that is as safe as a kill, which every file
of a run withstands.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    import asyncio

EXIT_INTERRUPTED, EXIT_TERMINATED = 130, 143
PLAIN_COMMAND = "python -m"
PATIENCE_S = 3.5
"""Seconds that a command has to put everything away."""

_USER_INFO = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_CLEAR_LINE = "\r\x1b[K\x1b[?25h"
"""Ends what a progress bar drew, and shows the cursor that it hid."""

_T = TypeVar("_T")


class _Command:
    """A command that runs, and how far it is with stopping."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.way_on: Callable[[], str | None] = lambda: None
        self.signal: int | None = None
        self.main: asyncio.Task[Any] | None = None
        self.timer = threading.Timer(PATIENCE_S, self.leave)
        self.timer.daemon = True
        self._argv = [*argv]

    def hear(self, number: int, _: FrameType | None) -> None:
        """Handle a signal.

        Raises:
            KeyboardInterrupt: nothing waits that can be cancelled.
        """
        if self.signal is not None:
            self.leave()
        self.signal = number
        self.timer.start()
        if self.main is None or _computes(self.main):
            raise KeyboardInterrupt
        self.main.cancel()
        self.main.get_loop().call_soon_threadsafe(lambda: None)  # it may wait for the network for long

    def leave(self) -> NoReturn:
        """End the process where it stands, children that watch over their standard input with it."""
        clear = _CLEAR_LINE if os.isatty(2) else ""
        with contextlib.suppress(OSError):
            os.write(2, f"{clear}{self.line()}\n".encode(errors="replace"))
        os._exit(self.code())

    def line(self) -> str:
        """What stopped, and how to go on."""
        how = "terminated" if self.signal == signal.SIGTERM else "interrupted"
        with contextlib.suppress(Exception):  # it is looked up on a disk that may be gone
            if way_on := self.way_on():
                return f"{how}; {way_on}"
        return f"{how}; begin again with: {same_again(self._argv)}"

    def code(self) -> int:
        """Exit code, as a shell knows it."""
        return EXIT_TERMINATED if self.signal == signal.SIGTERM else EXIT_INTERRUPTED


def _computes(task: asyncio.Task[Any]) -> bool:
    """Whether a task of this thread runs at this moment."""
    import asyncio

    return asyncio.current_task(task.get_loop()) is task


_commands: list[_Command] = []
"""The command of this process, where there is one."""


@contextlib.contextmanager
def stoppable(argv: Sequence[str]) -> Iterator[None]:
    """Within, the command of `argv` can be stopped; outside of the main thread nothing changes."""
    command = _Command(argv)
    _commands.append(command)
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        # A shell starts what runs in its background with interrupts ignored.
        heard = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) != signal.SIG_IGN]
        before = {number: signal.signal(number, command.hear) for number in {*heard, signal.SIGTERM}}
    try:
        yield
    finally:
        command.timer.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)
        _commands.remove(command)


def go_on_by(way_on: Callable[[], str | None]) -> None:
    """Let the command's last line say what `way_on` says when it is stopped; None: there is only the whole again."""
    if _commands:
        _commands[-1].way_on = way_on


def stopped() -> tuple[int, str]:
    """Exit code and last line of the command that was stopped."""
    command = _commands[-1] if _commands else _Command(sys.argv)
    return command.code(), command.line()


def run_async(main: Coroutine[Any, Any, _T], factory: Callable[[], asyncio.AbstractEventLoop] | None = None) -> _T:
    """As `asyncio.run`, for what a command does.

    Raises:
        KeyboardInterrupt: the command was stopped; everything has been put away.
    """
    import asyncio

    command = _commands[-1] if _commands else _Command(sys.argv)

    async def cancellable() -> _T:
        command.main = asyncio.current_task()
        return await main

    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            result = runner.run(cancellable())
    except (asyncio.CancelledError, Exception) as error:
        if command.signal is None:
            raise
        raise KeyboardInterrupt from error  # whatever else went wrong did so because of that
    finally:
        command.main = None
    if command.signal is not None:
        raise KeyboardInterrupt
    return result


def same_again(argv: Sequence[str]) -> str:
    """The shell's command line that `argv` came from; what is secret in it is masked."""
    from trinity.secrets import MARK, in_environment, replaced

    program = Path(argv[0])
    module = ".".join(program.with_suffix("").parts[-2:]) if program.suffix == ".py" else str(program)
    words = [_USER_INFO.sub(MARK, replaced(word, in_environment())) for word in argv[1:]]
    return command_line(module, *words)


def command_line(*words: str) -> str:
    """The shell's line that starts a module with this Python from here: `python`, where the PATH leads to the same."""
    import shlex
    import shutil

    own = Path(sys.executable)
    with contextlib.suppress(OSError):  # a folder that is gone
        found = shutil.which("python")
        if not sys.executable or (found and Path(found).parent.samefile(own.parent)):
            return f"{PLAIN_COMMAND} {shlex.join(words)}".rstrip()
        own = own.relative_to(Path.cwd()) if own.is_relative_to(Path.cwd()) else own
    return shlex.join([str(own), "-m", *words])
