"""Time zones as data: which offset holds when, and the gaps and folds at its changes.

This is the only file of the core that uses `zoneinfo`. A zone's history is a table that ships with the machine, like
the names of characters. The same question always gets the same answer, so the core stays pure (decision 20).

Here, instants (`at`) are whole seconds since 1970 in UTC, and a *wall* is a wall-clock time, counted the same way:
`wall = at + offset`. At a change the offset goes from `before` to `after`. When it grows, the walls from `at + before`
up to `at + after` do not exist: a gap. When it shrinks, those from `at + after` up to `at + before` come twice: a fold.
"""

from __future__ import annotations

import difflib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache

from laneway.core.common.instants import EPOCH
from laneway.errors import BadSetting

DAY = 86_400
# A chunk of a zone's history is computed at once and cached. No zone changes and changes back between two probes.
CHUNK = 1 << 25
LOOK = DAY // 2
# Between these instants every zone has an offset that can be computed.
EARLIEST = (datetime(2, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(seconds=1)
LATEST = (datetime(9998, 12, 31, tzinfo=UTC) - EPOCH) // timedelta(seconds=1)
# No two offsets differ by more than this, so a change further away does not affect a wall.
REACH = 2 * DAY


@dataclass(frozen=True, slots=True)
class ClockChange:
    """A change of a zone's offset."""

    at: int
    before: int
    after: int

    @property
    def is_gap(self) -> bool:
        """Whether walls are left out; else some come twice."""
        return self.after > self.before

    @property
    def first_wall(self) -> int:
        """The first wall that is left out or comes twice."""
        return self.at + min(self.before, self.after)

    @property
    def end_wall(self) -> int:
        """The first wall after those."""
        return self.at + max(self.before, self.after)


@dataclass(frozen=True, slots=True)
class _Chunk:
    offset: int
    changes: tuple[ClockChange, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Zone:
    """A time zone, in whole seconds."""

    name: str
    _info: tzinfo
    _chunks: dict[int, _Chunk] = field(default_factory=dict)

    def offset(self, at: int) -> int:
        """Return the offset at an instant."""
        chunk = self._chunk(at // CHUNK)
        offset = chunk.offset
        for change in chunk.changes:
            if change.at > at:
                break
            offset = change.after
        return offset

    def local(self, instant: datetime) -> datetime:
        """Return an instant as local time."""
        return instant.astimezone(self._info)

    def calm(self, at: int) -> int | None:
        """Return the offset at an instant if clearly no change is near it, else None."""
        number, passed = divmod(at, CHUNK)
        if not REACH < passed < CHUNK - REACH:
            return None
        chunk = self._chunk(number)
        offset = chunk.offset
        for change in chunk.changes:
            if change.at > at + REACH:
                break
            if change.at > at - REACH:
                return None
            offset = change.after
        return offset

    def changes(self, after: int, until: int) -> list[ClockChange]:
        """Return the changes later than `after` and no later than `until`, in order."""
        chunks = range(after // CHUNK, until // CHUNK + 1)
        return [change for n in chunks for change in self._chunk(n).changes if after < change.at <= until]

    def instant(self, wall: int) -> int:
        """Return when a wall comes first; if it does not exist, the first instant after its gap."""
        offset = self.offset(wall - REACH)
        for change in self.changes(wall - REACH, wall + REACH):
            if wall < change.first_wall:
                break
            if wall < change.end_wall:
                return change.at if change.is_gap else wall - change.before
            offset = change.after
        return wall - offset

    def _chunk(self, number: int) -> _Chunk:
        chunk = self._chunks.get(number)
        if chunk is None:
            start = number * CHUNK
            chunk = self._chunks[number] = _Chunk(self._ask(start), tuple(self._look(start, start + CHUNK)))
        return chunk

    def _look(self, start: int, end: int) -> Iterator[ClockChange]:
        # A change at the very start belongs to this chunk, though its offset is not visible before the start.
        offset, last = self._ask(start - 1), start - 1
        for at in (*range(start + LOOK, end, LOOK), end - 1):
            found = self._ask(at)
            while found != offset:
                change = self._first_change(last, at, offset)
                yield change
                offset, last = change.after, change.at
            last = at

    def _first_change(self, low: int, high: int, offset: int) -> ClockChange:
        index = bisect_right(range(low, high + 1), False, key=lambda at: self._ask(at) != offset)
        return ClockChange(low + index, offset, self._ask(low + index))

    def _ask(self, at: int) -> int:
        instant = EPOCH + timedelta(seconds=min(max(at, EARLIEST), LATEST))
        offset = instant.astimezone(self._info).utcoffset()
        assert offset is not None
        return offset // timedelta(seconds=1)


@cache
def zone(name: str) -> Zone:
    """Return the zone of that name. Raises BadSetting, which suggests similar names."""
    if name == "UTC":
        return Zone(name, UTC)
    from zoneinfo import ZoneInfo

    try:
        return Zone(name, ZoneInfo(name))
    except (LookupError, ValueError, OSError):  # unknown; not a name; a folder of names
        raise BadSetting(f"unknown time zone {name!r}{_nearest(name)}") from None


def checked_zone(name: str | None) -> str | None:
    """Return the name of an existing zone, or None if none is given. Raises BadSetting."""
    if name is None:
        return None
    if not isinstance(name, str):
        raise BadSetting(f"tz is {name!r}; it must be the name of a time zone, such as 'Europe/Berlin'")
    return zone(name).name


def _nearest(name: str) -> str:
    from zoneinfo import available_timezones

    known = {known.casefold(): known for known in sorted(available_timezones())}
    places = {folded.rpartition("/")[2]: real for folded, real in known.items()}
    folded = name.strip().casefold().replace(" ", "_")
    near = [known[folded]] if folded in known else []
    near += [known[found] for found in difflib.get_close_matches(folded, known, n=3, cutoff=0.75)]
    near += [places[found] for found in difflib.get_close_matches(folded.rpartition("/")[2], places, n=3, cutoff=0.75)]
    if not near:
        return "; a zone is named as in Europe/Berlin, America/New_York, UTC"
    return f", did you mean {' or '.join(repr(one) for one in list(dict.fromkeys(near))[:3])}?"
