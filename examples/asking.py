from app import app, summarize

from laneway import Context


@app.task
async def publish(doc: str, *, ctx: Context) -> str:
    draft = await ctx.call(summarize, {"doc": doc})  # another run; its result is kept and not paid for twice
    answer = await ctx.ask(f"publish {draft!r}?", timeout=3600)  # waits for an hour, and holds no slot
    return f"published {draft}" if answer == "yes" else "kept back"
