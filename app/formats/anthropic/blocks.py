"""Writes what a reply says as the blocks of a message of Anthropic's Messages."""

from collections.abc import Mapping
from typing import Any

import msgspec
from pydantic_core import from_json

from app.chat.accumulator import MessageAccumulator, ReplyMessage, is_json_object
from app.chat.context_edits import COMPACTION
from app.chat.events import ServerCall, ServerResult
from app.chat.server_tools import describe_part
from app.formats.anthropic.hosted import HOSTED_ID, write_hosted_result
from app.formats.anthropic.native import find_signature, get_caller, list_citations, split_details
from app.formats.anthropic.parse import INVALID_ARGUMENTS
from app.formats.seal import Seal, write_seal

Json = dict[str, Any]


def write_blocks(accumulator: MessageAccumulator, *, hidden: bool, native: bool) -> list[Json]:
    """Return the blocks of a whole reply. `native`: opaque parts of this API have its fields."""
    blocks: list[Json] = []
    messages = accumulator.messages
    for place, message in enumerate(messages):
        following = messages[place + 1] if place + 1 < len(messages) else None
        before = messages[place - 1] if place else None
        blocks += _write_summary_block(message.extra)
        if message.kind == "reasoning_content":
            blocks += _write_thought(message, following, hidden=hidden, native=native)
            continue
        if message.result is not None:
            blocks.append(write_result(message.result))
            continue
        details = message.extra.get("reasoning_details", [])
        texts = get_text_fields(message) if before is None or before.kind != "reasoning_content" else []
        blocks += _write_opaque_blocks(details, texts, native=native)
        if message.kind == "media":
            continue
        if message.kind == "content":
            citations = list_citations(message) if native else []
            cited: Json = {"citations": citations} if citations else {}
            blocks.append({"type": "text", "text": message.text, **cited})
            continue
        own_fields: Json = get_caller(message) if native else {}
        fields = get_call_fields(message)
        if fields and not own_fields and (before is None or before.kind != "reasoning_content"):
            blocks.append(_redacted(Seal(calls=fields)))
        if message.server is not None:
            blocks.append(write_server_call(message, message.server))
            continue
        call = {"type": "tool_use", "id": message.id, "name": message.name, "input": _write_input(message.text)}
        blocks.append(call | own_fields)
    blocks += _write_summary_block(accumulator.loose_extra)
    return blocks + _write_opaque_blocks(accumulator.loose_extra.get("reasoning_details", []), [], native=native)


def _write_summary_block(extra: Mapping[str, Any]) -> list[Json]:
    return [{"type": "compaction", "content": extra[COMPACTION]}] if COMPACTION in extra else []


def _write_thought(thought: ReplyMessage, following: ReplyMessage | None, *, hidden: bool, native: bool) -> list[Json]:
    """Return the block of a reasoning message, behind what was to come before it."""
    calls = get_call_fields(following) if following is not None else {}
    if native and following is not None and get_caller(following):
        calls = {}
    texts = (get_text_fields(following) if following is not None else []) or get_thought_fields(thought)
    details = thought.extra.get("reasoning_details", [])
    blocks, rest = split_details(details, thought.text) if native else ([], details)
    signature = find_signature(rest) if native else None
    text = thought.text if hidden else None
    seal = signature or write_seal(Seal(text, rest, calls, texts))
    return [*blocks, {"type": "thinking", "thinking": "" if hidden else thought.text, "signature": seal}]


def _write_opaque_blocks(details: list[Any], texts: list[Any], *, native: bool) -> list[Json]:
    blocks, others = split_details(details) if native else ([], details)
    return [*blocks, _redacted(Seal(details=others, texts=texts))] if others or texts else blocks


def write_server_call(message: ReplyMessage, call: ServerCall) -> Json:
    """Write a call that the gateway runs, with the tool's own name. Arguments that are no object are a text in one."""
    arguments = message.text
    found = _write_input(arguments) if is_json_object(arguments or "{}") else {INVALID_ARGUMENTS: arguments}
    if call.hosted is not None:
        return {"type": "server_tool_use", "id": HOSTED_ID + message.id, "name": message.name, "input": found}
    block = {"type": "mcp_tool_use", "id": message.id, "name": call.tool}
    return block | {"server_name": call.server, "input": found}


def write_result(result: ServerResult) -> Json:
    """Write the result of such a call: its texts, and media by their types, because the block has no place for them."""
    text = result.plain_text
    if result.hosted is not None:
        return write_hosted_result(result.id, result.hosted, text or "")
    texts = [text] if text is not None else [describe_part(part) for part in result.content]
    content = [{"type": "text", "text": one} for one in texts if one]  # Anthropic refuses an empty text
    return {"type": "mcp_tool_result", "tool_use_id": result.id, "is_error": result.is_error, "content": content}


def _redacted(contents: Seal) -> Json:
    return {"type": "redacted_thinking", "data": write_seal(contents)}


def get_text_fields(message: ReplyMessage) -> list[Any]:
    """Return the opaque fields of a text, as a seal has them."""
    fields = message.extra.get("extra_content") if message.kind == "content" else None
    return [] if fields is None else [fields]


def get_thought_fields(thought: ReplyMessage) -> list[Any]:
    """Return the opaque fields of reasoning, as those of the text after it, which has none of its own: chat completions
    have one place for both."""
    fields = thought.extra.get("extra_content")
    return [] if fields is None else [fields]


def get_call_fields(message: ReplyMessage) -> Json:
    """Return the opaque fields of a call by its id, as a seal has them."""
    if message.kind != "function_call" or message.extra.get("extra_content") is None:
        return {}
    return {message.id: message.extra["extra_content"]}


def _write_input(arguments: str) -> Any:
    """Return the arguments as the model wrote them; of arguments that were cut off, the keys that are whole, as the
    SDKs read them in a stream."""
    try:
        msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        try:
            return from_json(arguments or "{}", allow_partial=True)
        except (ValueError, TypeError):  # TypeError: half a surrogate pair
            return {}
    return msgspec.Raw(arguments.encode())
