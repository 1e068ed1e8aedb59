"""Bad input: a typed error that says what to change; nothing stored, nothing lost."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from laneway import (
    BadArguments,
    BadSetting,
    Lane,
    LanewayError,
    Scheduler,
    SessionPolicy,
    Submission,
    UnknownRun,
    UnknownTask,
)
from laneway.core.common.addresses import without_password
from laneway.core.records.run import ReceiptOutcome
from laneway.errors import BadURL, StoreError, UsageError
from laneway.settings import Settings
from laneway.testing import FakeClock

# Options of submit


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delay": -1}, "delay is -1; it must be 0 or more (seconds or a timedelta)"),
        ({"delay": timedelta(seconds=-1)}, "delay is -1 day, 23:59:59; it must be 0 or more (seconds or a timedelta)"),
        ({"delay": float("inf")}, "delay is inf; it must be a finite number of seconds"),
        ({"delay": float("nan")}, "delay is nan; it must be a finite number of seconds"),
        ({"delay": "5"}, "delay is '5'; it must be seconds or a timedelta"),
        ({"delay": True}, "delay is True; it must be seconds or a timedelta"),
        ({"delay": 1_000_000_000}, "delay is 1000000000; the longest is 20 years"),
        (
            {"at": datetime(2026, 1, 1)},  # noqa: DTZ001 - the missing zone is what is tested
            "the instant 2026-01-01T00:00:00 has no time zone; give an aware datetime",
        ),
        ({"at": datetime(2026, 1, 1, tzinfo=UTC), "delay": 5}, "give delay or at, not both"),
        ({"priority": 101}, "priority is 101; it must be a whole number from -100 to 100"),
        ({"priority": -101}, "priority is -101; it must be a whole number from -100 to 100"),
        ({"priority": 1.5}, "priority is 1.5; it must be a whole number from -100 to 100"),
        ({"priority": "5"}, "priority is '5'; it must be a whole number from -100 to 100"),
        ({"user": ""}, "a user needs a name: text of 1 to 200 characters, not ''"),
        ({"user": 7}, "a user needs a name: text of 1 to 200 characters, not 7"),
        ({"user": "u" * 201}, "a user needs a name: text of 1 to 200 characters, not one of 201"),
        ({"user": "a\x00b"}, "the user name 'a\\x00b' has characters that cannot be printed"),
        ({"session": "\ud800"}, "the session name '\\ud800' has characters that cannot be printed"),
        ({"session": ""}, "a session needs a name: text of 1 to 200 characters, not ''"),
        ({"lane": ""}, "a lane needs a name: text of 1 to 200 characters, not ''"),
        ({"session_policy": SessionPolicy()}, "session_policy is given without a session"),
        ({"sesion": "chat"}, "unknown option of submit 'sesion', did you mean 'session'?"),
        (
            {"session": "chat", "mode": "steer"},
            "mode is part of the session's policy: session_policy=SessionPolicy(mode=...)",
        ),
        (
            {"zzz": 1},
            (
                "unknown option of submit 'zzz'; it can be at, delay, key, lane, on_failure, priority, session,"
                " session_policy, then, trace, user"
            ),
        ),
    ],
)
async def test_a_wrong_option_of_submit_is_refused_and_nothing_is_stored(
    app: Scheduler, options: dict[str, Any], message: str
) -> None:
    @app.task
    def work() -> None: ...

    with pytest.raises(BadSetting) as caught:
        await app.submit(work, {}, **options)
    with pytest.raises(BadSetting) as bound:
        await work.using(**options).submit()

    assert str(caught.value) == str(bound.value) == message
    assert await app.runs() == []


@pytest.mark.parametrize("option", ["deliver", "rights"])
async def test_an_option_of_a_later_laneway_is_refused_not_ignored(app: Scheduler, option: str) -> None:
    @app.task
    def work() -> None: ...

    later: dict[str, Any] = {option: "x"}

    with pytest.raises(BadSetting, match=f"^unknown option of submit '{option}'"):
        await app.submit(work, **later)
    assert await app.runs() == []


async def test_options_that_are_none_are_as_if_not_given(app: Scheduler) -> None:
    @app.task(lane="cron")
    def work() -> None: ...

    receipt = await app.submit(work, None, user=None, session=None, priority=0, delay=0, at=None, lane=None)

    run = await app.get(receipt)
    assert (run.lane, run.user, run.session, run.priority) == ("cron", None, None, 0)
    assert run.due_at == run.accepted_at


async def test_an_unknown_lane_falls_back_to_main_and_the_receipt_says_so(app: Scheduler) -> None:
    @app.task
    def work() -> None: ...

    receipt = await app.submit(work, lane="fastlane")

    assert (receipt.outcome, receipt.reason) == (ReceiptOutcome.ACCEPTED, "lane_unknown")
    assert (await app.get(receipt)).lane == "main"


async def test_an_instant_in_the_past_is_due_at_once(app: Scheduler) -> None:
    @app.task
    def work() -> None: ...

    receipt = await app.submit(work, at=datetime(1960, 1, 1, tzinfo=UTC))

    run = await app.get(receipt)
    assert run.due_at == run.accepted_at


async def test_one_wrong_item_of_many_stores_none(app: Scheduler) -> None:
    @app.task
    def work(n: int) -> None: ...

    wrongs: list[Any] = [(work, {"n": "x"}), Submission(work, {"n": 1}, delay=-1), ("wrok", {})]

    for wrong in wrongs:
        with pytest.raises(UsageError):
            await app.submit_many([(work, {"n": 0}), wrong, (work, {"n": 2})])

    assert await app.runs() == []


async def test_many_items_get_a_receipt_each_in_their_order(app: Scheduler) -> None:
    @app.task
    def work(n: int) -> None: ...

    receipts = await app.submit_many([(work, {"n": 0}), Submission("work", {"n": 1}, user="ann", lane="nowhere")])
    nothing = await app.submit_many([])

    runs = [await app.get(receipt) for receipt in receipts]
    assert [(run.args["n"], run.user) for run in runs] == [(0, None), (1, "ann")]
    assert [receipt.reason for receipt in receipts] == [None, "lane_unknown"]
    assert nothing == []


# Reading


async def test_an_unknown_state_in_a_filter_is_refused(app: Scheduler) -> None:
    with pytest.raises(BadSetting) as near:
        await app.runs(state="runing")
    with pytest.raises(BadSetting) as far:
        await app.runs(state="xyz")

    assert str(near.value) == "unknown state 'runing', did you mean 'running'?"
    assert str(far.value) == (
        "unknown state 'xyz'; it can be cancelled, dropped, failed, paused, pending, running, succeeded, waiting"
    )


async def test_an_unknown_run_is_refused_by_every_way_of_asking(app: Scheduler) -> None:
    messages = []
    for ask in (app.get, app.result, app.wait):
        with pytest.raises(UnknownRun) as caught:
            await ask("nobody")
        messages.append(str(caught.value))
    with pytest.raises(UnknownRun) as caught:
        await anext(app.events("nobody"))

    assert [*messages, str(caught.value)] == ["no run 'nobody'"] * 4
    assert (caught.value.run_id, caught.value.matches) == ("nobody", 0)


async def test_a_beginning_that_fits_several_runs_is_refused(app: Scheduler) -> None:
    @app.task
    def work() -> None: ...

    first, second = await work.submit(), await work.submit()
    begin = first.run_id[:4]

    with pytest.raises(UnknownRun) as caught:
        await app.get(begin)

    assert second.run_id.startswith(begin)
    assert str(caught.value) == f"2 runs begin with {begin!r}, give more of the id"
    assert caught.value.matches == 2


async def test_a_run_is_found_by_the_beginning_of_its_id(app: Scheduler) -> None:
    @app.task
    def work() -> None: ...

    receipt = await work.submit()

    assert (await app.get(receipt.run_id[:10])).id == receipt.run_id
    assert (await app.get(await app.get(receipt))).id == receipt.run_id
    with pytest.raises(UnknownRun):
        await app.get("")


# Making a scheduler


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "sqlight:///x.db",
            (
                "sqlight:// is not a store laneway knows; it can be sqlite:///file.db, redis://host,"
                " postgresql://host/database or memory://"
            ),
        ),
        (
            "mongodb://host/db",
            (
                "mongodb:// is not a store laneway knows; it can be sqlite:///file.db, redis://host,"
                " postgresql://host/database or memory://"
            ),
        ),
        ("sqlite://x.db", "'sqlite://x.db' names no file; write sqlite:///relative.db or sqlite:////absolute/path.db"),
        ("sqlite:///", "'sqlite:///' names no file; write sqlite:///relative.db or sqlite:////absolute/path.db"),
        ("redis://ann:secret@host/six", "redis://: the database is a number, such as /0, not 'six'"),
        (
            "redis+shard://h",
            "redis+shard:// is not known; a server is redis://host, or redis+cluster:// or redis+sentinel://",
        ),
    ],
)
def test_an_address_that_is_no_store_is_refused_without_its_password(url: str, message: str) -> None:
    with pytest.raises(BadURL) as caught:
        Scheduler(url)

    assert str(caught.value) == message


@pytest.mark.parametrize("scheme", ["redis", "valkeys", "unix", "redis+cluster"])
def test_a_store_whose_extra_is_not_installed_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    for name in [name for name in sys.modules if name.startswith("laneway.stores.redis")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "hiredis", None)

    with pytest.raises(BadURL) as caught:
        Scheduler(f"{scheme}://ann:secret@/host")

    assert str(caught.value) == f"{scheme}:// needs a package more: pip install 'laneway[redis]'"


def test_the_address_comes_from_the_argument_then_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANEWAY_STORE", "memory://")

    assert Scheduler().url == "memory://"
    monkeypatch.setenv("LANEWAY_STORE", "nonsense")
    assert Scheduler("memory://").url == "memory://"
    with pytest.raises(BadURL):
        Scheduler()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"concurency": 3}, "unknown setting 'concurency', did you mean 'concurrency'?"),
        (
            {"zzz": 3},
            (
                "unknown setting 'zzz'; it can be"
                " args_limit, busy_timeout, concurrency, grace, keep_deltas, lease, max_children, max_depth,"
                " max_pressure, min_memory,"
                " renew_every, result_limit, retention, stall_after, stuck_drain, submit_timeout, tz"
            ),
        ),
        ({"tz": "Berlin"}, "unknown time zone 'Berlin', did you mean 'Europe/Berlin'?"),
        ({"tz": None}, "tz is None; it must be the name of a time zone"),
        ({"tz": 2}, "tz is 2; it must be the name of a time zone, such as 'Europe/Berlin'"),
        ({"concurrency": 0}, "concurrency is 0; it must be a whole number, 1 or more"),
        ({"concurrency": 2.5}, "concurrency is 2.5; it must be a whole number, 1 or more"),
        ({"concurrency": True}, "concurrency is True; it must be a whole number, 1 or more"),
        ({"args_limit": -1}, "args_limit is -1; it must be a whole number, 1 or more"),
        ({"result_limit": "1M"}, "result_limit is '1M'; it must be a whole number, 1 or more"),
        ({"lease": 0}, "lease is 0; it must be more (seconds)"),
        ({"renew_every": 0}, "renew_every is 0; it must be more (seconds)"),
        ({"busy_timeout": -5}, "busy_timeout is -5; it must be 0 or more (seconds or a timedelta)"),
        ({"grace": "long"}, "grace is 'long'; it must be seconds or a timedelta"),
        (
            {"lease": 9.5, "renew_every": 5.5},
            (
                "renew_every is 5.5 s and lease 9.5 s;"
                " a lease must be at least two renewals long, or one late renewal loses it"
            ),
        ),
    ],
)
def test_a_wrong_setting_is_refused_with_what_to_change(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSetting) as caught:
        Scheduler("memory://", **settings)

    assert str(caught.value) == message


def test_settings_have_the_defaults_of_the_design() -> None:
    settings = Settings()

    assert (settings.concurrency, settings.lease, settings.renew_every, settings.grace) == (50, 15, 5, 10)
    assert (settings.args_limit, settings.result_limit) == (256 * 1024, 1024 * 1024)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, "Lane('x').limit is 0; it must be a whole number, 1 or more"),
        ({"limit": "3"}, "Lane('x').limit is '3'; it must be a whole number, 1 or more"),
        ({"per_user": 0}, "Lane('x').per_user is 0; it must be a whole number, 1 or more"),
    ],
)
def test_a_wrong_lane_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSetting) as caught:
        Lane("x", **options)

    assert str(caught.value) == message


# Working


@pytest.mark.parametrize("concurrency", [0, -1, 1.5, "3"])
async def test_a_wrong_concurrency_is_refused_by_every_way_of_working(clock: FakeClock, concurrency: Any) -> None:
    app = Scheduler("memory://", clock=clock)
    message = f"concurrency is {concurrency!r}; it must be a whole number, 1 or more"

    for start in (app.work, app.drain):
        with pytest.raises(BadSetting) as caught:
            await start(concurrency=concurrency)
        assert str(caught.value) == message
    with pytest.raises(BadSetting) as caught:
        async with app.running(concurrency=concurrency):
            pytest.fail("it must not start")

    assert str(caught.value) == message


async def test_a_scheduler_works_once_at_a_time(app: Scheduler) -> None:
    message = "this scheduler is working already; stop it first, or use another one"

    async with app.running():
        for start in (app.work, app.drain):
            with pytest.raises(BadSetting) as caught:
                await start()
            assert str(caught.value) == message
    await app.drain()


async def test_stop_refuses_a_negative_wait_and_goes_on_working(app: Scheduler) -> None:
    @app.task
    async def work() -> str:
        return "done"

    async with app.running():
        with pytest.raises(BadSetting) as caught:
            await app.stop(-1)
        assert await app.result(await work.submit(), timeout=5) == "done"

    assert str(caught.value) == "timeout is -1; it must be 0 or more (seconds or a timedelta)"


# The tree


def test_errors_are_sorted_by_who_must_act() -> None:
    assert issubclass(BadArguments, UsageError)
    assert issubclass(BadSetting, UsageError)
    assert not issubclass(StoreError, UsageError)
    assert issubclass(UsageError, LanewayError)


def plain() -> None: ...


@pytest.mark.parametrize(("what", "shown"), [(plain, "plain"), (None, "None"), (5, "5")])
async def test_what_is_no_task_is_refused_with_what_to_do(app: Scheduler, what: Any, shown: str) -> None:
    with pytest.raises(BadSetting) as caught:
        await app.submit(what)

    assert str(caught.value) == f"{shown} is not a task; register the function with @app.task, or give a task's name"


async def test_the_task_of_another_scheduler_is_refused(app: Scheduler) -> None:
    other = Scheduler("memory://")
    theirs = other.task(name="theirs")(lambda: None)
    same_name = other.task(name="work")(lambda: None)
    app.task(name="work")(lambda: None)

    with pytest.raises(UnknownTask):
        await app.submit(theirs)
    with pytest.raises(BadSetting) as caught:
        await app.submit(same_name)

    assert str(caught.value) == "task 'work' is another scheduler's; submit it there, or by its name"
    assert await app.runs() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"at": "2026-01-01"}, "at is '2026-01-01'; it must be a datetime with a time zone"),
        ({"delay": ""}, "delay is ''; it must be seconds or a timedelta"),
        ({"delay": False}, "delay is False; it must be seconds or a timedelta"),
        ({"priority": True}, "priority is True; it must be a whole number from -100 to 100"),
        ({"priority": ""}, "priority is ''; it must be a whole number from -100 to 100"),
        (
            {"session": "chat", "session_policy": {"max_concurrent": 2}},
            "session_policy is {'max_concurrent': 2}; it must be a SessionPolicy",
        ),
    ],
)
async def test_an_option_of_the_wrong_type_is_refused_and_nothing_is_stored(
    app: Scheduler, options: dict[str, Any], message: str
) -> None:
    @app.task
    def work() -> None: ...

    with pytest.raises(BadSetting) as caught:
        await app.submit(work, **options)

    assert str(caught.value) == message
    assert await app.runs() == []


@pytest.mark.parametrize("item", [("work",), ("work", {}, "ann"), "work", 5, ["work", {}]])
async def test_an_item_of_many_that_is_none_is_refused(app: Scheduler, item: Any) -> None:
    app.task(name="work")(lambda: None)

    with pytest.raises(BadSetting) as caught:
        await app.submit_many([("work", {}), item])

    assert str(caught.value) == f"submit_many takes Submission objects or (task, arguments) pairs, not {item!r}"
    assert await app.runs() == []


@pytest.mark.parametrize("limit", [-1, 0, 1.5, "10"])
async def test_a_wrong_limit_of_a_list_is_refused(app: Scheduler, limit: Any) -> None:
    with pytest.raises(BadSetting) as caught:
        await app.runs(limit=limit)

    assert str(caught.value) == f"limit is {limit!r}; it must be a whole number, 1 or more"


async def test_a_state_that_is_no_text_is_refused(app: Scheduler) -> None:
    with pytest.raises(BadSetting, match=r"^unknown state '5'; it can be "):
        await app.runs(state=5)  # type: ignore[arg-type]  # the mistake


@pytest.mark.parametrize("after", [-1, "5", 1.5])
async def test_a_wrong_cursor_is_refused(app: Scheduler, after: Any) -> None:
    app.task(name="work")(lambda: None)
    receipt = await app.submit("work")

    with pytest.raises(BadSetting) as caught:
        await anext(app.events(receipt, after=after))

    assert str(caught.value) == f"after is {after!r}; it is the number of the last event you have, 0 for none"


@pytest.mark.parametrize("run", [None, 5, ["x"]])
async def test_what_stands_for_no_run_is_refused(app: Scheduler, run: Any) -> None:
    app.task(name="work")(lambda: None)
    await app.submit("work")

    with pytest.raises(BadSetting) as caught:
        await app.get(run)

    assert str(caught.value) == f"{run!r} is no run; give a receipt, a run or an id"


def test_a_duration_among_the_settings_may_be_a_timedelta() -> None:
    app = Scheduler("memory://", lease=timedelta(minutes=1), renew_every=timedelta(seconds=6), grace=timedelta(0))

    assert (app.settings.lease, app.settings.renew_every, app.settings.grace) == (60, 6, 0)


def test_a_store_without_its_slashes_is_told_what_is_missing() -> None:
    with pytest.raises(BadURL) as caught:
        Scheduler("memory")

    assert "memory:// is not a store" not in str(caught.value)
    assert "memory://" in str(caught.value)


@pytest.mark.parametrize("scheme", ["", "redis", "rediss", "unix", "postgresql", "sqlite", "mysql", "redis+x"])
def test_what_stands_before_an_at_is_never_shown(scheme: str) -> None:
    befores = ("", ":", "u:", "/", "//:", "://", "://u:", ":///", "+", "+x://:", "@", "?@", " ://", "&")
    behinds = ("host/0", "redis://host", "", "h?namespace=a b", "h?password=hunter2", "h/x/y")
    for before, behind in product(befores, behinds):
        url = f"{scheme}{before}hunter2@{behind}"
        if url.startswith("sqlite:///"):
            continue  # a file's name
        try:
            said = without_password(Scheduler(url).url)
        except BadURL as error:
            said = f"{error} {without_password(url)}"

        assert "hunter2" not in said, url
        assert "\n" not in said


def test_a_password_among_the_parameters_is_not_shown() -> None:
    with pytest.raises(BadURL) as caught:
        Scheduler("postgresql://host/db?user=ann&password=secret&timeout=never")

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["", 5])
def test_a_name_that_is_none_is_refused_not_replaced(app: Scheduler, name: Any) -> None:
    with pytest.raises(BadSetting) as caught:
        app.task(name=name)(plain)

    assert str(caught.value) == f"a task needs a name: text of 1 to 200 characters, not {name!r}"
