"""Who is alive."""

from hypothesis import given
from hypothesis import strategies as st

from laneway.core.records.liveness import LEASE, RENEW_EVERY, Heartbeat

START = 10**15
HALF = LEASE // 2


def renewed(*times: int) -> Heartbeat:
    heartbeat = Heartbeat()
    for time in times:
        heartbeat = heartbeat.after_renewal(time, LEASE)
    return heartbeat


def test_the_first_renewal_of_all_is_no_outage() -> None:
    assert renewed(START) == Heartbeat(START, 0)


def test_three_renewals_fit_into_a_lease() -> None:
    assert 3 * RENEW_EVERY <= LEASE
    assert RENEW_EVERY <= HALF


@given(st.lists(st.integers(0, HALF), max_size=20))
def test_regular_renewals_start_no_grace(gaps: list[int]) -> None:
    times = [START]
    for gap in gaps:
        times.append(times[-1] + gap)

    assert renewed(*times).grace_until == 0


@given(st.integers(HALF + 1, 10**12))
def test_silence_of_more_than_half_a_lease_starts_a_grace_of_one_lease(gap: int) -> None:
    heartbeat = renewed(START, START + gap)

    assert heartbeat == Heartbeat(START + gap, START + gap + LEASE)
    assert not heartbeat.lapsed(START, LEASE, START + gap + LEASE - 1)


def test_a_grace_is_not_ended_by_renewals_within_it() -> None:
    heartbeat = renewed(START, START + LEASE, START + LEASE + HALF)

    assert heartbeat.grace_until == START + 2 * LEASE


def test_a_second_outage_starts_the_grace_anew() -> None:
    heartbeat = renewed(START, START + LEASE, START + 2 * LEASE)

    assert heartbeat.grace_until == START + 3 * LEASE


def test_a_shorter_lease_does_not_shorten_the_grace() -> None:
    long = renewed(START).after_renewal(START + 60 * LEASE, 60 * LEASE)

    assert long.after_renewal(START + 61 * LEASE, LEASE).grace_until == long.grace_until


def test_a_lapse_is_more_than_a_lease_without_renewal() -> None:
    heartbeat = renewed(START)

    assert not heartbeat.lapsed(START, LEASE, START + LEASE)
    assert heartbeat.lapsed(START, LEASE, START + LEASE + 1)


def test_two_clocks_that_differ_a_little_are_no_outage() -> None:
    heartbeat = renewed(START, START + 1000, START + 500)

    assert heartbeat == Heartbeat(START + 1000, 0)


@given(st.integers(HALF + 1, 10**14))
def test_a_clock_set_back_starts_a_grace_that_ends(step: int) -> None:
    ahead = renewed(START, START + step)

    back = ahead.after_renewal(START, LEASE)

    assert back == Heartbeat(START, START + LEASE)
    assert not back.lapsed(START + step, LEASE, START + 1)


def test_who_renewed_in_the_future_and_not_since_is_dead_after_the_grace() -> None:
    back = renewed(START, START + 10 * LEASE, START)
    for time in range(START, START + 2 * LEASE, HALF):
        back = back.after_renewal(time, LEASE)

    assert back.lapsed(START + 10 * LEASE, LEASE, START + 2 * LEASE)
    assert not back.lapsed(START + 2 * LEASE - HALF, LEASE, START + 2 * LEASE)


@given(st.lists(st.tuples(st.integers(1, 3 * LEASE), st.booleans()), max_size=30))
def test_one_who_renews_each_time_is_never_lapsed(beats: list[tuple[int, bool]]) -> None:
    heartbeat, now, mine = renewed(START), START, START
    for gap, outage in beats:
        now += gap if outage else min(gap, HALF)
        heartbeat, mine = heartbeat.after_renewal(now, LEASE), now
        assert not heartbeat.lapsed(mine, LEASE, now + LEASE)
