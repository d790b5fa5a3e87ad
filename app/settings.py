"""Validate the settings: the tree of `config_sources` becomes one frozen `Settings`, or a list of mistakes.

docs/reference/settings.md lists every setting; a test compares the two.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import quote

import httpx
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from app.attachments.fetch.address_policy import AllowList
from app.cache.stores.base import StoreLimits
from app.cache.urls import parse_cache_url
from app.config_sources import config_file, read_sources
from app.nearest import suggest_name
from app.params import MAX_SECONDS, GenerateCfg
from app.profiles import KINDS, Profile
from app.routing.strategies import Strategy
from app.validation import json_path, to_violations

DEMO = "demo"

_STORE = StoreLimits()
"""A store is opened without settings too, by `parley cache`."""

LogFormat: TypeAlias = Literal["auto", "console", "json"]
Seconds: TypeAlias = Annotated[float, Field(gt=0, le=MAX_SECONDS, allow_inf_nan=False)]


class SettingsError(Exception):
    """The mistakes in a configuration, each with its path."""

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


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


def _cache_url(value: str) -> str:
    parse_cache_url(value)
    return value


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


def _upstream_rows(value: Any) -> Any:
    """Return the upstreams of a model as tables: each may also be a name."""
    value = _split_list(value)
    return [{"name": row} if isinstance(row, str) else row for row in value] if isinstance(value, list) else value


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
    max_body_bytes: int = Field(default=32 * 1024 * 1024, ge=1024)
    body_seconds: Seconds = 60.0
    max_head_bytes: int = Field(default=64 * 1024, ge=4096, le=1024 * 1024)
    head_seconds: Seconds = 20.0
    keep_alive_seconds: Seconds = 75.0
    """Longer than the usual 60 seconds of proxies, so that the proxy closes an idle connection, not the gateway."""
    max_connections: int = Field(default=8192, ge=1)
    allowed_hosts: Annotated[tuple[_HostPattern, ...], BeforeValidator(_split_list)] = ()
    allowed_origins: Annotated[tuple[_Origin, ...], BeforeValidator(_split_list)] = ()
    max_request_memory_bytes: int = Field(default=512 * 1024 * 1024, ge=1024 * 1024, validate_default=True)
    max_json_values: int = Field(default=250_000, ge=1000)
    max_messages: int = Field(default=10_000, ge=1)
    max_content_items: int = Field(default=20_000, ge=1)
    max_functions: int = Field(default=1000, ge=1)
    max_nesting: int = Field(default=64, ge=8, le=150)
    max_concurrent_requests: int = Field(default=4096, ge=1)
    heartbeat_seconds: Seconds = 15.0
    commit_seconds: Seconds = 5.0
    stall_seconds: Seconds = 120.0
    settle_seconds: float = Field(default=0.0, ge=0, le=MAX_SECONDS, allow_inf_nan=False)
    drain_seconds: Seconds = 30.0
    admin_key: Secret | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: LogFormat = "auto"

    @field_validator("max_request_memory_bytes")
    @classmethod
    def _check_two_bodies(cls, size: int, info: ValidationInfo) -> int:
        longest = info.data.get("max_body_bytes", 0)
        if size < 2 * longest:
            raise ValueError(f"must be at least twice max_body_bytes ({longest})")
        return size


class Upstream(_Section):
    base_url: Annotated[str, AfterValidator(_http_url)]
    kind: str = "openai_compatible"
    api_key: Secret | None = None
    headers: dict[Annotated[str, AfterValidator(_header_name)], Secret] = Field(default_factory=dict)
    connect_seconds: Seconds = 10.0
    first_token_seconds: Seconds = 600.0
    idle_seconds: Seconds = 300.0
    whole_reply_seconds: Seconds = 600.0
    max_connections: int = Field(default=4096, ge=1)
    max_reply_bytes: int = Field(default=64 * 1024 * 1024, ge=1024)
    max_reply_seconds: Seconds = 3600.0
    health_path: Annotated[str, AfterValidator(_http_path)] | None = None
    health_seconds: Seconds = 10.0


class ModelUpstream(_Section):
    """One upstream of a model; in the file, its name or a table."""

    name: str
    weight: float = Field(default=1.0, gt=0, le=1000, allow_inf_nan=False)
    priority: int = Field(default=1, ge=1, le=100)


class Model(_Section):
    upstreams: Annotated[tuple[ModelUpstream, ...], BeforeValidator(_upstream_rows)] = Field(min_length=1)
    strategy: Strategy = "least_busy"
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
    profile: dict[str, Any] = Field(default_factory=dict)


class CacheSettings(_Section):
    url: Annotated[str, AfterValidator(_cache_url)] | None = Field(default=None, repr=False)
    """Without a URL, `load` sets a file in the user's cache folder if it is writable, else the cache is in memory."""
    apply: Literal["auto", "always", "deterministic", "on_request"] = "auto"
    ttl_seconds: Seconds = 3600.0
    max_bytes: int = Field(default=_STORE.max_bytes, ge=1024 * 1024)
    max_entry_bytes: int = Field(default=_STORE.max_entry_bytes, ge=1024)
    scope: Literal["shared", "caller"] = "shared"
    replay: Literal["fast", "original"] = "fast"
    store_length: bool = False
    resume_seconds: float = Field(default=300.0, ge=0, le=MAX_SECONDS, allow_inf_nan=False)
    max_resume_bytes: int = Field(default=64 * 1024 * 1024, ge=0)


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
    max_waiting: int = Field(default=64, ge=1)
    wall_seconds: Seconds = 20.0
    cpu_seconds: int = Field(default=15, ge=1)
    memory_bytes: int = Field(default=1024 * 1024 * 1024, ge=256 * 1024 * 1024)
    max_pages: int = Field(default=500, ge=1)
    max_characters: int = Field(default=400_000, ge=1)
    max_unpacked_bytes: int = Field(default=128 * 1024 * 1024, ge=1)
    max_pixels: int = Field(default=64_000_000, ge=1)


class Settings(_Section):
    default_model: str | None = None
    server: Server = Server()
    upstreams: dict[str, Upstream] = Field(default_factory=dict)
    models: dict[str, Model] = Field(default_factory=dict)
    cache: CacheSettings = CacheSettings()
    fetch: Fetch = Fetch()
    documents: Documents = Documents()
    passthrough: str | None = None
    """The upstream that serves every model name that is not configured."""
    tokenizer: str | None = None
    """The tokenizer file for models whose profile names none; without one, tokens are estimated."""
    demo: bool = False
    """Whether the built-in demonstration model is served, as the model `demo`."""

    def kind_profile(self, kind: str) -> Profile:
        return KINDS[kind]

    def profile(self, model: str, upstream: str) -> Profile:
        row = self.kind_profile(self.upstreams[upstream].kind)
        fields = self.models[model].profile if model in self.models else {}
        return Profile.model_validate({**row.model_dump(), **fields}) if fields else row


def load(environ: Mapping[str, str] | None = None, path: Path | None = None) -> Settings:
    """Load the settings of this process. Raises SettingsError with every mistake."""
    environ = os.environ if environ is None else environ
    sources = read_sources(environ, path, Settings.model_fields)
    tree, mistakes = sources.tree, sources.mistakes
    if not tree.get("upstreams") and not tree.get("models"):
        tree = {**tree, "demo": True}
    try:
        # Not strict: all values from the environment are text.
        settings = Settings.model_validate(tree, strict=False)
    except ValidationError as error:
        settings = Settings()
        mistakes += (
            f"{_with_variable(item.path, sources.variables)}: {item.message}"
            for item in to_violations(error, tree, schema=Settings)
        )
    mistakes += _find_dangling(tree)
    if mistakes:
        raise SettingsError(mistakes)
    return _with_cache_file(settings, environ, config_file(environ, path))


def _with_cache_file(settings: Settings, environ: Mapping[str, str], config: Path) -> Settings:
    """Without a cache URL, use a file for this configuration in the user's cache folder, if it is writable."""
    folder = _cache_folder(environ)
    name = _cache_file_name(config)
    if settings.cache.url is not None or folder is None or name is None or not _is_writable(folder):
        return settings
    url = f"sqlite:///{quote(str(folder / name))}"
    return settings.model_copy(update={"cache": settings.cache.model_copy(update={"url": url})})


def _cache_folder(environ: Mapping[str, str]) -> Path | None:
    if Path(environ.get("XDG_CACHE_HOME") or "").is_absolute():
        return Path(environ["XDG_CACHE_HOME"]) / "parley"
    return Path(environ["HOME"]) / ".cache/parley" if Path(environ.get("HOME") or "").is_absolute() else None


def _cache_file_name(config: Path) -> str | None:
    """Return `work-1f0c92ab.db` for /home/me/work/parley.toml.

    The name consists of the folder, the file's name unless it is parley.toml, and a hash of the absolute path. Links
    are not followed, so a configuration that is replaced through a link keeps its cache. None if the working folder
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
