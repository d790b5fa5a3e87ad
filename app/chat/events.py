"""What a model's reply is made of while it streams.

Starts and ends of messages follow from a change of kind or index and are derived where they are needed
(`segments`). A reply ends with exactly one `Finish` or `Failed`. Every event has a `kind` tag: untagged look-alikes
do not survive a round through JSON.
"""

from typing import Any, Literal, TypeAlias

from msgspec import Struct

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter"]


class ReasoningDelta(Struct, frozen=True, gc=False, tag_field="kind", tag="reasoning"):
    text: str


class TextDelta(Struct, frozen=True, gc=False, tag_field="kind", tag="text"):
    text: str
    refusal: bool = False


class ToolCallDelta(Struct, frozen=True, gc=False, tag_field="kind", tag="call"):
    index: int
    """Counts the calls of the reply from 0, in the order in which they are to stand."""
    arguments: str
    """A piece of the raw JSON text."""
    id: str = ""
    name: str = ""
    """`id` and `name` come with the first delta of a call, and only with it."""


class Extra(Struct, frozen=True, tag_field="kind", tag="extra"):
    """Opaque fields for the `extra` of a message: what must go back to the model with it."""

    fields: dict[str, Any]
    index: int = -1
    """The call that they belong to; -1: the message that is open, or the next one to open."""


class MediaOutput(Struct, frozen=True, tag_field="kind", tag="media"):
    """Sound or a picture that the model made; it is a message of its own."""

    media: Literal["image", "audio"]
    url: str
    """A data URI, or where the server keeps it."""
    fields: dict[str, Any] = {}
    """What the server says of it beside its bytes (of sound: id, transcript, expires_at)."""


class Fault(Struct, frozen=True, tag_field="kind", tag="fault"):
    """What went wrong at the model server; `spec` of the kinds: docs/reference/errors.md."""

    code: str
    message: str
    transient: bool
    """The same request may work later."""
    status: int | None = None
    """The upstream's own HTTP status, where there was one."""
    retry_after_seconds: float | None = None
    detail: Any = None
    """What the server added and a caller may want (`failed_generation`)."""
    upstream: str | None = None
    """The configured name of the upstream."""
    cause: str | None = None
    """One word for what went wrong on the way (docs/reference/errors.md lists them)."""


class Finish(Struct, frozen=True, tag_field="kind", tag="finish"):
    reason: FinishReason
    usage: dict[str, Any] | None = None
    native_reason: str | None = None
    """The server's own word, where it is not the reason's usual one."""
    warnings: tuple[str, ...] = ()
    """What the caller must know of the reply itself."""
    cacheable: bool = True
    """False: another call may be answered better."""


class Failed(Struct, frozen=True, tag_field="kind", tag="failed"):
    fault: Fault


Event: TypeAlias = ReasoningDelta | TextDelta | ToolCallDelta | Extra | MediaOutput | Finish | Failed
