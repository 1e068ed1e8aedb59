"""Handlers in child processes: real ones, which are called, save, fail and die."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest

from laneway import LanewayError
from laneway.core.records.codec import RESULT_LIMIT
from laneway.core.records.run import Failure
from laneway.engine.children import process
from tests.support.children import handlers as tasks
from tests.support.children.runner import ChildRunner, is_gone, is_running

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX")

# Calling


@pytest.mark.parametrize("handler", [tasks.add.function, tasks.async_add.function, tasks.Handlers.add])
async def test_a_handler_is_found_by_its_name_and_called_in_another_process(
    child_runner: ChildRunner, handler: Callable[..., Any]
) -> None:
    assert await child_runner.value(handler, a=20, b=22) == 42
    assert await child_runner.value(tasks.pid) != os.getpid()


async def test_functions_that_are_no_tasks_and_decorated_ones_are_found_too(child_runner: ChildRunner) -> None:
    assert await child_runner.value(tasks.unregistered, n=3) == 3
    assert await child_runner.value(tasks.wrapped, n=4) == 4
    assert await child_runner.value(tasks.wrapped_async, n=5) == 5


async def test_twenty_calls_in_a_row_are_executed_by_the_same_child(child_runner: ChildRunner) -> None:
    pids = {await child_runner.value(tasks.pid) for _ in range(20)}

    assert len(pids) == 1


async def test_calls_at_once_are_executed_by_a_child_each_and_leave_them_for_the_next(
    child_runner: ChildRunner,
) -> None:
    first = await asyncio.gather(*[child_runner.value(tasks.pid) for _ in range(3)])
    second = await asyncio.gather(*[child_runner.value(tasks.pid) for _ in range(3)])

    assert len(set(first)) == 3
    assert set(second) == set(first)


async def test_large_arguments_and_results_pass(child_runner: ChildRunner) -> None:
    text = 'é"\n\u0000' * 20_000

    assert await child_runner.value(tasks.echo, text=text) == text
    assert len(await child_runner.value(tasks.repeat, times=RESULT_LIMIT - 2)) == RESULT_LIMIT - 2


async def test_a_handler_sees_its_run_and_what_was_carried(child_runner: ChildRunner) -> None:
    seen = await child_runner.value(tasks.tell_all, state={"page": 3})

    assert seen == {
        "run_id": "run-1",
        "task": "a-task",
        "attempt": 2,
        "fence": 7,
        "user": "ann",
        "session": "chat",
        "state": {"page": 3},
        "cancelled": False,
        "carried": {"traceparent": "00-ab-cd-01"},
    }
    assert child_runner.drafts[:3] == [
        ("progress", '{"fraction":0.5,"text":"half"}'),
        ("log", '{"text":"a line"}'),
        ("mine", '{"x":1}'),
    ]
    assert json.loads(child_runner.drafts[3][1])["cut"] == 10_002


async def test_a_plain_handler_sees_what_was_carried_and_nothing_that_another_attempt_set(
    child_runner: ChildRunner,
) -> None:
    assert await child_runner.value(tasks.carry) == {"traceparent": "00-ab-cd-01"}
    assert [await child_runner.value(tasks.set_somebody) for _ in range(2)] == ["nobody", "nobody"]


async def test_events_come_in_order_and_before_the_outcome(child_runner: ChildRunner) -> None:
    await child_runner.call(tasks.tell, n=5_000)

    assert [json.loads(data) for _, data in child_runner.drafts] == list(range(5_000))


async def test_what_an_ended_attempt_says_is_not_taken_for_the_next_ones(child_runner: ChildRunner) -> None:
    await child_runner.call(tasks.leave_a_thread)

    await child_runner.call(tasks.hear_a_thread)

    assert child_runner.lines == ["from this attempt"]


async def test_a_plain_handler_may_run_a_loop_of_its_own(child_runner: ChildRunner) -> None:
    assert await child_runner.value(tasks.run_a_loop, a=1) == 2
    assert await child_runner.value(tasks.async_add.function, a=1, b=2) == 3


async def test_an_async_handler_leaves_no_task_running(child_runner: ChildRunner) -> None:
    pid = await child_runner.value(tasks.leave_a_task)

    assert await child_runner.value(tasks.see_a_task)
    assert await child_runner.value(tasks.pid) == pid


async def test_what_a_handler_prints_is_the_workers_output(
    child_runner: ChildRunner, capfd: pytest.CaptureFixture[str]
) -> None:
    await child_runner.call(tasks.speak, text="hello")

    assert capfd.readouterr() == ("hello", "hello")


async def test_a_child_has_a_group_of_its_own_and_no_input(child_runner: ChildRunner) -> None:
    pid, group, session = await child_runner.value(tasks.group)

    assert pid == group == session
    assert await child_runner.value(tasks.read_stdin) == ""


# Checkpoints


@pytest.mark.parametrize("handler", [tasks.count_up, tasks.async_count_up])
async def test_a_checkpoint_returns_when_it_is_saved(child_runner: ChildRunner, handler: Callable[..., Any]) -> None:
    assert await child_runner.value(handler, upto=5, state=2) == 5
    assert child_runner.saved == [3, 4, 5]


@pytest.mark.parametrize("handler", [tasks.count_up, tasks.async_count_up])
async def test_a_checkpoint_unwinds_the_handler_if_told_and_the_child_goes_on(
    child_runner: ChildRunner, handler: Callable[..., Any]
) -> None:
    pid = await child_runner.value(tasks.pid)
    child_runner.go_on = lambda state: state < 3

    assert await child_runner.call(handler, upto=5) is None
    assert child_runner.saved == [1, 2, 3]
    assert await child_runner.value(tasks.pid) == pid


async def test_a_checkpoint_that_cannot_be_saved_raises_in_the_handler(child_runner: ChildRunner) -> None:
    def refuse(_: Any) -> bool:
        raise LanewayError("the lease is lost")

    child_runner.go_on = refuse
    failure = await child_runner.failure(tasks.count_up, upto=1)

    assert (failure.type, failure.message) == ("LanewayError", "the lease is lost")


async def test_a_checkpoint_that_is_not_json_raises_in_the_handler(child_runner: ChildRunner) -> None:
    failure = await child_runner.failure(tasks.bad_checkpoint)

    assert failure.type == "BadArguments"
    assert "the state of a checkpoint is not JSON" in failure.message


# Failing


async def test_an_exception_is_told_with_its_traceback(child_runner: ChildRunner) -> None:
    failure = await child_runner.failure(tasks.fail, text="no such page")

    assert (failure.kind, failure.type, failure.message) == ("error", "ValueError", "no such page")
    assert "raise ValueError(text)\nValueError: no such page" in (failure.traceback or "")


async def test_an_exception_that_cannot_be_written_is_told_all_the_same(child_runner: ChildRunner) -> None:
    assert (await child_runner.failure(tasks.surrogate)).message == "?"


async def test_a_bad_result_and_bad_arguments_fail_as_they_do_without_a_child(child_runner: ChildRunner) -> None:
    not_json = await child_runner.failure(tasks.not_json)
    too_large = await child_runner.failure(tasks.repeat, times=RESULT_LIMIT - 1)
    misfit = await child_runner.failure(tasks.unregistered, m=3)

    assert not_json.kind == too_large.kind == "bad_result"
    assert "f is nan" in not_json.message
    assert "takes 1048577 bytes" in too_large.message
    assert (misfit.kind, misfit.type) == ("bad_arguments", "BadArguments")


async def test_an_exit_is_a_failure_and_the_child_goes_on(child_runner: ChildRunner) -> None:
    pid = await child_runner.value(tasks.pid)

    failure = await child_runner.failure(tasks.leave, status=3)

    assert (failure.kind, failure.type, failure.message) == ("error", "SystemExit", "3")
    assert await child_runner.value(tasks.pid) == pid


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (tasks.kill_myself, "the child process was killed by signal 9 (SIGKILL)"),
        (tasks.leave_hard, "the child process exited with status 3"),
    ],
)
async def test_a_child_that_dies_fails_the_attempt_and_is_replaced(
    child_runner: ChildRunner, handler: Callable[..., Any], message: str
) -> None:
    pid = await child_runner.value(tasks.pid)

    failure = await child_runner.failure(handler, **({"status": 3} if handler is tasks.leave_hard else {}))

    assert failure == Failure("child_died", "ChildDied", message)
    assert child_runner.lines == (["last words"] if handler is tasks.leave_hard else [])
    assert not is_running(pid)
    assert await child_runner.value(tasks.pid) != pid


async def test_a_handler_that_eats_its_memory_is_told_so_and_its_child_is_replaced(child_runner: ChildRunner) -> None:
    pid = await child_runner.value(tasks.pid)

    failure = await child_runner.failure(tasks.eat_memory)

    assert (failure.kind, failure.type) == ("out_of_memory", "MemoryError")
    assert await child_runner.value(tasks.pid) != pid


async def test_an_idle_child_that_dies_is_nobodys_failure(child_runner: ChildRunner) -> None:
    pid = await child_runner.value(tasks.pid)
    os.kill(pid, signal.SIGKILL)

    assert await child_runner.value(tasks.pid) != pid


async def test_what_a_dead_child_had_started_is_killed(child_runner: ChildRunner) -> None:
    await child_runner.call(tasks.start_another_and_die)

    assert await is_gone(await child_runner.emitted("another"))


async def test_a_handler_may_fork_and_terminate_what_it_forked(child_runner: ChildRunner) -> None:
    pid = await child_runner.value(tasks.pid)

    assert await child_runner.value(tasks.fork_and_terminate) == -signal.SIGTERM
    assert await child_runner.value(tasks.pid) == pid


async def test_a_child_that_cannot_begin_fails_the_attempt(
    child_runner: ChildRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "START", "import sys; sys.exit(5)")

    failure = await child_runner.failure(tasks.pid)

    assert failure.message == "the child process exited with status 5 before it could begin"


async def test_a_child_that_cannot_be_started_raises_what_the_system_said(
    child_runner: ChildRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")

    with pytest.raises(LanewayError, match=r"a child process cannot be started: .*No such file"):
        await child_runner.call(tasks.pid)
