"""Builds bodies for servers of the client's own API as the gateway does, without a server."""

import json
from typing import Any

import msgspec
from app.chat.known_conversation import KnownConversation
from app.chat.messages import ChatRequest, Media, ToolResult
from app.formats.anthropic.body import parse_messages_body
from app.formats.body import ParsedRequest, StoredItems, UnresolvedRequest
from app.formats.request_limits import RequestLimits
from app.formats.request_memory import RequestMemory
from app.formats.responses.body import parse_responses_body
from app.profiles import Profile, find_profile
from app.runtime.token_counting import EstimatingCounter
from app.steps.beginning import divide
from app.steps.pipeline import prepare_request
from app.upstream.api import find_api
from msgspec.structs import replace

Json = dict[str, Any]
LIMITS = RequestLimits(max_messages=9999, max_content_items=99999, max_functions=999, max_nesting=99)
PARSERS: dict[str, Any] = {"messages": parse_messages_body, "responses": parse_responses_body}


def find_api_name(body: Json) -> str:
    return "responses" if "input" in body or "previous_response_id" in body else "messages"


def read(
    body: Json | bytes, api: str = "", memory: RequestMemory | None = None, stored: Any = None
) -> ChatRequest | None:
    """Return the request of a body as the gateway reads it; None if it cannot."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    name = api or find_api_name(json.loads(raw))
    caller = None if memory is None else memory.open("caller")
    parsed = PARSERS[name](raw, LIMITS, caller)
    if isinstance(parsed, UnresolvedRequest):
        parsed = parsed.resolve(StoredItems(dict(stored or {})))
    if not isinstance(parsed, ParsedRequest):
        return None
    if caller is not None:
        caller.remember()
    known: KnownConversation | None = None if caller is None else caller.conversation
    return replace(parsed.request, known=known)


def has_media(request: ChatRequest) -> bool:
    parts = [part for message in request.messages for part in message.parts]
    parts += [one for part in parts if isinstance(part, ToolResult) for one in part.content]
    return any(isinstance(part, Media) for part in parts)


def write(request: ChatRequest, profile: Profile) -> tuple[Any, list[str]]:
    """Return the body for a server of the request's own API, as it is sent, and the warnings. Nothing is loaded."""
    assert request.source is not None
    api = find_api(request.source.api)
    assert api.build_own is not None and api.write_own_beginning is not None
    counter = EstimatingCounter()
    rest = divide(request, profile, counter, api.write_own_beginning)
    prepared, warnings = prepare_request(rest, profile, counter, {})
    body, more = api.build_own(prepared, "up", profile)
    return json.loads(msgspec.json.encode(body)), list(dict.fromkeys([*warnings, *more]))


def send(body: Json, kind: str = "", stored: Any = None, **fields: Any) -> tuple[Any, list[str]]:
    """Return what a server of a kind is sent of a body, and the warnings. `fields` change its profile."""
    api = find_api_name(body)
    profile = find_profile(kind or ("anthropic" if api == "messages" else "openai"), api)
    request = read(body, stored=stored)
    assert request is not None
    return write(request, profile.model_copy(update=fields))
