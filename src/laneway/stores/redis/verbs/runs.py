"""Submitting and reading runs: the verbs of `RunStore` and `EventStore`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from laneway.core.records import codec
from laneway.core.records.events import ANSWERED, Event, counted, drafted, numbered, opened
from laneway.core.records.memos import Recall
from laneway.core.records.run import Message, NewRun, Receipt, Run, RunFilter
from laneway.errors import UnknownRun
from laneway.stores.redis.codec import encode
from laneway.stores.redis.codec.decode import memo_of, message_of, receipts, run_of, wait_of
from laneway.stores.redis.codec.decode_counts import pairs
from laneway.stores.redis.verbs.script_caller import ScriptCaller

_SCANNED = 1000  # ids per HSCAN, about


class RunVerbs:
    """Accepts runs, and reads them, their logs, messages and memos."""

    def __init__(self, scripts: ScriptCaller) -> None:
        self._scripts, self._client = scripts, scripts.client

    async def submit(self, batch: Sequence[NewRun]) -> list[Receipt]:
        """Accept the batch."""
        return receipts(encode.ids(batch), await self._scripts.call("runs/submit", *encode.batch(batch)))

    async def get(self, run_id: str) -> Run:
        """Return the run of this id, or the only one whose id begins so."""
        found = await self._scripts.call("runs/get", run_id)
        if not found and run_id:
            ids = await self._ids(run_id)
            found = await self._scripts.call("runs/get", ids.pop()) if len(ids) == 1 else []
            if not found:
                raise UnknownRun(run_id, len(ids))
        if not found:
            raise UnknownRun(run_id)
        return run_of(found[0])

    async def runs(self, wanted: RunFilter, *, limit: int, before: int | None = None) -> list[Run]:
        """Return runs that fit, newest first."""
        state = None if wanted.state is None else wanted.state.value
        values = [state, wanted.task, wanted.lane, wanted.user, wanted.session]
        found: list[Run] = []
        cursor: Any = before
        while len(found) < limit and cursor is not False:
            page, cursor = await self._scripts.call("runs/scan", cursor, limit - len(found), values)
            found += [run_of(one) for one in page]
        return found

    async def messages(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[Message]:
        """Return the messages that the run took."""
        taken = [message_of(*packed) for packed in await self._scripts.call("runs/messages", run_id, about=run_id)]
        taken.sort(key=lambda message: message.kind.value)
        return taken[after : after + limit]

    async def recall(self, run_id: str) -> Recall:
        """Return the run's memos and what it waits for."""
        memos, wait = await self._scripts.call("runs/recall", run_id, about=run_id)
        return Recall([memo_of(*packed) for packed in sorted(memos)], wait_of(wait) if wait else None)

    async def events(self, run_id: str, *, after: int = 0, limit: int = 1000) -> list[Event]:
        """Return a page of the run's log."""
        found: list[tuple[int, Sequence[Any]]] = []
        result: str | None = None
        cursor: Any = None
        while len(found) < limit and cursor is not False:
            left = limit - len(found)
            chunks, cursor, result = await self._scripts.call(
                "runs/log", run_id, max(0, after), left, cursor, about=run_id
            )
            found += islice(_rows(chunks, after), left)
        return numbered(run_id, found, codec.from_json(result) if result else None)

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` soon after events were written; return a function that ends that."""
        return self._client.subscriptions.subscribe(self._scripts.key("said"), changed)

    async def _ids(self, prefix: str) -> set[str]:
        """Return the ids that begin so. It reads all ids, in many calls: only people look up runs like that."""
        pattern = re.sub(r"([*?\[\]\\])", r"\\\1", prefix) + "*"
        key, cursor, found = self._scripts.key("ids"), "0", set[str]()
        while True:
            after, flat = await self._client.command("HSCAN", key, cursor, "MATCH", pattern, "COUNT", _SCANNED)
            found |= {run_id.decode() for run_id, _ in pairs(flat)}
            cursor = after.decode()
            if cursor == "0":
                return found


def _rows(chunks: Sequence[Any], after: int) -> Iterator[tuple[int, Sequence[Any]]]:
    for first, text in pairs(chunks):
        for seq, row in counted(first, opened(text)):
            if seq > after:
                yield seq, _shortened(row) if row[0] == ANSWERED else row


def _shortened(row: Sequence[Any]) -> Sequence[Any]:
    """Return an answer event with its text cut to what events may hold: scripts write the whole text."""
    kind, attempt, at, data = row
    _, text = drafted(kind, msgspec.json.encode(data).decode())
    return kind, attempt, at, msgspec.json.decode(text)
