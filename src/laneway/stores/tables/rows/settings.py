"""Operator settings, as the rules read them. The header of a transaction tells whether there are any."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from laneway.core.records.policy import NO_RULE, Rule
from laneway.ports.gates import Held
from laneway.stores.tables.sql.database import Database
from laneway.stores.tables.sql.statements import as_json, sql_names

_SQL = sql_names("settings")
_rule = msgspec.json.Decoder(Rule).decode


def ruled_sessions(db: Database, names: Collection[str]) -> dict[str, tuple[Rule, bool]]:
    """Return the rules that operators set of these sessions, and whether they paused them; others are left out."""
    rows = db.execute(_SQL["ruled_sessions"], (as_json(names),))
    return {name: (NO_RULE if rule is None else _rule(rule), bool(paused)) for name, rule, paused in rows}


def ruled_names(db: Database, prefix: str, after: str, limit: int) -> list[str]:
    """Return, in order, the names of sessions with operator settings that have this prefix and come after `after`."""
    asked = {"prefix": prefix, "last": prefix + chr(0x10FFFF), "after": after, "limit": max(0, limit)}
    return [name for (name,) in db.execute(_SQL["ruled_names"], asked)]


def paused(db: Database, what: Held) -> set[str]:
    """Return the users, sessions or tasks that are paused."""
    return {name for (name,) in db.execute(_SQL["paused"], (what.value,))}


def disabled_tasks(db: Database) -> set[str]:
    """Return the tasks whose new runs are refused."""
    return {task for (task,) in db.execute(_SQL["disabled"])}
