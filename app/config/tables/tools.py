"""`[mcp_servers.<name>]` and `[tools]`: the servers of tools, and the bounds of a reply that runs tools."""

import re
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from app.config.tables.base import HeaderName, Names, Seconds, Secret, Table, exact_url, split_list


def _tool_server_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", value):
        raise ValueError("must be 1 to 32 letters, digits, _ and -: models see it before the name of each tool")
    return value


ToolServerName = Annotated[str, AfterValidator(_tool_server_name)]

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


class McpServer(Table):
    """A server of tools that the gateway runs, in the words of Codex's `config.toml`."""

    command: str | None = Field(default=None, min_length=1)
    args: tuple[str, ...] = ()
    env: dict[_VariableName, SecretStr] = Field(default_factory=dict)
    env_vars: Annotated[tuple[_VariableName, ...], BeforeValidator(split_list)] = ()
    cwd: str | None = Field(default=None, min_length=1)
    url: Annotated[str, AfterValidator(exact_url)] | None = None
    bearer_token_env_var: _VariableName | None = None
    http_headers: dict[HeaderName, Secret] = Field(default_factory=dict)
    env_http_headers: dict[HeaderName, _VariableName] = Field(default_factory=dict)
    enabled: bool = True
    required: bool = False
    enabled_tools: Names | None = None
    disabled_tools: Names = ()
    startup_timeout_sec: Seconds = 10.0
    tool_timeout_sec: Seconds = 60.0
    approval: Literal["never", "always"] | tuple[str, ...] = "never"
    keys: Names = ("*",)
    models: Names = ("*",)
    max_result_bytes: int = Field(default=65536, ge=256, le=16 * 1024 * 1024)
    max_concurrent_calls: int = Field(default=16, ge=1, le=1024)
    session: Literal["shared", "reply"] = "shared"
    restore: bool = True
    """Whether its tools get masked values as they are."""

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


class ToolsSettings(Table):
    """The bounds of one reply that runs tools."""

    max_rounds: int = Field(default=20, ge=1, le=1000)
    max_calls: int = Field(default=100, ge=1, le=10_000)
    max_parallel_calls: int = Field(default=8, ge=1, le=256)
    max_seconds: Seconds = 600.0
    max_tokens: int = Field(default=200_000, ge=1)
    max_result_bytes: int = Field(default=1024 * 1024, ge=256)
