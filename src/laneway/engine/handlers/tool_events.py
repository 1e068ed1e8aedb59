"""Events for a handler's calls of tools, at begin and end: `with ctx.tool("search", {"q": "x"}) as tool: ...`."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from laneway.core.records import events
from laneway.errors import BadSetting

LONGEST_NAME = 200


class Tool:
    """One call of a tool. Set `output` to its result (JSON); an exception that passes through is reported instead."""

    def __init__(self, name: str, input_: object, report: Callable[[str, object], None]) -> None:
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
            raise BadSetting(f"tool {name!r}: its name is a text of 1 to {LONGEST_NAME} characters")
        self.name, self.input, self._report = name, input_, report
        self.output: Any = None
        self._began = 0.0

    def __enter__(self) -> Self:
        """Report that the call begins."""
        self._report(events.TOOL_START, {"name": self.name, "input": self.input})
        self._began = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Report how the call ended; an exception passes through."""
        if error is not None:
            self._end("error", _error_data(error))
            return
        try:
            self._end("output", self.output)
        except Exception as wrong:
            self._end("error", _error_data(wrong))
            raise

    def _end(self, what: str, value: object) -> None:
        seconds = round(time.monotonic() - self._began, 6)
        self._report(events.TOOL_END, {"name": self.name, "seconds": seconds, what: value})


def _error_data(error: BaseException) -> dict[str, str]:
    # A message may hold what UTF-8 cannot encode; reporting an error must not raise another one.
    message = str(error).encode(errors="replace").decode()
    return {"type": type(error).__name__, "message": message}
