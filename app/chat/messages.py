"""The messages of a conversation, independent of any client format.

A message has a role, its parts have none. Fields of a client format that have no place here are kept in
`Message.extra` and are not sent upstream.
"""

import hashlib
from collections.abc import Collection, Container, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.chat.attachments import PassageSearch
from app.chat.context_edits import ContextEdit
from app.chat.known_conversation import KnownConversation
from app.chat.tool_asks import ServerTools

if TYPE_CHECKING:
    from app.chat.guarding import Guarding

FormatName: TypeAlias = Literal[
    "qwen", "openai", "autogen", "agentscope", "agentscope2", "anthropic", "responses", "gemini"
]


Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
MediaKind: TypeAlias = Literal["image", "audio", "video", "file"]

NOTHING: Mapping[str, Any] = {}
UNREAD = "unread"
"""The key of `Message.extra` with a warning for each detail that the caller sent as an item of its provider: it is for
a server that does not get the details."""


class CacheMark(Struct, frozen=True):
    """`cache_control` of a content part or a tool: it asks the model's server to cache the prompt up to this point."""

    value: Mapping[str, Any]
    """The object as the caller wrote it."""
    path: str
    """The JSON path in the request, for warnings."""


class Text(Struct, frozen=True, tag_field="kind", tag="text"):
    text: str
    mark: CacheMark | None = None
    kind: ClassVar[Literal["text"]] = "text"


class Reasoning(Struct, frozen=True, tag_field="kind", tag="reasoning"):
    text: str
    kind: ClassVar[Literal["reasoning"]] = "reasoning"


class Media(Struct, frozen=True, tag_field="kind", tag="media"):
    media: MediaKind
    urls: tuple[str, ...]
    """HTTP(S) URLs or data URIs; more than one only for the frames of a video."""
    frames: bool = False
    format: str | None = None
    """For audio, the format that the caller gave (`wav`, `mp3`)."""
    detail: str | None = None
    """For an image, OpenAI's `detail` (`low`, `high`, `auto`)."""
    path: str = ""
    """The JSON path in the request, for errors."""
    name: str | None = None
    """The file name that the caller gave; if None, it is taken from the URL."""
    mark: CacheMark | None = None
    kind: ClassVar[Literal["media"]] = "media"


class ToolCall(Struct, frozen=True, tag_field="kind", tag="tool_call", eq=False):
    name: str
    arguments: str
    """Raw JSON text, exactly as the model or the caller wrote it. It may be invalid."""
    id: str | None = None
    extra: Mapping[str, Any] = {}
    """Opaque fields that must be sent back with this call (Gemini's `extra_content`)."""
    path: str = ""
    """The JSON path in the request, for errors; if empty, it is `function_call` of the message. Calls that differ only
    in it, or in the fields below, are equal."""
    server: str | None = None
    """The server of tools at which the gateway ran the call, "" if the tool was not offered; None: not known."""
    tool: str = ""
    """The tool's name at that server."""
    awaits_approval: bool = False
    """The gateway did not run the call, but asked for approval."""
    kind: ClassVar[Literal["tool_call"]] = "tool_call"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ToolCall):
            return NotImplemented
        return (self.name, self.arguments, self.id, self.extra) == (other.name, other.arguments, other.id, other.extra)

    __hash__ = None  # type: ignore[assignment]  # its `extra` is a dict


BRIDGE = "..."
"""The text of a message that is inserted only for the order of roles."""
INTERRUPTED = "The call was interrupted, so it has no result."
"""The text of a result that is inserted because each call needs one."""
ERROR_TEXT = "Error"
"""The text of a result that is an error and says nothing: an empty text would look like a success."""


class ToolResult(Struct, frozen=True, tag_field="kind", tag="tool_result"):
    content: "tuple[Text | Media, ...]"
    name: str | None = None
    id: str | None = None
    is_error: bool | None = None
    kind: ClassVar[Literal["tool_result"]] = "tool_result"


Part: TypeAlias = Text | Reasoning | Media | ToolCall | ToolResult


class Message(Struct, frozen=True):
    role: Role
    parts: tuple[Part, ...]
    name: str | None = None
    turn: str | None = None
    """Messages with the same `turn` come from one reply of the model."""
    path: str = ""
    """The JSON path in the request (`messages[2]`), for errors."""
    extra: Mapping[str, Any] = {}
    is_summary: bool = False
    """It says what earlier messages said, which are no longer there: truncation keeps it."""


def find_unread(message: Message, formats: Container[str]) -> Sequence[str]:
    """Return the warnings about details that a server does not get which reads only those of these formats."""
    texts: Sequence[str] = message.extra.get(UNREAD, ())
    details = message.extra.get("reasoning_details") if texts else None
    if isinstance(details, list) and any(isinstance(one, dict) and one.get("format") in formats for one in details):
        return ()
    return texts


class Tool(Struct, frozen=True, dict=True):
    name: str
    schema: Mapping[str, Any]
    """The caller's function object, without `{"type": "function", ...}` around it."""
    mark: CacheMark | None = None
    custom: bool = False
    """A custom tool of OpenAI's APIs, whose calls have one text instead of arguments. `schema` is its function."""

    @cached_property
    def encoded(self) -> bytes:
        """`schema` as JSON, which several steps look at."""
        return msgspec.json.encode(self.schema)


NamedMedia: TypeAlias = Literal["never", "untaken", "with_tools"]
"""Which media of user and system messages are also described in words at the start of the message: none (`never`),
those that the model does not accept (`untaken`), or all of them if the request has tools (`with_tools`)."""


class PromptPolicy(Struct, frozen=True):
    """Changes to the conversation that the framework of a client format makes before it calls a model.

    The default makes none: most clients expect their messages to reach the model unchanged.
    """

    name_media: NamedMedia = "never"
    localized: bool = False
    """The text that the gateway adds around the text of a file is in the language of the conversation."""
    folds_last: bool = False
    """The text of a last assistant message is appended to the user's message if the server cannot continue it."""
    optional_marks: bool = False
    """Cache marks are left out without a warning where the server does not know them: clients send them always."""
    separates_users: bool = False
    """When old tool calls are written as text, an assistant message "..." separates two user messages."""


PLAIN = PromptPolicy()


class RequestPaths(Struct, frozen=True):
    """The JSON paths that errors and warnings name: those of the caller's own body. The default ones are those of
    `POST /v1/chat`."""

    params: str = "generate_cfg."
    """Before the name of a parameter."""
    extra_body: str = "generate_cfg.extra_body"
    """The object with the parameters that the gateway does not know; empty: the body itself."""
    conversation: str = "messages"
    names: Mapping[str, str] = NOTHING
    """The whole path of parameters that the body has under another name, by the gateway's name."""

    def param(self, name: str) -> str:
        return self.names.get(name) or self.params + name

    def extra(self, name: str) -> str:
        return f"{self.extra_body}.{name}" if self.extra_body else name


CHAT_PATHS = RequestPaths()


SEAL_PREFIX = "parley1."
"""What the gateway seals for itself in a client's history begins with this: `app.formats.seal`."""
BILLING_HEADER = "x-anthropic-billing-header:"
"""Claude Code begins a block of its system prompt with this. The block differs in every request, so that no server
could reuse its cache of the prompt; it says nothing to a model."""


class PassedBody(Struct, frozen=True):
    """A client's own body, which a server of the same API is sent instead of a translation."""

    api: str
    """The API that both speak."""
    body: Mapping[str, Any]
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """The client's headers that belong to it."""
    urls: tuple[tuple[str, str], ...] = ()
    """(JSON path, URL) of each URL that the server would fetch."""


IDENTITY_SEPARATOR = "#"
"""Between the name of a stored key and what tells it from a former key of this name. No name of a key has it."""


class CallerRights(Struct, frozen=True):
    """What a caller's request may choose at a model server: `app.upstream.body_rights`."""

    caller: str
    """As errors name it: `the API key 'alice'`."""
    restricted: bool
    """It may not use all models."""


class Source(Struct, frozen=True):
    """What a request was read from: the client's own body, unchanged, and what reading made of it. A server of the
    client's API is sent those parts of it that nothing changed."""

    api: str
    """The API of the client."""
    body: Mapping[str, Any]
    entries: Sequence[Any]
    """The entries of the conversation as they came, those of earlier responses first."""
    messages: Sequence[Message]
    """What was read of the field of the system and of the entries."""
    tools: tuple[Tool, ...]
    params: Mapping[str, Any]
    """The parameters that fields of the API gave."""
    tool_names: Mapping[int, tuple[str, ...]] = {}
    """The functions that the tools of the body became, by the places of the tools. Others run at a provider."""
    paths: tuple[str, ...] = ("messages",)
    """The lists of entries, in their order, as the paths of messages name them."""
    offset: int = 0
    """How many entries are in the first of these lists, if there are two."""
    begin: int = 0
    """The number of the first of `entries` in the whole conversation."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """The client's headers that belong to the body."""
    urls: tuple[tuple[str, str], ...] = ()
    """(JSON path, URL) of each URL that the server would fetch."""
    unsent: frozenset[int] = frozenset()
    """The numbers of the entries that are not sent as they came, because the server must not fetch their URLs."""
    has_client_tools: bool = False
    """It has tools of the client that are no functions: custom tools, namespaces, a search for tools."""
    has_own_calls: bool = False
    """Servers' tools were run by this gateway: no model server knows their calls."""
    asks_summary: bool = False
    """The caller wants a summary of the conversation instead of a reply."""
    warnings: tuple[str, ...] = ()
    """What a translation loses, each with its path."""
    violations: tuple[Any, ...] = ()
    """Why servers of other APIs cannot be sent the request: what is for a provider's own servers."""
    canonical: Mapping[str, Any] = {}
    """The body in one spelling, with the same entries, if clients of the API may spell its fields in several ways."""
    knows_model: bool = False
    """A server that takes everything is sent its media, and a response format beside tools, as they came: models of the
    API differ in them, and the client knows its model."""

    @property
    def whole_body(self) -> Mapping[str, Any]:
        """The body with all entries, those of earlier responses in the place of their response's id. Its fields have
        one spelling."""
        if self.canonical:
            return self.canonical
        if self.api == "messages":
            return self.body
        own = {name: value for name, value in self.body.items() if name not in ("previous_response_id", "background")}
        return own if isinstance(own.get("input"), str) and not self.offset else {**own, "input": self.entries}

    def find_number(self, path: str) -> int:
        """Return the number of the entry of which a message with this path was read; -1 if it is none."""
        name, bracket, rest = path.partition("[")
        if not bracket or name not in self.paths:
            return -1
        number = int(rest.partition("]")[0])
        return number if name == self.paths[0] else number + self.offset

    def list_losses(self, numbers: Collection[int]) -> list[str]:
        """Return the warnings about the entries with these numbers."""
        return [text for text in self.warnings if self.find_number(text) in numbers] if self.warnings else []

    def cut(self, start: int, end: int) -> "Source":
        """Return the source of the messages from one place up to another: that of the beginning of a conversation, or
        of the rest. Entries between two messages belong to the first of them."""
        first, last = self._find_entry(start) if start else self.begin, self._find_entry(end)
        entries = self.entries[first - self.begin : last - self.begin]
        return replace(self, messages=self.messages[start:end], entries=entries, begin=first)

    def _find_entry(self, place: int) -> int:
        """Return the number of the entry with which the message at a place begins."""
        numbers = (self.find_number(message.path) for message in self.messages[place:])
        return next((number for number in numbers if number >= 0), self.begin + len(self.entries))


class CallState(Struct, frozen=True):
    """What must be known of the calls in the beginning of a conversation, each of which has its result."""

    position: int
    """How many parts its messages have."""
    taken_ids: Mapping[str, int]
    """The ids that calls were sent with, each with the number of its last repetition."""
    ids: frozenset[str]
    """The ids that the caller gave."""


NO_CALLS = CallState(0, {}, frozenset())


class Beginning(Struct, frozen=True):
    """The beginning of a conversation, as a server's API has it. Nothing after it changes how it is written."""

    messages: tuple[Message, ...]
    """The caller's messages."""
    calls: CallState
    written: bytes
    """The server's messages: JSON objects with commas between."""
    head: tuple[Mapping[str, Any], ...]
    """Those up to the first one of the user."""
    state: Any = None
    """What the writer of the server's API needs to go on after them."""
    warnings: Sequence[str] = ()
    """What was repaired in the caller's messages."""
    entries: Sequence[Any] = ()
    """The client's own entries, of which some may be part of it."""


class WrittenMessages(Struct, frozen=True):
    """Messages as a server's API has them, after which the conversation goes on."""

    messages: Sequence[Mapping[str, Any]]
    calls: CallState
    """The calls up to their end."""
    state: Any = None
    """`Beginning.state` up to their end."""


class ChatRequest(Struct, frozen=True):
    """One request to a model, independent of any client format."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    params: Mapping[str, Any] = {}
    """Generation parameters under the gateway's names (`generate_cfg` of the API)."""
    text_joiner: str = "\n"
    """Joins the text items of one message if the server wants a string."""
    policy: PromptPolicy = PLAIN
    continue_last: bool = False
    """The last message is an assistant message that the model must continue."""
    stream: bool = True
    """The caller wants a stream."""
    paths: RequestPaths = CHAT_PATHS
    passages: PassageSearch | None = None
    """How long files are searched; None: each is put in from its beginning, up to a limit."""
    session: bytes = b""
    """A hash of the session's id, 16 bytes; empty if it has none or the model's servers do not need it."""
    caller_fields: Mapping[str, str] = {}
    """What the client calls itself and the conversation, for servers whose profile names the field: `CallerField`."""
    server_tools: ServerTools | None = None
    """The tools that the gateway runs; None if the request names none."""
    reasoning_summary: str | None = None
    """The kind of summary of its reasoning that the caller asks the model for, in the words of the Responses API."""
    source: Source | None = None
    """What it was read from, for servers of the client's own API; None if it is translated for them, too."""
    passed: PassedBody | None = None
    """A body that the gateway cannot read, for servers of the client's own API."""
    rights: CallerRights | None = None
    """None: the gateway has no keys, so that there is one caller."""
    refusal: Exception | None = None
    """Why servers of other APIs cannot be sent this request, if it is not translated: a ParleyError."""
    edits: tuple[ContextEdit, ...] = ()
    """Which part of the conversation is not to be sent, if the servers do not see to it themselves."""
    known: KnownConversation | None = None
    """What was made of the conversation for earlier requests; None if nothing is remembered."""
    before: Beginning | None = None
    """What is before the messages, which are the rest of a conversation then."""
    guard: "Guarding | None" = None
    """The guards that have admitted it, and that look at its files and its reply; None if it has none."""

    @property
    def own_body(self) -> Mapping[str, Any] | None:
        """The client's own body, if its server may get parts of that."""
        if self.source is not None:
            return self.source.whole_body
        return None if self.passed is None else self.passed.body

    @property
    def calls_before(self) -> CallState:
        """The calls before the messages."""
        return NO_CALLS if self.before is None else self.before.calls


def is_sealed(value: Any) -> bool:
    """Whether the gateway has written a signature or encrypted content, which no model server can read."""
    return isinstance(value, str) and value.startswith(SEAL_PREFIX)


def make_call_id(*what: str | int) -> str:
    """`call_` and 24 hex digits. Lone surrogates are no error."""
    seed = ":".join(map(str, what))
    return "call_" + hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:24]


class TokenCounter(Protocol):
    """Counts tokens. A text never has more tokens than UTF-8 bytes plus one."""

    def count(self, text: str) -> int: ...

    def truncate(self, text: str, limit: int, keep_both_sides: bool = True) -> str:
        """Return the text cut to at most `limit` tokens.

        A longer text keeps its two ends with an ellipsis between them, or only its start.
        """
