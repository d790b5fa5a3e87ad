"""Parses AgentScope 1.x messages."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace
from pydantic import TypeAdapter

from app.chat.messages import Media, Message, Part, Reasoning, Role, Text, ToolCall, ToolResult
from app.errors import Violation
from app.formats.agentscope.common_parse import ParseRules, WaitingCall
from app.formats.agentscope.common_schema import marked, marked_last, with_mark
from app.formats.agentscope.common_write import make_head
from app.formats.agentscope.media import guess_type, kind_of, parse_inline, placeholder, source_url, to_url
from app.formats.agentscope.notes import BlockSyntax, Json
from app.formats.agentscope.replay import read_item
from app.formats.agentscope.v1.schema import AgentScopeMsg, Messages

INPUT_ENDS = ("}", " ", "\n", "\r", "\t")
"""How the text of an object can end."""


def input_of(raw: str) -> Json:
    """Return the arguments as an object, which is empty while, or if, they are not valid JSON.

    Invalid arguments are not repaired, because a call that was cut off would look complete.
    """
    if not raw.endswith(INPUT_ENDS):
        return {}
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return {}
    return value if isinstance(value, dict) else {}


def write_blocks(piece: Message) -> list[Json]:
    out: list[Json] = []
    for part in piece.parts:
        if isinstance(part, Reasoning):
            out.append({"type": "thinking", "thinking": part.text})
        elif isinstance(part, ToolCall):
            arguments = {"input": input_of(part.arguments), "raw_input": part.arguments}
            out.append({"type": "tool_use", "id": part.id, "name": part.name, **arguments})
        elif isinstance(part, ToolResult):
            out.append({"type": "tool_result", "id": part.id, "name": part.name, "output": _output(part)})
        else:
            out += write_part(part, piece.role)
    return out


def write_part(part: Text | Media, role: Role) -> list[Json]:
    """Write text or media. Frames of a video become images; a file becomes a text with its name."""
    return with_mark(_unmarked(part), part)


def _unmarked(part: Text | Media) -> list[Json]:
    if isinstance(part, Text):
        return [{"type": "text", "text": part.text}]
    if part.media == "file":
        return [{"type": "text", "text": placeholder(part)}]
    kind = "image" if part.frames else part.media
    return [{"type": kind, "source": _source(to_url(part, url))} for url in part.urls]


def _source(url: str) -> Json:
    found = parse_inline(url)
    if found is None:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": found.media_type, "data": found.data}


def _output(result: ToolResult) -> str | list[Json]:
    first = result.content[0] if result.content else Text("")
    if len(result.content) < 2 and isinstance(first, Text) and not first.mark and (first.text or not result.content):
        return first.text
    return [block for part in result.content for block in write_part(part, "tool")]


def read_blocks(given: Sequence[Json], head: Message) -> list[Message]:
    """Convert valid blocks to pieces. Thinking is dropped from messages that are not the assistant's."""
    pieces: list[Message] = []
    run: list[Part] = []
    for place, block in enumerate(given):
        kind = block["type"]
        if kind not in ("thinking", "tool_use", "tool_result"):
            run.append(_read_part(block, f"{head.path}.content[{place}]"))
            continue
        if run:
            pieces.append(replace(head, parts=tuple(run)))
            run = []
        pieces += _read_block(block, head, f"{head.path}.content[{place}]")
    return [*pieces, replace(head, parts=tuple(run))] if run else pieces


def _read_block(block: Json, head: Message, path: str) -> list[Message]:
    """Convert a block that is a piece by itself."""
    if block["type"] == "tool_use":
        return [replace(head, parts=(ToolCall(block["name"], _arguments(block), block.get("id") or None, path=path),))]
    if block["type"] == "tool_result":
        content = marked_last(read_output(block.get("output"), f"{path}.output"), block, path)
        result = ToolResult(content, block.get("name") or None, block.get("id") or None)
        return [replace(head, role="tool", parts=(result,), name=None)]
    return [replace(head, parts=(Reasoning(block["thinking"]),))] if head.role == "assistant" else []


def _arguments(block: Json) -> str:
    """Return `raw_input` if it is equal to `input`, else `input`, which was edited."""
    given: Json = block.get("input") or {}
    raw = block.get("raw_input")
    if isinstance(raw, str) and _is_same_json(input_of(raw), given):
        return raw
    return json.dumps(given, ensure_ascii=False)


def _is_same_json(first: Json, second: Json) -> bool:
    """Compare as JSON, in which `true` and `1` differ."""
    return json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)


def read_output(given: Any, path: str) -> tuple[Text | Media, ...]:
    """Convert the output of a tool; `path` is its JSON path."""
    if not given:
        return ()
    if isinstance(given, str):
        return (Text(given),)
    return tuple(_read_part(block, f"{path}[{place}]") for place, block in enumerate(given))


def _read_part(block: Json, path: str) -> Text | Media:
    kind = block["type"]
    if kind == "text":
        return marked(Text(block["text"]), block, path)
    source = block.get("source")
    url, step = (block["url"], "url") if source is None else (source_url(source), f"source.{_data_key(source)}")
    return marked(Media(kind, (url,), path=f"{path}.{step}"), block, path)


def _data_key(source: Json) -> str:
    return "url" if source["type"] == "url" else "data"


def read_link(url: str, path: str) -> Media:
    """Make media from a URL of `Msg.url` in AgentScope 0.1, which does not say of what kind it is."""
    guessed = guess_type(url)
    return Media(kind_of(guessed) if guessed else "image", (url,), path=path)


SYNTAX = BlockSyntax("agentscope", write_blocks, write_part, read_blocks, "timestamp")


_KNOWN = frozenset({*AgentScopeMsg.model_fields, "__module__", "__name__"})
"""AgentScope 0.1 wrote the last two for its own use."""


def read_message(item: Json, path: str) -> list[Message]:
    """Return the pieces of a valid message."""
    created = item.get("timestamp")
    extra: Json = {"message_id": item["id"]} if item.get("id") else {}
    extra |= {"created_at": created} if created else {}
    top = make_head(item["role"], item["name"], item.get("id") or path, path, extra)
    pieces = read_item(item, _blocks(item.get("content")), top, SYNTAX)
    if links := item.get("url"):
        urls = [links] if isinstance(links, str) else links
        media = tuple(read_link(url, f"{path}.url") for url in urls)
        pieces[-1:] = _append_media(pieces[-1], media, top)
    return pieces


def _blocks(content: Any) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content or []


def _append_media(last: Message, media: tuple[Any, ...], top: Message) -> list[Message]:
    """Append the media of 0.1's `url` after the text of their message."""
    if all(part.kind in ("text", "media") for part in last.parts):
        return [replace(last, parts=(*last.parts, *media))]
    return [last, replace(top, parts=media)]


def _find_misplaced_blocks(item: Json, path: str) -> list[Violation]:
    """Find calls in messages that are not the assistant's, where they would be lost."""
    if item["role"] == "assistant":
        return []
    return [
        Violation(f"{path}.content[{place}]", "only an assistant message can have a tool_use")
        for place, block in enumerate(_blocks(item["content"]))
        if block["type"] == "tool_use"
    ]


def _warnings(item: Json, path: str) -> list[str]:
    warnings = [f"{path}.{key} is not a field of an AgentScope message and was ignored" for key in item.keys() - _KNOWN]
    if item["role"] != "assistant":
        for place, block in enumerate(_blocks(item["content"])):
            if block["type"] == "thinking":
                warnings.append(f"{path}.content[{place}] was not sent: only an assistant message can have thinking")
    return sorted(warnings)


def _find_waiting(item: Json, path: str) -> list[WaitingCall]:
    ids = (item.get("metadata") or {}).get("approval")
    places = enumerate(ids if isinstance(ids, list) else ())
    return [WaitingCall(id_, f"{path}.metadata.approval[{at}]") for at, id_ in places if isinstance(id_, str)]


_RULES = ParseRules(
    Messages,
    TypeAdapter(Messages),
    TypeAdapter(AgentScopeMsg),
    _find_misplaced_blocks,
    read_message,
    _warnings,
    _find_waiting,
)
parse_messages, validate_and_read = _RULES.parse, _RULES.validate_and_read
