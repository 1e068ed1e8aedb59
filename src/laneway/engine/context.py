"""What a handler is given: who it runs for, and a way to say how far it is."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from laneway.core import codec, events
from laneway.core.events import Draft, drafted
from laneway.core.run import Claimed
from laneway.errors import BadSetting

_KIND = re.compile(r"[a-z][a-z0-9_.-]{0,63}")


class Context:
    """A handler's view of its own run. A parameter annotated `Context` receives it.

    `emit`, `progress` and `log` are plain calls, from any thread: they write into a buffer that is stored within 50 ms,
    and with the outcome at the latest.
    """

    __slots__ = ("_buffered", "_drafts", "_run")

    def __init__(self, run: Claimed, drafts: list[Draft], buffered: Callable[[], None]) -> None:
        self._run, self._drafts, self._buffered = run, drafts, buffered

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
        """How often the run was started, this time included; larger than any earlier attempt's."""
        return self._run.fence

    @property
    def user(self) -> str | None:
        """The user the run belongs to."""
        return self._run.user

    @property
    def session(self) -> str | None:
        """The session the run belongs to."""
        return self._run.session

    def emit(self, kind: str, data: object = None) -> None:
        """Add an event of a kind of your own to the run's log; `data` is JSON, over 8 KiB it is cut and marked."""
        if not isinstance(kind, str) or not _KIND.fullmatch(kind):
            raise BadSetting(
                f"event kind {kind!r}: use small letters, digits, '.', '_' and '-', a letter first, at most 64"
            )
        if kind in events.RESERVED:
            raise BadSetting(f"event kind {kind!r} is the engine's own; use another name")
        self._add(kind, data)

    def progress(self, fraction: float, text: str = "") -> None:
        """Say how far the run is: 0 is nothing, 1 is all."""
        if isinstance(fraction, bool) or not isinstance(fraction, (int, float)) or not 0 <= fraction <= 1:
            raise BadSetting(f"progress {fraction!r}: it is a share of the whole, 0 to 1")
        self._add(events.PROGRESS, {"fraction": fraction, "text": _printable(text)})

    def log(self, text: str) -> None:
        """Add a line for people to the run's log."""
        self._add(events.LOG, {"text": _printable(text)})

    def _add(self, kind: str, data: object) -> None:
        text = codec.to_json(data, f"the data of event {kind!r}", sys.maxsize, plural=False)
        self._drafts.append(drafted(kind, text))
        self._buffered()


def _printable(text: object) -> str:
    # Another program's output may hold what UTF-8 cannot; a line for people must not fail the run.
    return str(text).encode(errors="replace").decode()
