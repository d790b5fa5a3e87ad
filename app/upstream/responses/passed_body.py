"""Build a body of the Responses API from that of a client of the same API, so that nothing of it is lost.

Only the model is replaced, and what the gateway itself reads is taken out. Nothing is stored at the server. Fields,
items and tools that the gateway does not know are sent as they are.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from app.chat.known_conversation import add_up
from app.chat.messages import ChatRequest
from app.openai_messages.messages import shorten_call_id
from app.params import GenerateCfg, find_max_tokens
from app.profiles import Profile
from app.upstream.api import encode_tools, list_entries
from app.upstream.responses.items import ENCRYPTED, complete_thought, strip_input_id

Json = dict[str, Any]
_NOT_SENT = (
    "reasoning of earlier turns was not sent, because the model server stores nothing and these items have no "
    f"encrypted_content: set encrypted_reasoning in the model's profile, or send include: [{ENCRYPTED!r}]"
)
_OWN = ("temperature", "top_p", "tool_choice", "parallel_tool_calls", "max_output_tokens", "top_k", "min_p", "seed")
_EXTENSIONS = frozenset(GenerateCfg.model_fields).difference(_OWN) | {"cache"}
"""Fields of a body that are the gateway's own: parameters that the API does not have, and the use of the cache."""


def build_passed(request: ChatRequest, model: str, profile: Profile) -> tuple[Json, list[str]]:
    """Return the body, and a warning for each option that is not sent. `request.passed` must be set."""
    assert request.passed is not None
    given, params = request.passed.body, request.params
    body: Json = {name: value for name, value in given.items() if name not in _EXTENSIONS}
    body["model"], body["store"] = model, False
    encode_tools(body, request.known)
    warnings: list[str] = []
    if isinstance(given_items := body.get("input"), list):
        known = request.known
        if add_up(partial(_count_unknown_thoughts, profile=profile), given_items, known, profile.replay_reasoning):
            warnings.append(_NOT_SENT)
        convert = partial(_convert, profile=profile)
        body["input"] = list_entries(given_items, convert, (profile.replay_reasoning, profile.max_call_id), known)
    if profile.encrypted_reasoning and isinstance(include := body.get("include") or [], list):
        body["include"] = include if ENCRYPTED in include else [*include, ENCRYPTED]
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
    warnings += [f"{name} was not sent: this model's server has no such parameter" for name in ignored]
    return body, warnings


def _convert(item: Any, profile: Profile) -> Any:
    """Return an item as it is sent: its `call_id` may be that of another server, which has longer ones."""
    if isinstance(item, dict):
        item = strip_input_id(item)
    call_id = item.get("call_id") if isinstance(item, dict) else None
    if isinstance(call_id, str) and (short := shorten_call_id(call_id, profile)) != call_id:
        return {**item, "call_id": short}
    return _complete_thought(item, profile)


def _complete_thought(item: Any, profile: Profile) -> Any:
    """Give the text of reasoning that was sealed what it needs; None for a server that takes back only what it has
    encrypted: it would look an item with an id up, and nothing is stored there (vercel/ai issue 7543)."""
    if not isinstance(item, dict) or item.get("type") != "reasoning":
        return item
    if not item.get("encrypted_content") and profile.replay_reasoning != "item_text":
        return None
    return complete_thought(item, profile)


def _count_unknown_thoughts(items: Sequence[Any], profile: Profile) -> int:
    return sum([_is_unknown_thought(item, profile) for item in items])


def _is_unknown_thought(item: Any, profile: Profile) -> bool:
    """Whether an item is reasoning with an id that its server would not find."""
    return isinstance(item, dict) and "id" in item and _complete_thought(item, profile) is None
