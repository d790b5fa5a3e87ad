"""The interface of a client format: a schema, a parser, a writer and a reply encoder."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from app.chat.accumulator import MessageAccumulator, MessageCompleted, MessageDelta, MessageStarted, ReplyMessage, Step
from app.chat.event_runs import EventRuns, TextRun
from app.chat.events import Event, Extra, Failed, Finish
from app.chat.messages import PLAIN, Message, PromptPolicy
from app.chat.stage import Stage
from app.chat.stream import Origin
from app.errors import ParleyError, UpstreamFailed, Violation
from app.format_names import FormatName
from app.formats.sse import encode_json

ReplyMode: TypeAlias = Literal["delta", "snapshot", "whole"]


class ResponsesOptions(Struct, frozen=True):
    """OpenAI's Responses: what a Response repeats of its request, and how its output is written."""

    fields: dict[str, Any] = {}
    """The fields of the request that the Response repeats."""
    first_item: int = 0
    """How many messages precede the caller's own `input`; JSON paths in warnings are moved by as many."""
    tool_paths: tuple[str, ...] = ()
    """The JSON path of each offered function in the caller's request."""
    summary: bool = False
    """Reasoning is written as a summary instead of as reasoning text."""
    sealed: bool = False
    """Reasoning items also have their text in `encrypted_content`."""
    custom: tuple[str, ...] = ()
    """The functions that are custom tools of the caller."""
    namespaces: dict[str, tuple[str, str]] = {}
    """(namespace, name) of functions that are tools of a namespace."""


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
    """Anthropic: thoughts are sent only in their seals."""
    input_tokens: int = 0
    """Anthropic: an estimate for the start of a stream, and for servers that send no usage."""
    responses: ResponsesOptions = ResponsesOptions()


DEFAULT_OPTIONS = Options()


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

    @property
    def cached(self) -> bool:
        return self.origin.cached

    def warnings_with(self, finish: Finish) -> list[str]:
        """Return the warnings of the request, then those of the reply."""
        return [*self.warnings, *finish.warnings]

    def to_dict(self) -> dict[str, Any]:
        fields = {
            "response_id": self.response_id,
            "model": self.model,
            "created": self.created,
            "cached": self.cached,
        }
        return fields if self.origin.age_seconds is None else fields | {"age": self.origin.age_seconds}


class Encoder(Protocol):
    """Encodes the events of one reply as the body of the response."""

    def open(self) -> bytes:
        """Return the bytes before the first event."""

    def feed(self, events: list[Event]) -> bytes:
        """Return the bytes of these events; the terminal event ends the body."""

    def fail(self, error: dict[str, Any]) -> bytes:
        """Return the last bytes of a reply that fails without a `Failed` event. `error`: `ParleyError.to_dict`."""


class DeltaEncoder(ABC):
    """A stream that has a frame for each new text.

    Each token is such a text, so `feed` writes it without a `Step` for it. All other events become steps. If extra
    fields come in the same read as the message that they belong to, its first frame has them.
    """

    _looks_ahead = True
    """Whether that is so. Else a message starts with the fields that came before it, wherever a read ends."""

    def __init__(self, info: ReplyInfo) -> None:
        self._info = info
        self._accumulator = MessageAccumulator()

    def feed(self, events: list[Event]) -> bytes:
        if len(events) == 1:
            delta = self._accumulator.extend(events[0])
            if delta is not None:
                return self._write_text(delta[0], delta[1])
        out: list[bytes] = []
        place = 0
        has_extra: bool | None = None
        while place < len(events):
            run = self._accumulator.extend_run(events, place)
            if run is not None:
                out.append(self._write_texts(run[0], run[1]))
                place += len(run[1])
                continue
            if has_extra is None:
                has_extra = self._looks_ahead and Extra in map(type, events)
            end = len(events) if has_extra else place + 1
            out += map(self._write_step, self._accumulator.feed(events[place:end]))
            place = end
        return out[0] if len(out) == 1 else b"".join(out)

    def feed_each(self, batches: Sequence[list[Event]]) -> bytes:
        """Return the bytes of `feed` for each of the batches. Those of one event, unless it is an `Extra`, are fed
        together."""
        if type(batches) is EventRuns:
            return b"".join([self._feed_run(run) for run in batches.runs])
        out: list[bytes] = []
        for size, group in groupby(batches, len):
            alike = list(group)
            single = [batch[0] for batch in alike] if size == 1 else list[Event]()
            if single and Extra not in map(type, single):
                out.append(self.feed(single))
            else:
                out += map(self.feed, alike)
        return b"".join(out)

    def _feed_run(self, run: TextRun | Event) -> bytes:
        if not isinstance(run, TextRun):
            return self.feed([run])
        steps, message, texts = self._accumulator.feed_run(run)
        out = list(map(self._write_step, steps))
        if message is not None:
            out.append(self._write_run(run, message, texts))
        return b"".join(out)

    def _write_run(self, run: TextRun, message: ReplyMessage, texts: list[str]) -> bytes:
        """Return the bytes of the last texts of a run, which are those of `_write_texts`."""
        return self._write_texts(message, texts)

    def _write_texts(self, message: ReplyMessage, texts: list[str]) -> bytes:
        return b"".join([self._write_text(message, text) for text in texts])

    def _write_step(self, step: Step) -> bytes:
        if type(step) is MessageDelta:
            return self._write_text(step.message, step.text)
        if type(step) is MessageStarted:
            return self._write_started(step.message)
        if type(step) is MessageCompleted:
            return self._write_completed(step.message)
        if type(step) is Failed:
            return self.fail(UpstreamFailed(step.fault).to_dict(self._info.request_id))
        assert type(step) is Finish
        return self._write_finish(step)

    @abstractmethod
    def _write_started(self, message: ReplyMessage) -> bytes: ...

    @abstractmethod
    def _write_text(self, message: ReplyMessage, text: str) -> bytes: ...

    @abstractmethod
    def _write_completed(self, message: ReplyMessage) -> bytes: ...

    @abstractmethod
    def _write_finish(self, finish: Finish) -> bytes: ...

    @abstractmethod
    def fail(self, error: dict[str, Any]) -> bytes: ...


def encode_each(encoder: Encoder, batches: Sequence[list[Event]]) -> bytes:
    """Return the bytes of several reads, each encoded by itself."""
    if isinstance(encoder, (DeltaEncoder, WholeEncoder)):
        return encoder.feed_each(batches)
    feed = encoder.feed
    return b"".join([feed(events) for events in batches])


_MOST_HELD = 256
_MIN_RUNS = 8
"""Among fewer events no runs of the same kind are searched for."""


class WholeEncoder(ABC):
    """`stream: false`: one JSON body, written at the end of the reply."""

    def __init__(self, info: ReplyInfo) -> None:
        self._info = info
        self._accumulator = MessageAccumulator()
        self._held: list[Event] = []
        """The last events, which are not accumulated yet: many at once take less time than each by itself."""

    def open(self) -> bytes:
        return b""

    def feed(self, events: list[Event]) -> bytes:
        self._held += events
        last = events[-1] if events else None
        if type(last) is Finish:
            self._accumulate()
            return encode_json(self._write_reply(last))
        if len(self._held) >= _MOST_HELD:
            self._accumulate()
        return b""

    def feed_each(self, batches: Sequence[list[Event]]) -> bytes:
        """Return the bytes of `feed` for each of the batches."""
        if type(batches) is not EventRuns:
            return b"".join(map(self.feed, batches))
        self._accumulate()
        finish = batches.finish
        for run in batches.runs:
            if isinstance(run, TextRun):
                self._accumulator.feed_run(run)
            elif run is not finish:
                self._accumulator.feed([run])
        return b"" if finish is None else self.feed([finish])

    def fail(self, error: dict[str, Any]) -> bytes:
        self._accumulate()
        return encode_json(self._write_failure(error))

    def _accumulate(self) -> None:
        accumulator, events = self._accumulator, self._held
        self._held = []
        if len(events) < _MIN_RUNS:
            accumulator.feed(events)
            return
        kind: type[Event] | None = None
        place = 0
        while place < len(events):
            event = events[place]
            run = accumulator.extend_run(events, place) if type(event) is kind else None
            if run is None:
                accumulator.feed([event])
                place, kind = place + 1, type(event)
            else:
                place += len(run[1])

    @abstractmethod
    def _write_reply(self, finish: Finish) -> dict[str, Any]:
        """Return the body of a reply that finished."""

    @abstractmethod
    def _write_failure(self, error: dict[str, Any]) -> dict[str, Any]:
        """Return the body of a reply that failed, with what came before if the format has a place for it."""


class ParsedMessages(Struct, frozen=True):
    messages: tuple[Message, ...]
    violations: Sequence[Violation] = ()
    warnings: Sequence[str] = ()
    plain: bool = False
    """See `ChatRequest.plain`."""


class WrittenMessages(Struct, frozen=True):
    """A conversation in a client's format, and what the format has no place for."""

    messages: list[Any]
    losses: Sequence[Violation] = ()
    """The paths are those of the messages that were given."""


WriteError: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Makes the body of an HTTP error in some format, from `ParleyError.to_dict`."""


NO_STATUSES: Mapping[Any, int] = {}


class ErrorWriter(Struct, frozen=True):
    """A `WriteError` of an API that has statuses and headers of its own for errors."""

    body: WriteError
    statuses: Mapping[int, int] = NO_STATUSES
    """Replaces the gateway's status, …"""
    code_statuses: Mapping[str, int] = NO_STATUSES
    """… or that of a code."""
    tells_retry: bool = False
    """Adds `x-should-retry`, which the SDKs of Anthropic and OpenAI obey before the status."""

    def __call__(self, error: dict[str, Any]) -> dict[str, Any]:
        return self.body(error)

    def choose_status(self, error: ParleyError) -> int:
        return self.code_statuses.get(error.code) or self.statuses.get(error.status, error.status)

    def list_headers(self, error: ParleyError) -> dict[str, str]:
        more = {"x-should-retry": "true" if error.retryable else "false"} if self.tells_retry else {}
        return {**error.headers, **more}


def choose_status(write_error: WriteError, error: ParleyError) -> int:
    """Return the HTTP status of an error that is written by `write_error`."""
    return write_error.choose_status(error) if isinstance(write_error, ErrorWriter) else error.status


def list_error_headers(write_error: WriteError, error: ParleyError) -> dict[str, str]:
    return write_error.list_headers(error) if isinstance(write_error, ErrorWriter) else error.headers


def wrap_error(error: dict[str, Any]) -> dict[str, Any]:
    """The gateway's own form of an error."""
    return {"error": error}


class Format(Struct, frozen=True):
    """One client format, a row of `FORMATS`."""

    name: FormatName
    parse: Callable[[list[Any], Options], ParsedMessages]
    """Parses the request's `messages`, and reports every violation with its JSON path."""
    write: Callable[[Sequence[Message], Options], WrittenMessages]
    """Writes a history in this format. Parsing the result gives equal messages."""
    reply_encoder: Callable[[ReplyInfo, ReplyMode], Encoder]
    schema: Any
    """The pydantic type of `messages`, for the OpenAPI document."""
    error: WriteError = wrap_error
    text_joiner: str = "\n"
    """Joins the text items of one message if the server wants a string."""
    keeps_marks: bool = False
    """Content parts of this format can have `cache_control`."""
    policy: PromptPolicy = PLAIN
    """The changes that the framework of this format makes to a conversation."""
    reply_stage: Callable[[], Stage] | None = None
    """Makes the stage that the events of a reply pass before they are encoded."""
    heartbeat: bytes = b": heartbeat\n\n"
    """Keeps a silent stream open. By default it is a comment."""
    warning: Callable[[str], str] = str
    """Replaces the JSON paths in a warning with those of the caller's request."""
