"""The blocking face: every call of a scheduler, for code that cannot await (Django views, scripts).

**The model.** `Sync` has a method for each public coroutine of `Scheduler`, with the same parameters
(`generated/face.py`). A call is passed to an event loop on a daemon thread (`thread.LoopThread`), and blocks its caller
until it is answered. Any number of threads may call at once; their submissions of the same moment share one write, as
those of coroutines do.

**One loop, one thread, per scheduler.** Not one per call, because the parts of a scheduler (connections, a worker,
open iterators) belong to the loop on which they were made. Not one per process, because a handler that blocks the loop,
or a close that ends it, must not affect another scheduler. The loop starts with the first call and costs nothing
before.

**Where it must not be called.** On a thread with a running event loop it raises `WrongThread`. On the face's own loop
the call would wait for itself for ever. On another loop it would block everything there, and for ever if that loop must
execute the awaited run. Plain handlers run in their own threads, and may call.

**Endings.** A caller that stops waiting (a time-out, Ctrl-C) cancels its call, which may have taken effect all the
same. `close` first answers the callers, then cancels their calls, stops the worker, runs the hooks, closes the store
and ends the thread; the next call starts another. A forked child has none of its parent's threads, so it starts a loop
of its own. A process that ends without `close` waits at most a few seconds for its worker to stop, and prints nothing.
"""

from laneway.sync.generated.face import Sync

__all__ = ["Sync"]
