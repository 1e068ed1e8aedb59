"""The memory gate: a worker on a machine that is short of memory claims nothing; its running handlers go on.

It fails open: if it is off, the system gives no figures, or a check fails, runs start as usual.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from laneway.ports.clock import Clock

log = logging.getLogger("laneway.memory")

LOOK_EVERY = 30.0  # seconds
SAY_EVERY = 900.0  # seconds between two log lines while it is closed
PROC = Path("/proc")


class Sample(NamedTuple):
    """A measurement: megabytes that are available, and the percentage of time spent waiting for memory."""

    available: float | None = None
    pressure: float | None = None


def sample(proc: Path = PROC) -> Sample:
    """Measure once; a figure that cannot be read is None."""
    available = _found(proc / "meminfo", r"^MemAvailable:\s+(\d+) kB")
    pressure = _found(proc / "pressure" / "memory", r"^some avg10=([\d.]+)")
    return Sample(None if available is None else available / 1024, pressure)


def _found(file: Path, pattern: str) -> float | None:
    try:
        match = re.search(pattern, file.read_text(encoding="ascii", errors="replace"), flags=re.MULTILINE)
    except OSError:
        return None
    return None if match is None else float(match[1])


class MemoryGate:
    """Measures every half minute; `changed` is called when the gate opens or closes.

    It is closed while less than `least` megabytes are available, or the pressure is above `most` percent. 0 switches
    either check off.
    """

    def __init__(
        self,
        clock: Clock,
        least: float,
        most: float,
        changed: Callable[[], None],
        look: Callable[[], Sample] = sample,
    ) -> None:
        self._clock, self._least, self._most, self._changed, self._look = clock, least, most, changed, look
        self._said_at: float | None = None
        self.is_off = not least and not most
        self.short = False

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            await self._clock.sleep(LOOK_EVERY)
            self.look()

    def look(self) -> None:
        """Measure once, and open or close the gate."""
        found = self._look()
        scarce = found.available is not None and found.available < self._least
        pressed = bool(self._most) and found.pressure is not None and found.pressure > self._most
        before, self.short = self.short, scarce or pressed
        if self.short:
            self._log(found)
        else:
            self._said_at = None
        if self.short is not before:
            self._changed()

    def _log(self, found: Sample) -> None:
        now = self._clock.monotonic()
        if self._said_at is None or now - self._said_at >= SAY_EVERY:
            self._said_at = now
            told = [f"{found.available:.0f} MB available" if found.available is not None else ""]
            told += [f"pressure {found.pressure:g} %" if found.pressure is not None else ""]
            log.warning("memory is short (%s): nothing new is started here", ", ".join(filter(None, told)))
