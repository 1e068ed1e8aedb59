"""Messages that runs took, in their table."""

from __future__ import annotations

from collections.abc import Iterable

from laneway.core.records.run import Message, MessageKind
from laneway.errors import UnknownRun
from laneway.stores.tables.rows.run_row import RunRow
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import Row, as_json, sql_names

_SQL = sql_names("inboxes")
_NUMBER = sql_names("control")["number"]


def messages(db: Database, run_id: str, after: int, limit: int) -> list[Message]:
    """Return the messages that the run took; see `RunStore.messages`."""
    row = db.execute(_NUMBER, (run_id,)).fetchone()
    if row is None:
        raise UnknownRun(run_id)
    return [as_message(*found) for found in db.execute(_SQL["messages"], (row[0], limit, after))]


def takers(db: Database, ids: Iterable[str]) -> dict[str, tuple[MessageKind, str, str]]:
    """Return, for the ids that are messages, their kinds, their lanes, and the runs that took them."""
    rows = db.execute(_SQL["takers"], (as_json(ids),))
    return {message_id: (MessageKind(kind), lane, taker) for message_id, kind, lane, taker in rows}


def as_message(
    id_: str,
    kind: str,
    nth: int,
    task: str,
    args: str,
    lane: str,
    user: str | None,
    priority: int,
    key: str | None,
) -> Message:
    """Return the message that these columns hold."""
    return Message(
        id=id_,
        kind=MessageKind(kind),
        nth=nth,
        task=task,
        args=args,
        lane=lane,
        user=user,
        priority=priority,
        key=key,
    )


def message_row(run: RunRow, message: Message, *, moved: bool) -> Row:
    """Return the row of a message that the run took; `moved` if it was another run's message before."""
    facts = (message.id, message.task, message.lane, message.user, message.priority, message.key)
    return run.number, message.kind.value, message.nth, *facts, moved, message.args
