"""An attempt inside a child process: its line to the worker, and the context its handler is given.

Two threads: the main one executes the handler, a second one listens to the worker. So `ctx.cancelled` turns true and a
checkpoint is answered while the handler computes, and the child leaves with its worker whatever it is doing.
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
    """Raised where the main thread is when SIGTERM is meant; an exit, so that code which lets exits through obeys."""


class WorkerConnection:
    """The child's line to its worker."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self.lock = threading.RLock()  # held while a message is sent: messages never mix, and keep their order
        self._unanswered: deque[Future[None]] = deque()
        self.attempts: SimpleQueue[ChildAttempt | None] = SimpleQueue()
        self._newest: ChildAttempt | None = None
        self._terminating = False

    def send(self, message: FromChild) -> None:
        """Send a message; block while the worker is behind."""
        with self.lock:
            self._link.sendall(packed(message))

    def ask(self, message: Checkpoint | Keep) -> Future[None]:
        """Send what is to be saved; the future ends when that is answered."""
        answer = Future[None]()
        answer.set_running_or_notify_cancel()  # whoever stops waiting for it does not take it out of the row
        with self.lock:
            self._unanswered.append(answer)
            self.send(message)
        return answer

    def listen(self) -> None:
        """Hear what the worker says, until it is gone; then end this process and all that it started."""
        try:
            while (body := receive(self._link)) is not None:
                self._obey(decode_for_child.decode(body))
        finally:
            os.killpg(os.getpgrp(), signal.SIGKILL)

    def watch_forks(self) -> None:
        """See to it that a copy of this process, which a handler may fork, is none of the worker's."""
        # Race: whoever forks may terminate the copy before it has come to itself; then the signal waits for it.
        block, unblock = (partial(signal.pthread_sigmask, how, {signal.SIGTERM}) for how in (SIG_BLOCK, SIG_UNBLOCK))

        def let_go() -> None:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._link.close()
            unblock()

        os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=let_go)

    def on_sigterm(self, number: int, frame: FrameType | None) -> None:
        """Unwind the main thread if the worker wants that.

        Whoever stops a service may send SIGTERM to all of its processes. What becomes of an attempt then is the
        worker's to decide; it may well let it finish.
        """
        if self._terminating:
            raise Terminated(128 + number)

    def _obey(self, message: ToChild) -> None:
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
            # Race: the attempt may have ended by itself meanwhile. The next one is not heard of before this is.
            if self._newest is not None:
                self._newest.cancel()
        else:
            self._terminating = True
            # Race: the signal may have come before the message.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


class ChildAttempt:
    """One attempt: what it is of, whether it shall stop, and what its handler says."""

    def __init__(self, order: Execute, line: WorkerConnection) -> None:
        self.run, self.order = order.run, order
        self._line = line
        self._lock = threading.Lock()
        self._drafts: list[Draft] = []
        self._over = False
        self._on_cancel: Callable[[], object] | None = None
        self.cancelled = False
        self.inbox = Inbox(self._took)
        self.replay = ReplayLog(self.run, order.bounds, order.recall)
        self.result_limit = order.result_limit
        self.task: Task[..., Any] | None = None  # once it is found
        self.passing: Passing | None = None

    def context(self) -> Context:
        """Return the handler's context."""
        context = Context(self.run, self._drafts, self.say, self)
        current.set(context)
        return context

    def cancel(self) -> None:
        """Hear that the handler shall stop."""
        with self._lock:
            self.cancelled, call = True, self._on_cancel
        if call is not None:
            call()

    def when_cancelled(self, call: Callable[[], object]) -> None:
        """Make a call when the handler shall stop, at once if it shall already."""
        with self._lock:
            self._on_cancel, late = call, self.cancelled
        if late:
            call()

    def say(self) -> None:
        """Send what the handler said."""
        with self._line.lock:
            while self._drafts:
                draft = self._drafts.pop(0)
                if not self._over:
                    self._line.send(Drafted(*draft))

    def save(self, state: str) -> Future[None]:
        """Send a checkpoint's state; the future ends when it is saved, and raises Unwound if that is all."""
        return self._saved(Checkpoint(state))

    def keep(self, memo: Memo) -> Future[None]:
        """Send a memo, likewise."""
        return self._saved(Keep(memo))

    def _saved(self, what: Checkpoint | Keep) -> Future[None]:
        with self._line.lock:
            if self._over:
                raise LanewayError("this attempt is over; there is nothing left to save anything for")
            return self._line.ask(what)

    @cached_property
    def pool(self) -> Executor:
        """Where plain functions are called that an async handler takes as steps."""
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
        """Tell that steps are not in the order they were."""
        self._drafts += self.replay.reordered
        self.replay.reordered.clear()
        self.say()

    def _took(self, read: int) -> None:
        with self._line.lock:
            if not self._over:
                self._line.send(Taken(read))

    def end(self, message: FromChild) -> None:
        """Send the last word of this attempt; a thread that it left behind is not heard any more."""
        # Invariant: nothing of this attempt follows its end, or the worker would take it for the next one's.
        with self._line.lock:
            self._over = True
            self._line.send(message)


def _pass_on(answer: Answer, to: Future[None]) -> None:
    if answer.problem is not None:
        to.set_exception(LanewayError(answer.problem))
    elif answer.go_on:
        to.set_result(None)
    else:
        to.set_exception(Unwound())
