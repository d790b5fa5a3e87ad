"""Turn settings into servers of tools, and into the tools that models offer with every request."""

import os
from collections.abc import Mapping

from app.access import ModelGlobs
from app.chat.tool_asks import ALL_TOOLS, ServerAsk, ToolFilter
from app.config.child_environment import make_child_environment
from app.config.settings import Settings
from app.config.tables.tools import McpServer
from app.tools import ConfiguredServer, HostedTool, ServerSpec

_MESSAGE_FACTOR = 8
"""How much longer than the text of a result a whole message of a server may be, beside its media: JSON escapes."""


def list_tool_servers(settings: Settings, environ: Mapping[str, str] | None = None) -> list[ConfiguredServer]:
    """Return the servers that are enabled. A named variable that is not set is not handed on."""
    environ = os.environ if environ is None else environ
    return [_make_server(name, row, settings, environ) for name, row in settings.mcp_servers.items() if row.enabled]


def list_model_tools(settings: Settings) -> dict[str, tuple[ServerAsk, ...]]:
    """Return the tools of the models that offer some."""
    found: dict[str, tuple[ServerAsk, ...]] = {}
    for name, row in settings.models.items():
        asks = tuple(
            ServerAsk(tools.mcp, ALL_TOOLS if tools.tools is None else ToolFilter(names=tools.tools))
            for tools in row.tools
        )
        if asks:
            found[name] = asks
    return found


def list_hosted_tools(settings: Settings) -> list[HostedTool]:
    """Return the searches and fetches that the gateway runs."""
    search, fetch = settings.hosted_tools.web_search, settings.hosted_tools.web_fetch
    found: list[HostedTool] = []
    if search is not None:
        names = (search.query, search.count, search.allowed_domains, search.blocked_domains, search.location)
        found.append(
            HostedTool(
                *("web_search", search.mcp, search.tool, *names),
                recency_argument=search.recency,
                max_results=search.max_results,
                max_uses=search.max_uses,
                searches_offline=search.offline == "search",
                first_call=search.first_call == "agents",
                models=ModelGlobs(search.models),
                per_call=search.price.per_1000 / 1000,
            )
        )
    if fetch is not None:
        found.append(
            HostedTool(
                *("web_fetch", fetch.mcp, fetch.tool, fetch.url),
                max_uses=fetch.max_uses,
                max_content_tokens=fetch.max_content_tokens,
                known_urls=fetch.known_urls,
                models=ModelGlobs(fetch.models),
                per_call=fetch.price.per_1000 / 1000,
            )
        )
    return found


def _make_server(name: str, row: McpServer, settings: Settings, environ: Mapping[str, str]) -> ConfiguredServer:
    media = settings.fetch.max_bytes
    given = {variable: value.get_secret_value() for variable, value in row.env.items()}
    handed = {variable: environ[variable] for variable in row.env_vars if variable in environ}
    headers = _make_headers(row, environ)
    spec = ServerSpec(
        name,
        row.startup_timeout_sec,
        row.max_result_bytes * _MESSAGE_FACTOR + media * 4 // 3,  # media are base64
        settings.server.max_functions,
        row.command,
        row.args,
        {**make_child_environment(environ, handed), **given},
        row.cwd,
        row.url,
        headers,
    )
    return ConfiguredServer(
        spec,
        row.tool_timeout_sec,
        row.max_result_bytes,
        media,
        row.max_concurrent_calls,
        row.required,
        row.enabled_tools,
        row.disabled_tools,
        row.approval if isinstance(row.approval, tuple) else row.approval == "always",
        ModelGlobs(row.keys),
        ModelGlobs(row.models),
        row.session == "shared",
        (*given.values(), *handed.values(), *headers.values()),
    )


def _make_headers(row: McpServer, environ: Mapping[str, str]) -> dict[str, str]:
    headers = {name: value.get_secret_value() for name, value in row.http_headers.items()}
    headers |= {
        name: environ[variable].strip() for name, variable in row.env_http_headers.items() if variable in environ
    }
    if row.bearer_token_env_var is not None and row.bearer_token_env_var in environ:
        headers["Authorization"] = f"Bearer {environ[row.bearer_token_env_var].strip()}"
    return headers
