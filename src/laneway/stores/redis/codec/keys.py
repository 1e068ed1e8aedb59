"""Every key of a store on Redis: its type, who writes it, what it holds, when it goes away.

All begin with `laneway:{namespace}:`, which is left out here. The braces are Redis's own: what stands between them
decides on which node of a cluster a key is kept, so a namespace is in one place, and a script may use all of it.

A number is a run's acceptance number. In sorted sets runs are numbers of 15 digits, so that equal scores are in the
order of acceptance. Beside the keys there are channels: `wake:<incarnation>` wakes a worker, or brings it the answer to
the step that it has lent; `said` tells that events were written.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache
from typing import NamedTuple

LAYOUT = 6  # the numbered form of all this
OLDEST_LAYOUT = 5  # that `verbs/upkeep/migrate.lua` brings to it


class Goes(StrEnum):
    """When a key, or what is in it, goes away."""

    NEVER = "never"
    SETTLED = "with what it holds: when that has ended, is admitted, is answered, is set no more"
    PRUNED = "with the runs in it, when they are pruned"
    LEFT = "with its incarnation"
    EXPIRES = "by itself, an hour after the call"
    REMOVED = "with its job"


class Key(NamedTuple):
    """A key, or a family of keys: `<...>` stands for a name."""

    pattern: str
    type: str  # as the command TYPE says it
    owner: str  # the file of lua/ that writes it
    goes: Goes
    meaning: str


_NEVER, _SETTLED, _PRUNED, _LEFT, _EXPIRES, _REMOVED = Goes

KEYS = (
    # The store
    Key("meta", "hash", "verbs/upkeep/open", _NEVER, "layout, and when the store was made"),
    Key(
        "move",
        "hash",
        "state/move_part",
        _SETTLED,
        "the part in a move: phase, its id, the other store, how far it came",
    ),
    Key(
        "moving",
        "hash",
        "verbs/upkeep/migrate",
        _NEVER,
        "tells a laneway of an older layout that the store has moved",
    ),
    Key(
        "counters",
        "hash",
        "state/new_runs",
        _NEVER,
        "the newest acceptance number; how often was registered; in `args`; time of jobs",
    ),
    Key("states", "hash", "state/runs", _PRUNED, "state -> how many runs are in it"),
    # Runs
    Key("runs", "hash", "state/runs", _PRUNED, "number -> record, packed"),
    Key("ids", "hash", "state/new_runs", _PRUNED, "id -> number"),
    Key("blocks", "hash", "state/new_runs", _PRUNED, "number / 1000 -> how many runs there are of it"),
    Key("args", "hash", "state/new_runs", _PRUNED, "number -> arguments, JSON, that are too long for the record"),
    Key("ties", "hash", "state/new_runs", _PRUNED, "number -> what ties it to other runs, JSON"),
    Key("follows", "hash", "state/new_runs", _PRUNED, "number -> follow-ups, packed"),
    Key("results", "hash", "state/runs", _PRUNED, "number -> result, JSON, that is too long for the record"),
    Key("failures", "hash", "rules/leases", _PRUNED, "number -> how its newest attempt failed, JSON"),
    Key("saved", "hash", "rules/leases", _PRUNED, "number -> what its checkpoint saved, JSON"),
    Key("prepared", "hash", "rules/leases", _PRUNED, "number -> arguments as `before_start` left them, JSON"),
    Key("memos:<number>", "hash", "state/memos", _PRUNED, "kind and name -> memo, packed"),
    Key("log:<number>", "stream", "state/logs", _PRUNED, "events of a run that has said much, in chunks of JSON"),
    Key("ended:<state>", "zset", "state/runs", _PRUNED, "runs that ended so, by when"),
    Key(
        "streamed",
        "zset",
        "state/runs",
        _PRUNED,
        "ended runs that have deltas, by when they ended; until they are trimmed",
    ),
    Key("taken:<number>", "list", "rules/inboxes", _PRUNED, "messages that a run took, packed"),
    Key("takers", "hash", "rules/inboxes", _PRUNED, "message id -> the run that took it, packed"),
    Key("keys", "hash", "rules/inboxes", _PRUNED, "idempotency key -> the run it stands for; not before a day is over"),
    Key("orphan_keys", "zset", "verbs/upkeep/prune", _PRUNED, "keys of runs that are gone, by when they were given"),
    Key("call:<call>", "list", "rules/control_call", _EXPIRES, "runs that a call has changed"),
    Key("sweep:<call>", "string", "verbs/runs/cancel_where", _EXPIRES, "up to which run a call looks"),
    # Shelves
    Key("due", "zset", "rules/queue/shelves", _SETTLED, "runs of the future, by due time"),
    Key(
        "held:<session>",
        "zset",
        "rules/queue/shelves",
        _SETTLED,
        "runs that wait to be admitted, by place",
    ),
    Key(
        "later:<session>",
        "zset",
        "rules/queue/shelves",
        _SETTLED,
        "runs that were never started and have not joined, by due time",
    ),
    Key("ready:<lane>", "zset", "rules/queue/shelves", _SETTLED, "runs that may start, by rank"),
    Key(
        "parked:<length>:<lane>:<gate>",
        "zset",
        "rules/queue/shelves",
        _SETTLED,
        "runs no claim could start, by rank",
    ),
    Key("aside_lanes", "set", "rules/queue/shelves", _SETTLED, "lanes in which runs are parked behind tasks"),
    Key("aside:<lane>", "set", "rules/queue/shelves", _SETTLED, "tasks behind which runs are parked there"),
    Key("broken_lanes", "set", "rules/queue/shelves", _SETTLED, "lanes in which runs are parked behind breakers"),
    Key("broken:<lane>", "set", "rules/queue/shelves", _SETTLED, "keys of circuits behind which runs are parked there"),
    Key("paused_runs", "set", "state/runs", _SETTLED, "runs that are paused"),
    Key("waiting_runs", "set", "state/runs", _SETTLED, "runs that wait for an answer or another run"),
    Key(
        "deadlines",
        "zset",
        "rules/queue/shelves",
        _SETTLED,
        "runs that ask, by the last instant for an answer",
    ),
    Key(
        "fresh:<lane>",
        "zset",
        "rules/lifecycle/acceptance",
        _PRUNED,
        "runs that may have to make way where the oldest do, by number",
    ),
    # Lanes, users, sessions, tasks
    Key("lanes", "hash", "state/lanes", _NEVER, "lane -> what holds of it and its counts, packed"),
    Key("declared", "hash", "rules/settings", _NEVER, "lane -> what is declared of it, packed"),
    Key("ruled", "hash", "rules/settings", _SETTLED, "lane -> what an operator set of it, packed"),
    Key(
        "counts:<lane>",
        "hash",
        "rules/lifecycle/acceptance",
        _NEVER,
        "what became of submissions -> how often",
    ),
    Key("working", "set", "state/lanes", _SETTLED, "lanes that have something in the ready order"),
    Key("seats:<lane>", "hash", "state/lanes", _SETTLED, "user -> counts and turns, packed"),
    Key("caps:<lane>", "hash", "state/lanes", _SETTLED, "user -> cap that holds; 0 while the user is paused"),
    Key("set_caps", "hash", "rules/settings", _SETTLED, "lane and user -> cap that an operator set"),
    Key("sessions", "hash", "rules/queue/sessions", _SETTLED, "session -> its book, packed"),
    Key("session_rules", "hash", "rules/settings", _SETTLED, "session -> what an operator set of it, packed"),
    Key("paused_sessions", "set", "rules/settings", _SETTLED, "sessions that are paused"),
    Key("paused_users", "set", "rules/settings", _SETTLED, "users who are paused"),
    Key("paused_tasks", "set", "rules/settings", _SETTLED, "tasks that are paused"),
    Key("disabled", "set", "rules/settings", _SETTLED, "tasks that are disabled"),
    Key("circuits", "hash", "rules/queue/circuits", _SETTLED, "task, or task and user -> its circuit, packed"),
    Key("open", "set", "rules/queue/circuits", _SETTLED, "keys of circuits that are not closed"),
    # Incarnations
    Key("workers", "hash", "state/workers", _LEFT, "incarnation -> its state, packed"),
    Key("worker_infos", "hash", "state/workers", _LEFT, "incarnation -> as it registered, JSON"),
    Key("worker_tasks", "hash", "state/workers", _LEFT, "incarnation -> tasks it knows, packed"),
    Key("leases:<incarnation>", "set", "state/workers", _LEFT, "numbers of the runs whose leases it has"),
    Key("busy:<incarnation>", "hash", "state/workers", _LEFT, "lane -> how many of its runs it executes"),
    Key("asked:<incarnation>", "set", "state/workers", _LEFT, "runs it executes of which something is requested"),
    Key(
        "resting",
        "hash",
        "rules/wakeups",
        _LEFT,
        "incarnations that rest -> order of registering, next due time told, room of those that lend their next step",
    ),
    Key("heartbeat", "hash", "state/workers", _NEVER, "when anybody last renewed, and until when no lapse counts"),
    # Jobs
    Key("jobs", "hash", "state/job_records", _REMOVED, "id -> its record, packed"),
    Key("jobspecs", "hash", "state/job_records", _REMOVED, "id -> its spec, JSON"),
    Key("jobnames", "hash", "state/job_records", _REMOVED, "owner and name -> id"),
    Key("jobs_listed", "zset", "state/job_records", _REMOVED, "names and ids, in order"),
    Key("jobs_of:<owner>", "zset", "state/job_records", _REMOVED, "names and ids of one owner's, in order"),
    Key("jobs_due", "zset", "state/due_jobs", _REMOVED, "ids by when they fire"),
    Key("fires:<id>", "list", "state/fire_records", _REMOVED, "records of its newest fires, packed"),
    Key("recorded:<id>", "set", "state/fire_records", _REMOVED, "the runs in those records"),
)


def key_of(name: str) -> Key | None:
    """Return what a key is, given without its prefix; None if a store has no such key.

    >>> key_of("ready:main").pattern, key_of("nothing")
    ('ready:<lane>', None)
    """
    return next((key for key in KEYS if _shape(key.pattern).fullmatch(name)), None)


@cache
def _shape(pattern: str) -> re.Pattern[str]:
    named = re.sub(r"<length>", r"\\d+", pattern)
    return re.compile(re.sub(r"<\w+>", ".*", named), re.DOTALL)
