"""Change the messages of a body that a server has refused: in the order that the chat template of its model takes, with
the reasoning that it demands, or without images that it cannot read.

A model's template is not known where the kind of its server is not, or where a server has models of several makers.
What it refuses is known from its words. Each change is what a profile with the field of that name would have sent.
"""

import re
from collections.abc import Callable
from typing import Any

from app.chat.messages import BRIDGE
from app.openai_messages.messages import make_short_id
from app.upstream import refused_images
from app.upstream.api import Repair
from app.upstream.chat_completions.request import SYSTEM_ROLES, add_user

Json = dict[str, Any]
_BLANK = " "
"""Templates and servers take an empty text as missing."""


def _join(first: Any, second: Any) -> Any:
    """Return the contents of two messages as one."""
    if not first or not second:
        return first or second
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*_list_parts(first), *_list_parts(second)]


def _list_parts(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def _merge_system(messages: list[Json]) -> list[Json]:
    systems = [message for message in messages if message.get("role") in SYSTEM_ROLES]
    if not systems:
        return messages
    content: Any = None
    for message in systems:
        content = _join(content, message.get("content"))
    return [{"role": "system", "content": content}, *(one for one in messages if one.get("role") not in SYSTEM_ROLES)]


def _move_system_to_user(messages: list[Json]) -> list[Json]:
    merged = _merge_system(messages)
    if not merged or merged[0].get("role") != "system":
        return messages
    system, *others = merged
    place = next((place for place, one in enumerate(others) if one.get("role") == "user"), None)
    if place is None:
        return [{"role": "user", "content": system["content"]}, *others]
    user = others[place]
    others[place] = {**user, "content": _join(system["content"], user.get("content"))}
    return others


def _merge_neighbours(messages: list[Json]) -> list[Json]:
    """Return the messages so that no two of the user, or of the assistant without calls, follow each other."""
    merged: list[Json] = []
    for message in _merge_system(messages):
        role, last = message.get("role"), merged[-1] if merged else {}
        plain = role in ("user", "assistant") and not message.get("tool_calls") and not last.get("tool_calls")
        if plain and last.get("role") == role:
            merged[-1] = {**last, "content": _join(last.get("content"), message.get("content"))}
        else:
            merged.append(message)
    return merged


def _put_assistant_behind_results(messages: list[Json]) -> list[Json]:
    bridged: list[Json] = []
    for message in messages:
        if message.get("role") == "user" and bridged and bridged[-1].get("role") == "tool":
            bridged.append({"role": "assistant", "content": BRIDGE})
        bridged.append(message)
    return bridged


def _fill_reasoning(messages: list[Json]) -> list[Json]:
    return [
        {**message, "reasoning_content": _BLANK}
        if message.get("role") == "assistant" and not message.get("reasoning_content")
        else message
        for message in messages
    ]


def _fill_content(messages: list[Json]) -> list[Json]:
    return [{**message, "content": ""} if message.get("content") is None else message for message in messages]


def _forget_last(messages: list[Json]) -> list[Json]:
    """Return the messages with no reasoning in the last one, if that is one of the assistant."""
    if not messages or messages[-1].get("role") != "assistant":
        return messages
    return [*messages[:-1], {name: value for name, value in messages[-1].items() if name not in _REASONING}]


_REASONING = ("reasoning", "reasoning_content", "reasoning_details", "thinking_blocks")


def _fill_blanks(messages: list[Json]) -> list[Json]:
    """Return the messages without blank texts. One of the assistant that has nothing else is left out; another one gets
    a short text."""
    filled: list[Json] = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            kept: Any = [part for part in content if not isinstance(part, dict) or not _is_blank(part.get("text", "x"))]
        else:
            kept = None if _is_blank(content) else content
        if kept or message.get("tool_calls"):
            filled.append({**message, "content": kept or None} if kept != content else message)
        elif message.get("role") != "assistant":
            filled.append({**message, "content": BRIDGE})
    return filled


def _is_blank(text: Any) -> bool:
    return text is None or (isinstance(text, str) and not text.strip())


def _shorten_ids(messages: list[Json]) -> list[Json]:
    return [_with_short_ids(message) for message in messages]


def _with_short_ids(message: Json) -> Json:
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        return {**message, "tool_calls": [{**call, "id": _shorten(call.get("id"))} for call in calls]}
    return {**message, "tool_call_id": _shorten(message["tool_call_id"])} if "tool_call_id" in message else message


def _shorten(id_: Any) -> Any:
    return make_short_id(id_) if isinstance(id_, str) else id_


def _offer_called(body: Json) -> Json | None:
    """Return the body with the functions of its calls; None if it has functions, or no calls."""
    messages = body.get("messages")
    if body.get("tools") or not isinstance(messages, list):
        return None
    calls = [call.get("function") for message in messages for call in message.get("tool_calls") or ()]
    named = [call["name"] for call in calls if isinstance(call, dict) and isinstance(call.get("name"), str)]
    names = dict.fromkeys(named)
    if not names:
        return None
    parameters = {"type": "object", "properties": {}}
    tools = [{"type": "function", "function": {"name": name, "parameters": parameters}} for name in names]
    return {**body, "tools": tools, "tool_choice": "none"}


def _make(refused: str, change: Callable[[list[Json]], list[Json]], warning: str) -> Repair:
    def apply(body: Json) -> Json | None:
        messages = body.get("messages")
        if not isinstance(messages, list):
            return None
        changed = change(messages)
        return None if changed == messages else {**body, "messages": changed}

    return Repair(re.compile(refused, re.IGNORECASE), apply, warning)


MESSAGE_REPAIRS = {
    # Qwen 3.5 and later, MiniMax, Mistral: ollama/ollama#17774, ggml-org/llama.cpp#27367, raullenchai/Rapid-MLX#1543,
    # QwenLM/Qwen3.8#244, openclaw/openclaw#19386, BigPizzaV3/CodexPlusPlus#267
    "merged_system": _make(
        r"system messages? (?:must|should|can|may) (?:only )?(?:be|come|appear|stand)[^.\n]{0,30}?"
        r"(?:beginning|start|first)|"
        r"(?:only|more than) one system message|multiple system messages|invalid chat setting|"
        r"(?:unexpected|invalid message) role\W{1,3}(?:system|developer)",
        _merge_system,
        "the model server takes one system message before all others: all were sent as that one. Set "
        '`system = "merged"` in the model\'s profile',
    ),
    # Gemma: suitenumerique/conversations#197
    "no_system": _make(
        r"system role (?:is )?not supported|does not support (?:the )?system (?:role|messages?|prompts?)|"
        r"invalid message role\W{1,3}system",
        _move_system_to_user,
        "the model server takes no system messages: they were sent with the user's first message. Set "
        '`system = "none"` in the model\'s profile',
    ),
    "alternate": _make(
        r"roles must alternate|unexpected role .?user.? after role .?user|"
        r"unexpected role .?assistant.? after role .?assistant",
        _merge_neighbours,
        "the model server wants messages of user and assistant in turns: neighbours were merged. Set "
        "`alternate = true` in the model's profile",
    ),
    # mistralai/mistral-vibe#454
    "assistant_after_tool": _make(
        r"unexpected role .?user.? after role .?tool",
        _put_assistant_behind_results,
        "the model server takes no message of the user behind a result: a short one of the assistant was sent between "
        "them. Set `assistant_after_tool = true` in the model's profile",
    ),
    # Qwen 3.5 and later; GLM, which says nothing else: anomalyco/opencode#2557, continuedev/continue#13259
    "needs_user": _make(
        r"no user query found|(?:must|should) (?:contain|include|have) (?:at least )?(?:one|a) .?user.? message|"
        r"messages parameter is illegal",
        add_user,
        "the model server refuses a conversation without a message of the user: a short one was added. Set "
        "`needs_user = true` in the model's profile",
    ),
    # OpenAI: docker/docker-agent#63
    "empty_content": _make(
        r"\bcontent\b[^\n]{0,60}?(?:got null|(?:must not|cannot|can't) be (?:null|none)|none is not an allowed)|"
        r"invalid type: null, expected (?:a )?string",
        _fill_content,
        'the model server takes no null as content: an empty text was sent. Set `empty_content = "empty"` in the '
        "model's profile",
    ),
    # Claude behind chat completions: tailcallhq/forgecode#1195
    "last_reasoning": _make(
        r"in the final position cannot contain .?thinking",
        _forget_last,
        "the model server takes no reasoning in the last message: it was left out",
    ),
    # Claude and Bedrock behind chat completions: anomalyco/opencode#31259, aws/aws-sdk-net PR 4015; Mistral:
    # OpenHands/OpenHands#8685
    "blank_texts": _make(
        r"(?:text|content)\b[^\n]{0,60}?(?:non-(?:empty|whitespace)|\bis (?:empty|blank)|cannot be (?:empty|blank))"
        r"|non-empty content|either .?content.? or .?tool_calls",
        _fill_blanks,
        "the model server refuses blank texts: they were left out, or a short one was sent",
    ),
    # vllm-project/vllm#47734, anomalyco/opencode#12653
    "call_ids": _make(
        r"tool call id (?:was|must)|a-z, A-Z, 0-9, with a length of 9|\bid'?: string too long",
        _shorten_ids,
        'the model server refuses the ids of calls: others were sent. Set `call_ids = "alphanumeric9"` or '
        "`max_call_id` in the model's profile",
    ),
    # dotnet/extensions#7405, syt2/paper-chat-for-zotero#16
    "blank_reasoning": _make(
        r"(?:missing|lacks?|requires?) [^\n]{0,20}?reasoning_content|"
        r"reasoning_content\b[^\n]{0,120}?(?:missing|required|must be (?:passed|sent|included|provided)|必须|缺少)",
        _fill_reasoning,
        "the model server demands the reasoning of earlier turns: those without any were sent with a blank one. Set "
        '`replay_blank_reasoning = "all"` and `blank_reasoning = " "` in the model\'s profile',
    ),
    "images": _make(
        refused_images.UNKNOWN.pattern,
        lambda messages: refused_images.describe_images(messages, "image_url"),
        refused_images.UNKNOWN_WARNING,
    ),
    # earendil-works/pi#149
    "tools": Repair(
        re.compile(r"without .?tools=?.? param|toolconfig field must be defined", re.IGNORECASE),
        _offer_called,
        "the model server demands the functions of earlier calls: they were offered, but none may be called",
    ),
}
"""Each is named after what it does to the messages."""
