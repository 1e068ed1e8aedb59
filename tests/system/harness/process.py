"""A real process of a system test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.system.harness.fork_server import DIE_WITH_PARENT, FORKABLE, ForkedProcess, fork_server
from tests.system.harness.until import PATIENCE, until
from tests.system.oracle.journal import Frozen, JournalWriter, Killed


class Process:
    """A process of the test, killed with it at the latest."""

    def __init__(
        self, name: str, command: list[str], environment: dict[str, str], folder: Path, writer: JournalWriter
    ) -> None:
        self.name, self._writer = name, writer
        self._stdout, self._stderr = folder / f"{name}.out", folder / f"{name}.err"
        self._process = self._start(command, environment, folder)

    def _start(
        self, command: list[str], environment: dict[str, str], folder: Path
    ) -> subprocess.Popen[bytes] | ForkedProcess:
        with self._stdout.open("wb") as stdout, self._stderr.open("wb") as stderr:
            match command:
                case [sys.executable, "-m", module, *_] if module in FORKABLE:
                    return fork_server().fork(command[2:], environment, folder, self._stdout, self._stderr)
            return subprocess.Popen(
                [sys.executable, "-I", "-S", str(DIE_WITH_PARENT), str(os.getpid()), *command],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
            )

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while the process runs."""
        return self._process.poll()

    @property
    def stdout(self) -> str:
        """What it has printed on stdout."""
        return self._stdout.read_text(errors="replace")

    @property
    def stderr(self) -> str:
        """What it has printed on stderr."""
        return self._stderr.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def wait(self) -> None:
        """Block until it has ended."""
        self._process.wait()

    def kill(self) -> int:
        """Kill it with -9; return, once it is gone, when that was, in nanoseconds."""
        at = time.monotonic_ns()
        kill_all([self])
        return at

    def write_death(self) -> None:
        """Write into the journal that the attempts of this process end here."""
        self._writer.write(Killed)

    async def freeze(self) -> None:
        """Stop it at any point of its work, and return when it stands still."""
        self.signal(signal.SIGSTOP)
        await until(lambda: _state_of(self.pid) == "T", f"{self.name} stands still")
        self._writer.write(Frozen)

    def thaw(self) -> None:
        """Let it go on."""
        self.signal(signal.SIGCONT)

    async def ended(self, within: float = PATIENCE) -> int:
        """Wait until it ends by itself; return its exit code."""
        await until(lambda: not self.alive, f"{self.name} ends", within=within)
        code = self.exit_code
        assert code is not None
        return code


def _state_of(pid: int) -> str:
    # The field after the command's closing parenthesis; see proc(5). A process is stopped when all its threads are.
    states = {path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{pid}/task").glob("*/stat")}
    return states.pop() if len(states) == 1 else ""


def kill_all(processes: list[Process]) -> None:
    """Kill them together: as near to a power cut as a test without a plug gets."""
    living = [process for process in processes if process.alive]
    for process in living:
        process.write_death()
        process.signal(signal.SIGKILL)
    for process in living:
        process.wait()
