"""What a handler gets: facts about its run, and calls to report progress."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Protocol

from laneway.core.records import codec, events
from laneway.core.records.events import Draft, drafted
from laneway.core.records.job_tie import JobTie
from laneway.core.records.run import Claimed
from laneway.engine.handlers.durable import DurableBackend, DurableCalls
from laneway.engine.handlers.inbox import Inbox
from laneway.engine.handlers.tool_events import Tool
from laneway.errors import BadSetting

_KIND = re.compile(r"[a-z][a-z0-9_.-]{0,63}")


class ContextBackend(DurableBackend, Protocol):
    """What a context needs of its attempt, in the worker's process or in a child."""

    @property
    def cancelled(self) -> bool:
        """Whether the handler shall stop."""

    @property
    def inbox(self) -> Inbox:
        """The messages that came for the run while it was active."""


class EventSink(Protocol):
    """Where a context puts its handler's events."""

    def append(self, draft: Draft, /) -> None:
        """Add an event. Any thread may call it."""


class Context(DurableCalls):
    """A handler's view of its own run. A parameter annotated `Context` receives it.

    `emit`, `progress`, `log`, `delta` and `tool` are plain calls for any thread. They write into a buffer that is
    stored within 50 ms, and at the latest with the outcome.
    """

    __slots__ = ("_buffered", "_drafts")

    _backend: ContextBackend

    def __init__(self, run: Claimed, drafts: EventSink, buffered: Callable[[], None], backend: ContextBackend) -> None:
        self._run, self._drafts, self._buffered, self._backend = run, drafts, buffered, backend

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._run.id

    @property
    def task(self) -> str:
        """The task's name."""
        return self._run.task

    @property
    def attempt(self) -> int:
        """1 + the failures so far."""
        return self._run.attempt

    @property
    def fence(self) -> int:
        """How many times the run was started, this time included; larger than any earlier attempt's."""
        return self._run.fence

    @property
    def user(self) -> str | None:
        """The user that the run belongs to."""
        return self._run.user

    @property
    def session(self) -> str | None:
        """The session that the run belongs to."""
        ties = self._run.ties
        return self._run.session if ties is None else self._run.session or ties.session

    @property
    def parent(self) -> str | None:
        """The id of the run that left this one behind, or called it; None if none did."""
        return None if self._run.ties is None else self._run.ties.parent

    @property
    def job(self) -> JobTie | None:
        """The job that started the run: its `id`, its `name` and the nominal time (`nominal_at`); None if none did."""
        return None if self._run.ties is None else self._run.ties.job

    @property
    def trace(self) -> Mapping[str, str]:
        """The texts that came along with the run, such as its trace id; runs that it leaves behind get them too."""
        return {} if self._run.ties is None else self._run.ties.trace

    @property
    def cancelled(self) -> bool:
        """Whether the handler shall stop: it is cancelled, timed out, or its worker stops. For code that polls."""
        return self._backend.cancelled

    @property
    def state(self) -> Any:
        """What the last checkpoint of this run saved; None if there was none."""
        return None if self._run.state is None else codec.from_json(self._run.state)

    @property
    def inbox(self) -> Inbox:
        """The messages that came for this run while it was active: `for message in ctx.inbox`, or `.read()`."""
        return self._backend.inbox

    def emit(self, kind: str, data: object = None) -> None:
        """Add an event of a kind of your own to the run's log; `data` is JSON. Over 8 KiB it is cut and marked."""
        if not isinstance(kind, str) or not _KIND.fullmatch(kind):
            raise BadSetting(
                f"event kind {kind!r}: use small letters, digits, '.', '_' and '-', a letter first, at most 64"
            )
        if kind in events.RESERVED:
            raise BadSetting(f"event kind {kind!r} is the engine's own; use another name")
        self._add(kind, data)

    def progress(self, fraction: float, text: str = "") -> None:
        """Report how far the run is: 0 is nothing, 1 is all."""
        if isinstance(fraction, bool) or not isinstance(fraction, (int, float)) or not 0 <= fraction <= 1:
            raise BadSetting(f"progress {fraction!r}: it is a share of the whole, 0 to 1")
        self._add(events.PROGRESS, {"fraction": fraction, "text": _printable(text)})

    def log(self, text: str) -> None:
        """Add a line for people to the run's log."""
        self._add(events.LOG, {"text": _printable(text)})

    def delta(self, text: str) -> None:
        """Add a piece of streamed text. Pieces are joined before they are stored, and trimmed after the run's end."""
        if not isinstance(text, str):
            raise BadSetting(f"a delta is a piece of text, and {text!r} is none")
        for draft in events.deltas(_printable(text)):
            self._append(draft)

    def tool(self, name: str, input: object = None) -> Tool:  # noqa: A002  # the field's own name
        """Report the call of a tool: `with ctx.tool("search", {"q": "x"}) as tool: tool.output = ...`."""
        return Tool(name, input, self._add)

    def _add(self, kind: str, data: object) -> None:
        text = codec.to_json(data, f"the data of event {kind!r}", sys.maxsize, plural=False)
        self._append(drafted(kind, text))

    def _append(self, draft: Draft) -> None:
        self._drafts.append(draft)
        self._buffered()


def _printable(text: object) -> str:
    # Another program's output may hold what UTF-8 cannot encode; that must not fail the run.
    return str(text).encode(errors="replace").decode()


carried: ContextVar[Mapping[str, str]] = ContextVar("laneway_carried", default=MappingProxyType({}))
"""Texts that go along with an attempt, such as its trace id.

Context variables of a worker reach its handlers on the loop and in threads. Only this one also reaches child processes.
"""

current: ContextVar[Context] = ContextVar("laneway_context")
"""The context of the handler that is being executed, if it has one; also in the functions that the handler calls."""
