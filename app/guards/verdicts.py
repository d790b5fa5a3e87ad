"""What guards are asked and what they answer: parts of a conversation or a reply, and a verdict on them."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from app.chat.messages import Role
from app.observe.trace_context import PassedTrace, RequestTrace

PartKind: TypeAlias = Literal["text", "result", "file", "arguments", "reasoning", "image", "tool"]
Group: TypeAlias = Literal["A", "B", "C"]
Phase: TypeAlias = Literal["request", "reply"]
MAX_REASON = 500
MAX_CATEGORY = 64


class TextPart(Struct, frozen=True):
    """One text of a conversation or a reply."""

    id: str
    """Its place: `messages[2].content[0]`."""
    role: Role
    kind: PartKind
    text: str
    group: Group = "A"
    """Of a request: what is new and by the user or the operator (A), new results (B), and what is older (C)."""
    name: str | None = None
    """Of the function, or the file."""
    call_id: str | None = None


class Place(Struct, frozen=True):
    """Where a part is: the number of its message, of the part in it, and of the content of a result."""

    message: int
    part: int
    content: int = -1


class AskedPart(Struct, frozen=True):
    """One part, its place, and the key under which its verdict is remembered."""

    place: Place
    part: TextPart
    key: bytes


class RequestFacts(Struct, frozen=True):
    """What guards get to know of a request."""

    request_id: str
    reply_id: str
    endpoint: str
    model: str
    key: str = ""
    team: str = ""
    user: str = ""
    """The end user of the key."""
    session: str = ""
    scope: str = ""
    """Callers with the same scope have the same placeholders, and share verdicts."""
    headers: Mapping[str, str] = {}
    trace: PassedTrace | RequestTrace | None = None


class Question(Struct, frozen=True):
    """What a guard is asked at once."""

    phase: Phase
    parts: tuple[TextPart, ...]
    model: str
    request_id: str = ""
    reply_id: str = ""
    session: str = ""
    endpoint: str = ""
    key: str = ""
    team: str = ""
    user: str = ""
    turn: int = 0
    final: bool = True
    """Of a reply: nothing follows in this turn."""
    headers: Mapping[str, str] = {}
    """Those of the caller that the guard gets."""


class Pass(Struct, frozen=True):
    holdback: int = 0
    """How many characters at the end of a window are kept for the next one."""


class Replace(Struct, frozen=True):
    texts: Mapping[str, str]
    """The new texts of parts, by their ids."""
    holdback: int = 0


class Reject(Struct, frozen=True):
    reason: str
    category: str | None = None
    ids: tuple[str, ...] | None = None
    """The parts that are refused; None: the answer does not say which."""


Verdict: TypeAlias = Pass | Replace | Reject


class JudgedReply(Struct, frozen=True):
    """What guards have said of a segment."""

    texts: Mapping[str, str] = {}
    holdback: int = 0
    refused: tuple[str, str, str | None] | None = None
    """The guard, its reason, and a category."""
    failed: tuple[str, ...] = ()
    """The guards that gave no verdict, and without which it goes on."""


class GuardError(Exception):
    """A guard gave no verdict; the message says why, without any text of the request."""


def cut_reason(reason: str) -> str:
    """Return a reason of a guard as one line that a log and a terminal can show."""
    return _cut(reason, MAX_REASON)


def cut_category(category: str | None) -> str | None:
    """Return a category of a guard as one short line; None if there is none."""
    return None if category is None else _cut(category, MAX_CATEGORY) or None


def _cut(given: str, length: int) -> str:
    shown = "".join([char if char.isprintable() else " " for char in given[: 8 * length]])
    text = " ".join(shown.split())
    return text if len(text) <= length else f"{text[: length - 1]}…"
