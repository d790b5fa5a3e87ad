"""Named checks of one client package; each is told as a line of JSON. Knows no package but Python's own."""

import asyncio
import inspect
import json
import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

PARLEY = os.environ.get("PARLEY_URL", "http://127.0.0.1:8000")
V1 = f"{PARLEY}/v1"
KEY = "not-needed"
QUESTION = "What is the weather in Paris and in Tokyo?"
"""The demo model calls `get_weather` twice for it."""
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
"""A PNG of one pixel."""

_CHECKS: dict[str, Callable[[], Any]] = {}


def check(what: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """The name of the check is a sentence that can be false. What the check returns is told beside it."""

    def kept(act: Callable[[], Any]) -> Callable[[], Any]:
        _CHECKS[what] = act
        return act

    return kept


def equal(found: Any, wanted: Any) -> None:
    if found != wanted:
        raise AssertionError(f"{found!r} is not {wanted!r}")


def holds(true: Any, found: Any = "") -> None:
    if not true:
        raise AssertionError(f"found: {found!r}"[:600])


def raises(kind: type[BaseException], act: Callable[[], Any]) -> Any:
    """The error of this very kind or below that the act ends with."""
    try:
        act()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def weather(city: str) -> str:
    return f"It is 21 degrees in {city}."


def run(package: str) -> None:
    """Runs the checks in their order, one after another."""
    for what, act in _CHECKS.items():
        line = {"client": package, "version": version(package), "check": what, **_outcome(act)}
        sys.stdout.write("\n" + json.dumps(line) + "\n")
        sys.stdout.flush()


def _outcome(act: Callable[[], Any]) -> dict[str, Any]:
    try:
        detail = asyncio.run(act()) if inspect.iscoroutinefunction(act) else act()
    except Exception as error:
        return {"ok": False, "detail": f"{type(error).__name__}: {error}"[:900]}
    return {"ok": True, "detail": str(detail or "")}
