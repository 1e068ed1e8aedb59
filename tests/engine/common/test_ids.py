"""Run ids: UUIDs of version 7, strictly increasing in a process, unique over threads and forks."""

from __future__ import annotations

import os
import threading
import time
from itertools import pairwise
from uuid import RFC_4122, UUID

import pytest

from laneway.engine.common.ids import RunIds, made_at, new_run_id


def test_ids_grow_strictly() -> None:
    ids = [new_run_id() for _ in range(20_000)]

    assert all(first < second for first, second in pairwise(ids))


def test_an_id_is_a_uuid_of_version_7_of_now() -> None:
    before = time.time_ns() // 1_000_000

    made = UUID(RunIds()())  # not by those of the process: a test before may have set its clock forward

    assert (made.version, made.variant) == (7, RFC_4122)
    assert before - 1000 <= made.int >> 80 <= time.time_ns() // 1_000_000 + 1000


def test_an_id_tells_when_it_was_made() -> None:
    made = new_run_id()

    assert made_at(made) == UUID(made).int >> 80
    assert made_at("another") is None


def test_ids_of_many_threads_are_unique() -> None:
    ids: list[str] = []

    def make() -> None:
        ids.extend([new_run_id() for _ in range(5000)])

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(ids)) == len(ids) == 20_000


def test_ids_grow_also_when_the_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    make = RunIds()
    first = make()
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000_000_000)

    later = [make() for _ in range(100)]

    assert sorted({first, *later}) == [first, *later]


def test_ids_of_two_processes_that_were_one_are_unique() -> None:
    make = RunIds()
    make()
    reader, writer = os.pipe()

    child = os.fork()
    if child == 0:
        os.write(writer, "".join(make() for _ in range(100)).encode())
        os._exit(0)
    os.close(writer)
    mine = [make() for _ in range(100)]
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)

    theirs = [text[start : start + 32] for start in range(0, len(text), 32)]
    assert len(theirs) == 100
    assert len({*mine, *theirs}) == 200


def test_a_fork_while_another_thread_makes_ids_does_not_hang_the_child() -> None:
    make = RunIds()
    with make._lock:  # noqa: SLF001 - another thread holds it as it makes an id
        child = os.fork()
        if child == 0:
            os._exit(0 if len(make()) == 32 else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_ids_made_many_at_a_time_grow_strictly_with_the_others() -> None:
    make = RunIds()
    ids: list[str] = []
    for count in (1, 5000, 0, 3, 1):
        ids += [*make.many(count), make()]

    assert ids == sorted(set(ids))
    assert len(ids) == 5010
