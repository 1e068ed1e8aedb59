import asyncio

from laneway import Context, Retry, Scheduler

app = Scheduler("sqlite:///laneway.db")


@app.task(timeout=300, retry=Retry(attempts=3))
async def summarize(doc: str, *, ctx: Context) -> str:
    for part in range(10):
        ctx.progress(part / 10, f"reading part {part + 1}")
        await asyncio.sleep(1)
    return f"summary of {doc}"


async def main() -> None:
    receipt = await app.submit(summarize, {"doc": "42"}, user="ann", session="chat-7")
    print(await app.result(receipt))


if __name__ == "__main__":
    asyncio.run(main())
