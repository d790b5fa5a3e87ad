"""Which guards a request has, and how a request without any is admitted."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from app.access import Caller
from app.api.asgi import Scope
from app.api.context import AppContext
from app.chat.admitted import Admitted
from app.chat.known_conversation import is_same
from app.chat.messages import ChatRequest, Text
from app.endpoints.body import EndpointBody
from app.formats.body import ParsedRequest
from app.formats.sessions import find_session, hash_session
from app.observe.trace_context import PassedTrace, RequestTrace
from app.routing import ModelRoute

if TYPE_CHECKING:
    from app.api.request_in_progress import RequestInProgress
    from app.guards.admission import RequestGuard
    from app.guards.guards import Guards

GUARDS_HEADER = b"x-parley-guards"


def begin_guarding(
    context: AppContext, request: "RequestInProgress", parsed: ParsedRequest, route: ModelRoute, reply_id: str
) -> "RequestGuard | None":
    """Return the guards of a request for a reply; None if it has none."""
    assert request.live.guards is not None
    return _begin(context, request.live.guards, request.scope, parsed, route, reply_id, request.record.trace)


def begin_passing(context: AppContext, request: "RequestInProgress", route: ModelRoute) -> "RequestGuard | None":
    """Return the guards of a request that is no conversation; None if it has none."""
    assert request.live.guards is not None
    return _begin(context, request.live.guards, request.scope, None, route, "", request.record.trace)


async def admit_body(request: "RequestInProgress", guard: "RequestGuard", body: EndpointBody) -> EndpointBody:
    """Show the fields of a request that is no conversation to its guards. Raises ParleyError."""
    values, own = {name: body.read(name) for name in body.fields if name != "model"}, body.own
    with _report_verdicts(request, guard):
        admitted = await guard.admit_fields(values)
        if own is not None:
            own = replace(own, fields=await guard.admit_own_fields(own.fields))
    changed = {name: value for name, value in admitted.items() if not is_same(value, values[name])}
    fields = {**body.fields, **{name: msgspec.Raw(msgspec.json.encode(value)) for name, value in changed.items()}}
    return replace(body, fields=fields, own=own)


def begin_counting(
    context: AppContext, scope: Scope, parsed: ParsedRequest, route: ModelRoute
) -> "RequestGuard | None":
    """Return the guards of a request whose tokens are counted; None if it has none."""
    assert context.live.guards is not None
    return _begin(context, context.live.guards, scope, parsed, route, "")


def _begin(
    context: AppContext,
    guards: "Guards",
    scope: Scope,
    parsed: ParsedRequest | None,
    route: ModelRoute,
    reply_id: str,
    trace: PassedTrace | RequestTrace | None = None,
) -> "RequestGuard | None":
    caller: Caller = scope["state"]["caller"]
    chosen = guards.select((route.model, *route.list_fallbacks()), caller.name)
    if chosen is None:
        return None
    from app.guards.admission import RequestGuard
    from app.guards.verdicts import RequestFacts

    headers = scope["state"]["headers"]
    session = b"" if parsed is None else _find_session(headers, parsed)
    hashed = hash_session(context.caller_id(scope), session).hex() if session else ""
    masking_scope = {"caller": context.cache_scope(scope), "shared": ""}.get(chosen.masking.scope)
    if masking_scope is None:
        first = "" if parsed is None else _hash_first_text(parsed.request)
        masking_scope = f"{context.cache_scope(scope)} {hashed or first}"
    names = {name for rule in chosen.rules for name in rule.forward_headers}
    facts = RequestFacts(
        scope["state"]["request_id"],
        reply_id,
        scope["path"],
        route.model,
        caller.name,
        "" if caller.team is None else caller.team.name,
        caller.user or "",
        hashed,
        masking_scope,
        {name: headers[name.encode()].decode("latin-1") for name in names if name.encode() in headers},
        trace,
    )
    return RequestGuard(guards, chosen, facts)


async def admit(request: "RequestInProgress", guard: "RequestGuard", conversation: ChatRequest) -> Admitted:
    """Show a request to its guards, and tell its client what they say. Raises ParleyError."""
    with _report_verdicts(request, guard):
        return await guard.admit(conversation)


async def admit_images(request: "RequestInProgress", guard: "RequestGuard", conversation: ChatRequest) -> ChatRequest:
    """Show a request to guards that look at images, before another model describes these. Raises ParleyError."""
    with _report_verdicts(request, guard):
        return await guard.admit_images(conversation)


def _find_session(headers: Mapping[bytes, bytes], parsed: ParsedRequest) -> bytes:
    settings = parsed.settings
    extra = parsed.request.params.get("extra_body") or {}
    return find_session(headers, extra, settings.metadata, settings.session)


@contextmanager
def _report_verdicts(request: "RequestInProgress", guard: "RequestGuard") -> Iterator[None]:
    """Tell the client and the log what guards have said, also if they refuse."""
    try:
        yield
    finally:
        lines: list[tuple[bytes, bytes]] = request.scope["state"]["response_headers"]
        lines[:] = [line for line in lines if line[0] != GUARDS_HEADER]
        if guard.verdicts:
            request.record.guards = said = guard.describe()
            lines.append((GUARDS_HEADER, said.encode()))


async def admit_locally(guard: "RequestGuard", request: ChatRequest) -> Admitted | None:
    """Return a request whose tokens a server may count; None if it must not get it. No service is asked."""
    return await asyncio.to_thread(guard.admit_locally, request)


def _hash_first_text(request: ChatRequest) -> str:
    """Return what stands for a session without an id: a hash of the first text of the user."""
    messages = [message for message in request.messages if message.role == "user"]
    texts = (part.text for message in messages for part in message.parts if isinstance(part, Text))
    return hash_session("", next(texts, "").encode("utf-8", "surrogatepass")).hex()
