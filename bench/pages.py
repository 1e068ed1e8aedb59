"""Count the pages that a commit on SQLite writes, by table and index: a figure that other load does not change.

    python -m bench.pages

It drains plain runs, and runs with all limits on, and counts the pages in the log by what they belong to.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from struct import unpack_from
from unittest.mock import patch

from bench.plan import working_folder
from bench.subjects import IN_FLIGHT, WIDE, noop, submissions
from bench.throughput import CAPPED, limited
from laneway import Lane, Scheduler, Submission
from laneway.stores.sqlite.checkpoints import Checkpointer

RUNS = 5_000
_LOG_HEAD, _PAGE_HEAD, _PAGE = 32, 24, 4096  # bytes: of the log, of a page in it, and the page itself
_INNER = {2, 5}  # the kinds of pages that point to other pages

Pages = dict[int, bytes]  # by number


async def drain(file: Path, lane: Lane, items: list[Submission]) -> tuple[Counter[str], int]:
    """Drain the runs, twice; return the pages that the second drain wrote, by table and index, and its commits."""
    log = file.with_name(f"{file.name}-wal")
    async with Scheduler(f"sqlite:///{file}", lanes=[lane], concurrency=IN_FLIGHT) as app:
        app.task(noop)
        begins = 0
        for _ in range(2):
            await app.submit_many(items)
            begins = log.stat().st_size
            await app.drain()
        # Before it is closed: the last one to close it moves the log into the file.
        return count(log.read_bytes(), begins, roots(file))


def roots(file: Path) -> dict[int, str]:
    """Return where each table and index begins, and its name."""
    with closing(sqlite3.connect(file)) as db:
        found = db.execute("SELECT rootpage, name FROM sqlite_schema WHERE rootpage > 0").fetchall()
    return {1: "schema", **dict(found)}


def count(log: bytes, begins: int, roots: dict[int, str]) -> tuple[Counter[str], int]:
    """Count the pages written from there on, by table and index, and the commits."""
    newest: Pages = {}
    counted, commits = Counter[str](), 0
    for at, pages in commits_of(log):
        newest |= pages
        if at >= begins:
            owners = {page: name for root, name in roots.items() for page in tree(newest, root)}
            counted.update(owners.get(page, "free") for page in pages)
            commits += 1
    return counted, commits


def commits_of(log: bytes) -> Iterator[tuple[int, Pages]]:
    """Give where each commit begins in the log, and its pages."""
    first, pages = _LOG_HEAD, Pages()
    for at in range(_LOG_HEAD, len(log), _PAGE_HEAD + _PAGE):
        page, committed = unpack_from(">II", log, at)
        pages[page] = log[at + _PAGE_HEAD : at + _PAGE_HEAD + _PAGE]
        if committed:
            yield first, pages
            first, pages = at + _PAGE_HEAD + _PAGE, Pages()


def tree(pages: Pages, root: int) -> Iterator[int]:
    """Give the pages of a table or an index, as far as they were ever written to the log."""
    page = pages.get(root)
    if page is None:
        return
    yield root
    head = 100 if root == 1 else 0
    if page[head] in _INNER:
        cells, last = unpack_from(">H", page, head + 3)[0], unpack_from(">I", page, head + 8)[0]
        for cell in unpack_from(f">{cells}H", page, head + 12):
            yield from tree(pages, unpack_from(">I", page, cell)[0])
        yield from tree(pages, last)


def main() -> None:
    for what, lane, items in (("plain", WIDE, submissions(RUNS)), ("all limits on", CAPPED, limited(RUNS))):
        with working_folder() as folder, patch.object(Checkpointer, "after_commit"):
            counted, commits = asyncio.run(drain(folder / "pages.db", lane, items))
        print(f"{what}: {counted.total() / commits:.1f} pages in each of {commits} commits")
        for name, pages in counted.most_common():
            print(f"  {pages / commits:6.1f}  {name}")


if __name__ == "__main__":
    main()
