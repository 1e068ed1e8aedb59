"""The memory store's messages: submissions that another run took, and what becomes of those it never read."""

from __future__ import annotations

import msgspec

from laneway.core.lifecycle.arrivals import left_over
from laneway.core.records import events
from laneway.core.records.events import draft
from laneway.core.records.run import Message, MessageKind, NewRun
from laneway.stores.memory.kept import Kept
from laneway.stores.memory.records import Record

_KINDS = {MessageKind.MERGED: events.MERGED, MessageKind.STEERED: events.STEERED}


class Inboxes:
    """Appends messages to runs, and makes runs of what was left unread."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept

    def append(self, run: Record, new: NewRun, lane: str, kind: MessageKind, now: int) -> None:
        """Let the run take a message."""
        self._kept.takers[new.id] = run
        self._add(run, _message(new, lane, kind), now)

    def close(self, run: Record, now: int) -> None:
        """Hear that the run has ended: what is unread in its inbox becomes runs, or is dropped with it."""
        unread = run.inbox[run.read :]
        if run.cleared:
            for message in unread:
                self._kept.counts[message.lane, "dropped unread"] += 1
                self._pass_key(message, run, None)
            return
        for new, messages in left_over(unread, run.session):
            made = self.make(new, new.lane, now, now)
            for message in messages[1:]:
                self._add(made, msgspec.structs.replace(message, kind=MessageKind.MERGED), now)
            for message in messages:
                self._pass_key(message, run, made)
            self._kept.flow.join(made)

    def _pass_key(self, message: Message, from_: Record, to: Record | None) -> None:
        """Let the key of a message that its taker did not read stand for the run it became, or for nothing."""
        if message.key is None:
            return
        key = (message.task, message.user, message.key)
        entry = self._kept.keys.get(key)
        if entry is None or entry.number != from_.number:
            return
        from_.keyed = tuple(other for other in from_.keyed if other != key)
        if to is None:
            del self._kept.keys[key]
        else:
            self._kept.keys[key] = msgspec.structs.replace(entry, run_id=to.id, number=to.number)
            to.keyed += (key,)

    def make(self, new: NewRun, lane: str, now: int, due_at: int) -> Record:
        """Make a record of a submission, on no shelf yet."""
        kept = self._kept
        kept.accepted += 1
        record = Record.of(kept.accepted, new, lane, now, due_at)
        kept.records.append(record)
        kept.by_id[new.id] = record
        kept.lanes[lane].pending += 1
        return record

    def inherit(self, run: Record, from_id: str, now: int) -> None:
        """Merge into a run what was merged into the one that it tries again, if that is still known."""
        old = self._kept.by_id.get(from_id)
        for message in () if old is None else old.taken:
            if message.kind is MessageKind.MERGED:
                self._add(run, message, now)

    def _add(self, run: Record, message: Message, now: int) -> None:
        nth = 1 + sum(other.kind is message.kind for other in run.taken)
        # By kind: who has read the messages before knows how many there were.
        first = sum(other.kind.value <= message.kind.value for other in run.taken)
        run.taken = (*run.taken[:first], msgspec.structs.replace(message, nth=nth), *run.taken[first:])
        run.messages += 1
        if message.kind is MessageKind.ANSWERED:
            return
        self._kept.say(run, (draft(_KINDS[message.kind], {"message": message.id, "nth": nth}),), now)


def _message(new: NewRun, lane: str, kind: MessageKind) -> Message:
    return Message(
        id=new.id,
        kind=kind,
        nth=0,
        task=new.task,
        args=new.args,
        lane=lane,
        user=new.user,
        priority=new.priority,
        key=new.key,
    )
