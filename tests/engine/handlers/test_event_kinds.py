"""The typed kinds of events: streamed text and calls of tools, from every kind of handler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from laneway import BadArguments, BadSetting, Context, Scheduler
from tests.support.children import handlers as child_handlers
from tests.support.run_logs import log_of
from tests.support.waits import soon

HANDLERS = {
    "async": (child_handlers.say_everything_async, False),
    "thread": (child_handlers.say_everything, False),
    "child": (child_handlers.say_everything, True),
    "async child": (child_handlers.say_everything_async, True),
}


async def said_by(app: Scheduler, handler: Callable[..., Any], **options: Any) -> list[tuple[str, Any]]:
    """Return what a handler's log says between its start and its result."""
    task = app.task(name="work", retry=None, **options)(handler)
    receipt = await task.submit()
    await soon(app.drain())
    return [(event.kind, event.data) for event in await log_of(app, receipt)][1:-2]


@pytest.mark.parametrize(("handler", "process"), HANDLERS.values(), ids=list(HANDLERS))
async def test_every_kind_of_handler_streams_text_and_tells_of_its_tools(
    app: Scheduler, handler: Callable[..., Any], process: bool
) -> None:
    said = await said_by(app, handler, process=process)

    text = "".join(data["text"] for kind, data in said if kind == "delta")
    assert text == "one two three"
    rest = [(kind, data) for kind, data in said if kind not in ("delta", "progress")]
    seconds = [data.pop("seconds") for kind, data in rest if kind == "tool_end"]
    assert all(0 <= taken < 10 for taken in seconds)
    assert rest == [
        ("tool_start", {"name": "search", "input": {"q": "x"}}),
        ("log", {"text": "searching"}),
        ("tool_end", {"name": "search", "output": ["found"]}),
        ("tool_start", {"name": "fetch", "input": None}),
        ("tool_end", {"name": "fetch", "error": {"type": "OSError", "message": "no network"}}),
    ]
    assert said[-1] == ("progress", {"fraction": 0.5, "text": "half"})


async def test_a_chatty_run_costs_the_store_few_events_and_loses_nothing(app: Scheduler) -> None:
    words = [f"word {n} " for n in range(20_000)]

    async def work(*, ctx: Context) -> None:
        for n in range(1000):
            ctx.delta("first ")
            ctx.progress(n / 1000)
        for word in words:
            ctx.delta(word)

    said = await said_by(app, work)

    stream = [data["text"] for kind, data in said if kind == "delta"]
    assert "".join(stream) == "first " * 1000 + "".join(words)
    # The second half has nothing in between: twenty thousand pieces, joined to 8 KiB each.
    last = [kind for kind, _ in said[max(i for i, (kind, _) in enumerate(said) if kind == "progress") + 1 :]]
    assert set(last) == {"delta"}
    assert len(last) <= len("".join(words)) / 8_000 + 2


async def test_long_and_odd_text_is_streamed_whole(app: Scheduler) -> None:
    texts = ["x" * 30_000, "", "\x00" * 5_000, "🦜" * 3_000, 'a"b\\c\n', "tail"]

    async def work(*, ctx: Context) -> None:
        for text in texts:
            ctx.delta(text)
            ctx.log("-")
        ctx.delta("\ud800")

    said = await said_by(app, work)

    assert "".join(data["text"] for kind, data in said if kind == "delta") == "".join(texts) + "?"
    assert [kind for kind, _ in said].count("log") == len(texts)


async def test_a_tool_that_says_too_much_keeps_its_fields(app: Scheduler) -> None:
    async def work(*, ctx: Context) -> None:
        with ctx.tool("read", {"path": "p" * 9_000}) as tool:
            tool.output = {"text": "y" * 9_000, "lines": 3}

    [(_, start), (_, end)] = await said_by(app, work)

    assert start == {"name": "read", "input": {"path": "p" * 2_000}, "cut": 9_035}
    assert (end["name"], end["output"], end["cut"] > 9_000) == ("read", {"text": "y" * 2_000, "lines": 3}, True)


async def test_what_passes_through_a_tool_is_told_and_goes_on(app: Scheduler) -> None:
    async def work(*, ctx: Context) -> None:
        with ctx.tool("outer"), ctx.tool("inner"):
            raise ValueError("bad \ud800")

    said = await said_by(app, work)

    assert [(kind, data["name"]) for kind, data in said] == [
        *(("tool_start", "outer"), ("tool_start", "inner")),
        *(("tool_end", "inner"), ("tool_end", "outer")),
    ]
    assert said[-1][1]["error"] == {"type": "ValueError", "message": "bad ?"}


async def test_a_cancelled_tool_has_an_end(app: Scheduler) -> None:
    inside = asyncio.Event()

    @app.task
    async def work(*, ctx: Context) -> None:
        with ctx.tool("wait"):
            inside.set()
            await asyncio.Event().wait()

    async with app.running():
        receipt = await work.submit()
        await soon(inside.wait())
        await app.cancel(receipt)
        log = await soon(log_of(app, receipt))

    [end] = [event.data for event in log if event.kind == "tool_end"]
    assert end["error"] == {"type": "CancelledError", "message": ""}


async def test_output_that_is_not_json_fails_the_call_and_its_end_says_so(app: Scheduler) -> None:
    async def work(*, ctx: Context) -> None:
        with pytest.raises(BadArguments, match="the data of event 'tool_end' is not JSON"), ctx.tool("odd") as tool:
            tool.output = object()

    [_, (_, end)] = await said_by(app, work)

    assert end["error"]["type"] == "BadArguments"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda ctx: ctx.delta(5), "a delta is a piece of text, and 5 is none"),
        (lambda ctx: ctx.tool(""), "tool '': its name is a text of 1 to 200 characters"),
        (lambda ctx: ctx.tool(None), "tool None: its name is a text of 1 to 200 characters"),
        (lambda ctx: ctx.emit("delta", {}), "event kind 'delta' is the engine's own; use another name"),
        (lambda ctx: ctx.emit("tool_end", {}), "event kind 'tool_end' is the engine's own; use another name"),
        (lambda ctx: ctx.emit("question", {}), "event kind 'question' is the engine's own; use another name"),
        (
            lambda ctx: ctx.tool("t", object()).__enter__(),
            "the data of event 'tool_start' is not JSON: Encoding objects of type object is unsupported",
        ),
    ],
)
async def test_wrong_use_is_refused_and_leaves_nothing(
    app: Scheduler, call: Callable[[Any], object], message: str
) -> None:
    heard = []

    async def work(*, ctx: Context) -> None:
        with pytest.raises((BadSetting, BadArguments)) as caught:
            call(ctx)
        heard.append(str(caught.value))

    assert await said_by(app, work) == []
    assert heard == [message]
