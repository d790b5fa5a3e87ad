"""The events of a streaming reply.

No event marks the start or end of a message: `chat.accumulator` derives them from a change of kind or index. A reply
ends with exactly one `Finish` or `Failed`. Every event has a `kind` tag, so that stored events decode to the same
class: several classes have the same fields.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from app.chat.hosted_tools import HostedKind, HostedResult
from app.chat.messages import Media, Text
from app.chat.policy import PolicyRefusal
from app.chat.server_tools import ListedServer, ServerToolsSummary, ToolError

ModelFinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter"]
FinishReason: TypeAlias = Literal[ModelFinishReason, "tool_limit", "tool_approval"]
"""The last two end a reply whose tools the gateway runs: at a bound, or with a call that waits for approval."""


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


NEXT_MESSAGE = -2
"""The `index` of an `Extra` that belongs to the next message: it ends an open one, and marks the place of what it
holds between two messages."""


class Extra(Struct, frozen=True, tag_field="kind", tag="extra"):
    """Opaque fields for the `extra` of a message, which the client must send back to the model with that message."""

    fields: dict[str, Any]
    index: int = -1
    """The call that the fields belong to; -1 means the open message, or the next one if none is open, and NEXT_MESSAGE
    the next one in any case."""


class Passed(Struct, frozen=True, gc=False, omit_defaults=True, tag_field="kind", tag="passed"):
    """An event of the server's own, for a client of the same API. It says nothing that other events do not say."""

    name: str
    data: str
    """JSON that UTF-8 can encode."""
    details: int = 0
    """How many items of `reasoning_details` it has that come with later events."""


class PassedEnd(Struct, frozen=True, gc=False, tag_field="kind", tag="passed_end"):
    """No `Passed` follows: the rest of the reply, which may begin within a message, is not what the server sent."""


class AnswerPart(Struct, frozen=True, gc=False, tag_field="kind", tag="answer"):
    """Bytes of an answer that passes through as it is, because it is no conversation."""

    data: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Of the first part: the headers of the response."""


COVERED_BY_PASSED = frozenset((TextDelta, ReasoningDelta, ToolCallDelta))
"""Events of which a client that gets `Passed` before them needs nothing."""


class TokenLogprobs(Struct, frozen=True, tag_field="kind", tag="logprobs"):
    """The log probabilities of tokens that end in the next `TextDelta`. Only replies to requests that ask for them have
    this event."""

    tokens: list[dict[str, Any]]
    """OpenAI's objects: `token`, `logprob`, `bytes` and `top_logprobs`."""


class MediaOutput(Struct, frozen=True, tag_field="kind", tag="media"):
    """An image or audio that the model generated. It becomes a separate message."""

    media: Literal["image", "audio"]
    url: str
    """A data URI, or the URL of the file on the model's server."""
    fields: dict[str, Any] = {}
    """The server's other fields for it (for audio: id, transcript, expires_at)."""


class ToolsListed(Struct, frozen=True, tag_field="kind", tag="tools_listed"):
    """The tools that one server offers in this reply. It comes before all but results of approved calls."""

    listed: ListedServer


class ServerCall(Struct, frozen=True, gc=False, tag_field="kind", tag="server_call"):
    """Comes before the first `ToolCallDelta` of a call that the gateway runs itself."""

    index: int
    server: str
    """"" if the tool was not offered."""
    tool: str
    approval: bool = False
    """The call waits for approval, and is not run in this reply."""
    hosted: HostedKind | None = None
    """The client knows it as a call of its API's own tool."""


class CallEnd(Struct, frozen=True, gc=False, tag_field="kind", tag="call_end"):
    """A call has all its arguments. Only replies with tools of the gateway have this event: their calls come one after
    the other."""

    index: int


class TurnEnd(Struct, frozen=True, tag_field="kind", tag="turn_end"):
    """One call to the model has ended, but not the reply. Its results follow; a later turn's calls have higher
    indexes."""

    reason: FinishReason
    usage: dict[str, Any] | None = None
    cached: bool = False


class ServerResult(Struct, frozen=True, tag_field="kind", tag="server_result"):
    """The result of a call that the gateway ran. The results of a turn come in the order of its calls."""

    id: str
    """That of the call."""
    name: str
    """The name of the tool for the model."""
    server: str
    tool: str
    content: tuple[Text | Media, ...]
    error: ToolError | None = None
    index: int = -1
    """The call's index; -1 if the call is in the request, where it waited for approval."""
    arguments: str = ""
    """Of a call that is in the request."""
    hosted: HostedResult | None = None
    """Of a call of the API's own tool."""

    @property
    def is_error(self) -> bool:
        return self.error is not None

    @property
    def plain_text(self) -> str | None:
        """The result as one text; None if it has media."""
        if any(type(part) is Media for part in self.content):
            return None
        return "\n".join([part.text for part in self.content if type(part) is Text])


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
    """What the reply had used before it failed, if the server has reported it."""
    param: str | None = None
    """The parameter that the server refused, under the gateway's name."""
    server_param: str | None = None
    """The same under the server's own name."""
    server_tools: ServerToolsSummary | None = None
    """What the reply had done with tools that the gateway runs before it failed."""
    policy: PolicyRefusal | None = None
    """A guard of the operator has refused the reply; the server is not at fault."""
    headers: dict[str, str] | None = None
    """Headers of the server's response that its clients read beside the error."""


OutputOutcome: TypeAlias = Literal["valid", "explained", "mended", "invalid", "unchecked", "asked_again", "fallback"]
"""`explained`: valid, and the prompt explained the demand, because the server does not enforce it."""


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
    output: OutputOutcome | None = None
    """What a check of the text against the request's JSON schema has found; None without a check."""
    server_tools: ServerToolsSummary | None = None
    """What the reply did with tools that the gateway runs; None if it offered none."""
    policy: PolicyRefusal | None = None
    """Why a guard of the operator has refused the reply; None if none has."""


class Failed(Struct, frozen=True, tag_field="kind", tag="failed"):
    fault: Fault


End: TypeAlias = Finish | Failed
END_TYPES = (Finish, Failed)
ToolEvent: TypeAlias = ToolsListed | ServerCall | CallEnd | TurnEnd | ServerResult
"""Only replies with tools of the gateway have these events."""
OwnEvent: TypeAlias = Passed | PassedEnd
"""Only replies to clients of the server's API have these events."""
PartEvent: TypeAlias = ReasoningDelta | TextDelta | ToolCallDelta | TokenLogprobs | Extra | MediaOutput | AnswerPart
Event: TypeAlias = PartEvent | OwnEvent | ToolEvent | End


def is_end(events: Sequence[Event]) -> bool:
    """Whether the last of the events ends the reply."""
    return bool(events) and type(events[-1]) in END_TYPES
