"""Named checks of one client package; each is printed as a line of JSON. Knows no package but Python's own."""

import asyncio
import inspect
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from interop.page_programs import read_programs

PARLEY = os.environ.get("PARLEY_URL", "http://127.0.0.1:8000")
V1 = f"{PARLEY}/v1"
KEY = "not-needed"
MODELS_OF_JSON = ("demo", "prose", "fenced")
"""Models that are asked for JSON. Those after the first are of a server without grammars, and the gateway checks what
they reply."""
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

WAIT_SECONDS = 60

_CHECKS: dict[str, Callable[[], Any]] = {}


def check(what: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """The name of the check is a sentence that can be false. What the check returns is printed next to it."""

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


def post(path: str, body: Any) -> tuple[int, str]:
    """Status and text of an answer; nothing of any client has a part in it."""
    head = {"content-type": "application/json"}
    request = urllib.request.Request(PARLEY + path, json.dumps(body).encode(), head)
    try:
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def whole(**body: Any) -> Any:
    """The JSON that `/v1/chat` answers."""
    status, text = post("/v1/chat", {"model": "demo", "stream": False, **body})
    equal((status, text if status != 200 else ""), (200, ""))
    return json.loads(text)


def frames(**body: Any) -> list[Any]:
    """The data of every event that `/v1/chat` streams."""
    status, text = post("/v1/chat", {"model": "demo", **body})
    equal((status, text if status != 200 else ""), (200, ""))
    return [json.loads(line.removeprefix("data: ")) for line in text.split("\n") if line.startswith("data: ")]


def weather(city: str) -> str:
    return f"It is 21 degrees in {city}."


def check_pages(package: str) -> None:
    """The programs that the pages show with this package run."""
    for program in read_programs():
        if package in program.packages and not program.undefined_names:
            check(f"{program.title}: it runs as the page shows it")(partial(program.run, PARLEY))


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
