"""`[server]`, `[metrics]` and `[tracing]`: the gateway's own HTTP server, and what is observed of it."""

import re
from ipaddress import ip_address
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field

from app.access.addresses import TrustedProxies
from app.config.tables.base import Seconds, Secret, Table, split_list
from app.params import MAX_SECONDS

LogFormat: TypeAlias = Literal["auto", "console", "json"]


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


_HostPattern = Annotated[str, AfterValidator(_host_pattern)]


def _origin(value: str) -> str:
    if value not in ("*", "null") and not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#@]+", value):
        raise ValueError("must be an origin without a path, such as https://chat.example.com, or *")
    return value.lower()


_Origin = Annotated[str, AfterValidator(_origin)]


def _base_path(value: str) -> str:
    path = value.rstrip("/")
    if path and not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+", path):
        raise ValueError("must be the beginning of a path, such as /parley")
    return path


def _proxy(value: str) -> str:
    try:
        TrustedProxies([value])
    except ValueError:
        raise ValueError("must be an address or a network, such as 10.0.0.7 or 10.1.0.0/16") from None
    return value


_Proxy = Annotated[str, AfterValidator(_proxy)]


class Server(Table):
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
    allowed_hosts: Annotated[tuple[_HostPattern, ...], BeforeValidator(split_list)] = ()
    allowed_origins: Annotated[tuple[_Origin, ...], BeforeValidator(split_list)] = ()
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
    trusted_proxies: Annotated[tuple[_Proxy, ...], BeforeValidator(split_list)] = ()
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: LogFormat = "auto"
    watch_config: bool = True
    playground: bool = True


class MetricsSettings(Table):
    enabled: bool = True
    host: str | None = None
    """Only with `port`; without it, the metrics have the host of the server."""
    port: int | None = Field(default=None, ge=0, le=65535)
    """Without it, /metrics is on the main port."""


class Tracing(Table):
    enabled: bool = False
    sample_ratio: float = Field(default=1.0, ge=0, le=1, allow_inf_nan=False)
    capture_content: bool = False
    """Spans have the messages of the request and of the reply."""
