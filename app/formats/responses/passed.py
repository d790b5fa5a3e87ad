"""A client's own body of `POST /v1/responses`, for servers of the same API.

The gateway stores responses itself, so the body contains the items of earlier responses. No server can read a seal of
the gateway: in its place stands what the seal holds for a server of this API.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.chat.messages import ChatRequest, PassedBody, RequestPaths, Text
from app.errors import ParleyError
from app.formats.base import make_summary
from app.formats.request_limits import RequestLimits, find_invalid_values, find_long_lists
from app.formats.request_memory import map_entries
from app.formats.responses.parse import FORMAT
from app.formats.responses.schema import COMPACTIONS
from app.formats.responses.special_items import find_special
from app.formats.seal import Seal, read_seal

API = "responses"
_FLAGS = ("stream", "store", "background")
_OPAQUE = ("namespace", "caller")

Json = dict[str, Any]


def make_passed_body(body: Mapping[str, Any], items: Sequence[Any], *, stream: bool) -> PassedBody:
    """Return the body. `items` are all items of the conversation, those of earlier responses first."""
    passed = {name: value for name, value in body.items() if name not in ("previous_response_id", "background")}
    if not isinstance(body.get("input"), str) or body.get("previous_response_id") is not None:
        passed["input"] = _open_seals(items)
    if stream or "stream" in body:
        passed["stream"] = stream
    return PassedBody(API, passed)


def make_passed_request(
    body: Mapping[str, Any], items: Sequence[Any], refusal: ParleyError, limits: RequestLimits, paths: RequestPaths
) -> ChatRequest | None:
    """Return a request whose items the gateway cannot read, for servers that may know what it does not; None if no
    server could be sent it."""
    model, most = body.get("model"), body.get("max_output_tokens")
    if not isinstance(model, str) or not model or not items:
        return None
    if any(not isinstance(item, dict) for item in items):
        return None
    if any(type(body.get(name)) not in (bool, type(None)) for name in _FLAGS):
        return None
    if most is not None and (type(most) is not int or not 1 <= most < 2**63):
        return None
    lists = {"input": items, "tools": body.get("tools")}
    if list(find_long_lists(lists, limits, "input")) or list(find_invalid_values(dict(body), "", limits.max_nesting)):
        return None
    stream = body.get("stream") is True or body.get("background") is True
    return ChatRequest(
        model,
        (),
        params={} if most is None else {"max_tokens": most},
        stream=stream,
        paths=paths,
        passed=make_passed_body(body, items, stream=stream),
        refusal=refusal,
    )


def _open_seals(items: Sequence[Any]) -> list[Any]:
    seals = map_entries(items, _find_seals) if find_special(items, "sealed") else ()
    if not any(seals):
        return list(items)
    opened: list[Any] = []
    fields: dict[str, Any] = {}
    for item, seal in zip(items, seals, strict=True):
        if seal is None:
            opened.append(_add_fields(item, fields))
            continue
        fields |= seal.calls
        opened += _open_item(item, seal)
    return opened


def _find_seals(items: Sequence[Any]) -> list[Seal | None]:
    return list(map(_find_seal, items))


def _find_seal(item: Any) -> Seal | None:
    if not isinstance(item, dict) or item.get("type") not in ("reasoning", *COMPACTIONS):
        return None
    sealed = item.get("encrypted_content")
    return read_seal(sealed) if isinstance(sealed, str) else None


def _open_item(item: Json, seal: Seal) -> Iterator[Json]:
    """Yield what a reasoning item of the gateway holds for a server of this API. Reasoning of which nothing is
    encrypted has no id: whether it is sent depends on the server. A summary is a message, as for any other server."""
    if item["type"] in COMPACTIONS:
        (text,) = make_summary(seal.text or "", "").parts
        assert isinstance(text, Text)
        yield {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text.text}]}
        return
    found = False
    for detail in seal.details:
        if not isinstance(detail, dict) or detail.get("format") != FORMAT:
            continue
        found = True
        if isinstance(inner := detail.get("item"), dict):
            yield inner
        elif detail.get("type") == "reasoning.encrypted":
            named = {"id": detail["id"]} if isinstance(detail.get("id"), str) else {}
            yield {"type": "reasoning", **named, "summary": [], "encrypted_content": detail.get("data")}
    if seal.text and not found:
        yield {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": seal.text}]}


def _add_fields(item: Any, fields: Mapping[str, Any]) -> Any:
    """Add to a call what its server wants back with it, from a seal before it."""
    extra = fields.get(str(item.get("call_id"))) if isinstance(item, dict) and fields else None
    own = extra.get("openai") if isinstance(extra, dict) else None
    if not isinstance(own, dict) or item.get("type") not in ("function_call", "custom_tool_call"):
        return item
    return {**{name: own[name] for name in _OPAQUE if name in own}, **item}
