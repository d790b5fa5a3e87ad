"""Validate the settings: the tree of `config_sources` becomes one frozen `Settings`, or a list of mistakes.

docs/reference/settings.md lists every setting; a test compares the two.
"""

import hashlib
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from fnmatch import fnmatchcase
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias
from urllib.parse import quote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import httpx
from msgspec.structs import asdict, replace
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StrictBool,
    ValidationError,
    field_validator,
    model_validator,
)

from app.access.addresses import TrustedProxies, is_loopback
from app.access.issuer import AlgorithmName
from app.attachments.fetch.address_policy import AllowList
from app.chat.token_usage import MAX_COUNT
from app.config.prices import read_prices
from app.config.sources import config_file, read_sources
from app.params import MAX_SECONDS, GenerateCfg, RagConfig
from app.profiles import KINDS, Profile, find_profile
from app.redis.urls import RedisUrl, parse_cache_url
from app.routing.strategies import Strategy
from app.state.urls import FileUrl, PostgresUrl, parse_state_url
from app.stores.base import StoreLimits
from app.upstream.api import ApiName
from app.upstream.http.options import (
    IDLE_SECONDS,
    MAX_AGE_SECONDS,
    ConnectionOptions,
    find_proxy,
    make_ssl_context,
    parse_proxy,
)
from app.usage.meter import Price
from app.validation.nearest import suggest_name
from app.validation.violations import json_path, to_violations

DEMO = "demo"
DEMO_TOOLS = {
    "example": {
        "command": sys.executable,
        "args": ["-m", "app.demo.tools"],
        "env": {"PYTHONPATH": str(Path(__file__).parents[2])},
        "startup_timeout_sec": 30,
    }
}
"""The server of tools beside the demo model, for a gateway without a configuration."""
MAX_SOCKET_PATH_BYTES = 107
"""The longest path of a Unix socket on Linux (unix(7))."""
NO_PROXY = "none"
"""The value of `proxy` with which the environment's proxies are not used."""

_STORE = StoreLimits()
"""A store is opened without settings too, by `parley cache`."""

LogFormat: TypeAlias = Literal["auto", "console", "json"]
Seconds: TypeAlias = Annotated[float, Field(gt=0, le=MAX_SECONDS, allow_inf_nan=False)]


class SettingsError(Exception):
    """The mistakes in a configuration, each with its path."""

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


_UNIX_URL = re.compile(r"unix:(//)?(?P<socket>/[^:?#\x00]+)(:(?P<path>/[!-~]*))?")


def _server_url(value: str) -> str:
    """Check the address of a model server: an http or https URL, or `unix:/run/server.sock:/v1`."""
    match = _UNIX_URL.fullmatch(value)
    if match is None:
        if value.startswith("unix:"):
            raise ValueError(
                "must name the path of a socket, and behind a colon the path, such as unix:/run/vllm.sock:/v1"
            )
        address, mark, query = value.partition("?")
        if not re.fullmatch(r"[!$-~]*", query):
            raise ValueError("must have a query of ASCII characters without space, quote and #, such as ?api-version=1")
        return _http_url(address) + (mark and query and f"?{query}")
    if len(os.fsencode(match["socket"])) > MAX_SOCKET_PATH_BYTES:
        raise ValueError(f"the path of the socket must be at most {MAX_SOCKET_PATH_BYTES} bytes long")
    return f"unix:{match['socket']}:{(match['path'] or '/v1').rstrip('/')}"


def _http_url(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#]+[^\s?#]*", value):
        raise ValueError("must be an http or https URL without a query, such as http://127.0.0.1:8001/v1")
    if "@" in value.split("/")[2]:
        raise ValueError("must not contain a user or password: put them in api_key or headers")
    try:
        url = httpx.URL(value)
        url.raw_host.decode("ascii").encode("idna")  # as the name look-up does
    except (httpx.InvalidURL, UnicodeError):
        raise ValueError("must name a valid host") from None
    if url.port is not None and not 0 < url.port < 65536:
        raise ValueError("must name a port from 1 to 65535")
    return value.rstrip("/")


def _exact_url(value: str) -> str:
    """Check a URL, and return it as it is: a slash at its end counts, and some services take a key in its query."""
    _http_url(value.partition("?")[0])
    return value


def _cache_url(value: str) -> str:
    parse_cache_url(value)
    return value


def _state_url(value: str) -> str:
    if isinstance(parse_state_url(value), PostgresUrl) and not _is_installed("psycopg"):
        raise ValueError(f"PostgreSQL needs the package psycopg, which is not installed: {_how_to_install('postgres')}")
    return value


def _time_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        if value != "UTC":
            raise ValueError("must be the name of a time zone, such as Asia/Shanghai or Europe/Berlin") from None
    return value


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # of a package that would contain it
        return False


def _how_to_install(extra: str) -> str:
    return (
        f"run `make serve EXTRAS={extra}` in a checkout, build the image with `--build-arg EXTRAS={extra}`, or install "
        f"parley-gateway[{extra}] with pip"
    )


def _header_value(value: SecretStr) -> SecretStr:
    text = value.get_secret_value().strip()
    if not re.fullmatch(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?", text):
        raise ValueError("must be printable ASCII on one line")
    return SecretStr(text)


def _header_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
        raise ValueError("must be the name of an HTTP header")
    if name.lower() in ("content-length", "transfer-encoding", "connection", "host"):
        raise ValueError("is set by the gateway: remove it")
    return name


def _host_pattern(value: str) -> str:
    name = value.removesuffix(".").lower()
    if re.fullmatch(r"\*|(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*", name):
        return name
    try:
        return str(ip_address(value.strip("[]")))
    except ValueError:
        raise ValueError(
            "must be a host without scheme and port, such as chat.example.com or *.example.com, or *"
        ) from None


def _origin(value: str) -> str:
    if value not in ("*", "null") and not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#@]+", value):
        raise ValueError("must be an origin without a path, such as https://chat.example.com, or *")
    return value.lower()


def _split_list(value: Any) -> Any:
    """Split a list that an environment variable holds as words separated by commas."""
    return [word.strip() for word in value.split(",") if word.strip()] if isinstance(value, str) else value


def _http_path(value: str) -> str:
    if not re.fullmatch(r"/[!-~]*", value):
        raise ValueError("must be a path on the server, such as /health")
    return value


def _base_path(value: str) -> str:
    path = value.rstrip("/")
    if path and not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+", path):
        raise ValueError("must be the beginning of a path, such as /parley")
    return path


def _upstream_rows(value: Any) -> Any:
    """Return the upstreams of a model as tables: each may also be a name."""
    value = _split_list(value)
    if not isinstance(value, list | tuple):
        return value
    return [{"name": row} if isinstance(row, str) else row for row in value]


def _proxy(value: str) -> str:
    try:
        TrustedProxies([value])
    except ValueError:
        raise ValueError("must be an address or a network, such as 10.0.0.7 or 10.1.0.0/16") from None
    return value


def _sha256(value: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", value):
        raise ValueError(
            "must be the SHA-256 of the key as 64 hex digits, never the key itself: `parley keys new NAME` prints it"
        )
    return value.lower()


def _key_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}", value):
        raise ValueError("must be 1 to 64 letters, digits and ._@+- and begin with a letter or digit")
    return value


def _expiry(value: Any) -> datetime | None:
    """Return the begin of a date, or a date and time, in UTC. A number, which pydantic would take as Unix time, is a
    mistake."""
    try:
        match value:
            case None:
                return None
            case str():
                time = datetime.fromisoformat(value)
            case datetime():
                time = value
            case date():
                time = datetime(value.year, value.month, value.day)
            case _:
                raise ValueError
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("must be a date such as 2027-01-01, or a date and time") from None


def _tool_server_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", value):
        raise ValueError("must be 1 to 32 letters, digits, _ and -: models see it before the name of each tool")
    return value


def _tool_rows(value: Any) -> Any:
    """Return the tools of a model as tables: each may also be the name of a server."""
    value = _split_list(value)
    if not isinstance(value, list | tuple):
        return value
    return [{"mcp": row} if isinstance(row, str) else row for row in value]


_Proxy = Annotated[str, AfterValidator(_proxy)]
_Sha256 = Annotated[str, AfterValidator(_sha256)]
KeyName = Annotated[str, AfterValidator(_key_name)]
_HostPattern = Annotated[str, AfterValidator(_host_pattern)]
_Origin = Annotated[str, AfterValidator(_origin)]
_Names = Annotated[tuple[str, ...], BeforeValidator(_split_list)]
Secret = Annotated[SecretStr, AfterValidator(_header_value)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Server(_Section):
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    workers: int = Field(default=1, ge=1, le=256)
    replicas: int = Field(default=1, ge=1)
    max_body_bytes: int = Field(default=32 * 1024 * 1024, ge=1024)
    body_seconds: Seconds = 60.0
    max_head_bytes: int = Field(default=64 * 1024, ge=4096, le=1024 * 1024)
    head_seconds: Seconds = 20.0
    keep_alive_seconds: Seconds = 75.0
    """Longer than the usual 60 seconds of proxies, so that the proxy closes an idle connection, not the gateway."""
    max_connections: int = Field(default=8192, ge=1)
    allowed_hosts: Annotated[tuple[_HostPattern, ...], BeforeValidator(_split_list)] = ()
    allowed_origins: Annotated[tuple[_Origin, ...], BeforeValidator(_split_list)] = ()
    max_request_memory_bytes: int = Field(default=512 * 1024 * 1024, ge=1024 * 1024)
    remembered_request_bytes: int = Field(default=64 * 1024 * 1024, ge=0)
    max_json_values: int = Field(default=250_000, ge=1000)
    max_messages: int = Field(default=10_000, ge=1)
    max_content_items: int = Field(default=20_000, ge=1)
    max_functions: int = Field(default=1000, ge=1)
    max_nesting: int = Field(default=64, ge=8, le=150)
    max_concurrent_requests: int = Field(default=8192, ge=1)
    max_queued_requests: int = Field(default=1000, ge=0)
    queue_seconds: Seconds = 10.0
    heartbeat_seconds: Seconds = 15.0
    commit_seconds: Seconds = 5.0
    stall_seconds: Seconds = 120.0
    settle_seconds: float = Field(default=0.0, ge=0, le=MAX_SECONDS, allow_inf_nan=False)
    drain_seconds: Seconds = 30.0
    admin_key: Secret | None = None
    allow_anonymous: bool = False
    base_path: Annotated[str, AfterValidator(_base_path)] | None = None
    trusted_proxies: Annotated[tuple[_Proxy, ...], BeforeValidator(_split_list)] = ()
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: LogFormat = "auto"
    watch_config: bool = True
    playground: bool = True


MAX_LIMIT = 10**15
"""The highest limit of requests, tokens or replies: Redis counts exactly up to 2**53."""
MAX_SPENDING = 1_000_000_000
"""The highest limit of spending in a day or month: it is counted in billionths, in 64 bits."""
_Limit: TypeAlias = Annotated[int, Field(ge=1, le=MAX_LIMIT)]
_Spending: TypeAlias = Annotated[float, Field(ge=0, le=MAX_SPENDING, allow_inf_nan=False)]


class LimitSettings(_Section):
    requests_per_minute: _Limit | None = None
    tokens_per_minute: _Limit | None = None
    concurrent_streams: _Limit | None = None
    spend_per_day: _Spending | None = None
    spend_per_month: _Spending | None = None

    @property
    def limits_spending(self) -> bool:
        return self.spend_per_day is not None or self.spend_per_month is not None


class Key(_Section):
    sha256: _Sha256
    models: Annotated[tuple[str, ...], BeforeValidator(_split_list)] = ("*",)
    cache_scope: KeyName | None = None
    admin: bool = False
    expires: Annotated[AwareDatetime | None, BeforeValidator(_expiry)] = None
    previous_sha256: _Sha256 | None = None
    """The hash of the key before, which is accepted too, until `previous_until`."""
    previous_until: Annotated[AwareDatetime | None, BeforeValidator(_expiry)] = None
    limits: LimitSettings = LimitSettings()
    team: str | None = None


class Team(_Section):
    """What several keys have together."""

    models: Annotated[tuple[str, ...], BeforeValidator(_split_list)] = ("*",)
    limits: LimitSettings = LimitSettings()


def _proxy_url(value: SecretStr) -> SecretStr:
    if value.get_secret_value() != NO_PROXY:
        parse_proxy(value.get_secret_value())
    return value


class Upstream(_Section):
    base_url: Annotated[str, AfterValidator(_server_url)]
    api: ApiName = "chat_completions"
    kind: str = "openai_compatible"
    """Without it, `anthropic_compatible` for the API `messages`."""
    auth: Literal["bearer"] | None = None
    api_key: Secret | None = None
    headers: dict[Annotated[str, AfterValidator(_header_name)], Secret] = Field(default_factory=dict)
    connect_seconds: Seconds = 10.0
    first_token_seconds: Seconds = 600.0
    idle_seconds: Seconds = 300.0
    whole_reply_seconds: Seconds = 600.0
    max_connections: int = Field(default=8192, ge=1)
    max_reply_bytes: int = Field(default=64 * 1024 * 1024, ge=1024)
    max_reply_seconds: Seconds = 3600.0
    health_path: Annotated[str, AfterValidator(_http_path)] | None = None
    health_seconds: Seconds = 10.0
    proxy: Annotated[SecretStr, AfterValidator(_proxy_url)] | None = None
    """Without it, `load` sets what HTTPS_PROXY, HTTP_PROXY and NO_PROXY say. A secret: it may hold a password."""
    ca_file: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    connection_idle_seconds: Seconds = IDLE_SECONDS
    connection_max_seconds: Seconds = MAX_AGE_SECONDS

    @model_validator(mode="before")
    @classmethod
    def _set_kind(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and given.get("api") == "messages" and given.get("kind") is None:
            return {**given, "kind": "anthropic_compatible"}
        return given

    @property
    def url(self) -> str:
        """The http or https URL of its requests without their query: for a Unix socket, that of localhost."""
        match = _UNIX_URL.fullmatch(self.base_url)
        return (f"http://localhost{match['path']}" if match else self.base_url).partition("?")[0]

    @property
    def query(self) -> str:
        """The query of its requests, such as `api-version=1`. It may hold a key."""
        return self.base_url.partition("?")[2]

    @property
    def connections(self) -> ConnectionOptions:
        match = _UNIX_URL.fullmatch(self.base_url)
        proxy = self.proxy.get_secret_value() if self.proxy else NO_PROXY
        return ConnectionOptions(
            None if proxy == NO_PROXY or match else parse_proxy(proxy),
            self.ca_file,
            self.client_certificate,
            self.client_key,
            match["socket"] if match else None,
            self.connection_idle_seconds,
            self.connection_max_seconds,
        )


class JwtIssuer(_Section):
    """An issuer of JWTs, with which callers may call as with an API key."""

    issuer: str = Field(min_length=1, max_length=2000)
    audience: Annotated[tuple[str, ...], BeforeValidator(_split_list)] = Field(min_length=1)
    jwks_url: Annotated[str, AfterValidator(_exact_url)] | None = None
    jwks_file: str | None = None
    refresh_seconds: Seconds = Field(default=300.0, ge=10)
    algorithms: Annotated[tuple[AlgorithmName, ...], BeforeValidator(_split_list)] = Field(
        default=("RS256", "PS256", "ES256", "EdDSA"), min_length=1
    )
    leeway_seconds: float = Field(default=30.0, ge=0, le=300, allow_inf_nan=False)
    name_claim: str = Field(default="sub", min_length=1)
    team_claim: str | None = Field(default=None, min_length=1)
    models_claim: str | None = Field(default=None, min_length=1)
    admin_claim: str | None = Field(default=None, min_length=1)
    admin_value: StrictBool | str | None = None
    models: Annotated[tuple[str, ...], BeforeValidator(_split_list)] = ("*",)
    """What a token can at most allow."""
    team: str | None = None
    """The team of callers whose token names none."""
    limits: LimitSettings = LimitSettings()
    """Those of each caller."""
    proxy: Annotated[SecretStr, AfterValidator(_proxy_url)] | None = None
    """Without it, `load` sets what HTTPS_PROXY, HTTP_PROXY and NO_PROXY say."""
    ca_file: str | None = None

    @model_validator(mode="after")
    def _check_together(self) -> "JwtIssuer":
        if self.jwks_url and self.jwks_file:
            raise ValueError("has jwks_url and jwks_file: remove one of them")
        if not (self.jwks_url or self.jwks_file):
            try:
                _http_url(self.issuer)
            except ValueError as error:
                raise ValueError(f"needs jwks_url or jwks_file, because `issuer` is no URL: it {error}") from None
        if (self.admin_claim is None) != (self.admin_value is None):
            raise ValueError("needs both of admin_claim and admin_value, or none of them")
        return self

    @property
    def connections(self) -> ConnectionOptions:
        proxy = self.proxy.get_secret_value() if self.proxy else NO_PROXY
        return ConnectionOptions(None if proxy == NO_PROXY else parse_proxy(proxy), self.ca_file)


class ModelUpstream(_Section):
    """One upstream of a model; in the file, its name or a table."""

    name: str
    weight: float = Field(default=1.0, gt=0, le=1000, allow_inf_nan=False)
    priority: int = Field(default=1, ge=1, le=100)


class ModelTools(_Section):
    """Tools that a model offers with every request; in the file, the name of their server or a table."""

    mcp: str
    tools: _Names | None = None
    """None: all tools of the server."""


MAX_PRICE = 1_000_000
"""The highest price of a million tokens."""
_Amount: TypeAlias = Annotated[float, Field(ge=0, le=MAX_PRICE, allow_inf_nan=False)]


class _TokenPrices(_Section):
    """The prices of a million tokens, all in one currency."""

    input: _Amount
    output: _Amount
    cached_input: _Amount | None = None
    cache_write: _Amount | None = None
    reasoning: _Amount | None = None

    def to_price(self) -> Price:
        """Return the price. Without a price of their own, tokens of the server's cache cost as much as other input."""
        cached = self.input if self.cached_input is None else self.cached_input
        written = self.input if self.cache_write is None else self.cache_write
        return Price(self.input, self.output, cached, written, self.reasoning)


class PriceTier(_TokenPrices):
    """The prices of requests with longer prompts."""

    above_tokens: int = Field(ge=1, le=MAX_COUNT)


class ModelPrice(_TokenPrices):
    tiers: tuple[PriceTier, ...] = ()

    @field_validator("tiers")
    @classmethod
    def _sort(cls, tiers: tuple[PriceTier, ...]) -> tuple[PriceTier, ...]:
        numbers = [tier.above_tokens for tier in tiers]
        if len({*numbers}) < len(numbers):
            raise ValueError("two tiers have the same above_tokens")
        return tuple(sorted(tiers, key=lambda tier: tier.above_tokens))

    def to_price(self) -> Price:
        tiers = tuple((tier.above_tokens, tier.to_price()) for tier in self.tiers)
        return replace(super().to_price(), tiers=tiers)

    @classmethod
    def from_price(cls, price: Price) -> Self:
        """Return the settings of a price that was read from a file."""
        tiers = [{"above_tokens": above, **_list_prices(tier)} for above, tier in price.tiers]
        return cls.model_validate({**_list_prices(price), "tiers": tiers})


def _list_prices(price: Price) -> dict[str, Any]:
    return {name: value for name, value in asdict(price).items() if name != "tiers"}


class Model(_Section):
    upstreams: Annotated[tuple[ModelUpstream, ...], BeforeValidator(_upstream_rows)] = Field(min_length=1)
    strategy: Strategy | None = None
    """Without it, `session` where a server caches prefixes, else `least_busy`."""
    name: str | None = None
    aliases: tuple[str, ...] = ()
    defaults: GenerateCfg = GenerateCfg()
    max_retries: int = Field(default=0, ge=0, le=10)
    deadline_seconds: Seconds | None = None
    fallbacks: _Names = ()
    fallbacks_on_context_length: _Names = ()
    fallbacks_on_content_filter: _Names = ()
    hedge: bool = False
    hedge_after_seconds: Seconds | None = None
    cache: bool = True
    cache_ttl_seconds: Seconds | None = None
    price: ModelPrice | None = None
    rag_cfg: RagConfig | None = None
    tools: Annotated[tuple[ModelTools, ...], BeforeValidator(_tool_rows)] = ()
    limits: LimitSettings = LimitSettings()
    profile: dict[str, Any] = Field(default_factory=dict)


class CacheSettings(_Section):
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
    resume_seconds: float = Field(default=300.0, ge=0, le=MAX_SECONDS, allow_inf_nan=False)
    max_resume_bytes: int = Field(default=64 * 1024 * 1024, ge=0)


class PricesSettings(_Section):
    file: str | None = None
    """A file of prices in the form of LiteLLM's cost map. A model's own `price` counts first."""


class StateSettings(_Section):
    url: Annotated[str, AfterValidator(_state_url)] | None = Field(default=None, repr=False)
    """Where stored responses, kept reasoning, usage and spending are. Without a URL, `load` sets that of `usage.url` or
    a file in the user's data folder; with a cache in Redis, responses and reasoning then stay there."""


class UsageSettings(_Section):
    url: Annotated[str, AfterValidator(_state_url)] | None = Field(default=None, repr=False)
    """Without a URL, `load` sets that of `state.url`, or a file in the user's data folder if it is writable."""
    time_zone: Annotated[str, AfterValidator(_time_zone)] = "UTC"
    """In which days and months begin, of usage and of limits of spending."""
    keep_days: int | None = Field(default=None, ge=1, le=36_500)
    """Totals of days before these are deleted, except those of the month in progress; None: none."""

    @property
    def zone(self) -> tzinfo:
        return UTC if self.time_zone == "UTC" else ZoneInfo(self.time_zone)


class ResponsesSettings(_Section):
    """The Responses API."""

    store: bool = True
    store_seconds: Seconds = 24 * 3600.0
    max_background: int = Field(default=64, ge=1)


class ReasoningSettings(_Section):
    """The reasoning of replies that call tools, which is restored where a client drops it."""

    restore: bool = True
    store_seconds: Seconds = 24 * 3600.0


class Fetch(_Section):
    allow: tuple[str, ...] = ()
    max_bytes: int = Field(default=20 * 1024 * 1024, ge=1)
    max_total_bytes: int = Field(default=64 * 1024 * 1024, ge=1)
    max_seconds: Seconds = 20.0
    max_redirects: int = Field(default=5, ge=0, le=20)
    max_concurrent: int = Field(default=32, ge=1)
    max_media: int = Field(default=64, ge=1)

    @field_validator("allow")
    @classmethod
    def _check_allow_list(cls, allow: tuple[str, ...]) -> tuple[str, ...]:
        AllowList(allow)
        return allow


class Documents(_Section):
    workers: int = Field(default=2, ge=1, le=64)
    workers_per_caller: int = Field(default=1, ge=1, le=64)
    max_waiting: int = Field(default=64, ge=1)
    queue_seconds: Seconds = 20.0
    wall_seconds: Seconds = 20.0
    cpu_seconds: int = Field(default=15, ge=1)
    memory_bytes: int = Field(default=1024 * 1024 * 1024, ge=256 * 1024 * 1024)
    max_pages: int = Field(default=500, ge=1)
    max_characters: int = Field(default=400_000, ge=1)
    max_searched_characters: int = Field(default=4_000_000, ge=1)
    max_unpacked_bytes: int = Field(default=128 * 1024 * 1024, ge=1)
    max_pixels: int = Field(default=64_000_000, ge=1)


_ELSEWHERE = {
    "oauth": "OAuth is not supported: put a token into the variable that bearer_token_env_var names",
    "oauth_resource": "OAuth is not supported: put a token into the variable that bearer_token_env_var names",
    "scopes": "OAuth is not supported: put a token into the variable that bearer_token_env_var names",
    "bearer_token": "put the token into an environment variable, and name that in bearer_token_env_var",
    "default_tools_approval_mode": 'use approval = "never", "always" or a list of tools',
    "tools": "use enabled_tools and disabled_tools; and approval for the tools that need it",
    "type": "leave it out: a server has a command, or a url that speaks streamable HTTP",
    "transport": "leave it out: a server has a command, or a url that speaks streamable HTTP",
    "headers": "use http_headers",
    "startup_timeout_ms": "use startup_timeout_sec",
}
"""What other programs' configurations of MCP servers have, and what to write instead."""
_OF_COMMANDS = ("args", "env", "env_vars", "cwd")
_OF_URLS = ("bearer_token_env_var", "http_headers", "env_http_headers")
_VariableName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
_HeaderName: TypeAlias = Annotated[str, AfterValidator(_header_name)]


class McpServer(_Section):
    """A server of tools that the gateway runs, in the words of Codex's `config.toml`."""

    command: str | None = Field(default=None, min_length=1)
    args: tuple[str, ...] = ()
    env: dict[_VariableName, SecretStr] = Field(default_factory=dict)
    env_vars: Annotated[tuple[_VariableName, ...], BeforeValidator(_split_list)] = ()
    cwd: str | None = Field(default=None, min_length=1)
    url: Annotated[str, AfterValidator(_exact_url)] | None = None
    bearer_token_env_var: _VariableName | None = None
    http_headers: dict[_HeaderName, Secret] = Field(default_factory=dict)
    env_http_headers: dict[_HeaderName, _VariableName] = Field(default_factory=dict)
    enabled: bool = True
    required: bool = False
    enabled_tools: _Names | None = None
    disabled_tools: _Names = ()
    startup_timeout_sec: Seconds = 10.0
    tool_timeout_sec: Seconds = 60.0
    approval: Literal["never", "always"] | tuple[str, ...] = "never"
    keys: _Names = ("*",)
    models: _Names = ("*",)
    max_result_bytes: int = Field(default=65536, ge=256, le=16 * 1024 * 1024)
    max_concurrent_calls: int = Field(default=16, ge=1, le=1024)
    session: Literal["shared", "reply"] = "shared"

    @model_validator(mode="before")
    @classmethod
    def _explain_other_words(cls, value: Any) -> Any:
        if isinstance(value, dict):
            for name, instead in _ELSEWHERE.items():
                if name in value:
                    raise ValueError(f"`{name}` is not a setting: {instead}")
        return value

    @model_validator(mode="after")
    def _check_transport(self) -> "McpServer":
        if (self.command is None) == (self.url is None):
            raise ValueError("must have exactly one of `command` and `url`")
        for name in _OF_URLS if self.url is None else _OF_COMMANDS:
            if getattr(self, name):
                raise ValueError(f"`{name}` is only for a server with a `{'url' if self.url is None else 'command'}`")
        return self


class ToolsSettings(_Section):
    """The bounds of one reply that runs tools."""

    max_rounds: int = Field(default=20, ge=1, le=1000)
    max_calls: int = Field(default=100, ge=1, le=10_000)
    max_parallel_calls: int = Field(default=8, ge=1, le=256)
    max_seconds: Seconds = 600.0
    max_tokens: int = Field(default=200_000, ge=1)
    max_result_bytes: int = Field(default=1024 * 1024, ge=256)


class MetricsSettings(_Section):
    enabled: bool = True
    host: str | None = None
    """Only with `port`; without it, the metrics have the host of the server."""
    port: int | None = Field(default=None, ge=0, le=65535)
    """Without it, /metrics is on the main port."""


class Tracing(_Section):
    enabled: bool = False
    sample_ratio: float = Field(default=1.0, ge=0, le=1, allow_inf_nan=False)
    capture_content: bool = False
    """Spans have the messages of the request and of the reply."""


class Settings(_Section):
    default_model: str | None = None
    server: Server = Server()
    upstreams: dict[str, Upstream] = Field(default_factory=dict)
    models: dict[str, Model] = Field(default_factory=dict)
    keys: dict[KeyName, Key] = Field(default_factory=dict)
    """The API keys of callers by name."""
    teams: dict[KeyName, Team] = Field(default_factory=dict)
    jwt: dict[KeyName, JwtIssuer] = Field(default_factory=dict)
    """The issuers of JWTs that are accepted like keys."""
    limits: LimitSettings = LimitSettings()
    """The limits of all callers together."""
    cache: CacheSettings = CacheSettings()
    prices: PricesSettings = PricesSettings()
    state: StateSettings = StateSettings()
    usage: UsageSettings = UsageSettings()
    responses: ResponsesSettings = ResponsesSettings()
    reasoning: ReasoningSettings = ReasoningSettings()
    fetch: Fetch = Fetch()
    documents: Documents = Documents()
    mcp_servers: dict[Annotated[str, AfterValidator(_tool_server_name)], McpServer] = Field(default_factory=dict)
    """Servers of tools that the gateway runs."""
    tools: ToolsSettings = ToolsSettings()
    metrics: MetricsSettings = MetricsSettings()
    tracing: Tracing = Tracing()
    passthrough: str | None = None
    """The upstream that serves every model name that is not configured."""
    tokenizer: str | None = None
    """The tokenizer file for models whose profile names none; without one, tokens are estimated."""
    demo: bool = False
    """Whether the built-in demonstration model is served, as the model `demo`."""

    @property
    def requires_keys(self) -> bool:
        """Whether requests need an API key or a JWT: there are keys or issuers, or an administrator may create keys and
        other machines can reach the gateway."""
        server = self.server
        local = is_loopback(server.host.strip("[]").lower())
        return self.names_callers or (server.admin_key is not None and not local and not server.allow_anonymous)

    @property
    def names_callers(self) -> bool:
        """Whether callers have names: there are API keys, or issuers of JWTs."""
        return bool(self.keys or self.jwt)

    @property
    def has_admin(self) -> bool:
        """Whether someone may manage keys."""
        of_tokens = any(row.admin_claim is not None for row in self.jwt.values())
        return self.server.admin_key is not None or of_tokens or any(key.admin for key in self.keys.values())

    @property
    def separate_callers(self) -> bool:
        """Whether stored replies are shared only among the requests of one caller."""
        return self.cache.scope == "caller" or (self.cache.scope == "auto" and self.names_callers)

    @property
    def serves_this_machine_only(self) -> bool:
        """Whether every caller is a program or a user of this machine: the gateway listens on a loopback address, and
        no key, admin key or other host name suggests that a proxy passes on the requests of others."""
        server = self.server
        local = is_loopback(server.host.strip("[]").lower())
        return local and not (self.names_callers or server.admin_key or server.allowed_hosts or server.allowed_origins)

    def kind_profile(self, kind: str) -> Profile:
        return KINDS[kind]

    def profile(self, model: str, upstream: str) -> Profile:
        row = find_profile(self.upstreams[upstream].kind, self.upstreams[upstream].api)
        fields = self.models[model].profile if model in self.models else {}
        return Profile.model_validate({**row.model_dump(), **fields}) if fields else row


def load(environ: Mapping[str, str] | None = None, path: Path | None = None) -> Settings:
    """Load the settings of this process. Raises SettingsError with every mistake."""
    environ = os.environ if environ is None else environ
    sources = read_sources(environ, path, Settings.model_fields)
    tree, mistakes = sources.tree, sources.mistakes
    if not tree.get("upstreams") and not tree.get("models"):
        tree = {"mcp_servers": DEMO_TOOLS, **tree, "demo": True}
    try:
        # Not strict: all values from the environment are text.
        settings = Settings.model_validate(tree, strict=False)
        settings = _with_prices(settings, mistakes)
    except ValidationError as error:
        settings = Settings()
        mistakes += (
            f"{_with_variable(item.path, sources.variables)}: {item.message}"
            for item in to_violations(error, tree, schema=Settings)
        )
    mistakes += [*_find_dangling(tree), *_find_conflicts(settings), *_check_tool_variables(settings, environ)]
    if mistakes:
        raise SettingsError(mistakes)
    return with_proxies(_with_files(settings, environ, config_file(environ, path)), environ)


def with_proxies(settings: Settings, environ: Mapping[str, str]) -> Settings:
    """Return the settings in which each upstream, and each issuer of JWTs, without a proxy has the one that the
    environment names. Raises SettingsError if that is not a proxy's URL."""
    upstreams, issuers, mistakes = dict(settings.upstreams), dict(settings.jwt), list[str]()

    def find(path: str, url: str) -> SecretStr | None:
        proxy = find_proxy(environ, url)
        if proxy is None:
            return None
        try:
            parse_proxy(proxy)
        except ValueError as error:
            mistakes.append(f"{path}.proxy: the proxy of the environment {error}")
        return SecretStr(proxy)

    for name, row in upstreams.items():
        if not row.proxy and not row.base_url.startswith("unix:"):
            proxy = find(json_path(["upstreams", name]), row.base_url)
            upstreams[name] = row.model_copy(update={"proxy": proxy})
    for name, issuer in issuers.items():
        if not issuer.proxy and not issuer.jwks_file:
            proxy = find(json_path(["jwt", name]), issuer.jwks_url or issuer.issuer)
            issuers[name] = issuer.model_copy(update={"proxy": proxy})
    if mistakes:
        raise SettingsError(mistakes)
    return settings.model_copy(update={"upstreams": upstreams, "jwt": issuers})


def _with_prices(settings: Settings, mistakes: list[str]) -> Settings:
    """Return the settings in which each model without a price has that of the file, if it is there by the name that the
    model's server knows, or by its own."""
    if settings.prices.file is None:
        return settings
    try:
        known = read_prices(Path(settings.prices.file))
    except ValueError as error:
        mistakes.append(f"prices.file: {error}")
        return settings
    models = dict(settings.models)
    for name, row in models.items():
        price = known.get(row.name or name) or known.get(name)
        if row.price is None and price is not None:
            models[name] = row.model_copy(update={"price": ModelPrice.from_price(price)})
    return settings.model_copy(update={"models": models})


def find_mistakes(settings: Settings) -> list[str]:
    """Return the mistakes in settings that were not loaded together: some of their values are older than others."""
    mistakes = [*_find_dangling(settings.model_dump()), *_find_conflicts(settings)]
    if not (settings.models or settings.passthrough or settings.demo):
        mistakes.append("models: there is none, and the model demo is not served")
    return mistakes


def _with_files(settings: Settings, environ: Mapping[str, str], config: Path) -> Settings:
    """Without a URL, the cache uses a file for this configuration in the user's cache folder, and the state one in the
    user's data folder, if these are writable. The totals of usage are in the state."""
    cache = _default_file_url(_user_folder(environ, "XDG_CACHE_HOME", ".cache"), "", config)
    update: dict[str, _Section] = {}
    if settings.cache.url is None and cache is not None:
        update["cache"] = settings.cache.model_copy(update={"url": cache})
    settings = settings.model_copy(update=update)
    state = settings.state.url or _find_state_url(settings, environ, config)
    usage = settings.usage.url or settings.state.url or state or _default_state_url(environ, config)
    return settings.model_copy(
        update={
            "state": settings.state.model_copy(update={"url": state}),
            "usage": settings.usage.model_copy(update={"url": usage}),
        }
    )


def _find_state_url(settings: Settings, environ: Mapping[str, str], config: Path) -> str | None:
    """Return where the state is if `state.url` does not say it. None if it stays with the cache: gateways that share a
    Redis, and no PostgreSQL, share their stored responses there."""
    address = parse_state_url(settings.usage.url or "null:")
    if isinstance(address, PostgresUrl):
        return settings.usage.url
    if isinstance(parse_cache_url(settings.cache.url or "memory:"), RedisUrl):
        return None
    is_file = isinstance(address, FileUrl) and address.path
    return settings.usage.url if is_file else _default_state_url(environ, config)


def _default_state_url(environ: Mapping[str, str], config: Path) -> str | None:
    """Return the file of the state; the one in which this configuration counted its usage before, if there is one."""
    folder = _user_folder(environ, "XDG_DATA_HOME", ".local/share")
    name = _default_file_name(config)
    counted = folder is not None and name is not None and (folder / f"usage-{name}").exists()
    return _default_file_url(folder, "usage-" if counted else "state-", config)


def _find_conflicts(settings: Settings) -> Iterator[str]:
    """Find settings that are valid each, but not together or not on this machine."""
    yield from _check_request_memory(settings.server)
    yield from _check_keys(settings)
    yield from _check_issuers(settings)
    yield from _check_metrics_port(settings)
    yield from _check_tracing(settings)
    yield from _check_certificates(settings)
    yield from _check_prices(settings)
    yield from _check_tool_servers(settings)


def _check_request_memory(server: Server) -> Iterator[str]:
    least = 2 * server.max_body_bytes
    if server.max_request_memory_bytes < least:
        yield (
            f"server.max_request_memory_bytes: must be at least twice server.max_body_bytes, so at least {least}, not "
            f"{server.max_request_memory_bytes}"
        )


def _check_keys(settings: Settings) -> Iterator[str]:
    """Find keys that are equal, and a gateway that everyone in the network could use."""
    names: dict[str, str] = {}
    for name, key in settings.keys.items():
        if names.setdefault(key.sha256, name) != name:
            yield f"{json_path(['keys', name, 'sha256'])}: the key {names[key.sha256]!r} has the same; use another key"
        if key.team is not None and key.team not in settings.teams:
            yield (
                f"{json_path(['keys', name, 'team'])}: there is no team {key.team!r}"
                f"{suggest_name(key.team, settings.teams)}; add [teams.{key.team}]"
            )
    server = settings.server
    if not (settings.requires_keys or server.allow_anonymous or is_loopback(server.host.strip("[]").lower())):
        yield (
            f"server.host: {server.host!r} is not a loopback address, so other machines can reach the gateway, and "
            "there are no API keys. Either create a key with `parley keys new NAME` and add the lines that it prints "
            "to parley.toml (or set PARLEY_API_KEYS), or set server.admin_key and "
            "create keys with POST /v1/keys, or serve everyone who can reach this address with "
            "server.allow_anonymous = true (PARLEY_SERVER__ALLOW_ANONYMOUS=true)"
        )


def _check_issuers(settings: Settings) -> Iterator[str]:
    """Find issuers of JWTs that are the same, and what they name that is not there."""
    names: dict[str, str] = {}
    for name, row in settings.jwt.items():
        path = json_path(["jwt", name])
        if names.setdefault(row.issuer, name) != name:
            yield f"{path}.issuer: {names[row.issuer]!r} has the same; list all audiences in one of them"
        if row.team is not None and row.team not in settings.teams:
            yield (
                f"{path}.team: there is no team {row.team!r}{suggest_name(row.team, settings.teams)}; "
                f"add [teams.{row.team}]"
            )
        if row.team_claim is not None and not settings.teams:
            yield f"{path}.team_claim: there are no teams, so every token would be refused; add [teams.<name>]"
        if row.jwks_file is not None:
            from app.access.jwks import JwksError, read_jwks_file  # the package jwt takes time to import

            try:
                read_jwks_file(row.jwks_file)
            except JwksError as error:
                yield f"{path}.jwks_file: {error}"


def find_answering(settings: Settings, model: str) -> list[str]:
    """Return the names of the models that may answer a request for a model: it, and its fallbacks with theirs."""
    names = {alias: name for name, row in settings.models.items() for alias in (name, *row.aliases)}
    found: dict[str, None] = {}
    waiting = [names.get(model, model)]
    while waiting:
        name = waiting.pop()
        row = settings.models.get(name)
        if name not in found and row is not None:
            others = (*row.fallbacks, *row.fallbacks_on_context_length, *row.fallbacks_on_content_filter)
            waiting += [names.get(other, other) for other in others]
        found[name] = None
    return list(found)


def _check_prices(settings: Settings) -> Iterator[str]:
    """Find limits of spending on models without a price, which would never be reached."""
    open_ended: set[str] = set()
    """The limits of callers who may use any model of the pass-through."""
    limited = {
        json_path(["models", name, "limits"]): [name]
        for name, row in settings.models.items()
        if row.limits.limits_spending
    }
    if settings.limits.limits_spending:
        limited["limits"] = [*settings.models]
        open_ended.add("limits")
    for path, limits, patterns, team_name in _list_spenders(settings):
        team = None if team_name is None else settings.teams.get(team_name)
        paths = [path] if limits.limits_spending else []
        if team is not None and team.limits.limits_spending:
            paths.append(json_path(["teams", str(team_name), "limits"]))
        globs = [patterns] if team is None else [patterns, team.models]
        for path in paths:
            limited.setdefault(path, []).extend(
                model
                for model, row in settings.models.items()
                if all(_match_any((model, *row.aliases), patterns) for patterns in globs)
            )
            if _allow_unconfigured(globs, settings):
                open_ended.add(path)
    for path, models in limited.items():
        answering = {name for model in models for name in find_answering(settings, model)}
        missing = sorted(name for name in answering & settings.models.keys() if not _has_cost(settings, name))
        if missing:
            yield (
                f"{path}: limits spending, and {_join(missing)} without a price, so nothing would be counted: set "
                f"{json_path(['models', missing[0], 'price'])}, to {{ input = 0, output = 0 }} if it costs nothing"
            )
        elif path in open_ended and not _reports_cost(settings, {}, settings.passthrough):
            yield (
                f"{path}: limits spending, and passthrough serves models without a price, for which nothing would be "
                "counted: configure the models with their prices instead"
            )


def _list_spenders(settings: Settings) -> Iterator[tuple[str, LimitSettings, Sequence[str], str | None]]:
    """List, for each key and each team that the tokens of an issuer may name, the path of its limits, these limits, the
    patterns of its models, and the team."""
    for name, key in settings.keys.items():
        yield json_path(["keys", name, "limits"]), key.limits, key.models, key.team
    for name, row in settings.jwt.items():
        teams = {row.team, *(settings.teams if row.team_claim is not None else ())}
        for team in sorted(teams, key=str):
            yield json_path(["jwt", name, "limits"]), row.limits, row.models, team


def _allow_unconfigured(globs: Sequence[Sequence[str]], settings: Settings) -> bool:
    """Whether a model that is not configured can match a pattern of each of these lists."""
    wild = [any(set("*?[") & set(pattern) for pattern in patterns) for patterns in globs]
    known = {name for model, row in settings.models.items() for name in (model, *row.aliases)}
    others = {pattern for patterns in globs for pattern in patterns} - known
    return all(wild) or any(all(_match_any((name,), patterns) for patterns in globs) for name in others)


def _match_any(names: Sequence[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def find_unpriced(settings: Settings) -> list[str]:
    """Return the names of the models without a price whose server does not report a cost either."""
    return [name for name in settings.models if not _has_cost(settings, name)]


def _has_cost(settings: Settings, model: str) -> bool:
    row = settings.models[model]
    return row.price is not None or all(
        _reports_cost(settings, row.profile, upstream.name) for upstream in row.upstreams
    )


def _reports_cost(settings: Settings, fields: Mapping[str, Any], upstream: str | None) -> bool:
    """Whether a server reports what its replies cost, or there is none."""
    if upstream is None:
        return True
    row = settings.upstreams.get(upstream)
    known = KINDS.get(row.kind) if row is not None else None
    return bool(fields.get("reports_cost", known is not None and known.reports_cost))


def _join(models: list[str]) -> str:
    shown = ", ".join(map(repr, models[:5])) + (f" and {len(models) - 5} more" if len(models) > 5 else "")
    return f"the model {shown} is" if len(models) == 1 else f"the models {shown} are"


def _default_file_url(folder: Path | None, prefix: str, config: Path) -> str | None:
    name = _default_file_name(config)
    if folder is None or name is None or not _is_writable(folder):
        return None
    return f"sqlite:///{quote(str(folder / f'{prefix}{name}'))}"


def _user_folder(environ: Mapping[str, str], variable: str, default: str) -> Path | None:
    """Return Parley's folder in the one that the variable names, else in a folder of the user's home."""
    if Path(environ.get(variable) or "").is_absolute():
        return Path(environ[variable]) / "parley"
    return Path(environ["HOME"]) / default / "parley" if Path(environ.get("HOME") or "").is_absolute() else None


def _default_file_name(config: Path) -> str | None:
    """Return `work-1f0c92ab.db` for /home/me/work/parley.toml.

    The name consists of the folder, the file's name unless it is parley.toml, and a hash of the absolute path. Links
    are not followed, so a configuration that is replaced through a link keeps its files. None if the working folder
    was deleted.
    """
    try:
        path = Path(os.path.normpath(config.absolute()))
    except FileNotFoundError:
        return None
    words = [path.parent.name, *([] if path.name == "parley.toml" else [path.stem])]
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", "-".join(words)).strip("-")[:60] or "parley"
    digest = hashlib.blake2b(os.fsencode(path), digest_size=4).hexdigest()
    return f"{readable}-{digest}.db"


def _is_writable(folder: Path) -> bool:
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)


def _with_variable(path: str, variables: Mapping[str, str]) -> str:
    return f"{path} ({variables[path]})" if path in variables else path


def _check_metrics_port(settings: Settings) -> Iterator[str]:
    port = settings.metrics.port
    if settings.metrics.enabled and port and port == settings.server.port:
        yield f"metrics.port: {port} is server.port too; use another port, or leave it out to serve /metrics on it"


def _check_tracing(settings: Settings) -> Iterator[str]:
    if settings.tracing.enabled and not _is_installed("opentelemetry.exporter.otlp.proto.http"):
        yield f"tracing.enabled: traces need OpenTelemetry, which is not installed: {_how_to_install('otel')}"


def _check_certificates(settings: Settings) -> Iterator[str]:
    options = {json_path(["upstreams", name]): row.connections for name, row in settings.upstreams.items()}
    options |= {json_path(["jwt", name]): row.connections for name, row in settings.jwt.items()}
    for path, row in options.items():
        if row.client_key and not row.client_certificate:
            yield f"{path}.client_key: is the key of client_certificate, which is not set"
        elif row.ca_file or row.client_certificate:
            try:
                make_ssl_context(row)
            except OSError as error:
                reason = error.strerror or getattr(error, "reason", None) or str(error)
                files = [file for file in (row.ca_file, row.client_certificate, row.client_key) if file]
                yield f"{path}: the certificates in {', '.join(files)} cannot be used ({reason}); name PEM files"


def _check_tool_servers(settings: Settings) -> Iterator[str]:
    """Find names of servers that make a tool's name for the model ambiguous: `a-b-c` may be of `a` or of `a-b`."""
    names = sorted(settings.mcp_servers)
    for name in names:
        for other in names:
            if other.startswith(f"{name}-"):
                yield (
                    f"{json_path(['mcp_servers', other])}: there is a server {name!r} too, so the model's name of a "
                    f"tool, such as {other}-x, could be of both; choose a name that does not begin with {name}-"
                )
    for model, row in settings.models.items():
        used = [tools.mcp for tools in row.tools]
        for index, server in enumerate(used):
            path = json_path(["models", model, "tools", index])
            if server not in settings.mcp_servers:
                yield f"{path}: there is no MCP server {server!r}{suggest_name(server, settings.mcp_servers)}"
            elif server in used[:index]:
                yield f"{path}: {server!r} is listed twice"


def _check_tool_variables(settings: Settings, environ: Mapping[str, str]) -> Iterator[str]:
    """Find tokens and headers of MCP servers that are in no environment variable."""
    for name, row in settings.mcp_servers.items():
        named = [("bearer_token_env_var", row.bearer_token_env_var)] if row.bearer_token_env_var else []
        named += [(f"env_http_headers.{header}", variable) for header, variable in row.env_http_headers.items()]
        for setting, variable in named:
            if row.enabled and not environ.get(variable or ""):
                path = json_path(["mcp_servers", name])
                yield f"{path}.{setting}: the environment variable {variable} is not set"


def _find_dangling(tree: Mapping[str, Any]) -> list[str]:
    """Find references to unknown upstreams and models, and invalid profiles. Wrong types were reported before."""
    upstreams, models = _rows(tree, "upstreams"), _rows(tree, "models")
    passthrough, default = tree.get("passthrough"), tree.get("default_model")
    names = {*models, *(alias for row in models.values() for alias in _words(row, "aliases"))}
    names |= {DEMO} if tree.get("demo") else set()
    mistakes = [
        f"{json_path(['upstreams', name, 'kind'])}: {_unknown_kind(kind)}"
        for name, row in upstreams.items()
        if isinstance(kind := row.get("kind", "openai_compatible"), str) and kind not in KINDS
    ]
    if isinstance(passthrough, str) and passthrough not in upstreams:
        mistakes.append(f"passthrough: there is no upstream {passthrough!r}{suggest_name(passthrough, upstreams)}")
    if isinstance(default, str) and default not in names and not passthrough:
        mistakes.append(f"default_model: there is no model {default!r}{suggest_name(default, names)}")
    if upstreams and not names and not passthrough:
        mistakes.append("upstreams: no model uses them; add a [models.<name>], or set passthrough to one of them")
    for name, row in models.items():
        mistakes += (*_check_model_names(name, row, upstreams, models), *_check_profile(name, row))
    return mistakes


def _unknown_kind(kind: str) -> str:
    return f"must be one of {', '.join(sorted(KINDS))}, not {kind!r}{suggest_name(kind, KINDS)}"


def _check_model_names(
    name: str, row: dict[str, Any], upstreams: dict[str, dict[str, Any]], models: dict[str, dict[str, Any]]
) -> Iterator[str]:
    used = _upstream_names(row)
    for index, upstream in enumerate(used):
        path = json_path(["models", name, "upstreams", index])
        if upstream not in upstreams:
            yield f"{path}: there is no upstream {upstream!r}{suggest_name(upstream, upstreams)}"
        elif upstream in used[:index]:
            yield f"{path}: {upstream!r} is listed twice; give it a weight instead"
    yield from _check_fallbacks(name, row, models)
    for alias in _words(row, "aliases"):
        if [other for other in models if alias == other or alias in _words(models[other], "aliases")] != [name]:
            yield f"{json_path(['models', name, 'aliases'])}: {alias!r} is also the name of another model"


def _check_fallbacks(name: str, row: dict[str, Any], models: dict[str, dict[str, Any]]) -> Iterator[str]:
    known = {*models, *(alias for other in models.values() for alias in _words(other, "aliases"))}
    for key in ("fallbacks", "fallbacks_on_context_length", "fallbacks_on_content_filter"):
        for index, model in enumerate(_words(row, key)):
            path = json_path(["models", name, key, index])
            if model not in known:
                yield f"{path}: there is no model {model!r}{suggest_name(model, known)}"
            elif model == name or model in _words(row, "aliases"):
                yield f"{path}: a model cannot be its own fallback"


def _upstream_names(row: dict[str, Any]) -> list[str]:
    """Return the names of a model's upstreams. Wrong types were reported before."""
    rows = _upstream_rows(row.get("upstreams"))
    names = [item.get("name") if isinstance(item, dict) else None for item in rows] if isinstance(rows, list) else []
    return [name for name in names if isinstance(name, str)]


def _check_profile(name: str, row: dict[str, Any]) -> Iterator[str]:
    profile = row.get("profile", {})
    if not isinstance(profile, dict):
        return
    fields = {**Profile().model_dump(), **profile}
    try:
        Profile.model_validate(fields)
    except ValidationError as error:
        for item in to_violations(error, fields, json_path(["models", name, "profile"]), Profile):
            yield f"{item.path}: {item.message}"


def _rows(tree: Mapping[str, Any], section: str) -> dict[str, dict[str, Any]]:
    rows = tree.get(section)
    return {name: row if isinstance(row, dict) else {} for name, row in rows.items()} if isinstance(rows, dict) else {}


def _words(row: dict[str, Any], key: str) -> list[str]:
    words = _split_list(row.get(key))
    return [word for word in words if isinstance(word, str)] if isinstance(words, list | tuple) else []
