"""Requests as callers post them, up to the key under which their reply would be kept."""

import json
from collections.abc import Callable
from typing import Any

from app.chat.admitted import mark_admitted
from app.formats.body import ParsedRequest, RejectedRequest
from app.formats.chat_body import parse_chat_body
from app.formats.openai.body import parse_completions_body
from app.formats.request_limits import RequestLimits
from app.profiles import Profile
from app.routing import Deployment, ModelRoute, PreparedRequest

from tests.bare_gateway import make_gateway
from tests.default_limits import upstream_target

Json = dict[str, Any]
Read = Callable[[bytes, RequestLimits], ParsedRequest | RejectedRequest]
LIMITS = RequestLimits(max_messages=1000, max_content_items=1000, max_functions=100, max_nesting=100)
PLAIN = Profile()


def asked_of(route: ModelRoute, body: Json, read: Read = parse_chat_body) -> PreparedRequest:
    """The request as the gateway would send it. Raises InvalidInput."""
    gateway = make_gateway(route)
    asked = read(json.dumps(body).encode(), LIMITS)
    if isinstance(asked, RejectedRequest):
        raise asked.error
    assert not gateway.find_media_requests(route, asked.request)
    return gateway.prepare(route, mark_admitted(asked.request))


def prepared(body: Json, profile: Profile = PLAIN, *, read: Read = parse_chat_body, **defaults: Any) -> PreparedRequest:
    """`defaults` are the model's."""
    target = upstream_target("local", "http://model.test/v1")
    return asked_of(ModelRoute("m", (Deployment(target, "served", profile),), defaults), body, read)


def key(
    body: Json, profile: Profile = PLAIN, *, scope: str = "shared", read: Read = parse_chat_body, **defaults: Any
) -> str:
    return prepared(body, profile, read=read, **defaults).key(scope)


def completion_key(body: Json) -> str:
    return key(body, read=parse_completions_body)


def schema(name: str) -> Json:
    return {
        "name": name,
        "description": f"about {name}",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
            "required": ["a"],
        },
    }


def rich() -> Json:
    """A request with something of everything."""
    return {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"text": "What is this?"}, {"image": "https://files.test/a.png"}]},
            {"role": "assistant", "content": "", "reasoning_content": "Let me look."},
            {
                "role": "assistant",
                "content": "",
                "function_call": {"name": "look", "arguments": '{"a": "x"}'},
                "extra": {"function_id": "call_1"},
            },
            {"role": "function", "name": "look", "content": "a cat", "extra": {"function_id": "call_1"}},
            {"role": "assistant", "content": "A cat."},
            {"role": "user", "content": "Thanks. And now?"},
        ],
        "functions": [schema("look"), schema("find")],
        "generate_cfg": {"temperature": 0.5, "extra_body": {"one": {"x": 1, "y": [1, 2]}, "two": True}},
    }


HI: Json = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
FUNCTIONS: Json = {"functions": [schema("look"), schema("find")]}


def asking(body: Json, **cfg: Any) -> Json:
    return {**body, "generate_cfg": {**body.get("generate_cfg", {}), **cfg}}
