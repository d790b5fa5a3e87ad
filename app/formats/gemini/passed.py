"""A client's own body of the Gemini API that the gateway cannot read, for servers of the same API.

No server can read a seal of the gateway: in its place stands the signature of Google's that the seal holds, if any.
"""

from collections.abc import Iterator
from typing import Any

from app.chat.messages import ChatRequest, PassedBody, RequestPaths
from app.errors import ParleyError
from app.formats.gemini.signatures import Signature, find_own_signature
from app.formats.gemini.spelling import canonicalize
from app.formats.request_limits import RequestLimits, find_invalid_values, find_long_lists
from app.formats.seal import Seal

API = "gemini"
_SIGNATURE = "thoughtSignature"


def make_passed_request(
    given: dict[str, Any], refusal: ParleyError, limits: RequestLimits, model: str, stream: bool, paths: RequestPaths
) -> ChatRequest | None:
    """Return a request that the gateway cannot read, for servers that may know what it does not; None if no server
    could be sent it."""
    body = canonicalize(given)
    contents, config = body.get("contents"), body.get("generationConfig", {})
    if not isinstance(contents, list) or not contents or not isinstance(config, dict):
        return None
    if not all(isinstance(content, dict) for content in contents):
        return None
    most = config.get("maxOutputTokens")
    if most is not None and (type(most) is not int or not 1 <= most < 2**63):
        return None
    lists = {"contents": contents, "tools": list(_list_functions(body.get("tools")))}
    if find_long_lists(lists, limits, "contents") or list(find_invalid_values(given, "", limits.max_nesting)):
        return None
    passed = {name: value for name, value in body.items() if name != "model"}
    return ChatRequest(
        model,
        (),
        params={} if most is None else {"max_tokens": most},
        stream=stream,
        paths=paths,
        passed=PassedBody(API, passed | {"contents": [_open_seals(content) for content in contents]}),
        refusal=refusal,
    )


def _list_functions(tools: Any) -> Iterator[Any]:
    for tool in tools if isinstance(tools, list) else ():
        functions = tool.get("functionDeclarations") if isinstance(tool, dict) else None
        yield from functions if isinstance(functions, list) else (tool,)


def _open_seals(content: dict[str, Any]) -> dict[str, Any]:
    parts = content.get("parts")
    if not isinstance(parts, list):
        return content
    return {**content, "parts": [_open_seal(part) for part in parts]}


def _open_seal(part: Any) -> Any:
    signature = part.get(_SIGNATURE) if isinstance(part, dict) else None
    seal = Signature(signature).seal if isinstance(signature, str) else None
    if seal is None:
        return part
    own = next(filter(None, map(find_own_signature, _list_fields(seal))), None)
    rest = {name: value for name, value in part.items() if name != _SIGNATURE}
    return rest if own is None else {**rest, _SIGNATURE: own}


def _list_fields(seal: Seal) -> list[Any]:
    return [*seal.calls.values(), *seal.texts]
