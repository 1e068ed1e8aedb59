"""Several worker processes under one parent: `laneway worker --processes N`.

The parent executes no runs. It starts this command N times, without `--processes`, and keeps N processes alive. A
process that ended well (after `--max-tasks` attempts) is replaced at once, one that crashed after a delay that grows
with each crash in a row. A lifeline connects the parent to each process: the parent sends by it how urgently to stop,
and workers stop in order when the parent is killed. The parent kills workers that take longer than their limit.

If a process fails before any was ever ready, the set-up is wrong and would fail again: the fleet ends.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from laneway.cli.shell.errors import CONFLICT, FAILED, FINE, leave_now, say
from laneway.cli.shell.formats import spoken
from laneway.cli.shell.output import print_ndjson
from laneway.cli.workers.lifeline import NOW, SOON
from laneway.cli.workers.process import STOP_NOW_WITHIN, STOP_WITHIN
from laneway.cli.workers.signals import SIGNALS, signal_pipe
from laneway.cli.workers.systemd import SOCKET, notify
from laneway.core.common.backoff import Backoff

SLACK = 5.0  # seconds that workers get beyond their own limit


class Fleet:
    """Keeps `processes` workers alive that execute `command` and inherit these descriptors."""

    def __init__(
        self, command: Sequence[str], processes: int, *, inherited: Sequence[int] = (), as_json: bool = False
    ) -> None:
        self._slots = [FleetSlot(number, command, inherited) for number in range(1, processes + 1)]
        self._as_json = as_json
        self._urgency = 0
        self._kill_at: float | None = None
        self._was_ready = False
        self._all_ready = False
        self._code = FINE

    def run(self) -> int:
        """Keep the workers alive until a signal arrives; return 0 if all of them then ended well, else 1."""
        with signal_pipe(*SIGNALS, signal.SIGCHLD) as (signals, _):
            try:
                while self._start_those_due():
                    self._wait(signals)
            finally:
                for slot in self._slots:
                    slot.kill()
        say("stopped")
        return self._code

    def _start_those_due(self) -> bool:
        """Start the workers that are due; return whether any is alive or will be started."""
        for slot in self._slots:
            if slot.starts_at is not None and slot.starts_at <= time.monotonic():
                self._start(slot)
        return any(slot.alive or slot.starts_at is not None for slot in self._slots)

    def _start(self, slot: FleetSlot) -> None:
        try:
            slot.start()
        except OSError as error:
            wait = slot.start_after_crash(lived=0.0)
            say(f"worker {slot.number} cannot be started ({error.strerror}); once more in {spoken(wait)}")
        else:
            say(f"worker {slot.number} started as process {slot.pid}")
            self._print("started", worker=slot.number, pid=slot.pid)

    def _wait(self, signals: int) -> None:
        waited_for: list[int | socket.socket] = [signals]
        waited_for += [slot.line for slot in self._slots if slot.line is not None]
        times = [slot.starts_at for slot in self._slots if slot.starts_at is not None]
        times += [self._kill_at] if self._kill_at is not None else []
        left = max(0.0, min(times) - time.monotonic()) if times else None
        readable = select.select(waited_for, [], [], left)[0]
        for number in os.read(signals, 64) if signals in readable else b"":
            if number in SIGNALS:
                self._stop(number)
        for slot in self._slots:
            if slot.line in readable:
                slot.listen()
            code = slot.poll()
            self._note_ready()
            if code is not None:
                self._on_end(slot, code)
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._kill_at = None
            self._kill_the_late()

    # Stopping

    def _stop(self, number: int) -> None:
        """Stop in order at the first signal, at once at the second, and exit at the third."""
        if self._urgency == 0:
            notify("STOPPING=1")
            living = sum(slot.alive for slot in self._slots)
            say(f"stopping {living} process{'es' * (living != 1)} within {spoken(STOP_WITHIN)}; Ctrl-C again stops now")
        if self._urgency >= NOW:
            for slot in self._slots:
                slot.kill()
            leave_now(128 + number)
        self._press(self._urgency + 1)

    def _press(self, urgency: int) -> None:
        self._urgency = urgency
        self._kill_at = time.monotonic() + (STOP_WITHIN if urgency == SOON else STOP_NOW_WITHIN) + SLACK
        for slot in self._slots:
            slot.starts_at = None
            slot.press(urgency)

    def _kill_the_late(self) -> None:
        for slot in self._slots:
            if slot.alive:
                say(f"worker {slot.number} (process {slot.pid}) has not ended in time; it is killed")
                slot.kill()
                self._on_end(slot, -signal.SIGKILL)

    # Events of workers

    def _note_ready(self) -> None:
        ready = [slot.ready for slot in self._slots]
        self._was_ready = self._was_ready or any(ready)
        if all(ready) and not self._all_ready and not self._urgency:
            self._all_ready = True
            say("all are ready; Ctrl-C stops them")
            notify("READY=1")

    def _on_end(self, slot: FleetSlot, code: int) -> None:
        lived = time.monotonic() - slot.began
        self._print("ended", worker=slot.number, pid=slot.pid, code=code)
        said = f"worker {slot.number} (process {slot.pid}) {_end(code)} after {spoken(lived)}"
        if self._urgency:
            self._code = self._code or (FAILED if code else FINE)
            say(said)
        elif code == CONFLICT and self._was_ready:
            # The store has moved: the other workers find out, too, and end after their running handlers.
            self._code = CONFLICT
            say(said)
        elif code == FINE and slot.ready:
            slot.starts_at = time.monotonic()
            say(f"{said}; another takes its place")
        elif code > 0 and not self._was_ready:
            say(f"{said}, and none was ever ready: the fleet stops")
            self._code = code
            self._press(NOW)
        else:
            say(f"{said}; another takes its place in {spoken(slot.start_after_crash(lived))}")

    def _print(self, event: str, **facts: Any) -> None:
        if self._as_json:
            print_ndjson([{"v": 1, "event": event, **facts}])
            sys.stdout.flush()


class FleetSlot:
    """One of the N places of a fleet, and its current process."""

    def __init__(self, number: int, command: Sequence[str], inherited: Sequence[int]) -> None:
        self.number, self._command, self._inherited = number, command, inherited
        self.starts_at: float | None = time.monotonic()
        self.began = 0.0
        self._backoff = Backoff()
        self.ready = False
        self.line: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._over = True

    @property
    def alive(self) -> bool:
        """Tell whether its process was started and has not been seen to end."""
        return not self._over

    @property
    def pid(self) -> int:
        """The id of its current or last process."""
        return 0 if self._process is None else self._process.pid

    def start(self) -> None:
        """Start a process."""
        self._hang_up()
        self.line, theirs = socket.socketpair()
        self.line.setblocking(False)
        with theirs:
            self._process = subprocess.Popen(
                [*self._command, "--lifeline", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), *self._inherited),
                env={name: value for name, value in os.environ.items() if name != SOCKET},
            )
        self.starts_at, self.began = None, time.monotonic()
        self.ready = self._over = False

    def start_after_crash(self, lived: float) -> float:
        """Schedule another process after a delay; return the delay in seconds."""
        self._backoff = self._backoff.after_crash(lived)
        self.starts_at = time.monotonic() + self._backoff.wait
        return self._backoff.wait

    def listen(self) -> None:
        """Read from the lifeline: a byte means that the worker is ready, the end of the stream that it is gone."""
        if self.line is None:
            return
        try:
            said = self.line.recv(1)
        except BlockingIOError:
            return  # nothing to read: a process that it forked still has the other end
        except OSError:
            said = b""
        if said:
            self.ready = True
        else:
            self._hang_up()

    def press(self, urgency: int) -> None:
        """Tell the worker to stop, with this urgency."""
        if self.line is not None:
            with contextlib.suppress(OSError):  # it is gone; `poll` will notice
                self.line.send(
                    bytes(range(SOON, urgency + 1))
                )  # each step up to this; one that it has received already changes nothing

    def poll(self) -> int | None:
        """Return the exit code of a process that has ended, once."""
        code = None if self._over or self._process is None else self._process.poll()
        if code is not None:
            self._over = True
            # Race: it may have become ready and ended since the last `listen`.
            self.listen()
            self._hang_up()
        return code

    def kill(self) -> None:
        """Kill the process, and wait until it has ended."""
        if self._process is not None and not self._over:
            self._process.kill()
            self._process.wait()
            self._over = True
            self._hang_up()

    def _hang_up(self) -> None:
        if self.line is not None:
            self.line.close()
            self.line = None


def _end(code: int) -> str:
    if code >= 0:
        return f"ended with {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
