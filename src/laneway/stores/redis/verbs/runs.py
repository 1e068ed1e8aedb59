"""Reading runs, their logs and what belongs to them; see `RunStore` and `EventStore`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from laneway.core.records import codec
from laneway.core.records.events import ANSWERED, Event, counted, drafted, numbered, opened
from laneway.core.records.liveness import WorkerInfo
from laneway.core.records.memos import Ending, Memo, MemoKind, Recall
from laneway.core.records.run import Message, MessageKind, Run, RunFilter
from laneway.core.records.states import RunState
from laneway.errors import UnknownRun
from laneway.stores.redis.codec.decode import run_of, wait_of
from laneway.stores.redis.codec.decode_counts import WorkerLoad, pairs, some
from laneway.stores.redis.verbs.script_caller import Calling

_SCANNED = 1000  # ids that one look at the hash brings, about


class Reading(Calling):
    """Answers from what is kept, and changes nothing."""

    async def get(self, run_id: str) -> Run:
        """Return the run; see `RunStore`."""
        found = await self._call("runs/get", run_id)
        if not found and run_id:
            ids = await self._ids(run_id)
            found = await self._call("runs/get", ids.pop()) if len(ids) == 1 else []
            if not found:
                raise UnknownRun(run_id, len(ids))
        if not found:
            raise UnknownRun(run_id)
        return run_of(found[0])

    async def runs(self, wanted: RunFilter, *, limit: int, before: int | None = None) -> list[Run]:
        """Return runs, newest first; see `RunStore`."""
        state = None if wanted.state is None else wanted.state.value
        asked = [state, wanted.task, wanted.lane, wanted.user, wanted.session]
        found: list[Run] = []
        on: Any = before
        while len(found) < limit and on is not False:
            page, on = await self._call("runs/scan", on, limit - len(found), asked)
            found += [run_of(one) for one in page]
        return found

    async def messages(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[Message]:
        """Return the messages that the run took; see `RunStore`."""
        taken = [message_of(*packed) for packed in await self._call("runs/messages", run_id, about=run_id)]
        taken.sort(key=lambda message: message.kind.value)
        return taken[after : after + limit]

    async def recall(self, run_id: str) -> Recall:
        """Return what the run has kept; see `RunStore`."""
        memos, wait = await self._call("runs/recall", run_id, about=run_id)
        return Recall([memo_of(*packed) for packed in sorted(memos)], wait_of(wait) if wait else None)

    async def events(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[Event]:
        """Return a page of the run's log; see `EventStore`."""
        found: list[tuple[int, Sequence[Any]]] = []
        result: str | None = None
        on: Any = None
        while len(found) < limit and on is not False:
            chunks, on, result = await self._call(
                "runs/log", run_id, max(0, after), limit - len(found), on, about=run_id
            )
            found += islice(_rows(chunks, after), limit - len(found))
        return numbered(run_id, found, codec.from_json(result) if result else None)

    async def workers(self) -> list[WorkerInfo]:
        """Return the incarnations; see `WorkerStore`."""
        return [WorkerLoad.of(packed).info for packed in await self._call("overviews/workers")]

    async def _states(self) -> dict[str, int]:
        """Return how many runs there are in each state that has any."""
        states = await self._link.command("HGETALL", f"{self._address.prefix}:states")
        return {state.decode(): int(count) for state, count in pairs(states)}

    async def _ids(self, prefix: str) -> set[str]:
        """Return the ids that begin so. It looks at all of them, in many calls: only people ask this."""
        pattern = re.sub(r"([*?\[\]\\])", r"\\\1", prefix) + "*"
        key, cursor, found = f"{self._address.prefix}:ids", "0", set[str]()
        while True:
            after, flat = await self._link.command("HSCAN", key, cursor, "MATCH", pattern, "COUNT", _SCANNED)
            found |= {run_id.decode() for run_id, _ in pairs(flat)}
            cursor = after.decode()
            if cursor == "0":
                return found


def _rows(chunks: Sequence[Any], after: int) -> Iterator[tuple[int, Sequence[Any]]]:
    for first, text in pairs(chunks):
        for seq, row in counted(first, opened(text)):
            if seq > after:
                yield seq, _cut(row) if row[0] == ANSWERED else row


def key_of(field: str) -> tuple[str, str | None, str]:
    r"""Return the task, user and key that a key is kept under.

    >>> key_of("work\n=ann\nk"), key_of("work\n\nk")
    (('work', 'ann', 'k'), ('work', None, 'k'))
    """
    task, user, key = field.split("\n", 2)
    return task, user[1:] if user else None, key


def _cut(row: Sequence[Any]) -> Sequence[Any]:
    """Return an event that scripts have written whole, as it is to be read."""
    kind, attempt, at, data = row
    _, text = drafted(kind, msgspec.json.encode(data).decode())
    return kind, attempt, at, msgspec.json.decode(text)


def message_of(
    run_id: str, kind: str, nth: int, task: str, args: str, lane: str, user: Any, priority: int, field: Any
) -> Message:
    """Return a message."""
    return Message(
        id=run_id,
        kind=MessageKind(kind),
        nth=nth,
        task=task,
        args=args,
        lane=lane,
        user=some(user),
        priority=priority,
        key=field.split("\n", 2)[2] if field else None,
    )


def memo_of(
    _order: int,
    kind: str,
    name: str,
    value: Any,
    about: str,
    nth: int,
    attempt: int,
    run_id: Any,
    tries: int,
    ending: Any,
) -> Memo:
    """Return a memo."""
    return Memo(
        kind=MemoKind(kind),
        name=name,
        value=some(value),
        about=about,
        nth=nth,
        attempt=attempt,
        run_id=some(run_id),
        tries=tries,
        ending=Ending(RunState(ending[0]), some(ending[1]), some(ending[2])) if ending else None,
    )
