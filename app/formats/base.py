"""What every client format has: a schema, a way in and a way out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from app.chat.events import Event, Finish
from app.chat.messages import PLAIN, Message, PromptPolicy
from app.chat.stream import Origin
from app.errors import Violation

ReplyMode: TypeAlias = Literal["delta", "snapshot", "whole"]


@dataclass(frozen=True, slots=True)
class Options:
    """What a caller may say about the use of a format."""

    agent: str | None = None
    """AutoGen: the agent for whom the request is made; every other source is the user's side."""
    agent_name: str = "assistant"
    """The name under which the reply speaks."""
    autogen_stream: Literal["interleaved", "compat", "model"] = "interleaved"


@dataclass(frozen=True, slots=True)
class ReplyInfo:
    """What a reply says of itself."""

    response_id: str
    request_id: str
    model: str
    created: int
    """Unix seconds."""
    origin: Origin = field(default_factory=Origin)
    warnings: Sequence[str] = ()
    """What the caller must know; it may grow until the reply ends."""
    completed_bodies: bool = True
    include_usage: bool = True
    """OpenAI: a stream ends with a chunk of usage."""
    options: Options = Options()

    @property
    def cached(self) -> bool:
        return self.origin.cached

    def warnings_with(self, finish: Finish) -> list[str]:
        """Those of the request, then those of the reply."""
        return [*self.warnings, *finish.warnings]

    def to_dict(self) -> dict[str, Any]:
        said = {
            "response_id": self.response_id,
            "model": self.model,
            "created": self.created,
            "cached": self.cached,
        }
        return said if self.origin.age_seconds is None else said | {"age": self.origin.age_seconds}


class Encoder(Protocol):
    """Events into the bytes that the caller reads."""

    def open(self) -> bytes:
        """What is said before the first event."""

    def feed(self, events: list[Event]) -> bytes:
        """The bytes of these events; the terminal event closes the reply."""

    def fail(self, error: dict[str, Any]) -> bytes:
        """The last bytes of a reply that fails for a reason that is no event (`error` as in `ParleyError.to_dict`)."""


@dataclass(frozen=True, slots=True)
class ParsedMessages:
    messages: tuple[Message, ...]
    violations: Sequence[Violation] = ()
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class WrittenMessages:
    """A conversation in a client's format, and what that format could not say of it."""

    messages: list[Any]
    losses: Sequence[Violation] = ()
    """Paths are those of the messages that were given."""


WriteError: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Makes the body of an HTTP error in some format, from `ParleyError.to_dict`."""


def wrap_error(error: dict[str, Any]) -> dict[str, Any]:
    """The gateway's own form of an error."""
    return {"error": error}


@dataclass(frozen=True, slots=True)
class Format:
    """One row of FORMATS."""

    name: str
    parse: Callable[[list[Any], Options], ParsedMessages]
    """From the request's `messages`. Reports every violation, with its JSON path."""
    write: Callable[[Sequence[Message], Options], WrittenMessages]
    """A history in this format; what `decode` read from it comes back equal."""
    reply_encoder: Callable[[ReplyInfo, ReplyMode], Encoder]
    schema: Any
    """The pydantic type of `messages`, for the OpenAPI document."""
    error: WriteError = wrap_error
    text_joiner: str = "\n"
    """Stands between the text items of one message where a server wants a string."""
    keeps_marks: bool = False
    """Its content parts can have a `cache_control`."""
    policy: PromptPolicy = PLAIN
    """What the framework of this format does to a conversation before a model sees it."""
    warning: Callable[[str], str] = str
    """A warning with the places as this face names them."""
