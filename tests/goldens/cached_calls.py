"""Calls that share a cache (group 11): what each asks the server and what it says, where that is not as it was."""

import json
from dataclasses import dataclass

from tests.goldens.expectations import Json, reasoning_message, text_message
from tests.goldens.golden_runner import FOLDER


@dataclass(frozen=True, slots=True)
class Cached:
    """Of calls one after another; None: as the golden."""

    why: str
    requests: tuple[int, ...]
    """How often each asks the server."""
    messages: tuple[list[Json], ...] | None = None


HELLO = [text_message("Hello")]
ANSWER = [reasoning_message("Let me think."), text_message("The answer.")]

DIFFERENT: dict[str, Cached] = {
    "11_cache_delta": Cached("the cache stores the assembled reply, not its last delta", (1, 0), (ANSWER, ANSWER)),
    "11_cache_hit_raw": Cached("the key depends on how the reply is parsed", (1, 1)),
    "11_cache_key_ignores_model": Cached("the key depends on the model and the request body", (1, 1)),
    "11_cache_nonstream_empty_cache": Cached(
        "a whole reply is stored in an empty cache too", (1, 0), ([text_message("one")], [text_message("one")])
    ),
    "11_cache_raw": Cached("replies of the raw API are stored too", (1, 0), (HELLO, HELLO)),
}
KEYS = {
    "functions and parameters of a model that are empty and those that are missing are one: nothing of them is sent": 1,
    "a conversation that begins with the assistant is refused: it has no key": 3,
}
"""Entries of `unit_cache_key` that are told apart otherwise, or not at all."""


def load_cached() -> dict[str, Json]:
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("11_*.json"))}


def load_keys() -> list[Json]:
    entries: list[Json] = json.loads((FOLDER / "unit_cache_key.json").read_text("utf-8"))
    return entries


def requests(name: str, case: Json) -> tuple[int, ...]:
    if name in DIFFERENT:
        return DIFFERENT[name].requests
    return tuple(len(call["upstream"]) for call in case["calls"])
