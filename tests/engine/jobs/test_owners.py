"""A desk for one owner: what they make is theirs, and they see and change nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from laneway import BadSetting, Scheduler, UnknownJob


async def test_what_an_owner_makes_is_theirs_and_runs_as_them(jobs_app: Scheduler) -> None:
    made = await jobs_app.jobs.owned_by("ann").create("digest", "@daily", "cleanup")

    receipt = await jobs_app.jobs.owned_by("ann").run("digest")

    assert (made.owner, (await jobs_app.jobs.get("digest")).owner) == ("ann", "ann")
    assert (await jobs_app.get(receipt)).user == "ann"


async def test_an_owner_sees_nothing_of_others(jobs_app: Scheduler) -> None:
    theirs = await jobs_app.jobs.create("bobs", "@daily", "cleanup", owner="bob")
    nobodys = await jobs_app.jobs.create("nobodys", "@daily", "cleanup")
    await jobs_app.jobs.create("anns", "@daily", "cleanup", owner="ann")
    ann = jobs_app.jobs.owned_by("ann")
    before = await jobs_app.jobs.list()

    for job in (theirs, nobodys):
        for name in (job.name, job.id, job.id[:30]):
            for verb in (ann.get, ann.update, ann.enable, ann.disable, ann.remove, ann.run, ann.runs, ann.preview):
                with pytest.raises(UnknownJob, match=f"no job '{name}'$"):
                    await verb(name)
    with pytest.raises(UnknownJob):
        await ann.get("bobs", owner="bob")
    assert await ann.list(owner="bob") == []
    assert [job.name for job in await ann.list()] == ["anns"]
    assert {fire.job.name for fire in await ann.upcoming()} == {"anns"}
    assert await jobs_app.jobs.list() == before


async def test_two_owners_may_use_the_same_name(jobs_app: Scheduler) -> None:
    ann, bob = jobs_app.jobs.owned_by("ann"), jobs_app.jobs.owned_by("bob")
    await ann.create("digest", "@daily", "cleanup")
    await bob.create("digest", "@daily", "cleanup")

    await ann.update("digest", priority=7)
    await bob.remove("digest")

    assert (await ann.get("digest")).spec.priority == 7
    assert await bob.list() == []


async def test_an_owner_gives_no_job_away_and_acts_as_nobody_else(jobs_app: Scheduler) -> None:
    ann = jobs_app.jobs.owned_by("ann")
    await ann.create("digest", "@daily", "cleanup", user="ann", owner="ann")

    others: list[dict[str, Any]] = [{"owner": "bob"}, {"user": "bob"}]
    for other in others:
        with pytest.raises(BadSetting, match="those of 'ann' alone"):
            await ann.create("x", "@daily", "cleanup", **other)
        with pytest.raises(BadSetting, match="those of 'ann' alone"):
            await ann.update("digest", **other)
    with pytest.raises(BadSetting, match="those of 'ann' alone"):
        await ann.update("digest", owner=None)
    with pytest.raises(BadSetting, match="for everybody"):
        ann.declare("x", "@daily", "cleanup")
    assert [job.owner for job in await jobs_app.jobs.list()] == ["ann"]


async def test_a_desk_for_nobody_is_refused(jobs_app: Scheduler) -> None:
    with pytest.raises(BadSetting, match="a job's owner needs a name"):
        jobs_app.jobs.owned_by("")


async def test_an_owners_job_that_code_declares_can_be_switched_by_them(jobs_app: Scheduler) -> None:
    jobs_app.jobs.declare("digest", "@daily", "cleanup", owner="ann")
    ann = jobs_app.jobs.owned_by("ann")

    assert not (await ann.disable("digest")).enabled
    assert (await ann.update("digest", priority=2)).spec.priority == 2
