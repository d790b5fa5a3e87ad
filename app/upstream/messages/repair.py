"""Change a body of the Messages API that its server has refused: without opaque reasoning, with the thinking that its
model knows, with the user's message at the end, with system messages and media where they are taken."""

import re
from collections.abc import Callable
from typing import Any

from app.upstream import refused_images, refused_results
from app.upstream.api import Repair
from app.upstream.messages.own_entries import limit_mark
from app.upstream.messages.thinking import share_budget

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


def _think_within_budget(body: dict[str, Any]) -> dict[str, Any] | None:
    """Return the body with a budget instead of adaptive thinking, for older models; without thinking where a budget has
    no room, or where the turn with the last calls has no thought, which such a model demands."""
    thinking = body.get("thinking")
    if not isinstance(thinking, dict) or thinking.get("type") != "adaptive":
        return None
    given, most, messages = body.get("output_config"), body.get("max_tokens"), body["messages"]
    if not isinstance(most, int) or (
        _ends_with_result(messages) and not any(map(_begins_with_thought, messages[-2:-1]))
    ):
        return _without("thinking", body)
    budget = share_budget(given.get("effort") if isinstance(given, dict) else None, most)
    if budget >= most:
        return _without("thinking", body)
    rest = {name: value for name, value in thinking.items() if name not in ("type", "display")}
    return {**body, "thinking": {"type": "enabled", "budget_tokens": budget, **rest}}


def _begins_with_thought(message: dict[str, Any]) -> bool:
    blocks = _list_blocks(message)
    return bool(blocks) and isinstance(blocks[0], dict) and blocks[0].get("type") in _OPAQUE


def _let_model_decide(body: dict[str, Any]) -> dict[str, Any] | None:
    thinking = body.get("thinking")
    if not isinstance(thinking, dict) or thinking.get("type") != "enabled":
        return None
    rest = {name: value for name, value in thinking.items() if name not in ("type", "budget_tokens")}
    return {**body, "thinking": {"type": "adaptive", **rest}}


def _leave_out_thinking(body: dict[str, Any]) -> dict[str, Any] | None:
    return _without("thinking", body) if "thinking" in body else None


def _leave_out_effort(body: dict[str, Any]) -> dict[str, Any] | None:
    given = body.get("output_config")
    if not isinstance(given, dict) or "effort" not in given:
        return None
    left = _without("effort", given)
    return {**body, "output_config": left} if left else _without("output_config", body)


def _fill_thoughts(body: dict[str, Any]) -> dict[str, Any] | None:
    """Return the body in which each message of the assistant begins with reasoning; None if all do."""
    messages = [
        {**message, "content": [dict(_BLANK_THOUGHT), *_list_blocks(message)]}
        if message.get("role") == "assistant" and not _begins_with_thought(message)
        else message
        for message in body["messages"]
    ]
    return None if messages == body["messages"] else {**body, "messages": messages}


def _forget_last(body: dict[str, Any]) -> dict[str, Any] | None:
    """Return the body with no reasoning in its last message; None if there is none, or nothing else."""
    last = body["messages"][-1]
    kept = [block for block in _list_blocks(last) if not isinstance(block, dict) or block.get("type") not in _OPAQUE]
    if not kept or kept == _list_blocks(last):
        return None
    return {**body, "messages": [*body["messages"][:-1], {**last, "content": kept}]}


def _without(name: str, holder: dict[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in holder.items() if field != name}


_BLANK_THOUGHT = {"type": "thinking", "thinking": " ", "signature": ""}
"""Servers take an empty text as missing."""
THINKING_REPAIRS = {
    "budget": Repair(
        re.compile(
            r"adaptive thinking is not supported|(?:thinking\.type\.|['\"`])adaptive\W{0,4} (?:is )?not supported|"
            r"tag .?adaptive",
            re.I,
        ),
        _think_within_budget,
        "this model has no adaptive thinking: the request was sent with a budget. Set `thinking_switch = "
        '"budget"` in the model\'s profile',
    ),
    "adaptive": Repair(
        re.compile(r"thinking\.type\.enabled\W{0,4} (?:is )?not supported|use .{0,20}?thinking\.type\.adaptive", re.I),
        _let_model_decide,
        'this model takes no budget of thinking: it decides itself. Set `thinking_switch = "adaptive"` in the model\'s '
        "profile",
    ),
    "effort": Repair(
        re.compile(
            r"not support the effort parameter|"
            r"output_config(?:\.effort)?\b[^\n]{0,60}?(?:extra inputs|not (?:permitted|supported|allowed)|unknown)",
            re.I,
        ),
        _leave_out_effort,
        "this model takes no effort: the request was sent without it. Set efforts = [] in the model's profile",
    ),
    # DeepSeek: OEvortex/aether#31, esengine/DeepSeek-Reasonix#8902
    "blank_thoughts": Repair(
        re.compile(r"content\[\]\.thinking\b[^\n]{0,60}?must be (?:passed|sent|included)|missing thinking block", re.I),
        _fill_thoughts,
        "the model server demands the reasoning of earlier turns: those without any were sent with a blank one",
    ),
    "no_thinking": Repair(
        re.compile(
            r"thinking\.type\.disabled\W{0,4} (?:is )?not supported|does not support thinking|\bthinking: extra inputs",
            re.I,
        ),
        _leave_out_thinking,
        'the model server refused `thinking`: the request was sent without it. Set `thinking_switch = "none"` in the '
        "model's profile",
    ),
    # tailcallhq/forgecode#1195
    "last_thought": Repair(
        re.compile(r"in the final position cannot contain .?thinking", re.I),
        _forget_last,
        "the model server takes no reasoning in the last message: it was left out",
        lasts=False,
    ),
    "thought_missing": Repair(
        re.compile(r"must start with a thinking block", re.I),
        _leave_out_thinking,
        "the turn with the last tool calls has no signed reasoning, which the model server wants back: thinking was "
        "left out of this request",
        lasts=False,
    ),
}
"""Of Claude, Haiku 4.5 and older models know budgets alone (diegosouzapw/OmniRoute#4713), and 4.7 and later ones none
(lis186/ccxray#450)."""


def _limit_marks(body: dict[str, Any]) -> dict[str, Any] | None:
    """Return the body whose cache marks have only what every server knows of them; None if all are so."""
    lost: set[str] = set()

    def limit(value: Any) -> Any:
        if isinstance(value, list):
            return [limit(one) for one in value]
        limited = limit_mark(value, lost)
        if isinstance(limited, dict) and isinstance(limited.get("content"), list):
            return {**limited, "content": limit(limited["content"])}
        return limited

    changed = limit({name: limit(value) if name in _MARKED else value for name, value in body.items()})
    return changed if lost else None


def _lift_marks(body: dict[str, Any]) -> dict[str, Any] | None:
    """Return the body in which the parts of results have no cache marks, but the results themselves."""
    messages = [
        {**message, "content": [_lift_mark(block) for block in message["content"]]}
        if isinstance(message.get("content"), list)
        else message
        for message in body["messages"]
    ]
    return None if messages == body["messages"] else {**body, "messages": messages}


def _lift_mark(block: Any) -> Any:
    parts = block.get("content") if isinstance(block, dict) and block.get("type") == "tool_result" else None
    if not isinstance(parts, list):
        return block
    marks = [part[_MARK] for part in parts if isinstance(part, dict) and _MARK in part]
    if not marks:
        return block
    unmarked = [_without(_MARK, part) if isinstance(part, dict) else part for part in parts]
    return {_MARK: marks[-1], **block, "content": unmarked}


_MARK = "cache_control"
_MARKED = ("tools", "system", "messages")
MARK_REPAIRS = {
    # caozhiyuan/copilot-api#241
    "result_marks": Repair(
        re.compile(r"cache_control may not be specified within", re.I),
        _lift_marks,
        "the model server takes cache_control of whole results alone: that of their parts was moved to them",
    ),
    "cache_marks": Repair(
        re.compile(r"cache_control\b[^\n]{0,40}?\b(?:scope|ttl)\b", re.I),
        _limit_marks,
        "the model server refused fields of cache_control: they were left out",
    ),
}
"""KarpelesLab/teamclaude#297."""


def _write_blocks(body: dict[str, Any]) -> dict[str, Any] | None:
    messages = [
        {**message, "content": _list_blocks(message)} if isinstance(message.get("content"), str) else message
        for message in body["messages"]
    ]
    return None if messages == body["messages"] else {**body, "messages": messages}


def _keep_visible_stops(body: dict[str, Any]) -> dict[str, Any] | None:
    given = body.get("stop_sequences")
    if not isinstance(given, list):
        return None
    kept = [stop for stop in given if not isinstance(stop, str) or stop.strip()]
    if kept == given:
        return None
    return {**body, "stop_sequences": kept} if kept else _without("stop_sequences", body)


BLOCK_REPAIRS = {
    # BerriAI/litellm#3286
    "stops": Repair(
        re.compile(r"stop.sequences?\b[^\n]{0,60}?non-(?:whitespace|empty)", re.I),
        _keep_visible_stops,
        "the model server takes no white space alone as a stop sequence: it was left out",
    ),
    # anomalyco/opencode#42091
    "blocks": Repair(
        re.compile(r"empty input messages|content'?: input should be a valid (?:list|array)", re.I),
        _write_blocks,
        "the model server takes no texts as content: they were sent as blocks",
    ),
}


def _move_media(body: dict[str, Any]) -> dict[str, Any] | None:
    """Return the body in which results have texts alone, and their media stand behind them; None if none has media."""
    messages = [_move_media_of(message) for message in body["messages"]]
    return None if messages == body["messages"] else {**body, "messages": messages}


def _move_media_of(message: dict[str, Any]) -> dict[str, Any]:
    results: list[Any] = []
    behind: list[Any] = []
    others: list[Any] = []
    for block in _list_blocks(message):
        if not isinstance(block, dict) or block.get("type") != "tool_result":
            others.append(block)
            continue
        content = block.get("content")
        if isinstance(content, list) and refused_results.has_media(content, _MEDIA):
            block = {**block, "content": refused_results.take_media(content, _MEDIA, "text", behind)}
        results.append(block)
    return {**message, "content": [*results, *behind, *others]} if behind else message


_MEDIA = {"image": "image", "document": "file"}


def _describe_images(body: dict[str, Any]) -> dict[str, Any] | None:
    messages = refused_images.describe_images(body["messages"], "image")
    return None if messages == body["messages"] else {**body, "messages": messages}


MEDIA_REPAIRS = {
    "media_of_results": Repair(refused_results.REFUSED, _move_media, refused_results.WARNING),
    "images": Repair(refused_images.UNKNOWN, _describe_images, refused_images.UNKNOWN_WARNING),
    "large_images": Repair(refused_images.TOO_LARGE, _describe_images, refused_images.TOO_LARGE_WARNING, lasts=False),
}
