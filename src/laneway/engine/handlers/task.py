"""Tasks: registered handlers and their policies."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from typing import Any, Generic, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar

from laneway.core.common.checks import checked_count, checked_name
from laneway.core.common.instants import SECOND, duration
from laneway.core.records.policy import TaskPolicy
from laneway.core.records.run import Receipt
from laneway.engine.handlers.context import Context
from laneway.engine.handlers.import_path import check_importable
from laneway.engine.handlers.parameters import Parameters
from laneway.engine.handlers.start_hooks import StartHooks
from laneway.errors import BadSetting, UnknownTask

P = ParamSpec("P")
R = TypeVar("R")


class Submit(Protocol):
    """The call by which a task reaches the scheduler that registered it."""

    def __call__(self, task: Task[..., Any], args: Mapping[str, Any], **options: Any) -> Awaitable[Receipt]:
        """Submit a run of the task."""


class CallOptions(NamedTuple):
    """How a handler is called, apart from its policy."""

    process: bool = False  # in a child process
    transient: tuple[type[BaseException], ...] = ()  # errors that get quick tries inside the attempt
    tries: int = 3
    wait: float = 5.0  # seconds between these tries
    validate: Callable[[Any], Any] | None = None  # gets the result; raises, or returns False, to refuse it

    @classmethod
    def of(cls, *, process: object, transient: object, tries: object, wait: object, validate: object) -> CallOptions:
        """Return the options from those of `@app.task`."""
        kinds = transient if isinstance(transient, tuple) else (transient,)
        if not isinstance(process, bool):
            raise BadSetting(f"process is {process!r}; it must be True or False")
        if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
            raise BadSetting(f"transient is {transient!r}; it must be an exception class, or a tuple of them")
        if validate is not None and not callable(validate):
            raise BadSetting(f"validate is {validate!r}; it must be a function that takes the result")
        length = duration(wait, "transient_wait") / SECOND  # type: ignore[arg-type]  # it checks that itself
        return cls(process, kinds, checked_count(tries, "transient_tries"), length, validate)


DIRECT = CallOptions()
NO_HOOKS = StartHooks()


class Task(Generic[P, R]):
    """A handler that can be submitted. Calling it calls the plain function."""

    def __init__(
        self,
        name: str,
        function: Callable[P, R],
        policy: TaskPolicy,
        submit: Submit,
        call_options: CallOptions = DIRECT,
        resources: Collection[str] = (),
        start_hooks: StartHooks = NO_HOOKS,
        *,
        keeps_events: bool = True,
    ) -> None:
        self.name = checked_name(name, "task")
        self.result_words = f"the result of {name}"  # for messages
        self.function = function
        self.policy = policy
        self.parameters = Parameters(name, function, Context, resources)
        self.call_options, self.start_hooks = call_options, start_hooks
        self.keeps_events = keeps_events  # whether its handler's events are stored
        self.is_hooked = start_hooks.before_start is not None
        call = function if inspect.isroutine(function) else getattr(function, "__call__", None)  # noqa: B004  # an object
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
        # Called once, on the loop, with nothing but its arguments: as most are.
        self.is_simple = self.is_async and call_options == DIRECT and not self.parameters.resources
        self._submit = submit
        self.registry: Registry | None = None  # set when it is registered
        self.__name__, self.__doc__ = name, function.__doc__
        self.__wrapped__ = function
        self._check()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        """Show the task by name."""
        return f"<task {self.name}>"

    async def submit(self, **args: Any) -> Receipt:
        """Submit a run with these arguments."""
        return await self._submit(self, args)

    def using(self, **options: Any) -> BoundTask:
        """Return the task with options for submission: `task.using(user="ann").submit(doc="42")`."""
        return BoundTask(self, self._submit, options)

    def _check(self) -> None:
        if inspect.isasyncgenfunction(self.function) or inspect.isgeneratorfunction(self.function):
            raise BadSetting(
                f"task {self.name!r} is a generator; a handler returns its result, and reports by ctx.emit"
            )
        if self.call_options.process:
            check_importable(self.function)
            if self.parameters.resources:
                raise BadSetting(
                    f"task {self.name!r}: resource {self.parameters.resources[0]!r} is the worker's; a child process"
                    " cannot have it: open what it needs inside the handler"
                )


AnyTask: TypeAlias = Task[..., Any]


class BoundTask:
    """A task with options for its submission."""

    def __init__(self, task: Task[..., Any], submit: Submit, options: Mapping[str, Any]) -> None:
        self._task, self._submit, self._options = task, submit, options

    def using(self, **options: Any) -> BoundTask:
        """Return the task with more options."""
        return BoundTask(self._task, self._submit, {**self._options, **options})

    async def submit(self, **args: Any) -> Receipt:
        """Submit a run with these arguments and the options given before."""
        return await self._submit(self._task, args, **self._options)


class Registry:
    """The tasks of one scheduler, by name."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task[..., Any]] = {}

    def __iter__(self) -> Iterator[Task[..., Any]]:
        """Yield the tasks in the order of registration."""
        return iter(self._tasks.values())

    @property
    def names(self) -> frozenset[str]:
        """The names of all tasks."""
        return frozenset(self._tasks)

    def add(self, task: Task[..., Any]) -> None:
        """Register a task; a name can be taken once."""
        if task.name in self._tasks:
            raise BadSetting(f"task {task.name!r} is registered twice; give one of them another name=")
        self._tasks[task.name] = task
        task.registry = self

    def forget(self, task: Task[..., Any]) -> None:
        """Remove a task."""
        del self._tasks[task.name]

    def get(self, name: str) -> Task[..., Any]:
        """Return the task of that name. Raises UnknownTask."""
        try:
            return self._tasks[name]
        except KeyError:
            raise UnknownTask(name, self._tasks) from None

    def known(self, task: object) -> Task[..., Any]:
        """Return the registered task that a caller means, by object or name. Raises UnknownTask or BadSetting."""
        if isinstance(task, str):
            return self.get(task)
        if not isinstance(task, Task):
            shown = getattr(task, "__name__", repr(task))
            raise BadSetting(f"{shown} is not a task; register the function with @app.task, or give a task's name")
        known = self.get(task.name)
        if known is not task:
            raise BadSetting(f"task {task.name!r} is another scheduler's; submit it there, or by its name")
        return known

    def policy(self, name: str) -> TaskPolicy:
        """Return the policy of a task; the default one for a task that only other processes know."""
        task = self._tasks.get(name)
        return TaskPolicy() if task is None else task.policy
