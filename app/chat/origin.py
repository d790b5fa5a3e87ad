"""Where a reply comes from: the cache or a model server, and after which attempts."""

from typing import Literal, TypeAlias

from msgspec import Struct

Label: TypeAlias = Literal["miss", "hit", "shared", "refresh", "bypass"]


class Attempt(Struct, frozen=True):
    """One request to a model server."""

    upstream: str
    address: str
    milliseconds: float
    """Until the server began to answer, or failed."""
    cause: str | None = None
    """None if the server began to answer."""
    reason: str | None = None
    """The cause as a sentence."""
    outcome: str = "ok"
    """`ok` if the server began to answer, else the code of the fault, or `cancelled`."""
    model: str | None = None
    """The model of the gateway that was tried, if it is not the one that was requested."""
    status: int | None = None
    """The server's HTTP status, if that was an error."""
    started_at: float = 0.0
    """Unix seconds."""


class Origin(Struct, frozen=True):
    """Where a reply comes from."""

    label: Label = "bypass"
    age_seconds: int | None = None
    """The age of a cached reply; None if the reply is not from the cache."""
    fallback_model: str | None = None
    """The model that answers in place of the one that was requested; None if that one does."""

    @property
    def cached(self) -> bool:
        return self.age_seconds is not None


BYPASS = Origin("bypass")
