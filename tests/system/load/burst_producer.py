"""Many callers who submit at once until they are killed: `python burst_producer.py PATH`.

Each receipt is a line on stdout.
"""

import asyncio
import os
import sys
from itertools import count

from laneway import Scheduler


def noop(number: int) -> int:
    return number


async def main(path: str) -> None:
    app = Scheduler(f"sqlite:///{path}", lanes=None)
    app.task(noop)
    numbers = count()

    async def caller() -> None:
        while True:
            receipt = await app.submit("noop", {"number": next(numbers)})
            # One write each: a killed process has printed a whole line or nothing.
            os.write(1, f"{receipt.run_id}\n".encode())

    async with app:
        await asyncio.gather(*(caller() for _ in range(50)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
