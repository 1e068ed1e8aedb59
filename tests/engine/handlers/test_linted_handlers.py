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
