"""Choose the model of a request for a virtual model: once a session, as long as the conversation fits it."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

from msgspec import Struct

from app.access import Caller
from app.api.asgi import Scope, call_in_thread
from app.api.context import AppContext
from app.api.kept_routes import KeptRoutes, make_session_key
from app.formats.body import ParsedRequest
from app.formats.sessions import find_session
from app.gateway import Gateway
from app.routing import ModelRoute
from app.routing.rules import RequestFacts, RouteRules, choose_fitting_model, choose_model, fits

_T = TypeVar("_T")
_AGENT_HEADER = b"x-claude-code-agent-id"
"""Claude Code names each of its subagents in it (seen with 2.1.332)."""
_ENDPOINTS = {"completions": "chat_completions", "responses": "responses", "messages": "messages"}


class ChosenRoute(Struct, frozen=True):
    route: ModelRoute
    """That of the model which was chosen."""
    label: str
    """`MODEL/N` with the virtual model and the number of the rule, `MODEL/default` or `MODEL/kept`."""
    new_session: str | None
    """The key of the session that is to keep the model; None if there is none, or it has it already."""
    keep_seconds: float

    async def keep(self, routes: KeptRoutes) -> None:
        """Keep the model for the session, if it is new. For a request that is refused nothing is kept."""
        if self.new_session is not None:
            await routes.keep(self.new_session, self.route.model, self.keep_seconds)


async def choose_route(
    context: AppContext,
    gateway: Gateway,
    scope: Scope,
    parsed: ParsedRequest,
    route: ModelRoute,
    *,
    endpoint: str,
    large: bool,
) -> ChosenRoute:
    """Return the route of the model that the rules of a virtual model choose, or that its session has. Raises
    ParleyError if the tokens of the request cannot be counted."""
    rules = route.rules
    assert rules is not None
    facts = _make_facts(gateway, scope, parsed, route, endpoint)
    key = _find_key(context, scope, parsed, route.model, facts.model)
    kept = None if key is None else await context.kept_routes.find(key, rules.keep_seconds)
    if kept not in rules.targets:
        kept = None  # it is not in the configuration any more
    model, label = await _call(large, _choose, rules, facts, kept)
    new_session = None if model == kept else key
    return ChosenRoute(gateway.route(model), f"{route.model}/{label}", new_session, rules.keep_seconds)


def _choose(rules: RouteRules, facts: RequestFacts, kept: str | None) -> tuple[str, str]:
    """Return the model and why. A session that no longer fits its model moves to one that it fits, and stays where it
    is if there is none: then the error is that of its model."""
    if kept is None:
        first = choose_model(rules, facts)
        return first.model, first.label
    other = None if fits(rules, kept, facts) else choose_fitting_model(rules, facts)
    return (kept, "kept") if other is None else (other.model, other.label)


def make_route_header(label: str) -> tuple[bytes, bytes]:
    """Return the header that tells the client which model answers, and why. Names may have any characters."""
    return b"x-parley-route", quote(label, safe="/:@+,;=!$&'()*~ ").encode()


def _make_facts(
    gateway: Gateway, scope: Scope, parsed: ParsedRequest, route: ModelRoute, endpoint: str
) -> RequestFacts:
    caller: Caller = scope["state"]["caller"]
    return RequestFacts(
        parsed.request,
        parsed.settings.model or route.model,
        scope["state"]["headers"],
        caller.name,
        "" if caller.team is None else caller.team.name,
        _ENDPOINTS.get(endpoint, parsed.reply_format.name),
        partial(gateway.count_tokens, route, parsed.request),
    )


def _find_key(context: AppContext, scope: Scope, parsed: ParsedRequest, virtual: str, named: str) -> str | None:
    """Return the key of the request's session; None if it names none."""
    headers, settings = scope["state"]["headers"], parsed.settings
    extra = parsed.request.params.get("extra_body") or {}
    session = find_session(headers, extra, settings.metadata, settings.session)
    if not session:
        return None
    return make_session_key(context.caller_id(scope), session, headers.get(_AGENT_HEADER, b""), virtual, named)


async def _call(large: bool, function: Callable[..., _T], *arguments: Any) -> _T:
    """Call a function, in another thread if the request is large."""
    return await call_in_thread(function, *arguments) if large else function(*arguments)
