"""Follow one run from `submit` to its result: through how many files, functions and calls of laneway it goes.

`python -m bench.walk` prints a line for each store, of a plain run and of one with a user and a session; the worker is
idle and in the same process. `--files` lists the files as well. Only Python is counted: on Redis the rules are in Lua.
A first run, which is not counted, opens what is opened once.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import laneway
from bench.plan import Plan, working_folder
from bench.subjects import STORES, subject

PACKAGE = str(Path(laneway.__file__).parent)
WHOSE: dict[str, dict[str, str]] = {"plain": {}, "user, session": {"user": "ann", "session": "chat-1"}}
SETTLED = 0.3  # seconds after which all work that follows a run is done
ROW = "{:<12}{:<16}{:>7}{:>11}{:>8}{:>15}{:>9}"


@dataclass
class Trace:
    """The calls into laneway that were made while `counting`, by thread and in their order."""

    counting: bool = False
    calls: dict[int, list[CodeType]] = field(default_factory=lambda: defaultdict(list))

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        if self.counting and event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            self.calls[threading.get_ident()].append(frame.f_code)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Trace the calls of this thread and of every thread that is started in the block."""
        threading.setprofile(self.note)
        sys.setprofile(self.note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    @property
    def files(self) -> list[str]:
        found = {code.co_filename for codes in self.calls.values() for code in codes}
        return sorted(str(Path(name).relative_to(PACKAGE)) for name in found)

    @property
    def functions(self) -> int:
        return len({code for codes in self.calls.values() for code in codes})

    @property
    def switches(self) -> int:
        """How often a thread's next call is in another file than the one before."""
        pairs = [(one, next_) for codes in self.calls.values() for one, next_ in pairwise(codes)]
        return sum(one.co_filename != next_.co_filename for one, next_ in pairs)


async def walk(plan: Plan, store: str, whose: dict[str, str]) -> Trace:
    """Follow one run; a first one warms up."""
    trace = Trace()
    with trace.watching():
        async with subject(plan, store) as laneway_, laneway_.app.running():
            for counting in (False, True):
                await asyncio.sleep(SETTLED)
                trace.counting = counting
                receipt = await laneway_.app.submit("noop", {"number": 1, "text": "x"}, **whose)
                await laneway_.app.result(receipt)
                trace.counting = False
    return trace


async def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.walk", description=__doc__)
    parser.add_argument("--stores", nargs="+", choices=STORES, default=list(STORES), help="these stores only")
    parser.add_argument("--files", action="store_true", help="list the files, too")
    options = parser.parse_args(arguments)
    print(ROW.format("store", "run", "files", "functions", "calls", "file switches", "threads"))
    with working_folder() as folder:
        for store in options.stores:
            for name, whose in WHOSE.items():
                trace = await walk(Plan(folder=folder), store, whose)
                calls = sum(map(len, trace.calls.values()))
                counts = (len(trace.files), trace.functions, calls, trace.switches, len(trace.calls))
                print(ROW.format(STORES[store], name, *counts), flush=True)
                if options.files:
                    print("".join(f"    {file}\n" for file in trace.files), end="")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
