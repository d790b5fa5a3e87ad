"""Change a body of the Messages API that its server has refused: without opaque reasoning, with the user's message at
the end, or with system messages where they are taken."""

import re
from collections.abc import Callable
from typing import Any

from app.upstream.api import Repair

_OPAQUE = ("thinking", "redacted_thinking")


def strip_reasoning(body: dict[str, Any]) -> dict[str, Any] | None:
    """Return the body without thinking blocks; None if there are none, or if its caller wants the refusal.

    With `thinking` of type `enabled` the server demands reasoning before the calls that the last results answer, so
    that is left out, too.
    """
    thinking = body.get("thinking")
    thinking = thinking if isinstance(thinking, dict) else {}
    binding = thinking.get("block_binding")
    if isinstance(binding, dict) and binding.get("prefix_mismatch_behavior") == "error":
        return None
    messages, found = [], False
    for message in body["messages"]:
        content = message.get("content")
        if message.get("role") != "assistant" or not isinstance(content, list):
            messages.append(message)
            continue
        kept = [block for block in content if not isinstance(block, dict) or block.get("type") not in _OPAQUE]
        found = found or len(kept) < len(content)
        if kept:
            messages.append({**message, "content": kept})
    if not found:
        return None
    stripped = {**body, "messages": messages}
    if thinking.get("type") == "enabled" and _ends_with_result(messages):
        del stripped["thinking"]
    return stripped


def _ends_with_result(messages: list[dict[str, Any]]) -> bool:
    content = messages[-1].get("content") if messages else None
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") == "tool_result" for block in content
    )


def _fold_last(body: dict[str, Any]) -> dict[str, Any] | None:
    """Return the body whose last message, one of the assistant, is in the user's message before it; None if there is
    none, or if it has calls. Its reasoning is left out."""
    messages: list[dict[str, Any]] = body.get("messages") or []
    if len(messages) < 2 or [message.get("role") for message in messages[-2:]] != ["user", "assistant"]:
        return None
    given, said = _list_blocks(messages[-2]), _list_blocks(messages[-1])
    if not all(isinstance(block, dict) and block.get("type") in ("text", *_OPAQUE) for block in said):
        return None
    texts = [block for block in said if block["type"] == "text"]
    return {**body, "messages": [*messages[:-2], {**messages[-2], "content": [*given, *texts]}]}


def _list_blocks(message: dict[str, Any]) -> list[Any]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def _place_system(body: dict[str, Any]) -> dict[str, Any] | None:
    """Return the body in which a system message stands behind one of the user, and before one of the assistant or at
    the end; one that stands elsewhere is a text of the user. None if all stand so."""
    return _move_system(body, lambda last, following: last == "user" and following == "assistant")


def _move_all_system(body: dict[str, Any]) -> dict[str, Any] | None:
    return _move_system(body, lambda last, following: False)


def _move_system(body: dict[str, Any], fits: Callable[[str, str], bool]) -> dict[str, Any] | None:
    messages, found = body.get("messages") or [], False
    moved: list[dict[str, Any]] = []
    for place, message in enumerate(messages):
        role = message.get("role")
        following = messages[place + 1].get("role") if place + 1 < len(messages) else "assistant"
        if role == "system" and not fits(moved[-1]["role"] if moved else "", following):
            role, found = "user", True
        if moved and moved[-1]["role"] == role != "assistant":
            moved[-1] = {**moved[-1], "content": [*_list_blocks(moved[-1]), *_list_blocks(message)]}
        else:
            moved.append({**message, "role": role})
    return {**body, "messages": moved} if found else None


SYSTEM_REPAIRS = {
    "system_place": Repair(
        re.compile(
            r"role \W?system\W? (?:must|can only|may only)|(?:consecutive|multiple) \W?system\W? messages", re.I
        ),
        _place_system,
        "the model server takes no system message at this place: it was sent as a text of the user",
    ),
    "no_system": Repair(
        re.compile(r"unexpected role \W?system|role: Input should be \W?user|role \W?system\W? is not supported", re.I),
        _move_all_system,
        "the model server takes no system messages in the conversation: they were sent as texts of the user. Set "
        '`system = "then_user"` in the model\'s profile',
    ),
}
"""Claude takes system messages in the conversation from Opus 4.8 on, and only behind the user's (anthropics/claude-code
issue 73821, maximhq/bifrost PR 3945, kennethreitz/simplemind PR 37)."""
PREFILL_REPAIR = {
    "assistant_last": Repair(
        re.compile(r"assistant message prefill|pre-?fill(?:ing)? the .?assistant|must end with a user message", re.I),
        _fold_last,
        "the model server takes no message of the assistant at the end: it was appended to the user's message",
    )
}
"""Claude from 4.6 on, and others with thinking or a format of the reply (anomalyco/opencode issue 37685,
ericc-ch/copilot-api PR 261, agentjido/req_llm issue 642)."""
