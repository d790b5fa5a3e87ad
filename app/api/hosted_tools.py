"""Which searches and fetches of a request the gateway runs: those that are configured, and that its caller may use.

A server that runs them itself is left to it. What is not run is refused or left out, as the API of the request has it.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from app.chat.hosted_tools import HostedAsk, HostedAsks, HostedKind
from app.chat.messages import ChatRequest, Message
from app.chat.server_tools import ToolServers, ToolSession
from app.chat.tool_asks import ServerTools
from app.errors import Forbidden, InvalidInput, Violation
from app.formats.agent_models import is_claude_code
from app.formats.body import ParsedRequest
from app.gateway import Gateway
from app.routing import ModelRoute

if TYPE_CHECKING:
    from app.tools import McpServers
    from app.tools.servers import McpSession

_OFFLINE = (
    "external_web_access of the request is false, so that {path} was not offered to the model: it reads live pages. "
    'Switch live pages on in the client, or set hosted_tools.web_search.offline = "search" in parley.toml'
)


class _Served(Struct, frozen=True):
    asks: tuple[HostedAsk, ...]
    warnings: tuple[str, ...] = ()


def serve_hosted(
    parsed: ParsedRequest,
    servers: "McpServers | None",
    key: str,
    route: ModelRoute,
    headers: Mapping[bytes, bytes],
) -> ParsedRequest:
    """Return a request with those searches and fetches that the gateway runs. Raises Forbidden and InvalidInput."""
    parsed = _name_hosted(parsed, servers, route.model)
    tools = parsed.request.server_tools
    if tools is None or tools.hosted is None:
        return parsed
    hosted = tools.hosted
    if servers is None or _runs_itself(parsed.request, route):
        return _leave_out(parsed, tools)
    known = [ask for ask in hosted.asks if servers.find_hosted(ask.kind, route.model) is not None]
    if not any(servers.find_hosted(kind, route.model) for kind in hosted.kinds):
        return _leave_out(parsed, tools)
    if hosted.violations:
        raise InvalidInput([*hosted.violations])
    served = _choose(servers, hosted, known, key, route.model)
    _check_choice(hosted, served.asks)
    if not served.asks:
        return _leave_out(parsed, tools, served.warnings)
    return _offer(parsed, tools, served, servers, route, headers)


def add_hosted(
    servers: ToolServers, session: ToolSession, request: ChatRequest, model: str, gateway: Gateway
) -> ToolSession:
    """Return the session of a reply with the searches and fetches that `serve_hosted` has left in its request."""
    tools = request.server_tools
    assert tools is not None and tools.hosted is not None
    configured = cast("McpServers", servers)
    found = [(configured.find_hosted(ask.kind, model), ask) for ask in tools.hosted.asks]
    asks = [(tool, ask) for tool, ask in found if tool is not None]
    return configured.add_hosted(cast("McpSession", session), asks, request.messages, gateway.check_addresses)


def list_prices(servers: ToolServers, asks: Sequence[HostedAsk], model: str) -> dict[HostedKind, float]:
    """Return what one call of each kind costs, if it has a price."""
    configured = cast("McpServers", servers)
    found = {ask.kind: configured.find_hosted(ask.kind, model) for ask in asks}
    return {kind: tool.per_call for kind, tool in found.items() if tool is not None and tool.per_call}


def _name_hosted(parsed: ParsedRequest, servers: "McpServers | None", model: str) -> ParsedRequest:
    """Return the request with a search instead of a server of tools that has the search's name, if there is none."""
    tools = parsed.request.server_tools
    if tools is None or servers is None or tools.hosted is not None:
        return parsed
    kinds: tuple[HostedKind, ...] = ("web_search", "web_fetch")
    named: dict[str, HostedAsk] = {
        ask.server: HostedAsk(kind, kind, ask.path)
        for ask in tools.asks
        for kind in kinds
        if ask.server == kind and kind not in servers.names() and servers.find_hosted(kind, model) is not None
    }
    if not named:
        return parsed
    asks = tuple(ask for ask in tools.asks if ask.server not in named)
    made = replace(
        tools, asks=asks, hosted=HostedAsks(tuple(ask.kind for ask in named.values()), tuple(named.values()))
    )
    return replace(parsed, request=replace(parsed.request, server_tools=made))


def _runs_itself(request: ChatRequest, route: ModelRoute) -> bool:
    """Whether each server of the model that is sent the client's own body runs the API's tools itself."""
    tools, params = request.server_tools, request.params
    if tools is not None and (tools.asks or tools.approvals):
        return False  # the gateway runs other tools of this request
    if "web_search_options" in (params.get("extra_body") or {}):
        return all(one.profile.web_search_options for one in route.deployments)
    speaking = [one for one in route.deployments if one.takes_source(request.source)]
    return bool(speaking) and all(one.profile.takes == "all" for one in speaking)


def _leave_out(parsed: ParsedRequest, tools: ServerTools, warnings: tuple[str, ...] = ()) -> ParsedRequest:
    left = replace(tools, hosted=None)
    kept = left if left.asks or left.approvals or left.max_calls is not None else None
    request = replace(parsed.request, server_tools=kept)
    if not warnings or tools.hosted is None:
        return replace(parsed, request=request)
    others = [one for one in parsed.warnings if one not in tools.hosted.warnings]
    return replace(parsed, request=request, warnings=(*others, *warnings))


def _choose(servers: "McpServers", hosted: HostedAsks, known: Sequence[HostedAsk], key: str, model: str) -> _Served:
    """Return those that the caller may use. Raises Forbidden."""
    asks: list[HostedAsk] = []
    warnings: list[str] = []
    for ask in known:
        tool = servers.find_hosted(ask.kind, model)
        assert tool is not None
        refusal = servers.explain_refusal(tool, key, model)
        search = servers.find_hosted("web_search", model)
        if refusal is not None and ask.required:
            raise Forbidden(refusal, ask.path)
        if refusal is not None:
            warnings.append(f"{ask.path}: {ask.name} was not offered to the model, because {refusal}")
        elif ask.offline and not (search is not None and search.searches_offline):
            warnings.append(_OFFLINE.format(path=ask.path))
        else:
            asks.append(ask)
    unknown = [ask for ask in hosted.asks if ask not in known and ask.required]
    warnings += (
        f"{ask.path} was not offered: {ask.kind} is not configured at this gateway (hosted_tools.{ask.kind})"
        for ask in unknown
    )
    return _Served(tuple(asks), tuple(dict.fromkeys(warnings)))


def _check_choice(hosted: HostedAsks, served: Sequence[HostedAsk]) -> None:
    """Raise InvalidInput for a choice that names one which is not run."""
    choice = hosted.choice
    name = choice.get("function", {}).get("name") if isinstance(choice, dict) else None
    if name in [ask.name for ask in hosted.asks if ask not in served] and name is not None:
        raise InvalidInput([Violation("tool_choice", f"names {name!r}, which this gateway does not run here")])


def _offer(
    parsed: ParsedRequest,
    tools: ServerTools,
    served: _Served,
    servers: "McpServers",
    route: ModelRoute,
    headers: Mapping[bytes, bytes],
) -> ParsedRequest:
    hosted, request = tools.hosted, parsed.request
    assert hosted is not None
    source = request.source
    if source is not None:
        source = replace(source, violations=tuple(one for one in source.violations if one not in hosted.unserved))
    params = dict(request.params)
    _drop_search_options(params)
    choice = hosted.choice
    if choice is None and _begins_with_search(request, served.asks, servers, route.model, headers):
        choice = "required"
    if choice is not None:
        params = {name: value for name, value in params.items() if name != "function_choice"} | {"tool_choice": choice}
    kept = replace(tools, hosted=replace(hosted, asks=served.asks))
    warnings = [one for one in parsed.warnings if one not in hosted.warnings]
    return replace(
        parsed,
        request=replace(request, server_tools=kept, source=source, params=params),
        warnings=(*warnings, *hosted.losses, *served.warnings),
    )


def _drop_search_options(params: dict[str, Any]) -> None:
    extra = params.get("extra_body")
    if isinstance(extra, dict) and "web_search_options" in extra:
        rest = {name: value for name, value in extra.items() if name != "web_search_options"}
        params["extra_body"] = rest
        if not rest:
            del params["extra_body"]


def _begins_with_search(
    request: ChatRequest,
    asks: Sequence[HostedAsk],
    servers: "McpServers",
    model: str,
    headers: Mapping[bytes, bytes],
) -> bool:
    """Whether an agent's request is for nothing but a search: its tool would show that nothing was searched."""
    search = servers.find_hosted("web_search", model)
    if search is None or not search.first_call or request.tools or [ask.kind for ask in asks] != ["web_search"]:
        return False
    return is_claude_code(headers.get(b"user-agent")) and _is_one_question(request.messages)


def _is_one_question(messages: Sequence[Message]) -> bool:
    return [message.role for message in messages if message.role != "system"] == ["user"]
