"""Encoding arguments of scripts: submissions, settlements, rules.

Fields that most values do not have are left out, or stand in a table at the end (`more`), so that the common case is
short.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from laneway.core.common import keys
from laneway.core.lifecycle.endings import left_by
from laneway.core.lifecycle.outcome import Leaves
from laneway.core.lifecycle.step import Result, Saved, Step
from laneway.core.queue.circuits import Charge
from laneway.core.records.breakers import Per
from laneway.core.records.events import Draft
from laneway.core.records.memos import Memo, Wait
from laneway.core.records.policy import NO_RULE, Lane, Rule, SessionIntent
from laneway.core.records.run import NewRun, RunFilter, RunLinks, UniformBatch
from laneway.core.records.states import Move

_encode = msgspec.json.Encoder().encode
_SUCCEED = Move.SUCCEED  # looking up an enum's member costs more than comparing it


def _text(value: object) -> str:
    # Not as bytes: the server's MessagePack has no type for them.
    return _encode(value).decode()


def batch(news: Sequence[NewRun]) -> list[list[Any]]:
    """Return the arguments of verbs/runs/submit.lua: consecutive plain submissions of one task and lane are a group."""
    if isinstance(news, UniformBatch) and len(set(news.ids)) == len(news) > 0:
        return [[news.ids, news.args, news.task, news.lane]]
    is_single = len({new.id for new in news}) < len(news)  # an id that comes twice must find its first run
    group, args = list[str](), list[str]()
    items: list[list[Any]] = []
    task = lane = None  # of the newest group
    for new in news:
        if is_single or not new.is_plain:
            task = None
            items.append(submission(new))
            continue
        if new.task != task or new.lane != lane:
            task, lane = new.task, new.lane
            group, args = [], []
            items.append([group, args, task, lane])
        group.append(new.id)
        args.append(new.args)
    return items


def ids(news: Sequence[NewRun]) -> Sequence[str]:
    """Return the ids of submissions."""
    return news.ids if isinstance(news, UniformBatch) else [new.id for new in news]


def submission(new: NewRun) -> list[Any]:
    """Return a submission in the form of `acceptance.read` in lua/rules/lifecycle/acceptance.lua."""
    plain = [*_first(new)]
    more = rare_fields(new)
    return [*plain, more] if more else plain


_FIRST = ("id", "task", "args", "lane", "user", "session", "priority")
_first = attrgetter(*_FIRST)
_PACKED = ("arrival", "key", "patient", "ties")  # in another form
_COPIED = [(one.name, one.default) for one in msgspec.structs.fields(NewRun) if one.name not in (*_FIRST, *_PACKED)]


def rare_fields(new: NewRun) -> dict[str, Any]:
    """Return the fields that most submissions do not have, which `submission` puts at its end."""
    more = {name: value for name, default in _COPIED if (value := getattr(new, name)) != default}
    if new.arrival is not None:
        more["arrival"] = _arrival(new.arrival)
    if new.key is not None:
        more["key"], more["digest"] = new.key, keys.digest(new.args)
    if not new.patient:
        more["impatient"] = True
    if new.ties is not None:
        more |= _ties(new, new.ties)
    return more


def _arrival(arrival: SessionIntent) -> dict[str, Any]:
    packed: dict[str, Any] = {
        "mode": arrival.mode.value,
        "debounce": arrival.debounce,
        "max_wait": arrival.max_wait,
        "rule": rule(arrival.rule),
    }
    if arrival.throttled is not None:
        packed["throttled"] = arrival.throttled
    return packed


def rule(of: Rule) -> dict[str, Any]:
    """Return the values that a session's rule gives."""
    return (
        {}
        if of is NO_RULE
        else {name: value for name, value in msgspec.structs.asdict(of).items() if value is not None}
    )


def _ties(new: NewRun, ties: RunLinks) -> dict[str, Any]:
    """Return the links of a run: all of them as text, and those that rules need."""
    facts: dict[str, Any] = {}
    for name in ("parent", "call", "session"):
        if getattr(ties, name) is not None:
            facts[name] = getattr(ties, name)
    if ties.call is not None:
        facts |= {"tries": ties.tries, "about": ties.about}
    if ties.job is not None:
        facts["job"] = ties.job.id
        facts["by_hand"] = ties.job.by_hand
        facts["at"] = ties.job.at
        if ties.job.overlap is not None:
            facts["overlap"] = ties.job.overlap.value
    more: dict[str, Any] = {"ties": facts, "ties_text": _text(ties)}
    if ties.then or ties.on_failure:
        facts["follows"] = True
        more["follows"] = [_followers(new, ties.then, "then"), _followers(new, ties.on_failure, "on_failure")]
    return more


def _followers(new: NewRun, followers: tuple[NewRun, ...], how: str) -> list[Any]:
    # With their ids, which are derived from values that are known now.
    return [submission(left_by(new, one, how, nth)) for nth, one in enumerate(followers, 1)]


def step(of: Step) -> list[Any]:
    """Return the arguments of verbs/workers/step.lua."""
    return [
        of.incarnation,
        of.call,
        _results(of.results),
        [[emitted.number, emitted.fence, _drafts(emitted.drafts)] for emitted in of.emitted],
        of.room,
        of.park,
        [_saved(saved) for saved in of.saved],
        of.overdue,
        of.short,
        of.offers_next,
    ]


def _results(results: list[Result]) -> list[Any]:
    """Return settlements as lists of numbers (as texts), fences and results, and by place what else they have."""
    settlements = [result.settlement for result in results]
    more = {
        place: _more_of(result)
        for place, (result, said) in enumerate(zip(results, settlements, strict=True), 1)
        # Checked here, without a call for each: most have nothing else.
        if said.move is not _SUCCEED
        or said.own
        or said.leaves is not None
        or said.charge is not None
        or result.read
        or result.throttled is not None
    }
    return [
        [str(result.number) for result in results],
        [result.fence for result in results],
        [said.result or False for said in settlements],
        more,
    ]


def _more_of(result: Result) -> list[Any]:
    """Return what a settlement has beside a result."""
    settlement = result.settlement
    more: dict[str, Any] = {}
    if settlement.move is not _SUCCEED or settlement.own:
        more["drafts"], more["own"] = _drafts(settlement.drafts), settlement.own
    if settlement.delay:
        more["delay"] = settlement.delay
    if settlement.failure is not None:
        more["failure"] = _text(settlement.failure)
    if settlement.reason is not None:
        more["reason"] = settlement.reason
    if settlement.leaves is not None:
        more["left"] = _left(settlement.leaves)
    if settlement.charge is not None:
        more["charge"] = _charge(settlement.charge)
    if result.read:
        more["read"] = result.read
    if result.throttled is not None:
        more["throttled"] = result.throttled
    return [settlement.move.value, settlement.attempt, settlement.crashes, more]


def _drafts(drafts: Iterable[Draft]) -> list[tuple[str, str]]:
    return [(_text(kind), data) for kind, data in drafts]


def _left(leaves: Leaves) -> dict[str, Any]:
    left: dict[str, Any] = {"follow_ups": [submission(new) for new in leaves.follow_ups]}
    left["calls"] = [submission(new) for new in leaves.calls]
    if leaves.wait is not None:
        left["wait"] = wait(leaves.wait)
    return left


def wait(of: Wait) -> dict[str, Any]:
    """Return what a run waits for."""
    return {
        "questions": [[one.name, _text(one.question), one.timeout, one.about, one.until] for one in of.questions],
        "calls": [[one.name, one.run_id, one.about, one.tries] for one in of.calls],
        "others": of.others,
    }


def _charge(charge: Charge) -> dict[str, Any]:
    breaker = charge.breaker
    return {
        "failed": charge.failed,
        "failures": breaker.failures,
        "length": breaker.length,
        "disable": breaker.disable,
        "per_user": breaker.per is Per.USER,
    }


def _saved(saved: Saved) -> list[Any]:
    return [saved.number, saved.fence, saved.state, saved.prepared, None if saved.memo is None else memo(saved.memo)]


def memo(of: Memo) -> list[Any]:
    """Return a memo, without its order."""
    ending = None if of.ending is None else [of.ending.state.value, of.ending.reason, of.ending.message]
    return [of.kind.value, of.name, of.value, of.about, of.nth, of.attempt, of.run_id, of.tries, ending]


def lane(of: Lane) -> list[Any]:
    """Return the settings of a lane, with False for None."""
    return [of.limit, of.per_user or False, of.worker_limit or False, of.max_pending or False, str(of.when_full)]


def wanted(of: RunFilter) -> dict[str, str]:
    """Return the values of a filter that are set."""
    return {name: value for name, value in msgspec.structs.asdict(of).items() if value is not None}
