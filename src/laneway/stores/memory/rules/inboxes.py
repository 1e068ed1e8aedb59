"""Messages in the memory store: submissions that another run took, and what follows for unread ones."""

from __future__ import annotations

import msgspec

from laneway.core.lifecycle.arrivals import left_over
from laneway.core.records import events
from laneway.core.records.events import draft
from laneway.core.records.run import Message, MessageKind, NewRun
from laneway.stores.memory.state.records import RunRecord
from laneway.stores.memory.state.state import MemoryState

_KINDS = {MessageKind.MERGED: events.MERGED, MessageKind.STEERED: events.STEERED}


class RecordInboxes:
    """Appends messages to runs, and makes runs of unread messages."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    def append(self, run: RunRecord, new: NewRun, lane: str, kind: MessageKind, now: int) -> None:
        """Let the run take a message."""
        self._state.takers[new.id] = run
        self._add(run, _message(new, lane, kind), now)

    def close(self, run: RunRecord, now: int) -> None:
        """Apply the end of a run: unread messages of its inbox become runs, or are dropped with it."""
        unread = run.inbox[run.read :]
        if run.cleared:
            for message in unread:
                self._state.counts[message.lane, "dropped unread"] += 1
                self._pass_key(message, run, None)
            return
        for new, messages in left_over(unread, run.session):
            made = self.make(new, new.lane, now, now)
            for message in messages[1:]:
                self._add(made, msgspec.structs.replace(message, kind=MessageKind.MERGED), now)
            for message in messages:
                self._pass_key(message, run, made)
            self._state.flow.join(made)

    def _pass_key(self, message: Message, from_: RunRecord, to: RunRecord | None) -> None:
        """Let the key of an unread message stand for the run that it became, or for nothing."""
        if message.key is None:
            return
        key = (message.task, message.user, message.key)
        entry = self._state.keys.get(key)
        if entry is None or entry.number != from_.number:
            return
        from_.keyed = tuple(other for other in from_.keyed if other != key)
        if to is None:
            del self._state.keys[key]
        else:
            self._state.keys[key] = msgspec.structs.replace(entry, run_id=to.id, number=to.number)
            to.keyed += (key,)

    def make(self, new: NewRun, lane: str, now: int, due_at: int) -> RunRecord:
        """Make a record of a submission, on no shelf yet."""
        state = self._state
        state.accepted += 1
        record = RunRecord.of(state.accepted, new, lane, now, due_at)
        state.records.append(record)
        state.by_id[new.id] = record
        state.lanes[lane].pending += 1
        return record

    def inherit(self, run: RunRecord, from_id: str, now: int) -> None:
        """Merge into a run the messages of the run that it retries, if that is still known."""
        old = self._state.by_id.get(from_id)
        for message in () if old is None else old.taken:
            if message.kind is MessageKind.MERGED:
                self._add(run, message, now)

    def _add(self, run: RunRecord, message: Message, now: int) -> None:
        nth = 1 + sum(other.kind is message.kind for other in run.taken)
        # By kind: who has read the messages before knows how many there were.
        first = sum(other.kind.value <= message.kind.value for other in run.taken)
        run.taken = (*run.taken[:first], msgspec.structs.replace(message, nth=nth), *run.taken[first:])
        run.messages += 1
        if message.kind is MessageKind.ANSWERED:
            return
        self._state.say(run, (draft(_KINDS[message.kind], {"message": message.id, "nth": nth}),), now)


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
