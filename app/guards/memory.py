"""`VerdictMemory`: what guards have said of texts, so that a continued session asks about what is new only."""

import hashlib
import json
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from app.guards.verdicts import TextPart
from app.runtime.bounded_map import BoundedMap

MAX_BYTES = 16 * 1024 * 1024
MAX_ITEMS = 200_000
_ITEM_BYTES = 160


class Passed(Struct, frozen=True):
    pass


class Replaced(Struct, frozen=True):
    text: str


class Rejected(Struct, frozen=True):
    reason: str
    category: str | None = None


class Suspected(Struct, frozen=True):
    """It was refused together with others, and it is not known which of them was meant."""


Remembered: TypeAlias = Passed | Replaced | Rejected
PASSED, SUSPECTED = Passed(), Suspected()


class VerdictMemory:
    """That of one process. Failures are never in it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._items: BoundedMap[bytes, tuple[float, Any]] = BoundedMap(MAX_BYTES, MAX_ITEMS)

    def get(self, key: bytes) -> Any:
        found = self._items.get(key)
        return None if found is None or found[0] < self.clock() else found[1]

    def put(self, key: bytes, value: Any, seconds: float, size: int = 0) -> None:
        if seconds > 0:
            self._items.put(key, (self.clock() + seconds, value), _ITEM_BYTES + size)


def make_key(digest: bytes, scope: str, part: TextPart) -> bytes:
    """Return the key of a part for a guard. The arguments of a call count as JSON: clients write them again."""
    text = _normalize(part.text) if part.kind == "arguments" else part.text
    name = part.name or ""
    data = f"{len(scope)}:{scope}{part.role}:{part.kind}:{len(name)}:{name}{text}"
    return hashlib.sha256(digest + data.encode("utf-8", "surrogatepass")).digest()  # processors have it


def _normalize(arguments: str) -> str:
    try:
        plain = msgspec.json.encode(msgspec.json.decode(arguments)).decode()
        if plain != arguments:
            json.loads(arguments, object_pairs_hook=_check_names)
        return plain
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return arguments


def _check_names(pairs: list[tuple[str, Any]]) -> None:
    """Raises ValueError for a name that stands twice: what it stands for the first time would be seen by no guard."""
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a name stands twice")
