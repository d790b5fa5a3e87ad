"""A coroutine that is first stepped by hand: if it ends without waiting, it needs no task, no timer and no turn of the
loop."""

from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class SuspendedCoroutine(Generic[T]):
    """A coroutine that was stepped until it had to wait. Awaiting this runs the rest and returns its result."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], waiting: Any) -> None:
        self._coroutine = coroutine
        self._waiting = waiting

    def __await__(self) -> Generator[Any, Any, T]:
        waiting = self._waiting
        while True:
            try:
                value = yield waiting
            except BaseException as error:
                thrown: BaseException | None = error
            else:
                thrown = None
            try:
                waiting = self._coroutine.throw(thrown) if thrown is not None else self._coroutine.send(value)
            except StopIteration as done:
                result: T = done.value
                return result
