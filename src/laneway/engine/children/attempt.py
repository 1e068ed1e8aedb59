"""An attempt inside a child process: its connection to the worker, and the context of its handler.

There are two threads: the main one executes the handler, the other one reads from the worker. So `ctx.cancelled`
becomes true and a checkpoint is answered while the handler computes; and the child ends with its worker, whatever it is
doing.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import cached_property, partial
from queue import SimpleQueue
from signal import SIG_BLOCK, SIG_UNBLOCK
from types import FrameType
from typing import Any

from laneway.core.records.events import Draft
from laneway.core.records.memos import Memo
from laneway.core.records.run import NewRun
from laneway.engine.children.protocol import (
    Answer,
    Cancel,
    Checkpoint,
    Drafted,
    Execute,
    FromChild,
    Inbound,
    Keep,
    Leave,
    Passing,
    Taken,
    ToChild,
    decode_for_child,
    packed,
    receive,
)
from laneway.engine.client.submissions import SubmissionChecker
from laneway.engine.handlers.context import Context, current
from laneway.engine.handlers.inbox import Inbox
from laneway.engine.handlers.replay import ReplayLog, Unwound
from laneway.engine.handlers.task import Task
from laneway.errors import BadSetting, LanewayError


class Terminated(SystemExit):
    """Raised in the main thread when the worker sends SIGTERM. It is an exit, which most code lets pass."""


class WorkerConnection:
    """The child's connection to its worker."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self.lock = threading.RLock()  # held while a message is sent: messages do not mix, and keep their order
        self._unanswered: deque[Future[None]] = deque()
        self.attempts: SimpleQueue[ChildAttempt | None] = SimpleQueue()
        self._newest: ChildAttempt | None = None
        self._terminating = False

    def send(self, message: FromChild) -> None:
        """Send a message; block while the worker is behind."""
        with self.lock:
            self._link.sendall(packed(message))

    def ask(self, message: Checkpoint | Keep) -> Future[None]:
        """Send what is to be saved; the future ends when the worker answers."""
        answer = Future[None]()
        answer.set_running_or_notify_cancel()  # a caller that stops waiting does not remove it from the queue
        with self.lock:
            self._unanswered.append(answer)
            self.send(message)
        return answer

    def listen(self) -> None:
        """Handle the worker's messages until the worker is gone; then kill this process and all that it started."""
        try:
            while (body := receive(self._link)) is not None:
                self._handle(decode_for_child.decode(body))
        finally:
            os.killpg(os.getpgrp(), signal.SIGKILL)

    def watch_forks(self) -> None:
        """Keep a fork of this process, which a handler may make, away from the worker."""
        # Race: the fork may get SIGTERM before it has reset its handler. Then the signal waits until it has.
        block, unblock = (partial(signal.pthread_sigmask, how, {signal.SIGTERM}) for how in (SIG_BLOCK, SIG_UNBLOCK))

        def let_go() -> None:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._link.close()
            unblock()

        os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=let_go)

    def on_sigterm(self, number: int, frame: FrameType | None) -> None:
        """Unwind the main thread if the worker wants that.

        A service manager may send SIGTERM to all processes of a service. The worker decides what happens to an attempt
        then; it may let it finish.
        """
        if self._terminating:
            raise Terminated(128 + number)

    def _handle(self, message: ToChild) -> None:
        if isinstance(message, Execute):
            self._newest = ChildAttempt(message, self)
            self.attempts.put(self._newest)
        elif isinstance(message, Answer):
            _pass_on(message, self._unanswered.popleft())
        elif isinstance(message, Inbound):
            # Race: as below.
            if self._newest is not None:
                self._newest.inbox.put(message.texts)
        elif isinstance(message, Leave):
            self.attempts.put(None)
        elif isinstance(message, Cancel):
            # Race: the attempt may have ended by itself meanwhile. The next one begins only after this message is
            # handled.
            if self._newest is not None:
                self._newest.cancel()
        else:
            self._terminating = True
            # Race: the signal may have come before the message.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


class ChildAttempt:
    """One attempt: its order, whether it shall stop, and its handler's events."""

    def __init__(self, order: Execute, connection: WorkerConnection) -> None:
        self.run, self.order = order.run, order
        self._connection = connection
        self._lock = threading.Lock()
        self._drafts: list[Draft] = []
        self._over = False
        self._on_cancel: Callable[[], object] | None = None
        self.cancelled = False
        self.inbox = Inbox(self._report_read)
        self.replay = ReplayLog(self.run, order.bounds, order.recall)
        self.result_limit = order.result_limit
        self.task: Task[..., Any] | None = None  # set once it is found
        self.passing: Passing | None = None

    def context(self) -> Context:
        """Return the handler's context."""
        context = Context(self.run, self._drafts, self.send_drafts, self)
        current.set(context)
        return context

    def cancel(self) -> None:
        """Stop the handler."""
        with self._lock:
            self.cancelled, call = True, self._on_cancel
        if call is not None:
            call()

    def when_cancelled(self, call: Callable[[], object]) -> None:
        """Make a call when the handler shall stop; at once if it shall already."""
        with self._lock:
            self._on_cancel, late = call, self.cancelled
        if late:
            call()

    def send_drafts(self) -> None:
        """Send the handler's buffered events."""
        with self._connection.lock:
            while self._drafts:
                draft = self._drafts.pop(0)
                if not self._over:
                    self._connection.send(Drafted(*draft))

    def save(self, state: str) -> Future[None]:
        """Send a checkpoint; the future ends when it is saved, and raises Unwound if the handler must not go on."""
        return self._saved(Checkpoint(state))

    def keep(self, memo: Memo) -> Future[None]:
        """Send a memo, in the same way."""
        return self._saved(Keep(memo))

    def _saved(self, what: Checkpoint | Keep) -> Future[None]:
        with self._connection.lock:
            if self._over:
                raise LanewayError("this attempt is over; there is nothing left to save anything for")
            return self._connection.ask(what)

    @cached_property
    def pool(self) -> Executor:
        """The threads for plain functions that an async handler takes as steps."""
        return ThreadPoolExecutor(sys.maxsize)

    def child(self, task: Any, args: Mapping[str, Any], options: Mapping[str, Any]) -> NewRun:
        """Return a checked submission of another run."""
        registry = None if self.task is None else self.task.registry
        if registry is None:
            raise BadSetting(
                f"in a child process {self.run.task} is known by its function alone, and so are no other tasks;"
                " register it with @app.task where it is defined"
            )
        return SubmissionChecker(registry, lambda _: None, self.order.bounds).child(task, args, options)

    def report_reordered(self) -> None:
        """Report that steps come in another order than before."""
        self._drafts += self.replay.reordered
        self.replay.reordered.clear()
        self.send_drafts()

    def _report_read(self, read: int) -> None:
        with self._connection.lock:
            if not self._over:
                self._connection.send(Taken(read))

    def end(self, message: FromChild) -> None:
        """Send the end of this attempt. A thread that it left behind can send nothing any more."""
        # Invariant: nothing of this attempt follows its end, or the worker would take it for the next attempt's.
        with self._connection.lock:
            self._over = True
            self._connection.send(message)


def _pass_on(answer: Answer, to: Future[None]) -> None:
    if answer.problem is not None:
        to.set_exception(LanewayError(answer.problem))
    elif answer.go_on:
        to.set_result(None)
    else:
        to.set_exception(Unwound())
