"""The events of a streaming reply.

No event marks the start or end of a message: `chat.accumulator` derives them from a change of kind or index. A reply
ends with exactly one `Finish` or `Failed`. Every event has a `kind` tag, so that stored events decode to the same
class: several classes have the same fields.
"""

from collections.abc import Sequence
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
    """The position of the call in the reply, from 0."""
    arguments: str
    """A fragment of the raw JSON text."""
    id: str = ""
    name: str = ""
    """Only the first delta of a call has `id` and `name`."""


class Extra(Struct, frozen=True, tag_field="kind", tag="extra"):
    """Opaque fields for the `extra` of a message, which the client must send back to the model with that message."""

    fields: dict[str, Any]
    index: int = -1
    """The call that the fields belong to; -1 means the open message, or the next one if none is open."""


class MediaOutput(Struct, frozen=True, tag_field="kind", tag="media"):
    """An image or audio that the model generated. It becomes a separate message."""

    media: Literal["image", "audio"]
    url: str
    """A data URI, or the URL of the file on the model's server."""
    fields: dict[str, Any] = {}
    """The server's other fields for it (for audio: id, transcript, expires_at)."""


class Fault(Struct, frozen=True, tag_field="kind", tag="fault"):
    """A failure at the model server. docs/reference/errors.md lists the codes."""

    code: str
    message: str
    transient: bool
    """The same request may succeed later."""
    status: int | None = None
    """The upstream's HTTP status, if it sent one."""
    retry_after_seconds: float | None = None
    detail: Any = None
    """Further details from the server that a caller may want (`failed_generation`)."""
    upstream: str | None = None
    """The configured name of the upstream."""
    cause: str | None = None
    """A more exact cause than `code`; docs/reference/errors.md lists them."""
    usage: dict[str, Any] | None = None
    """What the reply had used before it failed, if the server has told it."""
    param: str | None = None
    """The parameter that the server refused, under the gateway's name."""


class Finish(Struct, frozen=True, tag_field="kind", tag="finish"):
    reason: FinishReason
    usage: dict[str, Any] | None = None
    native_reason: str | None = None
    """The server's finish reason, if it differs from `reason`."""
    warnings: tuple[str, ...] = ()
    """Sentences for the caller about this reply."""
    cacheable: bool = True
    """False if the same request may get a better reply next time."""
    stopped_by: str | None = None
    """The stop word at which the reply ended, if it is known."""
    estimated_usage: dict[str, int] | None = None
    """OpenAI's three totals, estimated because the server sent no usage: for formats that must have numbers."""


class Failed(Struct, frozen=True, tag_field="kind", tag="failed"):
    fault: Fault


End: TypeAlias = Finish | Failed
END_TYPES = (Finish, Failed)
Event: TypeAlias = ReasoningDelta | TextDelta | ToolCallDelta | Extra | MediaOutput | End


def is_end(events: Sequence[Event]) -> bool:
    """Whether the last of the events ends the reply."""
    return bool(events) and type(events[-1]) in END_TYPES
