"""A client's own body of `POST /v1/messages`, for servers of the same API.

No server can read a seal of the gateway: in its place stands what the seal holds for a server of this API. Reasoning
without that has an empty signature, which the writer of the body sends or leaves out.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.chat.messages import ChatRequest, PassedBody, RequestPaths
from app.errors import ParleyError
from app.formats.request_limits import RequestLimits, find_invalid_values, find_long_lists
from app.formats.request_memory import map_entries
from app.formats.seal import read_seal

API = "messages"
_FORMAT = "anthropic-claude-v1"
_SEALED = {"thinking": "signature", "redacted_thinking": "data"}


def make_passed_body(body: Mapping[str, Any]) -> PassedBody:
    return PassedBody(API, {**body, "messages": map_entries(body["messages"], _open_all)})


def make_passed_request(
    body: Mapping[str, Any],
    refusal: ParleyError,
    limits: RequestLimits,
    paths: RequestPaths,
    *,
    needs_max_tokens: bool = True,
) -> ChatRequest | None:
    """Return a request whose messages the gateway cannot read, for servers that may know what it does not; None if no
    server could be sent it."""
    model, messages, most = body.get("model"), body.get("messages"), body.get("max_tokens")
    if not isinstance(model, str) or not model or not isinstance(messages, list) or not messages:
        return None
    if any(not isinstance(message, dict) or "content" not in message for message in messages):
        return None
    if (most is not None or needs_max_tokens) and (type(most) is not int or not 1 <= most < 2**63):
        return None
    if type(body.get("stream", False)) is not bool:
        return None
    lists = {"messages": messages, "tools": body.get("tools")}
    if list(find_long_lists(lists, limits)) or list(find_invalid_values(dict(body), "", limits.max_nesting)):
        return None
    return ChatRequest(
        model,
        (),
        params={} if most is None else {"max_tokens": most},
        stream=body.get("stream") is True,
        paths=paths,
        passed=make_passed_body(body),
        refusal=refusal,
    )


def _open_all(messages: Sequence[Any]) -> list[Any]:
    return list(map(_open_seals, messages))


def _open_seals(message: Any) -> Any:
    if not isinstance(message, dict) or not isinstance(message.get("content"), list):
        return message
    if message.get("role") != "assistant":
        return message
    return {**message, "content": [opened for block in message["content"] for opened in _open_block(block)]}


def _open_block(block: Any) -> Iterator[Any]:
    """Yield what a block holds for a server of this API; a block without a seal as it is."""
    name = _SEALED.get(str(block.get("type"))) if isinstance(block, dict) else None
    sealed = block.get(name) if name is not None else None
    seal = read_seal(sealed) if isinstance(sealed, str) else None
    if seal is None:
        yield block
        return
    text = block.get("thinking") or seal.text or ""
    has_thought = False
    for item in seal.details:
        opened = _open_item(item, text) if isinstance(item, dict) and item.get("format") == _FORMAT else None
        if opened is not None:
            has_thought = has_thought or opened.get("type") == "thinking"
            yield opened
    if text and not has_thought:
        yield {"type": "thinking", "thinking": text, "signature": ""}


def _open_item(item: Mapping[str, Any], text: str) -> Mapping[str, Any] | None:
    match item.get("type"):
        case "reasoning.text":
            own = item.get("text")
            thought = own if isinstance(own, str) else text
            return {"type": "thinking", "thinking": thought, "signature": item.get("signature")}
        case "reasoning.encrypted":
            return {"type": "redacted_thinking", "data": item.get("data")}
        case "provider.item" if isinstance(item.get("item"), dict):
            found: Mapping[str, Any] = item["item"]
            return found
        case _:
            return None
