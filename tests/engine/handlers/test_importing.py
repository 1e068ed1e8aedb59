"""Which functions a child process can find again: those of modules and of scripts; it dies with either."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from laneway import BadSetting
from laneway.engine.handlers import import_path
from laneway.engine.handlers.import_path import check_importable, place_of
from tests.support.children import handlers as tasks
from tests.support.children.runner import ChildRunner, is_gone, is_running
from tests.support.waits import IN_TIME

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX")

SCRIPT = """
import asyncio, json, sys, threading
from laneway import Context, Scheduler
from laneway.core.records.run import Claimed
from laneway.engine.children.pool import ChildPool
from laneway.engine.common.clock import SystemClock

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
    children = ChildPool(SystemClock(), 1000)
    run = Claimed(1, "r", task.name, json.dumps(args), 1, 1, 0, "main", None, None, 0, "w")
    outcome = await children.attempt(task.function, run, lambda draft: print(draft[1], flush=True), save).outcome()
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
    assert await is_gone(pid)


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
        ChildRunner(None).begin,  # type: ignore[arg-type]
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
        "from laneway.engine.handlers.import_path import check_importable\n"
        "def f(): pass\n"
        "try: check_importable(f)\n"
        "except Exception as error: print(error)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)

    assert "it was typed in" in ran.stdout


def test_a_handler_that_is_not_there_is_named() -> None:
    with pytest.raises(BadSetting, match=r"module tests\.support\.children\.handlers has no gone"):
        import_path.find(import_path.ImportPath("tests.support.children.handlers", "gone"))
