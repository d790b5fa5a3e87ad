"""The interface of a client format: a schema, a parser, a writer and a reply encoder."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from app.chat.context_edits import AppliedEdit
from app.chat.events import Event, Finish
from app.chat.guarding import GuardedReply
from app.chat.messages import PLAIN, FormatName, Message, PromptPolicy, Text
from app.chat.stage import Pipe, Stage
from app.chat.stream import Origin
from app.chat.tool_asks import ToolApproval
from app.errors import ParleyError, Violation

ReplyMode: TypeAlias = Literal["delta", "snapshot", "whole"]


class ResponsesOptions(Struct, frozen=True):
    """OpenAI's Responses: what a Response repeats of its request, and how its output is written."""

    fields: dict[str, Any] = {}
    """The fields of the request that the Response repeats."""
    summary: bool = False
    """Reasoning is written as a summary instead of as reasoning text."""
    sealed: bool = False
    """Reasoning items also have their text in `encrypted_content`."""
    custom: tuple[str, ...] = ()
    """The functions that are custom tools of the caller."""
    namespaces: dict[str, tuple[str, str]] = {}
    """(namespace, name) of functions that are tools of a namespace."""
    client_search: bool = False
    """Calls of `tool_search` are searches that the client runs."""
    listed: tuple[str, ...] = ()
    """The servers of tools that the conversation lists already."""
    fails_filtered: bool = False
    """A stream that the model server's content filter ends has failed: Codex sends the request five times again after a
    Response that is incomplete."""
    sources: bool = False
    """A search says which pages it has found."""
    kept: tuple[dict[str, Any], ...] = ()
    """The contents of users' messages that stand before a summary, in the answer of `/v1/responses/compact`."""
    compacts: bool = False
    """The reply is a summary of the conversation, which is written as one item of type `compaction`."""


class Options(Struct, frozen=True):
    """The caller's options for a format."""

    agent: str | None = None
    """AutoGen: the agent that the model answers for; messages of all other sources are user messages."""
    agent_name: str = "assistant"
    """The name of the sender of the reply."""
    autogen_stream: Literal["interleaved", "compat", "model"] = "interleaved"
    stop_words: tuple[str, ...] = ()
    """Anthropic: the caller's stop words, of which a reply may say that it ended at one."""
    hide_thinking: bool = False
    """Anthropic: reasoning is sent only in seals."""
    answers_calls: bool = False
    """The request answers calls that waited for approval: their results come before the first model call."""
    input_tokens: int = 0
    """Anthropic: an estimate for the start of a stream."""
    passed: bool = False
    """The reply may have the server's own events (`Passed`), which are sent as they are."""
    applied_edits: tuple[AppliedEdit, ...] | None = None
    """Anthropic: what was cleared of the conversation; None: the request asks for no edits, or the server edits."""
    custom_tools: tuple[str, ...] = ()
    """OpenAI: the functions that are custom tools of the caller."""
    logprobs: bool = False
    """The reply has the log probabilities of its tokens."""
    responses: ResponsesOptions = ResponsesOptions()


DEFAULT_OPTIONS = Options()

USAGE_ESTIMATED = "usage_estimated: the model server sent no complete usage, so its numbers are an estimate"
"""The warning of formats that must have numbers."""


def is_usage_estimated(finish: Finish) -> bool:
    """Whether a number of the usage is an estimate."""
    return finish.estimated_usage is not None or (finish.usage or {}).get("estimated") is True


class DescribedMedium(Struct, frozen=True):
    """A medium of a request that its model got in the words of another one."""

    model: str
    """The other model."""
    cached: bool
    """Its words were known."""


class ReplyInfo(Struct, frozen=True):
    """The metadata of a reply."""

    response_id: str
    request_id: str
    model: str
    created: int
    """Unix seconds."""
    origin: Origin = Origin()
    warnings: Sequence[str] = ()
    """Warnings of the request."""
    completed_bodies: bool = True
    """Qwen-Agent: `message.completed` frames repeat the text of the message."""
    include_usage: bool = True
    """OpenAI: the stream ends with a usage chunk."""
    options: Options = DEFAULT_OPTIONS
    keepalives: list[int] = []
    """OpenAI's Responses: the sequence numbers of the heartbeats that were sent. All streams of the reply share this
    list and number their events around these, so that a client can resume after any number that it has read."""
    guarded: GuardedReply | None = None
    """None if the request has no guards."""
    descriptions: tuple[DescribedMedium, ...] = ()
    """Of the media of the request, in their order."""

    @property
    def cached(self) -> bool:
        return self.origin.cached

    def warnings_with(self, finish: Finish) -> list[str]:
        """Return the warnings of the request, then those of the reply."""
        return [*self.warnings, *finish.warnings]

    def write_extensions(self, finish: Finish) -> dict[str, Any]:
        """Return what all formats write in the same form: `server_tools` and `descriptions`, if there are any."""
        fields: dict[str, Any] = {}
        if finish.server_tools is not None:
            fields["server_tools"] = finish.server_tools.to_dict()
        if self.descriptions:
            fields["descriptions"] = [msgspec.structs.asdict(one) for one in self.descriptions]
        return fields

    def to_dict(self) -> dict[str, Any]:
        fields = {
            "response_id": self.response_id,
            "model": self.model,
            "created": self.created,
            "cached": self.cached,
        }
        return fields if self.origin.age_seconds is None else fields | {"age": self.origin.age_seconds}


def is_cached(info: ReplyInfo, finish: Finish) -> bool:
    """Whether a reply that has ended is from the cache: with tools of the gateway, each of its calls to the model."""
    return info.cached if finish.server_tools is None else finish.server_tools.cached


HEARTBEAT = b": heartbeat\n\n"
"""A comment, which clients ignore."""
EVENT_STREAM = b"text/event-stream; charset=utf-8"
FRAME_END = b"\n\n"


class Encoder(Protocol):
    """Encodes the events of one reply as the body of the response."""

    def open(self) -> bytes:
        """Return the bytes before the first event."""

    def feed(self, events: list[Event]) -> bytes:
        """Return the bytes of these events; the terminal event ends the body."""

    def heartbeat(self) -> bytes:
        """Return bytes that keep a silent stream open."""

    def fail(self, error: dict[str, Any]) -> bytes:
        """Return the last bytes of a reply that fails without a `Failed` event. `error`: `ParleyError.to_dict`."""


class ParsedMessages(Struct, frozen=True):
    messages: tuple[Message, ...]
    violations: Sequence[Violation] = ()
    warnings: Sequence[str] = ()
    approvals: Sequence[ToolApproval] = ()
    """Answers to calls that wait for approval."""
    has_waiting: bool = False
    """A call is marked as waiting for approval. It may have a result."""


class WrittenMessages(Struct, frozen=True):
    """A conversation in a client's format, and what the format has no place for."""

    messages: list[Any]
    losses: Sequence[Violation] = ()
    """The paths are those of the messages that were given."""


WriteError: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Makes the body of an HTTP error in some format, from `ParleyError.to_dict`."""


NO_STATUSES: Mapping[Any, int] = {}


class ErrorWriter(Struct, frozen=True):
    """A `WriteError` of an API that has statuses of its own for errors."""

    body: WriteError
    statuses: Mapping[int, int] = NO_STATUSES
    """Replaces the gateway's status, …"""
    code_statuses: Mapping[str, int] = NO_STATUSES
    """… or that of a code."""

    def __call__(self, error: dict[str, Any]) -> dict[str, Any]:
        return self.body(error | {"status": self._choose(error["code"], error["status"])})

    def choose_status(self, error: ParleyError) -> int:
        return self._choose(error.code, error.status)

    def _choose(self, code: str, status: int) -> int:
        return self.code_statuses.get(code) or self.statuses.get(status, status)


def choose_status(write_error: WriteError, error: ParleyError) -> int:
    """Return the HTTP status of an error that is written by `write_error`."""
    return write_error.choose_status(error) if isinstance(write_error, ErrorWriter) else error.status


def wrap_error(error: dict[str, Any]) -> dict[str, Any]:
    """The gateway's own form of an error."""
    return {"error": error}


class GivenMessage(Struct, frozen=True):
    """A message whose format is not known yet."""

    fields: dict[str, Any]
    blocks: list[dict[str, Any]]
    """The objects in its content."""
    kinds: frozenset[str]
    """The types of these."""


class Format(Struct, frozen=True):
    """One client format, a row of `FORMATS`."""

    name: FormatName
    parse: Callable[[list[Any], Options], ParsedMessages]
    """Parses the request's `messages`, and reports every violation with its JSON path."""
    write: Callable[[Sequence[Message], Options], WrittenMessages]
    """Writes a history in this format. Parsing the result gives identical messages."""
    reply_encoder: Callable[[ReplyInfo, ReplyMode], Encoder]
    schema: Any
    """The pydantic type of `messages`, for the OpenAPI document."""
    package: str
    """Where its modules are; `openapi` is loaded only for the document."""
    recognizes: Callable[[GivenMessage], bool]
    """Whether a message has a sign of this format, unless it has one of a format that `FORMATS` lists later."""
    resembles: Callable[[GivenMessage], bool] = lambda message: False
    """The same for a faint sign, which counts if no message is decisive."""
    write_text: Callable[[str], Any] = lambda text: {"type": "text", "text": text}
    """Returns a content part with this text."""
    error: WriteError = wrap_error
    text_joiner: str = "\n"
    """Joins the text items of one message if the server wants a string."""
    keeps_marks: bool = False
    """Content parts of this format can have `cache_control`."""
    keeps_served_calls: bool = False
    """This format marks the calls that a gateway ran. In other formats a note does (`served_calls`)."""
    policy: PromptPolicy = PLAIN
    """The changes that the framework of this format makes to a conversation."""
    tells_approval: bool = True
    """A reply in this format can say that a call waits for approval."""
    cuts_failed: Literal["never", "calls", "streams"] = "never"
    """Which streams that fail end without the end of their body, behind the error: all `streams`, because the clients
    skip the error, or those that fail within `calls`, the half of which the clients would run."""
    reply_stage: Callable[[ReplyInfo, ReplyMode], Stage | None] | None = None
    """Makes the stage that the events of a reply pass before they are encoded; None if this reply passes none."""
    stream_type: bytes = EVENT_STREAM
    """The content type of a stream."""
    frame_end: bytes = FRAME_END
    """What each frame of a stream of events ends with."""
    heartbeat: bytes = HEARTBEAT
    """Keeps a stream open whose encoder is not known yet."""
    fails_refused: bool = False
    """A reply that a guard has refused fails. In other formats it ends with words of refusal."""

    def make_stage(self, info: ReplyInfo, mode: ReplyMode) -> Stage | None:
        """Return what the events of a reply pass before they are encoded; None if they pass nothing."""
        stage = None if self.reply_stage is None else self.reply_stage(info, mode)
        if info.guarded is None:
            return stage
        guarded = info.guarded.make_stage(fails_refused=self.fails_refused)
        return guarded if stage is None else Pipe((guarded, stage))


_HEAD = "Summary of the conversation so far:"
SUMMARY_QUESTION = """\
Write a summary of this conversation, from which another model will go on with it. It sees nothing else of it. Say:
- what the user wants, with every instruction and preference that still counts,
- what has been done and found out, with the names, paths, values and errors that are needed later,
- what was being done last, and what remains to be done.
Write the summary only."""


def make_summary(text: str, path: str) -> Message:
    """Return the summary as a message of the user: many chat templates want a conversation to begin with one."""
    return Message("user", (Text(f"{_HEAD}\n\n{text}"),), path=path, is_summary=True)
