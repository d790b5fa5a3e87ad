"""`[cache]`, `[state]`, `[usage]`, `[request_log]`, `[responses]` and `[reasoning]`: what is stored, where and for how
long."""

from datetime import UTC, tzinfo
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field

from app.config.extras import how_to_install, is_installed
from app.config.tables.base import Names, Seconds, Table
from app.params import MAX_SECONDS
from app.redis.urls import parse_cache_url
from app.state.urls import FileUrl, PostgresUrl, parse_state_url
from app.stores.base import StoreLimits

_STORE = StoreLimits()
"""A store is opened without settings too, by `parley cache`."""


def _cache_url(value: str) -> str:
    parse_cache_url(value)
    return value


def _state_url(value: str) -> str:
    if isinstance(parse_state_url(value), PostgresUrl) and not is_installed("psycopg"):
        raise ValueError(f"PostgreSQL needs the package psycopg, which is not installed: {how_to_install('postgres')}")
    return value


def _time_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        if value != "UTC":
            raise ValueError("must be the name of a time zone, such as Asia/Shanghai or Europe/Berlin") from None
    return value


class CacheSettings(Table):
    url: Annotated[str, AfterValidator(_cache_url)] | None = Field(default=None, repr=False)
    """Without a URL, `load` sets a file in the user's cache folder if it is writable, else the cache is in memory."""
    apply: Literal["auto", "always", "deterministic", "on_request"] = "auto"
    ttl_seconds: Seconds = 3600.0
    max_bytes: int = Field(default=_STORE.max_bytes, ge=1024 * 1024)
    max_entry_bytes: int = Field(default=_STORE.max_entry_bytes, ge=1024)
    scope: Literal["auto", "shared", "caller"] = "auto"
    """`auto`: `caller` if the gateway has API keys, else `shared`."""
    replay: Literal["fast", "original"] = "fast"
    store_length: bool = False
    embeddings: bool = False
    """Whether vectors of embeddings are stored, each by its input."""
    resume_seconds: float = Field(default=300.0, ge=0, le=MAX_SECONDS, allow_inf_nan=False)
    max_resume_bytes: int = Field(default=64 * 1024 * 1024, ge=0)


class StateSettings(Table):
    url: Annotated[str, AfterValidator(_state_url)] | None = Field(default=None, repr=False)
    """Where stored responses, kept reasoning, usage and spending are. Without a URL, `load` sets that of `usage.url` or
    a file in the user's data folder; with a cache in Redis, responses and reasoning then stay there."""


class UsageSettings(Table):
    url: Annotated[str, AfterValidator(_state_url)] | None = Field(default=None, repr=False)
    """Without a URL, `load` sets that of `state.url`, or a file in the user's data folder if it is writable."""
    time_zone: Annotated[str, AfterValidator(_time_zone)] = "UTC"
    """In which days and months begin, of usage and of limits of spending."""
    reserved_reply_tokens: int = Field(default=32_768, ge=1, le=10_000_000)
    """How many tokens of a reply a limit of spending reserves, if neither the request nor the model's configuration
    says how many it may have."""
    keep_days: int | None = Field(default=None, ge=1, le=36_500)
    """Totals of days before these are deleted, except those of the month in progress; None: none."""

    @property
    def zone(self) -> tzinfo:
        return UTC if self.time_zone == "UTC" else ZoneInfo(self.time_zone)


def _log_url(value: str) -> str:
    address = parse_state_url(value)
    if not isinstance(address, FileUrl) or not address.path:
        raise ValueError("must name a file on this machine, as sqlite:////data/requests.db does")
    return value


class RequestLogSettings(Table):
    """What requests and replies were, with their bodies."""

    keep: Literal["off", "errors", "sample", "all"] = "off"
    url: Annotated[str, AfterValidator(_log_url)] | None = Field(default=None, repr=False)
    """Without a URL, `load` sets a file in the user's data folder if it is writable."""
    content: Literal["masked", "full", "none"] = "masked"
    sample_ratio: float = Field(default=0.01, ge=0, le=1, allow_inf_nan=False)
    """How many requests `keep = "sample"` keeps beside those that fail."""
    keys: Names = ("*",)
    models: Names = ("*",)
    max_bytes: int = Field(default=1024**3, ge=1024 * 1024)
    """Of the file and its log of changes."""
    max_entry_bytes: int = Field(default=4 * 1024**2, ge=1024)
    keep_days: float = Field(default=7.0, gt=0, le=36_500, allow_inf_nan=False)
    queue_bytes: int = Field(default=32 * 1024**2, ge=1024 * 1024)
    """What requests in progress, and entries that wait to be written, hold in memory."""
    callers_read_own: bool = False


class ResponsesSettings(Table):
    """The Responses API."""

    store: bool = True
    store_seconds: Seconds = 24 * 3600.0
    max_background: int = Field(default=64, ge=1)
    websocket: bool = True
    """Responses are sent over a WebSocket too; false: the upgrade is answered with 426."""
    websocket_seconds: Seconds = 3600.0
    max_websockets: int = Field(default=1024, ge=1)
    """Of each process."""
    compact_user_tokens: int = Field(default=20_000, ge=0, le=10_000_000)
    """About how many tokens of users' words stay beside the summary of a compaction."""


class ReasoningSettings(Table):
    """The reasoning of replies that call tools, which is restored where a client drops it."""

    restore: bool = True
    store_seconds: Seconds = 24 * 3600.0
