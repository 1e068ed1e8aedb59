"""Handlers whose imports a linter has moved out of the program's sight."""

from __future__ import annotations

from typing import Any

from laneway import Scheduler

LINTED = """
from __future__ import annotations
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import decimal

async def work(rounding: decimal.Context) -> None: ...
"""


def test_the_context_of_another_library_is_not_taken_for_ours() -> None:
    # Known to type checkers only, like the import a linter moved; but it is not laneway's.
    module: dict[str, Any] = {}
    exec(LINTED, module)

    task = Scheduler("memory://").task(module["work"])

    assert task.parameters.context is None
    assert task.parameters.names == ["rounding"]


LINTED_CONTEXT = """
from __future__ import annotations
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from laneway import Context

async def work(n: int, *, ctx: Context) -> str:
    return ctx.task
"""


async def test_a_context_imported_for_type_checkers_only_is_given_too(app: Scheduler) -> None:
    # What a linter makes of an import that only annotations use.
    module: dict[str, Any] = {}
    exec(LINTED_CONTEXT, module)

    task = app.task(retry=None)(module["work"])
    receipt = await app.submit(task, {"n": 1})
    await app.drain()

    assert await app.result(receipt) == "work"
