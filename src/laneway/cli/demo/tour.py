"""The app of `laneway demo`. Use it as the beginning of your own."""

import asyncio

from laneway import Context, Retry, Scheduler

app = Scheduler()  # keeps its runs in laneway.db, or where LANEWAY_STORE says


@app.task
async def embed(page: int, seconds: float = 0.2) -> int:
    """Do a small piece of work, one of very many."""
    await asyncio.sleep(seconds)
    return page


@app.task
async def report(topic: str, seconds: float = 5.0, *, ctx: Context) -> str:
    """Do something long, with progress."""
    parts = ("reading", "thinking", "drafting", "checking")
    for step in range(40):
        ctx.progress(step / 40, parts[step // 10])
        await asyncio.sleep(seconds / 40)
    ctx.progress(1, "finished")
    return f"all about {topic}"


@app.task(retry=Retry.delays(0.5, 1.0))
async def fetch(page: str, *, ctx: Context) -> str:
    """Fail twice, then succeed."""
    if ctx.attempt < 3:
        raise ConnectionError("503 Service Unavailable")
    return f"{page}, at attempt {ctx.attempt}"


@app.task
async def reply(message: str, seconds: float = 0.4) -> str:
    """Answer one message of a conversation."""
    await asyncio.sleep(seconds)
    return message.upper()


@app.task
async def publish(title: str, *, ctx: Context) -> str:
    """Write a text once, ask whether it is good, and wait for the answer."""

    async def write() -> str:
        ctx.log(f"writing about {title}")
        return f"all about {title}"

    draft = await ctx.step("write", write)
    answer = await ctx.ask(f"publish {draft!r}?", timeout=3600)
    return f"published: {draft}" if answer == "yes" else "kept back"
