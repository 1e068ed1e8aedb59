"""What a task, a lane and a session may be told."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from laneway.core.common.checks import checked_count, checked_name
from laneway.core.common.instants import SECOND
from laneway.core.records.policy import (
    DEFAULT_LANES,
    MAIN,
    NO_RULE,
    PLAIN,
    Drop,
    Lane,
    Mode,
    Rule,
    SessionIntent,
    SessionPolicy,
    TaskPolicy,
    WhenFull,
    WhileWaiting,
)
from laneway.core.records.retry import Retry
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
        ({"name": "x", "limit": -3}, r"Lane\('x'\).limit is -3"),
        ({"name": "x", "worker_limit": 0}, r"Lane\('x'\).worker_limit is 0"),
        ({"name": "x", "max_pending": 0}, r"Lane\('x'\).max_pending is 0"),
        ({"name": "x", "max_pending": "many"}, r"Lane\('x'\).max_pending is 'many'"),
        ({"name": "x", "when_full": "drop_odl"}, "unknown when_full 'drop_odl', did you mean 'drop_old'?"),
        ({"name": "x", "when_full": None}, "unknown when_full 'None'"),
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


def test_when_full_may_be_given_as_text() -> None:
    assert Lane("x", when_full="refuse").when_full is WhenFull.REFUSE


def test_a_session_policy_says_nothing_of_what_was_not_given() -> None:
    assert SessionPolicy().rule == NO_RULE
    assert SessionPolicy().arrival() == PLAIN
    assert SessionPolicy(cap=3, pass_on_retry=False).rule == Rule(cap=3, pass_on_retry=False)


def test_a_session_policy_takes_what_a_user_writes() -> None:
    policy = SessionPolicy(mode="steer", drop="new", while_waiting="answer", debounce=timedelta(seconds=2))

    assert (policy.mode, policy.drop, policy.while_waiting) == (Mode.STEER, Drop.NEW, WhileWaiting.ANSWER)
    assert policy.arrival() == SessionIntent(
        mode=Mode.STEER,
        debounce=2 * SECOND,
        max_wait=10 * SECOND,
        rule=Rule(drop=Drop.NEW, while_waiting=WhileWaiting.ANSWER),
    )
    assert SessionPolicy(debounce=2, max_wait=2).arrival().max_wait == 2 * SECOND


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_concurrent": 0}, r"SessionPolicy\.max_concurrent is 0; it must be a whole number, 1 or more"),
        ({"max_concurrent": True}, r"SessionPolicy\.max_concurrent is True"),
        ({"cap": 0}, r"SessionPolicy\.cap is 0"),
        ({"cap": -1}, r"SessionPolicy\.cap is -1"),
        ({"cap": 2.5}, r"SessionPolicy\.cap is 2\.5"),
        ({"mode": "interupt"}, "unknown mode 'interupt', did you mean 'interrupt'?"),
        ({"mode": None}, "unknown mode 'None'"),
        ({"drop": "newest"}, "unknown drop 'newest', did you mean 'new'?"),
        ({"while_waiting": "cancle"}, "unknown while_waiting 'cancle', did you mean 'cancel'?"),
        ({"pass_on_retry": 1}, "SessionPolicy.pass_on_retry is 1; it must be True or False"),
        ({"debounce": -1}, "debounce is -1; it must be 0 or more"),
        ({"debounce": timedelta(seconds=-1)}, "debounce is -1"),
        ({"debounce": "2"}, "debounce is '2'"),
        ({"debounce": 2, "max_wait": 1}, "max_wait is 1, less than the debounce of 2"),
        ({"debounce": 2, "max_wait": -1}, "max_wait is -1; it must be 0 or more"),
    ],
)
def test_a_session_policy_that_makes_no_sense_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        SessionPolicy(**wrong)


def test_a_rule_lies_over_another_where_it_says_something() -> None:
    below = Rule(cap=3, drop=Drop.NEW, pass_on_retry=True)

    assert Rule(cap=5, pass_on_retry=False).over(below) == Rule(cap=5, drop=Drop.NEW, pass_on_retry=False)
    assert NO_RULE.over(below) == below
    assert below.over(NO_RULE) == below


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


HUGE = 10**30


@pytest.mark.parametrize(
    "make",
    [
        lambda: Lane("main", limit=HUGE),
        lambda: Lane("main", per_user=HUGE),
        lambda: SessionPolicy(cap=HUGE),
        lambda: SessionPolicy(max_concurrent=HUGE),
    ],
)
def test_a_number_that_no_store_can_keep_is_refused_when_it_is_given(make: Callable[[], object]) -> None:
    with pytest.raises(BadSetting, match="at most"):
        make()
