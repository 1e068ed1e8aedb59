"""Jobs in the store: added, listed, changed if the version is the newest, and removed."""

from __future__ import annotations

import msgspec
import pytest

from laneway.core.common.instants import SECOND
from laneway.core.jobs.plan import patched, switched
from laneway.core.jobs.record import JobRecord, Source
from laneway.core.schedules import Every
from laneway.errors import JobExists
from laneway.ports.jobs import AddJob, EditJob, JobFilter, RemoveJob
from laneway.ports.store import Store
from laneway.testing.clock import FakeClock
from laneway.testing.hand import Hand
from tests.contract.suite.frame import Part
from tests.support.jobs import HOUR, all_fires, all_jobs, fire_due, fired_runs, job_of, kept_job, new_job, standing


def renamed(job: JobRecord, name: str, call: str = "rename") -> JobRecord:
    """Return the job as somebody changes it who has read it."""
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, name=name), call=call)


def names(jobs: list[JobRecord]) -> list[str]:
    """Return the jobs' names."""
    return [job.spec.name for job in jobs]


class TestJobs(Part):
    """`JobStore.add_job`, `jobs`, `change_job` and `remove_job`."""

    async def test_a_job_is_kept_as_it_was_made(self, store: Store, clock: FakeClock) -> None:
        made = new_job(clock.now(), Every(90, jitter=5), owner="ann", args='{"n":"ü"}', priority=3, timeout=SECOND)

        assert await store.change_job(AddJob(made)) == made

        assert await all_jobs(store) == [made]
        assert await store.fires(made.id) == []

    async def test_of_a_job_that_is_there_nothing_changes(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now())
        changed = await store.change_job(EditJob(renamed(made, "other")))

        assert await store.change_job(AddJob(made)) == changed

        assert await all_jobs(store) == [changed]

    async def test_an_owner_has_one_job_of_a_name(self, store: Store, clock: FakeClock) -> None:
        await kept_job(store, clock.now(), name="report", owner="ann")

        with pytest.raises(JobExists, match="there is a job 'report' already") as caught:
            await kept_job(store, clock.now(), id="other", name="report", owner="ann")

        assert (caught.value.name, caught.value.job_id) == ("report", "j")
        await kept_job(store, clock.now(), id="bobs", name="report", owner="bob")
        await kept_job(store, clock.now(), id="nobodys", name="report")
        with pytest.raises(JobExists):
            await kept_job(store, clock.now(), id="nobodys too", name="report")
        await kept_job(store, clock.now(), id="empty", name="report", owner="")
        assert {job.id for job in await all_jobs(store)} == {"j", "bobs", "nobodys", "empty"}

    async def test_a_name_may_be_used_again_once_its_job_is_gone(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now(), name="report")
        await store.change_job(EditJob(renamed(made, "other")))
        await kept_job(store, clock.now(), id="second", name="report")
        await store.change_job(RemoveJob("second"))

        await kept_job(store, clock.now(), id="third", name="report")

        assert sorted(names(await all_jobs(store))) == ["other", "report"]

    async def test_jobs_are_listed_by_name_page_by_page(self, store: Store, clock: FakeClock) -> None:
        for number, name in enumerate(["c", "a", "b", "a", "ä", "B"]):
            await kept_job(store, clock.now(), id=f"id{number}", name=name, owner=f"owner{number}")
        found: list[JobRecord] = []

        while page := await store.jobs(
            JobFilter(), limit=2, after=(found[-1].spec.name, found[-1].id) if found else ("", "")
        ):
            found += page

        assert [(job.spec.name, job.id) for job in found] == [
            ("B", "id5"), ("a", "id1"), ("a", "id3"), ("b", "id2"), ("c", "id0"), ("ä", "id4")
        ]  # fmt: skip
        assert await store.jobs(JobFilter(), limit=0) == []

    async def test_a_filter_wants_all_that_it_names(self, store: Store, clock: FakeClock) -> None:
        await kept_job(store, clock.now(), id="1", name="a", owner="ann", task="mail", source=Source.FILE)
        await kept_job(store, clock.now(), id="2", name="b", owner="ann", enabled=False)
        await kept_job(store, clock.now(), id="3", name="c", source=Source.CODE)

        async def found(**wanted: object) -> str:
            return "".join(job.id for job in await store.jobs(msgspec.convert(wanted, JobFilter)))

        assert await found() == "123"
        assert (await found(named="b"), await found(named="3"), await found(named="d")) == ("2", "3", "")
        assert (await found(owner="ann"), await found(owner="bob")) == ("12", "")
        assert (await found(task="mail"), await found(task="work")) == ("1", "23")
        assert (await found(source="file"), await found(source="code"), await found(source="call")) == ("1", "3", "2")
        assert (await found(on=True), await found(on=False)) == ("13", "2")
        assert await found(owner="ann", on=True, source="file", named="a", task="mail") == "1"
        assert await found(owner="ann", task="work", on=True) == ""

    async def test_a_job_is_listed_as_on_only_while_it_fires(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now())

        off = await store.change_job(
            EditJob(msgspec.structs.replace(switched(made, clock.now(), "UTC", on=False), call="off"))
        )

        assert off is not None
        assert await store.jobs(JobFilter(on=True)) == []
        assert await store.jobs(JobFilter(on=False)) == [off]
        assert (await store.due_jobs()).next_at is None


class TestChangedJobs(Part):
    """`JobStore.change_job` and `remove_job`, beside what else happens to the job."""

    async def test_a_change_is_written_at_the_version_it_was_made_of(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now())
        spec = msgspec.structs.replace(made.spec, description="new")

        changed = await store.change_job(
            EditJob(msgspec.structs.replace(patched(made, spec, clock.now(), "UTC"), call="edit"))
        )

        assert changed is not None
        assert (changed.spec, changed.version) == (spec, made.version + 1)
        assert await job_of(store) == changed

    async def test_a_change_of_another_version_changes_nothing(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now())
        first = await store.change_job(EditJob(renamed(made, "first", "one")))

        assert await store.change_job(EditJob(renamed(made, "second", "two"))) is None

        assert await all_jobs(store) == [first]

    async def test_a_fire_makes_it_another_version(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now())
        await clock.advance(HOUR)
        await fire_due(store)
        fired = await standing(store)

        assert await store.change_job(EditJob(renamed(made, "late"))) is None

        assert await all_jobs(store) == [fired]
        assert fired.version > made.version

    async def test_a_repeated_change_returns_what_it_wrote(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now())
        first = await store.change_job(EditJob(renamed(made, "first")))

        assert await store.change_job(EditJob(renamed(made, "first"))) == first

        await clock.advance(HOUR)
        await fire_due(store)
        assert await store.change_job(EditJob(renamed(made, "first"))) == await standing(store)

    async def test_the_empty_call_is_no_repeat(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now())

        first = await store.change_job(EditJob(renamed(made, "first", "")))
        assert first is not None
        second = await store.change_job(EditJob(renamed(first, "second", "")))

        assert second is not None
        assert (second.spec.name, second.version) == ("second", made.version + 2)
        assert await store.change_job(EditJob(renamed(first, "third", ""))) is None

    async def test_nobody_changes_a_job_that_is_gone(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now())
        await store.change_job(RemoveJob("j"))

        assert await store.change_job(EditJob(renamed(made, "other"))) is None
        assert await all_jobs(store) == []

    async def test_a_job_takes_no_name_that_its_owner_uses(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now(), name="mine", owner="ann")
        await kept_job(store, clock.now(), id="other", name="taken", owner="ann")
        await kept_job(store, clock.now(), id="bobs", name="free", owner="bob")

        with pytest.raises(JobExists) as caught:
            await store.change_job(EditJob(renamed(made, "taken")))

        assert caught.value.job_id == "other"
        assert await job_of(store) == made
        changed = await store.change_job(EditJob(renamed(made, "free")))
        assert changed is not None
        assert names([changed]) == ["free"]

    async def test_another_owner_of_a_job_counts_its_name_as_theirs(self, store: Store, clock: FakeClock) -> None:
        made = await kept_job(store, clock.now(), name="report", owner="ann")
        given = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, owner="bob"), call="give")

        await store.change_job(EditJob(given))

        await kept_job(store, clock.now(), id="again", name="report", owner="ann")
        with pytest.raises(JobExists):
            await kept_job(store, clock.now(), id="twice", name="report", owner="bob")

    async def test_a_removed_job_is_forgotten_and_its_runs_are_not(self, store: Store, clock: FakeClock) -> None:
        await kept_job(store, clock.now())
        await clock.advance(HOUR)
        await fire_due(store)
        [run_id] = await fired_runs(store)
        job = await job_of(store)

        assert await store.change_job(RemoveJob("j")) == job

        assert job is not None
        assert await store.change_job(RemoveJob("j")) is None
        assert await store.change_job(RemoveJob("never there")) is None
        assert (await all_jobs(store), await all_fires(store)) == ([], [])
        assert (await store.due_jobs()).next_at is None
        hand = await Hand(store).register()
        [claimed] = await hand.claim()
        await hand.succeed(claimed)
        assert (claimed.id, (await store.get(run_id)).state.value) == (run_id, "succeeded")
        assert await all_jobs(store) == []
