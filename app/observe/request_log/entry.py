"""What one request leaves in the log: its figures, and the bodies that went in four directions."""

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

BodyKind: TypeAlias = Literal["client_request", "upstream_request", "upstream_reply", "client_reply"]
BODY_KINDS: Sequence[BodyKind] = get_args(BodyKind)
Content: TypeAlias = Literal["masked", "full", "none"]
Header: TypeAlias = tuple[str, str]
Part: TypeAlias = tuple[float, int]
"""One read or frame: milliseconds since the start of the request, and its number of bytes."""


class LoggedAttempt(Struct, frozen=True):
    """A request to a model server, as the log line and `x-parley-attempts` have it."""

    upstream: str
    outcome: str
    milliseconds: float
    model: str | None = None
    status: int | None = None
    cause: str | None = None
    reason: str | None = None


class LoggedTokens(Struct, frozen=True):
    input: int
    output: int
    cached_input: int
    cache_write: int
    reasoning: int
    estimated: bool


class BodySize(Struct, frozen=True):
    kind: BodyKind
    bytes: int
    """As it was sent: what is kept may be less."""
    is_cut: bool


class Figures(Struct, frozen=True):
    """Everything about a request but its bodies."""

    request_id: str
    endpoint: str
    started_at: float
    """Unix seconds."""
    seconds: float
    status: int
    key: str = ""
    team: str = ""
    owner: str = ""
    """The identity of the key: another key may get its name later."""
    model: str = ""
    requested_model: str = ""
    fallback_model: str | None = None
    route: str = ""
    stream: bool = False
    error: str | None = None
    error_from_upstream: bool = False
    finish_reason: str | None = None
    output: str | None = None
    cache: str = ""
    cost: float | None = None
    tokens: LoggedTokens | None = None
    first_token_seconds: float | None = None
    overhead_seconds: float | None = None
    attempts: tuple[LoggedAttempt, ...] = ()
    warnings: tuple[str, ...] = ()
    content: Content = "none"
    """How the bodies are kept."""
    user: str = ""
    """The end user behind the key, if the caller names its users."""
    bodies: tuple[BodySize, ...] = ()
    guards: str = ""
    """What guards have said, such as `pii=masked:3 policy=pass`."""


class BodyFacts(Struct, frozen=True):
    """What is kept of a body beside its bytes."""

    kind: BodyKind
    exchange: int
    """The number of the request to a model server to which it belongs, from 0; -1 if the client sent or got it."""
    size: int
    """The bytes that were sent, whatever is kept of them."""
    is_cut: bool = False
    status: int = 0
    """Of a response; 0 if none came."""
    upstream: str = ""
    path: str = ""
    """Below the base_url of the model server, or of the gateway's own endpoint. It has no query."""
    headers: tuple[Header, ...] = ()
    parts: tuple[Part, ...] = ()
    """The reads or frames of a response, in the sizes that they have in what is kept."""
    end: str = ""
    """How the bytes of a response ended: `end`, `cut`, or nothing if the gateway stopped to read."""


class Body(Struct, frozen=True):
    facts: BodyFacts
    data: bytes


class LoggedRequest(Struct, frozen=True):
    """One entry as it is read."""

    id: int
    figures: Figures
    bodies: tuple[Body, ...] = ()

    def find_bodies(self, kind: BodyKind) -> list[Body]:
        return [body for body in self.bodies if body.facts.kind == kind]
