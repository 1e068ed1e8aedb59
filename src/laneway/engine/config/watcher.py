"""Heeding `laneway.toml` while a worker works: looked at every few seconds from outside, read when it has changed.

**Nothing by halves.** A file that is being written may be read half, and half a file can be good TOML that says less.
So a change counts only when the file has looked the same at two looks, and again after it was read; and what it says is
applied all together or not at all. A worker that starts does not wait for a second look: if the file was changed just
before, it adds and changes things, and what the file no longer says is taken away when it has come to rest.

**What is wrong is said once**, and again only when something else is wrong. It is tried again every now and then: what
was missing, such as a worker that knows a task, may have come.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from laneway.core.common.instants import SECOND
from laneway.engine.config.tomlfile import Stamp, contents, stamp
from laneway.errors import StoreError, UsageError
from laneway.ports.clock import Clock

log = logging.getLogger("laneway.file")

EVERY = 2.0  # seconds between two looks
AGAIN = 60.0  # seconds after which a file that is wrong is tried again

Apply = Callable[[Mapping[str, Any] | None, bool], Awaitable[None]]
"""Make the store say what the file says, None if there is none; take away what it does not say only if the flag is
True. Raises UsageError, and then nothing has changed."""


class FileWatch:
    """Applies a file when a worker starts, and whenever it has changed; `problem` is what is wrong with it."""

    def __init__(self, file: Path, clock: Clock, apply: Apply) -> None:
        self._file, self._clock, self._apply = file, clock, apply
        self.problem: str | None = None
        self._seen: Stamp | None = None  # at the last look
        self._applied: Stamp | None = None
        self._whole = False  # what is applied may have taken things away
        self._try_at = 0.0

    async def begin(self) -> None:
        """Apply the file as it is, if there is one, for the start of a worker."""
        self._whole, self._seen = False, stamp(self._file)
        if self._seen is not None:
            at_rest = self._clock.now() - self._seen.changed_at >= EVERY * SECOND
            await self._heed(self._seen, whole=at_rest)

    async def run(self) -> None:
        """Look every now and then, until cancelled."""
        while True:
            await self._clock.sleep(EVERY)
            await self.look()

    async def look(self) -> None:
        """Look whether the file has changed, and apply it if it has come to rest."""
        before, self._seen = self._seen, stamp(self._file)
        if self._seen != before:
            return  # somebody may still be writing
        tried = self._whole and self._seen == self._applied
        if not tried or (self.problem is not None and self._clock.monotonic() >= self._try_at):
            await self._heed(self._seen, whole=True)

    async def _heed(self, seen: Stamp | None, *, whole: bool) -> None:
        try:
            found = contents(self._file)
            if stamp(self._file) != seen:
                return  # it changed under our eyes; the next look finds it so
            await self._apply(found, whole)
        except StoreError as error:
            self._report(f"{self._file} is not heeded yet: {error}")
            return  # not the file's fault: it is tried again at the next look
        except UsageError as error:
            self._report(str(error))
        else:
            self._calm()
        self._applied, self._whole = seen, whole
        self._try_at = self._clock.monotonic() + AGAIN

    def _report(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            log.error("%s; everything stays as it was", problem)

    def _calm(self) -> None:
        if self.problem is not None:
            self.problem = None
            log.warning("%s is heeded again", self._file)
