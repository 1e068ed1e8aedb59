"""Every key of a store on Redis: its type, the file that writes it, what it holds, and how long.

All begin with `laneway:{namespace}:`, which is left out here. Redis hashes what stands between the braces to choose the
node of a cluster, so a namespace is on one node, and a script may use all of it.

A number is a run's acceptance number. In sorted sets runs are numbers of 15 digits, so that equal scores are in the
order of acceptance. Beside the keys there are channels: a message on `wake:<incarnation>` wakes a worker, and may bring
the reply to a step that was made ahead; a message on `said` means that events were written.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache
from typing import NamedTuple

from laneway.errors import NotAStore, StoreTooNew

LAYOUT = 6  # the version of these keys and their values
OLDEST_LAYOUT = 5  # the oldest one that `verbs/upkeep/migrate.lua` migrates


class Lifetime(StrEnum):
    """When a key, or an entry in it, is deleted."""

    STORE = "never"
    ENTRY = "when its entry has ended, is admitted, is answered or is unset"
    RUN = "when its runs are pruned"
    INCARNATION = "with its incarnation"
    HOUR = "an hour after the call"
    JOB = "with its job"


class Key(NamedTuple):
    """A key, or a family of keys: `<...>` stands for a name."""

    pattern: str
    type: str  # by the command TYPE
    owner: str  # the file of lua/ that writes it
    lifetime: Lifetime
    meaning: str


_STORE, _ENTRY, _RUN, _INCARNATION, _HOUR, _JOB = Lifetime

KEYS = (
    # The store
    Key("meta", "hash", "verbs/upkeep/open", _STORE, "layout, and when the store was made"),
    Key(
        "move",
        "hash",
        "state/move_part",
        _ENTRY,
        "the part in a move: phase, its id, the other store, how far it came",
    ),
    Key(
        "moving",
        "hash",
        "verbs/upkeep/migrate",
        _STORE,
        "tells a laneway of an older layout that the store has moved",
    ),
    Key(
        "counters",
        "hash",
        "state/new_runs",
        _STORE,
        "the newest acceptance number; registrations; long arguments; latest time of jobs",
    ),
    Key("states", "hash", "state/runs", _RUN, "state -> how many runs are in it"),
    # Runs
    Key("runs", "hash", "state/runs", _RUN, "number -> record, packed"),
    Key("ids", "hash", "state/new_runs", _RUN, "id -> number"),
    Key("blocks", "hash", "state/new_runs", _RUN, "number / 1000 -> how many runs there are of it"),
    Key("args", "hash", "state/new_runs", _RUN, "number -> arguments, JSON, that are too long for the record"),
    Key("ties", "hash", "state/new_runs", _RUN, "number -> its links to other runs, JSON"),
    Key("follows", "hash", "state/new_runs", _RUN, "number -> follow-ups, packed"),
    Key("results", "hash", "state/runs", _RUN, "number -> result, JSON, that is too long for the record"),
    Key("failures", "hash", "rules/leases", _RUN, "number -> the failure of its newest attempt, JSON"),
    Key("saved", "hash", "rules/leases", _RUN, "number -> its checkpoint, JSON"),
    Key("prepared", "hash", "rules/leases", _RUN, "number -> arguments after `before_start`, JSON"),
    Key("memos:<number>", "hash", "state/memos", _RUN, "kind and name -> memo, packed"),
    Key("log:<number>", "stream", "state/logs", _RUN, "events of a run with a long log, in chunks of JSON"),
    Key("ended:<state>", "zset", "state/runs", _RUN, "runs that ended in that state, by when"),
    Key(
        "streamed",
        "zset",
        "state/runs",
        _RUN,
        "ended runs that have deltas, by when they ended; until they are trimmed",
    ),
    Key("taken:<number>", "list", "rules/inboxes", _RUN, "messages that the run took, packed"),
    Key("takers", "hash", "rules/inboxes", _RUN, "message id -> the run that took it, packed"),
    Key("keys", "hash", "rules/inboxes", _RUN, "idempotency key -> its run; kept for a day at least"),
    Key("orphan_keys", "zset", "verbs/upkeep/prune", _RUN, "keys of runs that are gone, by when they were given"),
    Key("call:<call>", "list", "rules/control_call", _HOUR, "runs that a call has changed"),
    Key("sweep:<call>", "string", "verbs/control/cancel_where", _HOUR, "the newest run that a call looks at"),
    # Shelves
    Key("due", "zset", "rules/queue/shelves", _ENTRY, "runs of the future, by due time"),
    Key(
        "held:<session>",
        "zset",
        "rules/queue/shelves",
        _ENTRY,
        "runs that wait for admission, by place",
    ),
    Key(
        "later:<session>",
        "zset",
        "rules/queue/shelves",
        _ENTRY,
        "runs that were never started and have not joined, by due time",
    ),
    Key("ready:<lane>", "zset", "rules/queue/shelves", _ENTRY, "runs that may start, by rank"),
    Key(
        "parked:<length>:<lane>:<gate>",
        "zset",
        "rules/queue/shelves",
        _ENTRY,
        "runs no claim could start, by rank",
    ),
    Key("aside_lanes", "set", "rules/queue/shelves", _ENTRY, "lanes in which runs are parked behind tasks"),
    Key("aside:<lane>", "set", "rules/queue/shelves", _ENTRY, "tasks behind which runs are parked there"),
    Key("broken_lanes", "set", "rules/queue/shelves", _ENTRY, "lanes in which runs are parked behind breakers"),
    Key("broken:<lane>", "set", "rules/queue/shelves", _ENTRY, "keys of circuits behind which runs are parked there"),
    Key("paused_runs", "set", "state/runs", _ENTRY, "runs that are paused"),
    Key("waiting_runs", "set", "state/runs", _ENTRY, "runs that wait for an answer or another run"),
    Key(
        "deadlines",
        "zset",
        "rules/queue/shelves",
        _ENTRY,
        "runs that ask, by the last instant for an answer",
    ),
    Key(
        "fresh:<lane>",
        "zset",
        "rules/lifecycle/acceptance",
        _RUN,
        "runs of a lane that drops the oldest, by number",
    ),
    # Lanes, users, sessions, tasks
    Key("lanes", "hash", "state/lanes", _STORE, "lane -> its settings and counts, packed"),
    Key("declared", "hash", "rules/settings", _STORE, "lane -> what code declares, packed"),
    Key("ruled", "hash", "rules/settings", _ENTRY, "lane -> what an operator has set, packed"),
    Key(
        "counts:<lane>",
        "hash",
        "rules/lifecycle/acceptance",
        _STORE,
        "outcome of submissions -> how often",
    ),
    Key("working", "set", "state/lanes", _ENTRY, "lanes whose ready order is not empty"),
    Key("seats:<lane>", "hash", "state/lanes", _ENTRY, "user -> counts and turns, packed"),
    Key("caps:<lane>", "hash", "state/lanes", _ENTRY, "user -> cap in effect; 0 while the user is paused"),
    Key("set_caps", "hash", "rules/settings", _ENTRY, "lane and user -> cap that an operator has set"),
    Key("sessions", "hash", "rules/queue/sessions", _ENTRY, "session -> its counts, packed"),
    Key("session_rules", "hash", "rules/settings", _ENTRY, "session -> what an operator has set, packed"),
    Key("paused_sessions", "set", "rules/settings", _ENTRY, "sessions that are paused"),
    Key("paused_users", "set", "rules/settings", _ENTRY, "users who are paused"),
    Key("paused_tasks", "set", "rules/settings", _ENTRY, "tasks that are paused"),
    Key("disabled", "set", "rules/settings", _ENTRY, "tasks that are disabled"),
    Key("circuits", "hash", "rules/queue/circuits", _ENTRY, "task, or task and user -> its circuit, packed"),
    Key("open", "set", "rules/queue/circuits", _ENTRY, "keys of circuits that are not closed"),
    # Incarnations
    Key("workers", "hash", "state/workers", _INCARNATION, "incarnation -> its state, packed"),
    Key("worker_infos", "hash", "state/workers", _INCARNATION, "incarnation -> its registration, JSON"),
    Key("worker_tasks", "hash", "state/workers", _INCARNATION, "incarnation -> tasks it knows, packed"),
    Key("leases:<incarnation>", "set", "state/workers", _INCARNATION, "numbers of the runs whose leases it holds"),
    Key("busy:<incarnation>", "hash", "state/workers", _INCARNATION, "lane -> how many of its runs it executes"),
    Key("asked:<incarnation>", "set", "state/workers", _INCARNATION, "runs it executes that have an open request"),
    Key(
        "resting",
        "hash",
        "rules/wakeups",
        _INCARNATION,
        "idle incarnation -> order of registration, next due time it knows, room of a step that may be made ahead",
    ),
    Key("heartbeat", "hash", "state/workers", _STORE, "when any worker last renewed, and until when no lapse counts"),
    # Jobs
    Key("jobs", "hash", "state/job_records", _JOB, "id -> its record, packed"),
    Key("jobspecs", "hash", "state/job_records", _JOB, "id -> its spec, JSON"),
    Key("jobnames", "hash", "state/job_records", _JOB, "owner and name -> id"),
    Key("jobs_listed", "zset", "state/job_records", _JOB, "names and ids, in order"),
    Key("jobs_of:<owner>", "zset", "state/job_records", _JOB, "names and ids of one owner's, in order"),
    Key("jobs_due", "zset", "state/due_jobs", _JOB, "ids by when they fire"),
    Key("fires:<id>", "list", "state/fire_records", _JOB, "records of its newest fires, packed"),
    Key("recorded:<id>", "set", "state/fire_records", _JOB, "the runs in those records"),
)


def key_of(name: str) -> Key | None:
    """Return the key of that name, without the prefix; None if a store has no such key.

    >>> key_of("ready:main").pattern, key_of("nothing")
    ('ready:<lane>', None)
    """
    return next((key for key in KEYS if _shape(key.pattern).fullmatch(name)), None)


def refuse_layout(layout: int, where: str) -> None:
    """Raise StoreTooNew or NotAStore for a store whose layout this laneway can neither use nor migrate."""
    if layout > LAYOUT:
        raise StoreTooNew(f"{where} is written in layout {layout}; this laneway reads up to {LAYOUT}: upgrade it")
    if layout < OLDEST_LAYOUT:
        # No released version has written it, so none reads it.
        raise NotAStore(
            f"{where} is written in layout {layout}, by a laneway from before its first release;"
            " take another namespace, or delete its keys"
        )


@cache
def _shape(pattern: str) -> re.Pattern[str]:
    named = re.sub(r"<length>", r"\\d+", pattern)
    return re.compile(re.sub(r"<\w+>", ".*", named), re.DOTALL)
