"""Idempotency keys in their table."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.core.common.keys import KeyEntry, digest
from laneway.core.records.run import Message, NewRun
from laneway.stores.tables.rows.run_row import RunRow
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import Row, as_json, sql_names

_SQL = sql_names("keys")


class Keys:
    """The keys of a batch of submissions: read in one query, new ones written with the batch's runs."""

    def __init__(self, db: Database, batch: Sequence[NewRun]) -> None:
        self._db, self._batch = db, batch
        self._known: dict[Row, KeyEntry] | None = None
        self._new: dict[Row, KeyEntry] = {}

    def find(self, new: NewRun) -> KeyEntry | None:
        """Return the entry of a submission's key, if there is one."""
        key = _key(new)
        if self._known is None:
            wanted = as_json({_key(other) for other in self._batch if other.key is not None})
            rows = self._db.execute(_SQL["find"], (wanted,))
            self._known = {(task, user, name): KeyEntry(*entry) for task, user, name, *entry in rows}
        return self._new.get(key) or self._known.get(key)

    def remember(self, new: NewRun, run_id: str, number: int, now: int) -> None:
        """Let the key of a submission, if it has one, stand for a run."""
        if new.key is not None:
            self._new[_key(new)] = KeyEntry(run_id, number, digest(new.args), now)

    def write(self) -> None:
        """Write the new entries. The others are read again at the next use: a run that is dropped frees its keys."""
        self._db.insert(
            _SQL["put"],
            [(*key, entry.run_id, entry.number, entry.digest, entry.at) for key, entry in self._new.items()],
        )
        self._new, self._known = {}, None


def free(db: Database, number: int) -> None:
    """Delete the keys of a run that was dropped."""
    db.execute(_SQL["free"], (number,))


def pass_on(db: Database, message: Message, number: int, to: RunRow | None) -> None:
    """Pass the key of a message that run `number` did not read on to the run that it became; delete it if None."""
    if message.key is not None and to is not None:
        db.execute(_SQL["move"], (to.id, to.number, *_key(message), number))
    elif message.key is not None:
        db.execute(_SQL["free_one"], (*_key(message), number))


def _key(new: NewRun | Message) -> Row:
    return new.task, new.user or "", new.key
