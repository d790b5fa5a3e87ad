"""Build a body of the Responses API from that of a client of the same API, so that nothing of it is lost.

Only the model is replaced, and what the gateway itself reads is taken out. Nothing is stored at the server. Fields,
items and tools that the gateway does not know are sent as they are.
"""

import hashlib
from typing import Any

import msgspec

from app.chat.messages import ChatRequest
from app.params import GenerateCfg, find_max_tokens
from app.profiles import Profile

Json = dict[str, Any]
_OWN = ("temperature", "top_p", "tool_choice", "parallel_tool_calls", "max_output_tokens", "top_k", "min_p", "seed")
_EXTENSIONS = frozenset(GenerateCfg.model_fields).difference(_OWN) | {"cache"}
"""Fields of a body that are the gateway's own: parameters that the API does not have, and the use of the cache."""


def build_passed(request: ChatRequest, model: str, profile: Profile) -> tuple[Json, list[str]]:
    """Return the body, and a warning for each option that is not sent. `request.passed` must be set."""
    assert request.passed is not None
    given, params = request.passed.body, request.params
    body: Json = {name: value for name, value in given.items() if name not in _EXTENSIONS}
    body["model"], body["store"] = model, False
    if isinstance(body.get("input"), list):
        body["input"] = [item for one in body["input"] if (item := _complete_thought(one, profile)) is not None]
    for name in ("temperature", "top_p"):
        if name not in body and params.get(name) is not None and name not in profile.lacks:
            body[name] = params[name]
    if "max_output_tokens" not in body and (most := find_max_tokens({}, params)) is not None:
        body["max_output_tokens"] = most
    effort = "none" if params.get("enable_thinking") is False else params.get("reasoning_effort")
    reasoning = body.get("reasoning")
    if effort is not None and (reasoning is None or (isinstance(reasoning, dict) and "effort" not in reasoning)):
        body["reasoning"] = {"effort": effort, **(reasoning or {})}
    ignored = sorted(_EXTENSIONS.intersection(given) - {"cache", "stop", "enable_thinking", "reasoning_effort"})
    return body, [f"{name} was not sent: this model's server has no such parameter" for name in ignored]


def _complete_thought(item: Any, profile: Profile) -> Any:
    """Give the text of reasoning that was sealed an id; None for a server that takes back only what it has
    encrypted."""
    if not isinstance(item, dict) or item.get("type") != "reasoning" or "id" in item:
        return item
    if "encrypted_content" not in item and profile.replay_reasoning != "item_text":
        return None
    return {"id": "rs_" + hashlib.sha256(msgspec.json.encode(item)).hexdigest()[:32], **item}
