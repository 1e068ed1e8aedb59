"""Watches `laneway.toml` while a worker works: checks it every few seconds, and reads it when it has changed.

**No half files.** A file that is being written may be read in part, and part of a file can be valid TOML that declares
less. So a change counts only when the file looked the same in two checks, and again after it was read. Its content is
applied completely or not at all. A worker that starts does not wait for a second check. If the file was changed just
before, it adds and changes things, but removes what the file does not declare only when the file has stayed unchanged.

**Each problem is reported once**, and again only when it is another one. The file is tried again now and then, because
what was missing, such as a worker that knows a task, may be there.
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

EVERY = 2.0  # seconds between two checks
AGAIN = 60.0  # seconds after which a wrong file is tried again

Apply = Callable[[Mapping[str, Any] | None, bool], Awaitable[None]]
"""Brings the store in line with the content of the file, None if there is no file. It removes what the file does not
declare only if the flag is True. Raises UsageError, and then nothing has changed."""


class FileWatch:
    """Applies a file when a worker starts, and whenever it has changed; `problem` says what is wrong with it."""

    def __init__(self, file: Path, clock: Clock, apply: Apply) -> None:
        self._file, self._clock, self._apply = file, clock, apply
        self.problem: str | None = None
        self._seen: Stamp | None = None  # at the last check
        self._applied: Stamp | None = None
        self._whole = False  # what was applied included removals
        self._try_at = 0.0

    async def begin(self) -> None:
        """Apply the file as it is, if there is one, for the start of a worker."""
        self._whole, self._seen = False, stamp(self._file)
        if self._seen is not None:
            at_rest = self._clock.now() - self._seen.changed_at >= EVERY * SECOND
            await self._apply_file(self._seen, whole=at_rest)

    async def run(self) -> None:
        """Check now and then, until cancelled."""
        while True:
            await self._clock.sleep(EVERY)
            await self.check()

    async def check(self) -> None:
        """Check whether the file has changed, and apply it if it has stayed unchanged since the last check."""
        before, self._seen = self._seen, stamp(self._file)
        if self._seen != before:
            return  # it may still be being written
        tried = self._whole and self._seen == self._applied
        if not tried or (self.problem is not None and self._clock.monotonic() >= self._try_at):
            await self._apply_file(self._seen, whole=True)

    async def _apply_file(self, seen: Stamp | None, *, whole: bool) -> None:
        try:
            found = contents(self._file)
            if stamp(self._file) != seen:
                return  # it changed while it was read; the next check sees that
            await self._apply(found, whole)
        except StoreError as error:
            self._report(f"{self._file} is not heeded yet: {error}")
            return  # not the file's fault: it is tried again at the next check
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
