"""What happens to a run is said in words, whatever the data of an event are."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from laneway.cli.runs.events import event_text
from laneway.core.records import events
from laneway.core.records.events import Event

NOW = datetime(2031, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("data", [None, {}, {"x": 1}, [1, 2], "text", 7])
@pytest.mark.parametrize("kind", [*sorted(events.RESERVED), "progress", "tokens.used"])
def test_an_event_of_any_shape_can_be_said(kind: str, data: object) -> None:
    assert isinstance(event_text(Event("a", 1, kind, data, 1, NOW)), str)


STACK = 'File "a.py", line 3, in outer\n    inner()\n  File "b.py", line 7, in inner\n    wait()'


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        ("snoozed", {"delay": 90}, "to be run again in 1m30s; nothing is charged"),
        ("cancel_delivered", {}, "the handler was told to stop"),
        ("overdue", {}, "longer than its timeout; the handler was told to stop"),
        (
            "stuck",
            {"seconds": 10, "stack": STACK},
            'told to stop 10s ago, and has not, at File "b.py", line 7, in inner',
        ),
        ("stuck", {"seconds": 10, "stack": ""}, "told to stop 10s ago, and has not"),
        ("merged", {"message": "b", "nth": 1}, "message b became part of its arguments"),
        ("steered", {"message": "b", "nth": 1}, "message b was put into its inbox"),
        ("dropped", {"reason": "session_full"}, "it will never start (session_full)"),
        (
            "question",
            {"name": "ok", "question": {"sum": 5}, "timeout": 90.0},
            'ok: {"sum":5} (to be answered within 1m30s)',
        ),
        ("answered", {"name": "ok", "answer": "yes"}, "ok: yes"),
        ("unanswered", {"name": "ok"}, "nobody answered ok in time"),
        ("superseded", {"by": "b"}, "message b came instead of an answer"),
        ("called", {"name": "draft 1", "run_id": "b"}, "draft 1: run b"),
        ("returned", {"name": "draft 1", "run_id": "b", "state": "failed"}, "draft 1: run b failed"),
        (
            "steps_changed",
            {"step": "pay", "was": 2, "now": 1},
            "step pay was number 2 in an earlier attempt, and is number 1 now",
        ),
    ],
)
def test_what_happens_to_a_run_is_said_in_words(kind: str, data: object, said: str) -> None:
    assert event_text(Event("a", 1, kind, data, 1, NOW)) == said
