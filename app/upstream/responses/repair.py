"""Change a body of the Responses API that its server has refused: without opaque reasoning, without ids of items, with
system messages as it takes them, or with media behind results."""

import re
from collections.abc import Callable
from typing import Any

from app.upstream import refused_results
from app.upstream.api import Repair
from app.upstream.responses.items import add_id

Json = dict[str, Any]
_MEDIA = {"input_image": "image", "input_file": "file", "input_audio": "audio"}
_SYSTEM = ("system", "developer")


def strip_reasoning(body: Json) -> Json | None:
    """Return the body without the items of reasoning; None if there are none."""
    kept = [item for item in _list_items(body) if not isinstance(item, dict) or item.get("type") != "reasoning"]
    return {**body, "input": kept} if len(kept) < len(_list_items(body)) else None


def _list_items(body: Json) -> list[Any]:
    items = body.get("input")
    return items if isinstance(items, list) else []


def _write_developer(body: Json) -> Json | None:
    def write(item: Any) -> Any:
        is_system = isinstance(item, dict) and item.get("role") == "system"
        return {**item, "role": "developer"} if is_system else item

    return _change_items(body, lambda items: list(map(write, items)))


def _write_instructions(body: Json) -> Json | None:
    """Return the body with the texts of all system messages in its instructions; None if there are none."""
    given, others = body.get("instructions"), list[Any]()
    texts = [given] if isinstance(given, str) and given else []
    for item in _list_items(body):
        system = _read_system(item)
        if system is None:
            others.append(item)
        texts += system or ()
    changed = {**body, "instructions": "\n\n".join(texts), "input": others}
    return changed if len(others) < len(_list_items(body)) else None


def _read_system(item: Any) -> list[str] | None:
    """Return the texts of a system message; None for any other item, and for a message with more than texts."""
    if not isinstance(item, dict) or item.get("role") not in _SYSTEM:
        return None
    content = item.get("content")
    parts = [{"text": content}] if isinstance(content, str) else content
    texts: list[Any] = [part.get("text") if isinstance(part, dict) else None for part in parts or ()]
    return texts if all(isinstance(text, str) for text in texts) else None


def _move_media(items: list[Any]) -> list[Any]:
    """Return the items with results as texts; a message of the user with their media follows them."""
    moved: list[Any] = []
    behind: list[Any] = []
    for item in items:
        output = item.get("output") if isinstance(item, dict) and item.get("type") in _OUTPUTS else None
        if output is None and behind:
            moved.append({"type": "message", "role": "user", "content": behind})
            behind = []
        if isinstance(output, list):
            item = {**item, "output": refused_results.take_media(output, _MEDIA, "input_text", behind)}
        moved.append(item)
    return [*moved, {"type": "message", "role": "user", "content": behind}] if behind else moved


_OUTPUTS = ("function_call_output", "custom_tool_call_output")


def _change_items(body: Json, change: Callable[[list[Any]], list[Any]]) -> Json | None:
    items = _list_items(body)
    changed = change(items)
    return None if changed == items else {**body, "input": changed}


def _leave_out_ids(items: list[Any]) -> list[Any]:
    """Return the items without the ids to which no other item refers."""
    return [_without_id(item) if isinstance(item, dict) else item for item in items]


def _without_id(item: Json) -> Json:
    return {name: value for name, value in item.items() if name != "id"} if item.get("type") in _UNREFERRED else item


_UNREFERRED = ("message", "reasoning", "function_call", "custom_tool_call")


_NAMED = ("reasoning", "message", "function_call", *_OUTPUTS, "custom_tool_call")


def _remake_ids(items: list[Any]) -> list[Any]:
    return [_remake_id(item) if isinstance(item, dict) else item for item in items]


def _remake_id(item: Json) -> Json:
    """Return an item without its id. Reasoning needs one, which is made from what it holds."""
    kind = item.get("type", "message")
    if kind not in _NAMED or (kind == "reasoning" and str(item.get("id")).startswith("rs")):
        return item
    left = {name: value for name, value in item.items() if name != "id"}
    return dict(add_id(left)) if kind == "reasoning" else left


def _drop_nulls(items: list[Any]) -> list[Any]:
    return [
        {name: value for name, value in item.items() if value is not None} if isinstance(item, dict) else item
        for item in items
    ]


def _lift_tools(body: Json) -> Json | None:
    """Return the body in which tools that items add are among the others; None if none does."""
    items = _list_items(body)
    added = [item for item in items if isinstance(item, dict) and item.get("type") == "additional_tools"]
    tools = [tool for item in added for tool in item.get("tools") or ()]
    if not added:
        return None
    return {
        **body,
        "input": [item for item in items if item not in added],
        "tools": [*(body.get("tools") or ()), *tools],
    }


ITEM_REPAIRS = {
    # GitHub Copilot, whose ids change in each event and are 408 characters long: can1357/oh-my-pi#290, #457; it finds
    # the id in the encrypted content: openclaw/openclaw#72602
    "changing_ids": Repair(
        re.compile(r"item_id did not match|input\[\d+\]\.id\b.*too long", re.I),
        lambda body: _change_items(body, _leave_out_ids),
        "the model server refused the ids of items: they were sent without these",
        keeps_reasoning=True,
    ),
    # The ChatGPT backend: QuantumNous/new-api PR 5031
    "stream": Repair(
        re.compile(r"stream\W{0,3} must be (?:set to )?true", re.I),
        lambda body: None if body.get("stream") is True else {**body, "stream": True},
        'the model server only streams: it was asked for a stream. Set `stream = "always"` in the model\'s profile',
    ),
    # xAI: Wei-Shaw/sub2api#4237
    "null_fields": Repair(
        re.compile(r"untagged enum \w{0,40}input|invalid type: null|\bgot null", re.I),
        lambda body: _change_items(body, _drop_nulls),
        "the model server refused an item: those fields that are null were left out",
    ),
    # mxyhi/token_proxy#307
    "additional_tools": Repair(
        re.compile(r"additional_tools", re.I),
        _lift_tools,
        "the model server knows no items with tools: these were sent among the others",
    ),
    # jlcodes99/cockpit-tools#2090
    "item_ids": Repair(
        re.compile(r"\.id'?: [^\n]{0,100}?expected an id that", re.I),
        lambda body: _change_items(body, _remake_ids),
        "the model server refused the ids of items, which another server gave: they were sent without them",
    ),
    # router-for-me/CLIProxyAPI#4092, james-6-23/codex2api#409
    "developer": Repair(
        re.compile(
            r"system messages? (?:are|is) not (?:allowed|supported)|role .?system.? is not (?:allowed|supported)", re.I
        ),
        _write_developer,
        "the model server takes no messages of the role system: they were sent with the role developer",
    ),
    # Templates behind vLLM and others: vllm-project/vllm#42407, 1CatAI/1Cat-vLLM#449
    "instructions": Repair(
        re.compile(
            r"unexpected message role|role .?developer|developer role|system messages? must be (?:at|first|the)", re.I
        ),
        _write_instructions,
        "the model server takes system messages as instructions alone: they were sent as these",
    ),
    "media_of_results": Repair(
        refused_results.REFUSED, lambda body: _change_items(body, _move_media), refused_results.WARNING
    ),
}
"""By a name of its own."""
