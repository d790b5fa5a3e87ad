"""Parses AgentScope 2.x messages."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace
from pydantic import TypeAdapter

from app.chat.accumulator import is_json
from app.chat.messages import Media, Message, Part, Reasoning, Role, Text, ToolCall, ToolResult
from app.errors import Violation
from app.formats.agentscope.common_parse import ParseRules, WaitingCall
from app.formats.agentscope.common_schema import marked, marked_last, with_mark
from app.formats.agentscope.common_write import make_head
from app.formats.agentscope.media import choose_media_type, kind_of, parse_inline, placeholder, source_url, to_url
from app.formats.agentscope.notes import BlockSyntax, Json
from app.formats.agentscope.replay import read_item
from app.formats.agentscope.v2.schema import AgentScope2Msg, Messages


def write_blocks(piece: Message) -> list[Json]:
    out: list[Json] = []
    for part in piece.parts:
        if isinstance(part, Reasoning):
            out.append({"type": "thinking", "thinking": part.text})
        elif isinstance(part, ToolCall):
            call = {"type": "tool_call", "id": part.id, "name": part.name, "input": part.arguments}
            out.append({**call, "state": "asking" if part.awaits_approval else "pending"})
        elif isinstance(part, ToolResult):
            result = {"type": "tool_result", "id": part.id, "name": part.name, "output": _output(part)}
            out.append({**result, "state": "error" if part.is_error else "success"})
        else:
            out += write_part(part, piece.role)
    return out


def write_part(part: Text | Media, role: Role) -> list[Json]:
    """Write text or media. Frames of a video become images; system messages can only have text."""
    return with_mark(_unmarked(part, role), part)


def _unmarked(part: Text | Media, role: Role) -> list[Json]:
    if isinstance(part, Text):
        return [{"type": "text", "text": part.text}]
    if role == "system":
        return [{"type": "text", "text": placeholder(part)}]
    named = {"name": part.name} if part.name else {}
    return [{"type": "data", "source": _source(part, to_url(part, url)), **named} for url in part.urls]


def _source(part: Media, url: str) -> Json:
    found = parse_inline(url)
    if found is not None:
        return {"type": "base64", "data": found.data, "media_type": found.media_type}
    return {"type": "url", "url": url, "media_type": choose_media_type("image" if part.frames else part.media, url)}


def _output(result: ToolResult) -> str | list[Json]:
    first = result.content[0] if result.content else Text("")
    if len(result.content) < 2 and isinstance(first, Text) and not first.mark and (first.text or not result.content):
        return first.text
    return [block for part in result.content for block in write_part(part, "tool")]


def finish_answered_calls(given: Sequence[Json]) -> list[Json]:
    """Set the state of the calls that have a result in the same message to `finished`."""
    results = {block["id"] for block in given if block["type"] == "tool_result"}
    return [
        {**block, "state": "finished"} if block["type"] == "tool_call" and block["id"] in results else block
        for block in given
    ]


def read_blocks(given: Sequence[Json], head: Message) -> list[Message]:
    """Convert valid blocks to pieces."""
    pieces: list[Message] = []
    run: list[Part] = []
    for place, block in enumerate(given):
        path = f"{head.path}.content[{place}]"
        if block["type"] in ("text", "data"):
            run.append(_read_part(block, path))
            continue
        if run:
            pieces.append(replace(head, parts=tuple(run)))
            run = []
        pieces.append(_read_block(block, head, path))
    return [*pieces, replace(head, parts=tuple(run))] if run else pieces


def _read_block(block: Json, head: Message, path: str) -> Message:
    """Convert a block that is a piece by itself."""
    if block["type"] == "thinking":
        return replace(head, parts=(Reasoning(block["thinking"]),))
    if block["type"] == "tool_call":
        return replace(head, parts=(ToolCall(block["name"], block["input"], block.get("id") or None, path=path),))
    if block["type"] == "hint":
        parts = marked_last(_items(block["hint"], f"{path}.hint"), block, path)
        hint = {"source": block["source"]} if block.get("source") else {}
        return Message("user", parts, path=head.path, extra={**head.extra, "hint": hint})
    state = block.get("state", "running")
    is_error = None if state == "running" else state != "success"
    content = marked_last(_items(block["output"], f"{path}.output"), block, path)
    result = ToolResult(content, block.get("name") or None, block.get("id") or None, is_error)
    return replace(head, role="tool", parts=(result,), name=None)


def _items(given: Any, path: str) -> tuple[Text | Media, ...]:
    if isinstance(given, str):
        return (Text(given),) if given else ()
    return tuple(_read_part(block, f"{path}[{place}]") for place, block in enumerate(given))


def _read_part(block: Json, path: str) -> Text | Media:
    if block["type"] == "text":
        return marked(Text(block["text"]), block, path)
    source = block["source"]
    key = "url" if source["type"] == "url" else "data"
    kind = kind_of(source["media_type"])
    media = Media(kind, (source_url(source),), name=block.get("name") or None, path=f"{path}.source.{key}")
    return marked(media, block, path)


SYNTAX = BlockSyntax("agentscope2", write_blocks, write_part, read_blocks, "created_at")


_BLOCKS = {"user": ("text", "data"), "system": ("text",)}


def read_message(item: Json, path: str) -> list[Message]:
    """Return the pieces of a valid message."""
    created = item.get("created_at")
    extra: Json = {"message_id": item["id"]} if item.get("id") else {}
    extra |= {"created_at": created} if created else {}
    top = make_head(item["role"], item["name"], item.get("id") or path, path, extra)
    return read_item(item, item["content"], top, SYNTAX)


def _find_misplaced_blocks(item: Json, path: str) -> list[Violation]:
    """Find blocks that 2.x's own class refuses in a message of this role."""
    role = item["role"]
    return [
        Violation(f"{path}.content[{place}]", f"a {role} message cannot have a block of type {block['type']}")
        for place, block in enumerate(item["content"])
        if block["type"] not in _BLOCKS.get(role, (block["type"],))
    ]


def _warnings(item: Json, path: str) -> list[str]:
    unknown = sorted(item.keys() - AgentScope2Msg.model_fields.keys())
    warnings = [f"{path}.{key} is not a field of an AgentScope message and was ignored" for key in unknown]
    for place, block in enumerate(item["content"]):
        if block["type"] == "tool_call" and block["input"].strip() and not is_json(block["input"]):
            warnings.append(f"{path}.content[{place}].input is not valid JSON")
    return warnings


def _find_waiting(item: Json, path: str) -> list[WaitingCall]:
    return [
        WaitingCall(block["id"], f"{path}.content[{place}].state", block["state"] == "allowed")
        for place, block in enumerate(item["content"])
        if block["type"] == "tool_call" and block.get("state") in ("asking", "allowed") and block.get("id")
    ]


_RULES = ParseRules(
    Messages,
    TypeAdapter(Messages),
    TypeAdapter(AgentScope2Msg),
    _find_misplaced_blocks,
    read_message,
    _warnings,
    _find_waiting,
)
parse_messages, validate_and_read = _RULES.parse, _RULES.validate_and_read
