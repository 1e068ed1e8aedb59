"""What a task, a lane and a session may be told."""

from datetime import timedelta
from typing import Any

import pytest

from laneway.core.instants import SECOND
from laneway.core.policy import (
    DEFAULT_LANES,
    MAIN,
    Lane,
    SessionPolicy,
    TaskPolicy,
    checked_count,
    checked_name,
)
from laneway.core.retry import Retry
from laneway.errors import BadSetting


def policy(**given: Any) -> TaskPolicy:
    return TaskPolicy.of(**{"lane": "main", "timeout": None, "retry": Retry(), "max_crashes": 3} | given)


@pytest.mark.parametrize("name", ["a", "x" * 200, "chat 7", "жук-鍵-🗝", "a/b:c%d'e\"f\\"])
def test_a_name_may_be_any_printable_text(name: str) -> None:
    assert checked_name(name, "user") == name


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("", "a user needs a name: text of 1 to 200 characters, not ''"),
        ("x" * 201, "a user needs a name: text of 1 to 200 characters, not one of 201"),
        (7, "a user needs a name: text of 1 to 200 characters, not 7"),
        (None, "a user needs a name: text of 1 to 200 characters, not None"),
        ("a\x00b", r"the user name 'a\\x00b' has characters that cannot be printed"),
        ("a\nb", r"the user name 'a\\nb' has characters that cannot be printed"),
        ("\ud800", r"the user name '\\ud800' has characters that cannot be printed"),
    ],
)
def test_what_is_no_name_is_refused(wrong: Any, message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        checked_name(wrong, "user")


@pytest.mark.parametrize("wrong", [0, -1, 1.0, "1", None, True])
def test_a_count_is_a_whole_number_of_at_least_one(wrong: Any) -> None:
    assert checked_count(1, "x") == 1
    with pytest.raises(BadSetting, match=r"x is .*; it must be a whole number, 1 or more"):
        checked_count(wrong, "x")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": ""}, "a lane needs a name"),
        ({"name": "x", "limit": 0}, r"Lane\('x'\).limit is 0; it must be a whole number, 1 or more"),
        ({"name": "x", "limit": True}, r"Lane\('x'\).limit is True"),
        ({"name": "x", "per_user": 0}, r"Lane\('x'\).per_user is 0"),
        ({"name": "x", "per_user": 1.5}, r"Lane\('x'\).per_user is 1.5"),
    ],
)
def test_a_lane_that_makes_no_sense_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        Lane(**wrong)


def test_the_default_lanes_are_those_of_the_design() -> None:
    assert {lane.name: (lane.limit, lane.per_user) for lane in DEFAULT_LANES} == {
        "main": (30, None),
        "subagent": (50, None),
        "team": (100, None),
        "cron": (30, None),
        "foreground": (5, 2),
        "background": (3, 1),
        "delivery": (10, None),
    }
    assert MAIN in {lane.name for lane in DEFAULT_LANES}


def test_a_session_admits_at_least_one() -> None:
    assert SessionPolicy().max_concurrent == 1
    with pytest.raises(BadSetting, match=r"SessionPolicy\.max_concurrent is 0"):
        SessionPolicy(max_concurrent=0)


def test_a_task_policy_takes_what_a_user_writes() -> None:
    made = policy(lane="team", timeout=timedelta(minutes=1), retry=5, max_crashes=1)

    assert made == TaskPolicy(lane="team", timeout=60 * SECOND, retry=Retry(attempts=5), max_crashes=1)
    assert policy(timeout=0.5).timeout == SECOND // 2
    assert policy(retry=None).retry == Retry(attempts=1)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"timeout": 0}, "timeout is 0; leave it out for none"),
        ({"timeout": -5}, "timeout is -5; it must be 0 or more"),
        ({"retry": True}, "retry is True; it must be a Retry, a number of attempts, or None"),
        ({"retry": "often"}, "retry is 'often'; it must be a Retry"),
        ({"retry": 0}, r"Retry\(attempts=0\)"),
        ({"max_crashes": 0}, "max_crashes is 0; it must be a whole number, 1 or more"),
        ({"lane": ""}, "a lane needs a name"),
    ],
)
def test_a_task_policy_that_makes_no_sense_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        policy(**wrong)
