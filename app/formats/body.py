"""What the body of every request becomes, whichever API it is written for."""

from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from app.chat.messages import ChatRequest
from app.errors import ParleyError
from app.formats.base import Format, Options, ReplyMode, WriteError
from app.formats.request_limits import RequestLimits
from app.formats.request_memory import CallerMemory
from app.params import MAX_SECONDS

MAX_METADATA_CHARACTERS = 512
"""The most characters of a value of `metadata`, as OpenAI has it."""
_TAGS = "tags"
CacheMode: TypeAlias = Literal["on", "off", "refresh", "only"]


class CacheControl(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    mode: CacheMode = "on"
    ttl_seconds: int | None = Field(default=None, ge=1, le=MAX_SECONDS)


def _read_cache_choice(value: Any) -> Any:
    """Write the short forms as an object: a mode, true for `on` and false for `off`."""
    if isinstance(value, bool):
        return {"mode": "on" if value else "off"}
    if isinstance(value, str):
        return {"mode": value}
    if isinstance(value, int | float | list):
        kind = "a list" if isinstance(value, list) else "a number"
        forms = 'true, false, on, off, refresh, only, or an object {"mode": …, "ttl_seconds": …}'
        raise ValueError(f"must be {forms}, not {kind}")
    return value


CacheChoice = Annotated[
    CacheControl | None,
    BeforeValidator(_read_cache_choice, json_schema_input_type=CacheControl | CacheMode | bool | None),
]
"""How a request uses the cache. A mode alone is short for an object with it."""


class RejectedRequest(Struct, frozen=True):
    """A request that is answered with an error. The error no longer says where it was raised: its traceback would hold
    the body of the request, and frames that hold this value, until the garbage collector looks for such cycles."""

    error: ParleyError
    write_error: WriteError | None
    """Writes the error in the format of the request; None if that format is not known."""
    passed: "ParsedRequest | None" = None
    """The request as servers of the client's own API can be sent it, which may know what the gateway does not."""

    def __post_init__(self) -> None:
        self.error.__traceback__ = self.error.__cause__ = self.error.__context__ = None


class ReplySettings(Struct, frozen=True):
    """What a request says of its reply beside its conversation. Most fields are those of the body."""

    model: str | None = None
    stream: bool = True
    mode: ReplyMode = "delta"
    completed_bodies: bool = True
    include_usage: bool = True
    unread_seconds: float = 0.0
    """How long the call goes on after its last client has disconnected, up to infinity: `cancel_on_disconnect`."""
    cache: CacheControl | None = None
    metadata: Mapping[str, str] | None = None
    session: str | None = None
    """What a Responses body calls the conversation: `prompt_cache_key`, else `user`."""
    user: str | None = None
    """What the body calls its user."""


class ParsedRequest(Struct, frozen=True):
    """A request that is valid."""

    settings: ReplySettings
    reply_format: Format
    request: ChatRequest
    warnings: tuple[str, ...]
    options: Options
    repairs: tuple[str, ...] = ()
    """Those of the warnings that are about the body alone, whichever server gets it."""


class StoredConversation(Struct, frozen=True):
    id: str
    items: list[Any]
    stored_at: float
    """Unix seconds of its last change."""


class StoredItems(Struct, frozen=True):
    """What is stored for the references of a request."""

    responses: Mapping[str, list[Any]] = {}
    """The items of a response, input and output, by its id. A response that cannot be continued is missing."""
    items: Mapping[str, Any] = {}
    size: int = 0
    """How many bytes were read for them."""
    conversation: StoredConversation | None = None
    """The conversation that the request goes on with; None if there is none."""
    keeps_conversations: bool = False


NOTHING_STORED = StoredItems()


Parsed = TypeVar("Parsed", bound=ParsedRequest)


class UnresolvedRequest(Struct, Generic[Parsed], frozen=True):
    """A request that names stored items, which must be looked up before it can be parsed."""

    response_id: str | None
    item_ids: tuple[str, ...]
    """In the order of the request."""
    resolve: Callable[[StoredItems], Parsed | RejectedRequest]
    conversation_id: str | None = None
    user: str | None = None
    """What the body calls its user."""
    metadata: Any = None
    """As the body has them, which is not checked yet."""


def join_tags(metadata: Any) -> Any:
    """Write a list of texts in `metadata.tags` as one text, with commas. OpenAI's metadata are texts; clients of other
    gateways send tags as a list."""
    tags = metadata.get(_TAGS) if isinstance(metadata, dict) else None
    if isinstance(tags, list) and all(isinstance(tag, str) for tag in tags):
        return {**metadata, _TAGS: ",".join(tags)}
    return metadata


def keep_texts(metadata: Any) -> dict[str, str]:
    """Return those values of metadata that are texts, as far as they may be long."""
    if not isinstance(metadata, dict):
        return {}
    texts = join_tags(metadata).items()
    return {name: value[:MAX_METADATA_CHARACTERS] for name, value in texts if isinstance(value, str)}


def find_user(fields: Mapping[str, Any]) -> str | None:
    """Return what the fields of a body call its user; None if they do not. OpenAI has replaced `user` by
    `safety_identifier` (platform.openai.com/docs/guides/safety-best-practices)."""
    found = (fields.get(name) for name in ("user", "safety_identifier"))
    return next((name for name in found if isinstance(name, str) and name), None)


_Parsed_co = TypeVar("_Parsed_co", bound=ParsedRequest, covariant=True)


class ParseBody(Protocol[_Parsed_co]):
    """Parses the body of a request, with what is remembered of its caller's requests."""

    def __call__(
        self, raw: bytes | bytearray, limits: RequestLimits, memory: CallerMemory | None = None, /
    ) -> _Parsed_co | RejectedRequest | UnresolvedRequest[_Parsed_co]: ...


def select_native(params: Mapping[str, Any], body: Mapping[str, Any], native: Collection[str]) -> Mapping[str, Any]:
    """Return the parameters that fields of the body's own API gave: not those that the gateway adds to the API."""
    return {
        name: value for name, value in params.items() if (name not in body or name in native) and name != "extra_body"
    }
