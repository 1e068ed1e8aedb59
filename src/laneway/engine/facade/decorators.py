"""The decorators that register handlers, resources and conditions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar, overload

from laneway.core.records.breakers import Breaker
from laneway.core.records.policy import TaskPolicy
from laneway.core.records.retry import Retry
from laneway.core.records.run import Receipt
from laneway.core.schedules import Schedule
from laneway.engine.handlers.context import Context
from laneway.engine.handlers.resources import Resources
from laneway.engine.handlers.start_hooks import StartHooks
from laneway.engine.handlers.task import AnyTask, CallOptions, Registry, Task
from laneway.engine.jobs.environment import JobEnvironment, condition_name
from laneway.engine.jobs.jobs import Jobs
from laneway.engine.worker.lifecycle import WorkerLifecycle
from laneway.errors import BadArguments, BadSetting, LanewayError

P = ParamSpec("P")
R = TypeVar("R")
DEFAULT_RETRY = Retry()
TASK_OPTIONS = (
    *("name", "lane", "timeout", "retry", "max_crashes", "breaker"),
    *("process", "transient", "transient_tries", "transient_wait", "validate", "merge", "before_start"),
    *("events", "schedule", "job"),
)


class TaskDecorators(ABC):
    """The decorators of a scheduler."""

    jobs: Jobs
    _registry: Registry
    _resources: Resources
    _environment: JobEnvironment
    _lifecycle: WorkerLifecycle

    @abstractmethod
    async def submit(self, task: AnyTask | str, args: Mapping[str, Any] | None = None, **options: Any) -> Receipt:
        """Accept a run of a registered task."""

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self,
        *,
        name: str | None = None,
        lane: str = "main",
        timeout: timedelta | float | None = None,
        retry: Retry | int | None = DEFAULT_RETRY,
        max_crashes: int = 3,
        breaker: Breaker | None = None,
        process: bool = False,
        transient: type[Exception] | tuple[type[Exception], ...] = (),
        transient_tries: int = 3,
        transient_wait: timedelta | float = 5,
        validate: Callable[[Any], Any] | None = None,
        merge: str | Callable[[list[dict[str, Any]]], Any] = "join",
        before_start: Callable[[dict[str, Any], Context], Any] | None = None,
        events: bool = True,
        schedule: Schedule | str | None = None,
        job: Mapping[str, Any] | None = None,
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...
    def task(  # type: ignore[misc]  # mypy takes the ParamSpec of the decorator it returns for parameters
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        lane: str = "main",
        timeout: timedelta | float | None = None,
        retry: Retry | int | None = DEFAULT_RETRY,
        max_crashes: int = 3,
        breaker: Breaker | None = None,
        process: bool = False,
        transient: type[Exception] | tuple[type[Exception], ...] = (),
        transient_tries: int = 3,
        transient_wait: timedelta | float = 5,
        validate: Callable[[Any], Any] | None = None,
        merge: str | Callable[[list[dict[str, Any]]], Any] = "join",
        before_start: Callable[[dict[str, Any], Context], Any] | None = None,
        events: bool = True,
        schedule: Schedule | str | None = None,
        job: Mapping[str, Any] | None = None,
        **unknown: Any,
    ) -> Any:
        """Register a handler: `@app.task(lane=..., timeout=...)`; the function can still be called.

        `breaker` holds the task back, in all processes, after so many failures in a row: `Breaker(5, open_for=60)`.
        `process=True` executes it in a child process. Errors listed as `transient` get `transient_tries` quick tries
        inside the attempt, `transient_wait` apart or as their `retry_after` says. `validate` is called with the result,
        and refuses it by raising or returning False: then the attempt has failed. `merge` makes one message of those
        that were collected: "join" (texts joined by newlines, other values from the last), "last", or a function of the
        list. `before_start(args, ctx)` is called once, just before the handler's first start: it may return other
        arguments, or refuse the run by raising. `events=False` does not store the handler's events; subscribers get
        them, and the engine's events are stored all the same. `schedule` declares a job with the task's name; `job` has
        its other settings: `args`, and the options of `app.jobs.create`.
        """
        for option in unknown:
            raise BadSetting.unknown("option of @app.task", option, TASK_OPTIONS)
        if self._lifecycle.worker is not None:
            raise BadSetting("this scheduler is working already; register its tasks before it starts")
        policy = TaskPolicy.of(lane=lane, timeout=timeout, retry=retry, max_crashes=max_crashes, breaker=breaker)
        call_options = CallOptions.of(
            process=process, transient=transient, tries=transient_tries, wait=transient_wait, validate=validate
        )

        if job is not None and (schedule is None or not isinstance(job, Mapping)):
            raise BadSetting("job is a dict of a job's options, and goes with a schedule: schedule=..., job={...}")
        start_hooks = StartHooks.of(merge=merge, before_start=before_start)
        if not isinstance(events, bool):
            raise BadSetting(f"events is {events!r}; it must be True or False")

        def register(function: Callable[..., Any]) -> AnyTask:
            called = getattr(function, "__name__", "") if name is None else name
            how = (call_options, self._resources.names, start_hooks)
            task = Task(called, function, policy, self.submit, *how, keeps_events=events)
            self._registry.add(task)
            if schedule is not None:
                self._declare(task, schedule, job or {})
            return task

        return register if function is None else register(function)

    def _declare(self, task: AnyTask, schedule: Schedule | str, job: Mapping[str, Any]) -> None:
        options = {"name": task.name, "args": None, **job}
        try:
            self.jobs.declare(schedule=schedule, task=task, **options)
        except LanewayError as error:
            self._registry.forget(task)
            if not isinstance(error, BadArguments):
                raise
            raise BadSetting(f'{error}; a scheduled task gets its arguments by job={{"args": {{...}}}}') from None

    def condition(self, function: Callable[[], Any], /) -> Callable[[], Any]:
        """Register a condition that jobs check before they fire (`enabled_when`): `@app.condition`, before those jobs.

        It takes nothing, may be async, and returns whether to fire. One that raises, or takes longer than 5 s, means
        no.
        """
        name = condition_name(function)
        if name in self._environment.conditions:
            raise BadSetting(f"condition {name!r} is registered twice; give one of them another name")
        self._environment.conditions[name] = function
        return function

    def resource(self, function: Callable[[], R], /) -> Callable[[], R]:
        """Register what handlers share while a worker works: `@app.resource`, before the tasks that use it.

        The function yields it (plain or async generator), or returns it. It is called once per worker, on its loop. A
        handler's parameter with the function's name receives it.
        """
        self._resources.add(function)
        return function
