"""`[upstreams.<name>]`: a model server, how it is called and how long the gateway waits for it."""

import os
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast, get_args

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from app.config.tables.base import (
    NO_PROXY,
    HeaderName,
    ProxyUrl,
    Seconds,
    Secret,
    Table,
    VariableName,
    http_url,
    split_list,
)
from app.endpoints.kinds import PathName
from app.upstream.api import ApiName, find_api
from app.upstream.http.options import IDLE_SECONDS, MAX_AGE_SECONDS, ConnectionOptions, parse_proxy

MAX_SOCKET_PATH_BYTES = 107
"""The longest path of a Unix socket on Linux (unix(7))."""
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
        # A variable in front of a path may end with a slash.
        scheme, colon, rest = address.partition("://")
        address = scheme + colon + re.sub(r"(?<!:)//+", "/", rest)
        return http_url(address) + (mark and query and f"?{query}")
    if len(os.fsencode(match["socket"])) > MAX_SOCKET_PATH_BYTES:
        raise ValueError(f"the path of the socket must be at most {MAX_SOCKET_PATH_BYTES} bytes long")
    return f"unix:{match['socket']}:{(match['path'] or '/v1').rstrip('/')}"


def _http_path(value: str) -> str:
    if not re.fullmatch(r"/[!-~]*", value):
        raise ValueError("must be a path on the server, such as /health")
    return value


_KEYS = ("api_key", "api_key_command", "api_key_file")


class Upstream(Table):
    base_url: Annotated[str, AfterValidator(_server_url)]
    api: ApiName = "chat_completions"
    kind: str = "openai_compatible"
    """Without it, that of the API."""
    auth: Literal["bearer"] | None = None
    api_key: Secret | None = None
    api_key_command: Annotated[tuple[str, ...], Field(min_length=1), BeforeValidator(split_list)] | None = None
    api_key_file: str | None = Field(default=None, min_length=1)
    api_key_seconds: Seconds = Field(default=300.0, ge=10)
    """How long the output of the command is valid, if it does not say it."""
    api_key_env_vars: Annotated[tuple[VariableName, ...], BeforeValidator(split_list)] = ()
    """What the command gets of the gateway's environment, beside what every program gets (`make_child_environment`)."""
    headers: dict[HeaderName, Secret] = Field(default_factory=dict)
    connect_seconds: Seconds = 10.0
    first_token_seconds: Seconds = 600.0
    idle_seconds: Seconds = 300.0
    whole_reply_seconds: Seconds = 600.0
    max_connections: int = Field(default=8192, ge=1)
    max_reply_bytes: int = Field(default=64 * 1024 * 1024, ge=1024)
    max_reply_seconds: Seconds = 3600.0
    health_path: Annotated[str, AfterValidator(_http_path)] | None = None
    health_seconds: Seconds = 10.0
    proxy: ProxyUrl | None = None
    """Without it, `load` sets what HTTPS_PROXY, HTTP_PROXY and NO_PROXY say. A secret: it may hold a password."""
    ca_file: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    connection_idle_seconds: Seconds = IDLE_SECONDS
    connection_max_seconds: Seconds = MAX_AGE_SECONDS
    paths: dict[PathName, Annotated[str, AfterValidator(_http_path)]] = Field(default_factory=dict)
    """Of endpoints that are no conversation, where the server has only one path of each."""

    @model_validator(mode="before")
    @classmethod
    def _set_kind(cls, given: Any) -> Any:
        api = given.get("api") if isinstance(given, Mapping) else None
        if isinstance(api, str) and api in get_args(ApiName) and given.get("kind") is None:
            return {**given, "kind": find_api(cast(ApiName, api)).kind}
        return given

    @model_validator(mode="after")
    def _check_url(self) -> "Upstream":
        other = None if self.api == "chat_completions" else find_api(self.api).other_ending
        if other is not None and self.url.endswith(other[0]):
            ending, api = other
            raise ValueError(f'base_url is an address of the API {api}: leave out its {ending}, or set api = "{api}"')
        return self

    @model_validator(mode="after")
    def _check_key(self) -> "Upstream":
        given = [name for name in _KEYS if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"has {' and '.join(given)}: leave one of them")
        if self.api_key_command is None and self.api_key_env_vars:
            raise ValueError("has api_key_env_vars, which only an api_key_command gets")
        return self

    @property
    def has_key(self) -> bool:
        return any(getattr(self, name) is not None for name in _KEYS)

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
