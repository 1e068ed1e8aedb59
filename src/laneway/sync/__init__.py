"""The blocking face: every call of a scheduler, for code that cannot await (Django views, scripts).

**The model.** `face.Sync` has a twin of each public coroutine of `Scheduler`, with the same parameters. A call goes to
an event loop that runs on a daemon thread (`thread.LoopThread`) and blocks its caller until it is answered. Any number
of threads may call at once; what they submit at the same moment shares one write, as it does for coroutines.

**One loop, one thread, per scheduler.** One and not one per call, because what a scheduler holds (connections, a
worker, iterators half way) belongs to the loop it was made on. Per scheduler and not per process, because those who
share a loop share its fate: a handler that stalls it, or a close that ends it, must not reach the calls of another
scheduler. It starts with the first call and costs nothing before.

**Where it must not be called.** On a thread whose event loop is running it raises `WrongThread`. On the face's own loop
it would wait for itself for ever; on another one it would hold up everything there, for ever if that is where the
awaited run is to be executed. Plain handlers have threads of their own, and may call.

**Endings.** A caller that stops waiting (a time-out, Ctrl-C) cancels its call; a call that was under way may have taken
effect all the same. `close` answers the callers first, then cancels their calls, stops the worker, runs the hooks,
closes the store and ends the thread; the next call starts another. A forked child has none of its parent's threads, so
it begins anew. A process that ends without `close` stops its worker for at most a few seconds, and says nothing.
"""

from laneway.sync.generated.face import Sync

__all__ = ["Sync"]
