"""Handlers in child processes: real ones, which are talked to, stopped, killed and buried."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from laneway import BadSetting, LanewayError
from laneway.core.codec import RESULT_LIMIT
from laneway.core.events import Draft
from laneway.core.outcome import Failed, Outcome, Succeeded
from laneway.core.run import Claimed, Failure
from laneway.engine import childprocess, finding
from laneway.engine.children import ChildExecution, Children
from laneway.engine.clock import SystemClock
from laneway.engine.finding import check_importable, place_of
from laneway.engine.wire import Checkpoint, Keep
from laneway.testing import FakeClock
from tests.engine import childtasks as tasks
from tests.engine.support import IN_TIME

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX")


class Story:
    """Executes handlers in children and keeps what they say."""

    def __init__(self, children: Children) -> None:
        self.children = children
        self.drafts: list[Draft] = []
        self.saved: list[Any] = []
        self.go_on: Callable[[Any], bool] = lambda _: True
        self._said = asyncio.Event()

    def begin(self, function: Callable[..., Any], state: Any = None, **args: Any) -> ChildExecution:
        run = Claimed(1, "run-1", "a-task", json.dumps(args), 7, 2, 0, "main", "ann", "chat", 0, "w")
        text = None if state is None else json.dumps(state)
        carried = {"traceparent": "00-ab-cd-01"}
        return self.children.execution(function, run, self._hear, self._save, state=text, carried=carried)

    async def call(self, function: Callable[..., Any], **args: Any) -> Outcome | None:
        return await asyncio.wait_for(self.begin(function, **args).outcome(), IN_TIME)

    async def value(self, function: Callable[..., Any], **args: Any) -> Any:
        outcome = await self.call(function, **args)
        assert isinstance(outcome, Succeeded), outcome
        return json.loads(outcome.result)

    async def failure(self, function: Callable[..., Any], **args: Any) -> Failure:
        outcome = await self.call(function, **args)
        assert isinstance(outcome, Failed), outcome
        return outcome.failure

    async def heard(self, kind: str, data: Any = None) -> Any:
        """Wait until the handler has said this; return the data."""
        async with asyncio.timeout(IN_TIME):
            while True:
                for said, text in self.drafts:
                    if said == kind and (data is None or json.loads(text) == data):
                        return json.loads(text)
                self._said.clear()
                await self._said.wait()

    async def ready(self, function: Callable[..., Any], **args: Any) -> tuple[ChildExecution, asyncio.Task[Any]]:
        """Begin a handler and wait until it says that it is ready."""
        execution = self.begin(function, **args)
        ending = asyncio.create_task(execution.outcome())
        await self.heard("log", {"text": "ready"})
        return execution, ending

    @property
    def lines(self) -> list[str]:
        return [json.loads(data)["text"] for kind, data in self.drafts if kind == "log"]

    def _hear(self, draft: Draft) -> None:
        self.drafts.append(draft)
        self._said.set()

    async def _save(self, what: Checkpoint | Keep) -> bool:
        await asyncio.sleep(0)
        assert isinstance(what, Checkpoint)
        self.saved.append(json.loads(what.state))
        return self.go_on(self.saved[-1])


@pytest_asyncio.fixture
async def story() -> AsyncIterator[Story]:
    children = Children(SystemClock(), RESULT_LIMIT)
    yield Story(children)
    await children.close()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


async def until_gone(pid: int) -> None:
    async with asyncio.timeout(IN_TIME):
        while is_running(pid):  # noqa: ASYNC110  # a process that is not ours cannot be waited for
            await asyncio.sleep(0.002)


# Calling


@pytest.mark.parametrize("handler", [tasks.add.function, tasks.async_add.function, tasks.Handlers.add])
async def test_a_handler_is_found_by_its_name_and_called_in_another_process(
    story: Story, handler: Callable[..., Any]
) -> None:
    assert await story.value(handler, a=20, b=22) == 42
    assert await story.value(tasks.pid) != os.getpid()


async def test_functions_that_are_no_tasks_and_decorated_ones_are_found_too(story: Story) -> None:
    assert await story.value(tasks.unregistered, n=3) == 3
    assert await story.value(tasks.wrapped, n=4) == 4
    assert await story.value(tasks.wrapped_async, n=5) == 5


async def test_twenty_calls_in_a_row_are_executed_by_the_same_child(story: Story) -> None:
    pids = {await story.value(tasks.pid) for _ in range(20)}

    assert len(pids) == 1


async def test_calls_at_once_are_executed_by_a_child_each_and_leave_them_for_the_next(story: Story) -> None:
    first = await asyncio.gather(*[story.value(tasks.pid) for _ in range(3)])
    second = await asyncio.gather(*[story.value(tasks.pid) for _ in range(3)])

    assert len(set(first)) == 3
    assert set(second) == set(first)


async def test_large_arguments_and_results_pass(story: Story) -> None:
    text = 'é"\n\u0000' * 20_000

    assert await story.value(tasks.echo, text=text) == text
    assert len(await story.value(tasks.repeat, times=RESULT_LIMIT - 2)) == RESULT_LIMIT - 2


async def test_a_handler_sees_its_run_and_what_was_carried(story: Story) -> None:
    seen = await story.value(tasks.tell_all, state={"page": 3})

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
    assert story.drafts[:3] == [
        ("progress", '{"fraction":0.5,"text":"half"}'),
        ("log", '{"text":"a line"}'),
        ("mine", '{"x":1}'),
    ]
    assert json.loads(story.drafts[3][1])["cut"] == 10_002


async def test_a_plain_handler_sees_what_was_carried_and_nothing_that_another_attempt_set(story: Story) -> None:
    assert await story.value(tasks.carry) == {"traceparent": "00-ab-cd-01"}
    assert [await story.value(tasks.set_somebody) for _ in range(2)] == ["nobody", "nobody"]


async def test_events_come_in_order_and_before_the_outcome(story: Story) -> None:
    await story.call(tasks.tell, n=5_000)

    assert [json.loads(data) for _, data in story.drafts] == list(range(5_000))


async def test_what_an_ended_attempt_says_is_not_taken_for_the_next_ones(story: Story) -> None:
    await story.call(tasks.leave_a_thread)

    await story.call(tasks.hear_a_thread)

    assert story.lines == ["from this attempt"]


async def test_a_plain_handler_may_run_a_loop_of_its_own(story: Story) -> None:
    assert await story.value(tasks.run_a_loop, a=1) == 2
    assert await story.value(tasks.async_add.function, a=1, b=2) == 3


async def test_an_async_handler_leaves_no_task_running(story: Story) -> None:
    pid = await story.value(tasks.leave_a_task)

    assert await story.value(tasks.see_a_task)
    assert await story.value(tasks.pid) == pid


async def test_what_a_handler_prints_is_the_workers_output(story: Story, capfd: pytest.CaptureFixture[str]) -> None:
    await story.call(tasks.speak, text="hello")

    assert capfd.readouterr() == ("hello", "hello")


async def test_a_child_has_a_group_of_its_own_and_no_input(story: Story) -> None:
    pid, group, session = await story.value(tasks.group)

    assert pid == group == session
    assert await story.value(tasks.read_stdin) == ""


# Checkpoints


@pytest.mark.parametrize("handler", [tasks.count_up, tasks.async_count_up])
async def test_a_checkpoint_returns_when_it_is_saved(story: Story, handler: Callable[..., Any]) -> None:
    assert await story.value(handler, upto=5, state=2) == 5
    assert story.saved == [3, 4, 5]


@pytest.mark.parametrize("handler", [tasks.count_up, tasks.async_count_up])
async def test_a_checkpoint_unwinds_the_handler_if_told_and_the_child_goes_on(
    story: Story, handler: Callable[..., Any]
) -> None:
    pid = await story.value(tasks.pid)
    story.go_on = lambda state: state < 3

    assert await story.call(handler, upto=5) is None
    assert story.saved == [1, 2, 3]
    assert await story.value(tasks.pid) == pid


async def test_a_checkpoint_that_cannot_be_saved_raises_in_the_handler(story: Story) -> None:
    def refuse(_: Any) -> bool:
        raise LanewayError("the lease is lost")

    story.go_on = refuse
    failure = await story.failure(tasks.count_up, upto=1)

    assert (failure.type, failure.message) == ("LanewayError", "the lease is lost")


async def test_a_checkpoint_that_is_not_json_raises_in_the_handler(story: Story) -> None:
    failure = await story.failure(tasks.bad_checkpoint)

    assert failure.type == "BadArguments"
    assert "the state of a checkpoint is not JSON" in failure.message


# Failing


async def test_an_exception_is_told_with_its_traceback(story: Story) -> None:
    failure = await story.failure(tasks.fail, text="no such page")

    assert (failure.kind, failure.type, failure.message) == ("error", "ValueError", "no such page")
    assert "raise ValueError(text)\nValueError: no such page" in (failure.traceback or "")


async def test_an_exception_that_cannot_be_written_is_told_all_the_same(story: Story) -> None:
    assert (await story.failure(tasks.surrogate)).message == "?"


async def test_a_bad_result_and_bad_arguments_fail_as_they_do_without_a_child(story: Story) -> None:
    not_json = await story.failure(tasks.not_json)
    too_large = await story.failure(tasks.repeat, times=RESULT_LIMIT - 1)
    misfit = await story.failure(tasks.unregistered, m=3)

    assert not_json.kind == too_large.kind == "bad_result"
    assert "f is nan" in not_json.message
    assert "takes 1048577 bytes" in too_large.message
    assert (misfit.kind, misfit.type) == ("bad_arguments", "BadArguments")


async def test_an_exit_is_a_failure_and_the_child_goes_on(story: Story) -> None:
    pid = await story.value(tasks.pid)

    failure = await story.failure(tasks.leave, status=3)

    assert (failure.kind, failure.type, failure.message) == ("error", "SystemExit", "3")
    assert await story.value(tasks.pid) == pid


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (tasks.kill_myself, "the child process was killed by signal 9 (SIGKILL)"),
        (tasks.leave_hard, "the child process exited with status 3"),
    ],
)
async def test_a_child_that_dies_fails_the_attempt_and_is_replaced(
    story: Story, handler: Callable[..., Any], message: str
) -> None:
    pid = await story.value(tasks.pid)

    failure = await story.failure(handler, **({"status": 3} if handler is tasks.leave_hard else {}))

    assert failure == Failure("child_died", "ChildDied", message)
    assert story.lines == (["last words"] if handler is tasks.leave_hard else [])
    assert not is_running(pid)
    assert await story.value(tasks.pid) != pid


async def test_a_handler_that_eats_its_memory_is_told_so_and_its_child_is_replaced(story: Story) -> None:
    pid = await story.value(tasks.pid)

    failure = await story.failure(tasks.eat_memory)

    assert (failure.kind, failure.type) == ("out_of_memory", "MemoryError")
    assert await story.value(tasks.pid) != pid


async def test_an_idle_child_that_dies_is_nobodys_failure(story: Story) -> None:
    pid = await story.value(tasks.pid)
    os.kill(pid, signal.SIGKILL)

    assert await story.value(tasks.pid) != pid


async def test_what_a_dead_child_had_started_is_killed(story: Story) -> None:
    await story.call(tasks.start_another_and_die)

    await until_gone(await story.heard("another"))  # or it raises


async def test_a_handler_may_fork_and_terminate_what_it_forked(story: Story) -> None:
    pid = await story.value(tasks.pid)

    assert await story.value(tasks.fork_and_terminate) == -signal.SIGTERM
    assert await story.value(tasks.pid) == pid


async def test_a_child_that_cannot_begin_fails_the_attempt(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(childprocess, "START", "import sys; sys.exit(5)")

    failure = await story.failure(tasks.pid)

    assert failure.message == "the child process exited with status 5 before it could begin"


async def test_a_child_that_cannot_be_started_raises_what_the_system_said(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")

    with pytest.raises(LanewayError, match=r"a child process cannot be started: .*No such file"):
        await story.call(tasks.pid)


# Stopping


async def test_a_plain_handler_can_look_whether_it_shall_stop(story: Story) -> None:
    execution, ending = await story.ready(tasks.look_for_cancel)

    execution.stop(soft=60, hard=60)

    assert await ending == Succeeded('"stopped by myself"')


async def test_an_async_handler_is_cancelled_and_its_child_goes_on(story: Story) -> None:
    pid = await story.value(tasks.pid)
    execution, ending = await story.ready(tasks.wait_for_cancel)

    execution.stop(soft=60, hard=60)

    assert await ending is None
    assert story.lines == ["ready", "cleaned up"]
    assert await story.value(tasks.pid) == pid


async def test_a_handler_that_does_not_listen_is_unwound_by_sigterm(story: Story) -> None:
    pid = await story.value(tasks.pid)
    execution, ending = await story.ready(tasks.wait_for_term)

    execution.stop(soft=0, hard=60)

    assert await ending is None
    assert story.lines == ["ready", "cleaned up"]
    assert not is_running(pid)  # a signal that came too late for it would have hit the next attempt
    assert await story.value(tasks.pid) != pid


async def test_a_sigterm_that_the_worker_did_not_send_stops_nothing(story: Story) -> None:
    pid = await story.value(tasks.pid)
    os.kill(pid, signal.SIGTERM)
    execution, ending = await story.ready(tasks.look_for_cancel)
    os.kill(pid, signal.SIGTERM)

    execution.stop(soft=60, hard=60)

    assert await ending == Succeeded('"stopped by myself"')
    assert await story.value(tasks.pid) == pid


async def test_a_child_that_gets_sigterm_before_it_can_begin_begins(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = f"import os; os.kill(os.getpid(), {signal.SIGTERM:d}); {childprocess.START}"
    monkeypatch.setattr(childprocess, "START", early)

    assert await story.value(tasks.add.function, a=1, b=2) == 3


async def test_sigterm_unwinds_an_async_handler_that_swallows_its_cancellation(story: Story) -> None:
    execution, ending = await story.ready(tasks.swallow_cancel)

    execution.stop(soft=0.2, hard=60)

    assert await ending is None
    assert "swallowed" in story.lines


async def test_a_handler_that_ignores_sigterm_is_killed_when_its_time_is_up() -> None:
    clock = FakeClock()
    story = Story(Children(clock, RESULT_LIMIT))
    pid = await story.value(tasks.pid)
    execution, ending = await story.ready(tasks.ignore_everything)

    execution.stop(soft=5, hard=10)
    await clock.advance(9)
    await story.heard("log", {"text": "ignored"})
    alive = is_running(pid)
    await clock.advance(1)

    assert alive
    assert await ending is None
    assert not is_running(pid)
    await story.children.close()


async def test_what_a_handler_started_is_killed_with_it(story: Story) -> None:
    execution = story.begin(tasks.start_another)
    ending = asyncio.create_task(execution.outcome())
    another = await story.heard("another")

    execution.kill()

    assert await ending is None
    await until_gone(another)


async def test_an_attempt_stopped_before_it_has_a_child_is_not_begun(story: Story) -> None:
    execution = story.begin(tasks.ignore_everything)
    ending = asyncio.create_task(execution.outcome())
    await asyncio.sleep(0)

    execution.stop(soft=60, hard=60)

    assert await asyncio.wait_for(ending, IN_TIME) is None
    assert story.drafts == []


async def test_cancelling_the_call_kills_the_child(story: Story) -> None:
    pid = await story.value(tasks.pid)
    _, ending = await story.ready(tasks.ignore_everything)

    ending.cancel()

    with pytest.raises(asyncio.CancelledError):
        await ending
    assert not is_running(pid)


# Closing, and dying with the worker


def open_files() -> set[str]:
    return {file.name for file in Path("/proc/self/fd").iterdir()}


def exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_closing_leaves_no_process_no_thread_and_no_open_file() -> None:
    await asyncio.sleep(0)
    gc.collect()
    before = open_files()
    story = Story(Children(SystemClock(), RESULT_LIMIT))
    pids = await asyncio.gather(*[story.value(tasks.pid) for _ in range(2)])
    _, ending = await story.ready(tasks.ignore_everything)
    await story.failure(tasks.kill_myself)

    await story.children.close()

    assert await ending is None
    assert open_files() == before
    for thread in [thread for thread in threading.enumerate() if thread.name == "laneway-child"]:
        thread.join(5)  # its last act was to tell us
        assert not thread.is_alive()
    assert not any(map(exists, pids))  # not even as a zombie


async def test_children_can_be_used_again_after_closing(story: Story) -> None:
    before = await story.value(tasks.pid)
    await story.children.close()

    assert await story.value(tasks.pid) != before


SCRIPT = """
import asyncio, json, sys, threading
from laneway import Context, Scheduler
from laneway.core.run import Claimed
from laneway.engine.children import Children
from laneway.engine.clock import SystemClock

app = Scheduler("memory://")

@app.task
def sleep(ctx: Context) -> None:
    import os, time
    ctx.emit("pid", os.getpid())
    time.sleep(600)

@app.task
def add(a: int) -> int:
    return a + 1

async def save(state):
    return True

async def main(task, args):
    children = Children(SystemClock(), 1000)
    run = Claimed(1, "r", task.name, json.dumps(args), 1, 1, 0, "main", None, None, 0, "w")
    outcome = await children.execution(task.function, run, lambda draft: print(draft[1], flush=True), save).outcome()
    print(outcome.result if hasattr(outcome, "result") else outcome, flush=True)
    await children.close()
"""
GUARDED = 'if __name__ == "__main__":\n    asyncio.run(main(*%s))\n'


@pytest.fixture(params=["my-app.py", "-m"])
def command(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], list[str]]:
    def write(rest: str) -> list[str]:
        is_module = request.param == "-m"
        file = tmp_path / ("pack/__main__.py" if is_module else request.param)
        file.parent.mkdir(exist_ok=True)
        file.write_text(SCRIPT + rest)
        return [sys.executable, *(["-m", "pack"] if is_module else [str(file)])]

    return write


def test_a_scripts_own_handlers_are_found(command: Callable[[str], list[str]], tmp_path: Path) -> None:
    ran = subprocess.run(
        command(GUARDED % '(add, {"a": 1})'), cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )

    assert (ran.stdout, ran.stderr) == ("2\n", "")


def test_a_script_that_works_when_it_is_merely_read_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "app.py"
    script.write_text(SCRIPT + 'asyncio.run(main(add, {"a": 1}))\n')

    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=30, check=False)

    assert "BadSetting" in ran.stdout
    assert "put what starts the work below" in ran.stdout


@pytest.mark.parametrize("how", ["(sleep, {})", "in a thread"])
async def test_the_child_dies_with_its_worker(tmp_path: Path, how: str) -> None:
    script = tmp_path / "app.py"
    in_thread = 'if __name__ == "__main__":\n    asyncio.run(asyncio.to_thread(asyncio.run, main(sleep, {})))\n'
    script.write_text(SCRIPT + (in_thread if how == "in a thread" else GUARDED % how))
    worker = await asyncio.create_subprocess_exec(sys.executable, str(script), stdout=subprocess.PIPE)
    assert worker.stdout is not None
    pid = int(await asyncio.wait_for(worker.stdout.readline(), IN_TIME))
    alive = is_running(pid)

    worker.kill()
    await worker.wait()

    assert alive
    await until_gone(pid)


# Finding


def local_handler() -> Callable[..., Any]:
    def handler() -> None: ...

    return handler


@pytest.mark.parametrize(
    "function",
    [
        local_handler(),
        lambda: None,
        partial(tasks.pid),
        tasks.Handlers().__init__,  # type: ignore[misc]
        Story(None).begin,  # type: ignore[arg-type]
        tasks.unwrapped,
    ],
)
def test_a_function_that_cannot_be_found_again_is_refused_when_it_is_registered(function: Callable[..., Any]) -> None:
    with pytest.raises(BadSetting, match="cannot be executed in a child process"):
        check_importable(function)


def test_a_name_that_was_used_again_is_refused_rather_than_executed() -> None:
    check_importable(tasks.first_twice)

    with pytest.raises(BadSetting, match="the name was used again"):
        place_of(tasks.first_twice)


def test_what_was_typed_in_is_refused() -> None:
    code = (
        "from laneway.engine.finding import check_importable\n"
        "def f(): pass\n"
        "try: check_importable(f)\n"
        "except Exception as error: print(error)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)

    assert "it was typed in" in ran.stdout


def test_a_handler_that_is_not_there_is_named() -> None:
    with pytest.raises(BadSetting, match=r"module tests\.engine\.childtasks has no gone"):
        finding.find(finding.Place("tests.engine.childtasks", "gone"))
