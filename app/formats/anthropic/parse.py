"""Parses Anthropic's messages.

Each tool result becomes a message of its own, with the path of its block, in front of everything else that its user
message says: servers want results directly after their calls. Neighbouring assistant messages are one turn.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace
from pydantic import TypeAdapter, ValidationError

from app.chat import datauri
from app.chat.accumulator import is_json_object
from app.chat.messages import (
    BILLING_HEADER,
    ERROR_TEXT,
    UNREAD,
    CacheMark,
    Media,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    is_sealed,
)
from app.chat.tool_asks import make_tool_name
from app.errors import Violation
from app.formats.anthropic import schema as wire
from app.formats.anthropic.hosted import is_hosted_error, read_call_id, read_hosted_result
from app.formats.anthropic.plain import (
    PLAIN_MESSAGES,
    PlainMessage,
    PlainText,
    PlainThinking,
    PlainToolResult,
    PlainToolUse,
)
from app.formats.base import Options, ParsedMessages, make_summary
from app.formats.entry_schemas import EntrySchema, validate_rest
from app.formats.request_memory import keep, recall, resume
from app.formats.seal import Seal, read_seal
from app.validation.violations import find_unknown_keys, to_violations

FORMAT = "anthropic-claude-v1"
"""The `format` of details that belong to this API, in OpenRouter's shape."""
_UNREAD = "reasoning that only another provider can read was left out"
INVALID_ARGUMENTS = "invalid_arguments"
"""The only key of the `input` of a server's tool whose arguments are no object; its value is their text."""
_TOOL_CHANGES = ("tool_addition", "tool_removal")
_encode_json = json.JSONEncoder(ensure_ascii=False).encode
_ROLE_BLOCKS = {
    "system": ("text", *_TOOL_CHANGES),
    "user": (
        *("text", "image", "document", "search_result", "tool_reference", "tool_result", "compaction"),
        *_TOOL_CHANGES,
    ),
    "assistant": (
        *("text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use", "compaction"),
        *("fallback", "mcp_tool_listing", *_TOOL_CHANGES),
    ),
}
_schema = EntrySchema(TypeAdapter(wire.AnthropicMessages), TypeAdapter(wire.AnthropicMessage), "role", PLAIN_MESSAGES)
# Pydantic's models answer `isinstance` in Python, if they are of another class.
_TEXTS = (PlainText, wire.AnthropicTextBlock)
_THOUGHTS = (PlainThinking, wire.AnthropicThinkingBlock)
_CALLS = (PlainToolUse, wire.AnthropicToolUseBlock)
_RESULTS = (PlainToolResult, wire.AnthropicToolResultBlock)
_system_adapter: TypeAdapter[Any] = TypeAdapter(list[wire.AnthropicTextBlock])


def parse_messages(messages: list[Any], options: Options) -> ParsedMessages:
    known, before, places = resume(messages, parse_messages)
    try:
        items = validate_rest(messages, known, _schema)
    except ValidationError as error:
        return ParsedMessages((), to_violations(error, messages, "messages", wire.AnthropicMessages))
    parser = _AnthropicParser() if before is None else before.copy()
    for number, item in enumerate(items, known):
        reader = _AnthropicReader()
        reader.add(item, f"messages[{number}]")
        parser.add(reader)
        if number + 1 in places and not parser.violations:
            keep(messages, number + 1, parse_messages, parser.copy())
    return parser.finish()


def parse_system(value: str | list[Any] | None, path: str) -> ParsedMessages:
    """Parse the system prompt of a request: a string or text blocks. No message if nothing is left of it."""
    if not value:
        return ParsedMessages(())
    if isinstance(value, str):
        return ParsedMessages((Message("system", (Text(value),), path=path),))
    return recall(value, (parse_system, path), lambda: _parse_system_blocks(value, path))


def _parse_system_blocks(value: list[Any], path: str) -> ParsedMessages:
    try:
        blocks = _system_adapter.validate_python(value)
    except ValidationError as error:
        return ParsedMessages((), to_violations(error, value, path, list[wire.AnthropicTextBlock]))
    parser = _AnthropicReader()
    parser.warn_unknown_keys(blocks, path)
    parts = tuple(parser.read_system(blocks, path))
    return ParsedMessages((Message("system", parts, path=path),) if parts else (), (), parser.warnings)


class _AnthropicParser:
    """Puts together what the messages of a body say."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self._warnings: list[str] = []
        self._messages: list[Message] = []
        self._was_assistant = False
        """Whether the last message that says anything was the assistant's, so that the next one may go on with it."""

    def copy(self) -> "_AnthropicParser":
        """Return another parser that goes on from here. There are no violations."""
        copied = _AnthropicParser()
        copied._warnings, copied._messages = self._warnings.copy(), self._messages.copy()
        copied._was_assistant = self._was_assistant
        return copied

    def add(self, read: "_AnthropicReader") -> None:
        self.violations += read.violations
        self._warnings += read.warnings
        for message in read.messages:
            if message is None:
                self._messages = [message for message in self._messages if message.role == "system"]
                self._was_assistant = False
            else:
                self._add_message(message)

    def _add_message(self, message: Message) -> None:
        if message.role == "assistant" and self._was_assistant:
            last = self._messages[-1]
            turn = last.turn or last.path
            self._messages[-1] = replace(last, turn=turn)
            message = replace(message, turn=turn)
        self._messages.append(message)
        self._was_assistant = message.role == "assistant"

    def finish(self) -> ParsedMessages:
        if not self._messages and not self.violations:
            self.violations.append(Violation("messages", "no message has content for the model"))
        return ParsedMessages(tuple(self._messages), self.violations, self._warnings)


class _AnthropicReader:
    """Reads one message of a body."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.violations: list[Violation] = []
        self.messages: list[Message | None] = []
        """None: everything before it is dropped, but for system messages, because a summary is in its place."""

    def add(self, item: wire.AnthropicMessage | PlainMessage, path: str) -> None:
        if type(item) is not PlainMessage:  # which has no other keys
            self.warn_unknown_keys(item, path)
        if item.role == "user" and _says_nothing(item.content):
            text = "must not be empty: without this message, the model would go on with the one before it"
            self.violations.append(Violation(f"{path}.content", text))
            return
        blocks = _read_string(item.content) if isinstance(item.content, str) else item.content
        misplaced = _list_misplaced(item.role, blocks)
        if misplaced:
            text = f"a message of role {item.role} cannot have a block of this type"
            self.violations += [Violation(f"{path}.content[{place}]", text) for place in misplaced]
        elif item.role == "assistant":
            self._add_assistant(blocks, path)
        elif item.role == "system":
            self._add_message(Message("system", tuple(self.read_system(blocks, f"{path}.content")), path=path))
        else:
            self._add_user(blocks, path)

    def _add_message(self, message: Message) -> None:
        """Add a message unless it is empty."""
        if message.parts or message.extra:
            self.messages.append(message)

    def read_system(self, blocks: Sequence[Any], path: str) -> Iterator[Text]:
        for place, block in enumerate(blocks):
            if block.type == "text" and block.text and not block.text.startswith(BILLING_HEADER):
                yield Text(block.text, _read_mark(block, f"{path}[{place}]"))

    def _add_user(self, blocks: Sequence[Any], path: str) -> None:
        parts: list[Part] = []
        for place, block in enumerate(blocks):
            place_path = f"{path}.content[{place}]"
            if type(block) in _RESULTS:
                content = self._read_result(block, f"{place_path}.content")
                content = _mark_last(content, _read_mark(block, place_path))
                result = ToolResult(content, None, block.tool_use_id, block.is_error)
                self._add_message(Message("tool", (result,), path=place_path))
            elif isinstance(block, wire.AnthropicCompactionBlock):
                self._replace_by_summary(block, place_path, parts)
            elif block.type not in _TOOL_CHANGES:
                parts += self._read_part(block, place_path)
        self._add_message(Message("user", tuple(parts), path=path))

    def _replace_by_summary(self, block: wire.AnthropicCompactionBlock, path: str, parts: list[Part]) -> None:
        """Put the summary in the place of everything before it, which Anthropic's servers ignore as well, but for
        system messages. `parts` are those of the same message."""
        if not block.content:
            if block.encrypted_content:
                self.warnings.append(f"{path}: a summary that only another provider can read was left out")
            return
        parts.clear()
        self.messages.append(None)
        self._add_message(make_summary(block.content, path))

    def _read_result(
        self, block: wire.AnthropicToolResultBlock | PlainToolResult, path: str
    ) -> tuple[Text | Media, ...]:
        if isinstance(block.content, str):
            found: list[Text | Media] = [Text(block.content)] if block.content else []
        else:
            found = [
                part
                for place, item in enumerate(block.content or ())
                for part in self._read_part(item, f"{path}[{place}]")
            ]
        return (Text(ERROR_TEXT),) if block.is_error and not found else tuple(found)

    def _read_part(self, block: Any, path: str) -> list[Text | Media]:
        """Read a block of a user or of a tool result. A document that is text, and a search result, become one text."""
        mark = _read_mark(block, path)
        if type(block) in _TEXTS:
            return [Text(block.text, mark)] if block.text else []
        if isinstance(block, wire.AnthropicImageBlock):
            return [_read_media(block.source, "image", path, None, mark)]
        if isinstance(block, wire.AnthropicSearchResultBlock):
            return _join_lines([block.title, block.source, *(item.text for item in block.content)], mark)
        if isinstance(block, wire.AnthropicToolReferenceBlock):
            if block.tool_name:
                return [Text(f"The tool {block.tool_name} is available.", mark)]
            self.warnings.append(f"{path}: a reference to a tool without a name was left out")
            return []
        if block.citations and block.citations.get("enabled"):
            self.warnings.append(f"{path}.citations: the reply will have no citations")
        source = block.source
        if isinstance(source, wire.AnthropicTextSource):
            return _join_lines([block.title, block.context, source.data], mark)
        head = _join_lines([block.title, block.context], None)
        if isinstance(source, wire.AnthropicContentSource):
            items = _read_string(source.content) if isinstance(source.content, str) else source.content
            place = f"{path}.source.content"
            inner = [part for at, item in enumerate(items) for part in self._read_part(item, f"{place}[{at}]")]
            return list(_mark_last((*head, *inner), mark))
        context = [Text(block.context)] if block.context else []
        return [*context, _read_media(source, "file", path, block.title, mark)]

    def _add_assistant(self, blocks: Sequence[Any], path: str) -> None:
        turn = _AssistantTurn(self.messages, path)
        for place, block in enumerate(blocks):
            place_path = f"{path}.content[{place}]"
            kind = type(block)
            if kind in _TEXTS:
                if block.text:
                    turn.add_text(Text(block.text, _read_mark(block, place_path)))
            elif kind in _CALLS:
                turn.add_call(block, place_path)
            elif kind is wire.AnthropicCompactionBlock:
                turn.details.clear()
                self._replace_by_summary(block, place_path, turn.parts)
            elif kind in (wire.AnthropicToolChangeBlock, wire.AnthropicHiddenBlock):
                continue
            elif kind is wire.AnthropicServerResultBlock:
                turn.end_message()
                id_ = read_call_id(block.tool_use_id)
                is_error = True if is_hosted_error(block.type, block.content) else block.is_error
                result = ToolResult(tuple(_read_server_result(block)), None, id_, is_error)
                self._add_message(Message("tool", (result,), path=place_path))
            else:
                turn.add_thought(self._read_thought(block, place_path), _list_unread(block, place_path))
        turn.finish()

    def _read_thought(self, block: Any, path: str) -> Seal:
        """Return the reasoning of a block and what is sealed in it, by the gateway or by a server of this API."""
        if type(block) in _THOUGHTS:
            sealed = read_seal(block.signature or "") or _read_signature(block)
            return replace(sealed, text=block.thinking or sealed.text)
        if not is_sealed(block.data):
            detail = {"type": "reasoning.encrypted", "data": block.data, "format": FORMAT}
            return Seal(details=[detail])
        opened = read_seal(block.data)
        if opened is None:
            self.warnings.append(f"{path}: {_UNREAD}")
        return opened or Seal()

    def warn_unknown_keys(self, value: Any, path: str) -> None:
        found = find_unknown_keys(value, path)
        self.warnings += (f"{place} is not a field of Anthropic's messages and was ignored" for place in found)


class _AssistantTurn:
    """What the assistant says in one message of a body, which may be several messages."""

    def __init__(self, messages: list[Message | None], path: str) -> None:
        self._messages = messages
        self._start = len(messages)
        self._path = path
        self.parts: list[Part] = []
        self.details: list[Any] = []
        self._extra: dict[str, Any] = {}
        self._text_fields: list[Any] = []
        """The opaque fields of the next texts."""
        self._call_fields: dict[str, Any] = {}
        """The opaque fields of calls that have not come, by id."""

    def end_message(self) -> None:
        extra = self._extra | ({"reasoning_details": self.details} if self.details else {})
        if self.parts or extra:
            turn = self._path if _needs_turn(self.parts) else None
            self._messages.append(Message("assistant", tuple(self.parts), turn=turn, path=self._path, extra=extra))
        self.parts, self.details, self._extra = [], [], {}

    def add_text(self, text: Text) -> None:
        if "extra_content" in self._extra:
            self.end_message()  # what is signed is not joined with what is not
        if self._text_fields:
            self._extra["extra_content"] = self._text_fields.pop(0)
        self.parts.append(text)

    def add_call(self, block: wire.AnthropicToolUseBlock | PlainToolUse, path: str) -> None:
        self.parts.append(_read_call(block, self._call_fields, path))

    def add_thought(self, thought: Seal, unread: list[str]) -> None:
        if thought.before is not None:
            self._sign_last_text(thought.before)
        if _stands_apart(thought, self.parts, self.details):
            self.end_message()
        self.details += thought.details
        if unread:
            self._extra[UNREAD] = [*self._extra.get(UNREAD, ()), *unread]
        self._text_fields += thought.texts
        self._call_fields |= thought.calls
        if thought.text:
            self.parts.append(Reasoning(thought.text))

    def _sign_last_text(self, fields: Any) -> None:
        """Add what came behind a text to its message, which has no other text."""
        if not self.parts or self.parts[-1].kind != "text":
            return
        last = self.parts.pop()
        if any(part.kind == "text" for part in self.parts):
            self.end_message()
        self.parts.append(last)
        self._extra["extra_content"] = fields

    def finish(self) -> None:
        """End the turn. Fields that came behind their calls are added to these."""
        self.end_message()
        if self._call_fields:
            place = self._start
            self._messages[place:] = [_sign_calls(message, self._call_fields) for message in self._messages[place:]]


def _list_unread(block: Any, path: str) -> list[str]:
    """Return a warning about reasoning that has no text for other providers."""
    is_readable = type(block) in _THOUGHTS or is_sealed(block.data)
    return [] if is_readable else [f"{path}: {_UNREAD}"]


def _stands_apart(thought: Seal, parts: Sequence[Part], details: Sequence[Any]) -> bool:
    """Whether reasoning begins a message of its own: what is opaque keeps its place, and what is signed is not joined
    with what is not."""
    for part in parts:
        if part.kind != "reasoning":
            return bool(thought.details or thought.texts)
    return bool(thought.details) != bool(details) if parts else bool(details and not thought.details and thought.text)


def _read_signature(block: wire.AnthropicThinkingBlock | PlainThinking) -> Seal:
    if not block.signature or is_sealed(block.signature):
        return Seal()
    named = {"type": "reasoning.text", "text": block.thinking, "signature": block.signature}
    return Seal(details=[{**named, "format": FORMAT}])


_PHASES = {"reasoning": 0, "text": 1, "tool_call": 2}


def _needs_turn(parts: Sequence[Part]) -> bool:
    """Whether the parts would not be one turn in formats that have a message for each: one that thinks twice."""
    phase = -1
    for place, part in enumerate(parts):
        if part.kind == "tool_call":
            return False
        if part.kind == "text" and place and parts[place - 1].kind == "text":
            continue
        if _PHASES[part.kind] <= phase:
            return True
        phase = _PHASES[part.kind]
    return False


def _says_nothing(content: str | list[Any]) -> bool:
    if not isinstance(content, list):
        return not content
    return all([block.type == "text" and not block.text for block in content])


def _read_string(text: str) -> list[wire.AnthropicTextBlock]:
    return [wire.AnthropicTextBlock.model_construct(type="text", text=text)] if text else []


def _list_misplaced(role: str, blocks: Sequence[Any]) -> list[int]:
    """Return the places of the blocks that a message of this role cannot have."""
    types, places = _ROLE_BLOCKS[role], list[int]()
    for place, block in enumerate(blocks):
        is_result = type(block) is wire.AnthropicServerResultBlock
        may_have = role == "assistant" if is_result else block.type in types
        if not may_have:
            places.append(place)
    return places


def _sign_calls(message: Message | None, call_fields: Mapping[str, Any]) -> Message | None:
    """Return a message whose calls have the opaque fields of a seal behind them."""
    if message is None or not any(isinstance(part, ToolCall) and part.id in call_fields for part in message.parts):
        return message
    return replace(message, parts=tuple([_sign_call(part, call_fields) for part in message.parts]))


def _sign_call(part: Part, call_fields: Mapping[str, Any]) -> Part:
    if not isinstance(part, ToolCall) or part.id is None or part.id not in call_fields:
        return part
    return replace(part, extra={"extra_content": call_fields[part.id]})


def _read_call(block: wire.AnthropicToolUseBlock | PlainToolUse, call_fields: dict[str, Any], path: str) -> ToolCall:
    """Read a call, and take its opaque fields. That of a server's tool has the tool's own name, and the server's beside
    it."""
    arguments = _write_arguments(block.input)
    id_ = read_call_id(block.id) if block.type == "server_tool_use" else block.id
    fields = {"extra_content": call_fields.pop(id_)} if id_ in call_fields else {}
    if block.type != "mcp_tool_use" or not isinstance(block.server_name, str):
        return ToolCall(block.name, _read_invalid(block, arguments), id_, fields, path=path)
    arguments = _read_invalid(block, arguments)
    server = block.server_name
    name = make_tool_name(server, block.name) if server else block.name
    return ToolCall(name, arguments, block.id, fields, path, server, block.name)


def _read_invalid(block: wire.AnthropicToolUseBlock | PlainToolUse, arguments: str) -> str:
    """Return the arguments of a call; those that are no object as the model wrote them."""
    if block.type == "tool_use" or not isinstance(block.input, dict) or block.input.keys() != {INVALID_ARGUMENTS}:
        return arguments
    given = block.input[INVALID_ARGUMENTS]
    return given if isinstance(given, str) else arguments


def _write_arguments(value: Any) -> str:
    """Write an `input` as arguments. A string that holds an object is OpenAI's form of the same."""
    return value if isinstance(value, str) and is_json_object(value) else _encode_json(value)


def _read_mark(block: Any, path: str) -> CacheMark | None:
    return CacheMark(block.cache_control, f"{path}.cache_control") if block.cache_control else None


def _mark_last(parts: tuple[Text | Media, ...], mark: CacheMark | None) -> tuple[Text | Media, ...]:
    """Put the mark of a block on the last of its parts, because a mark caches everything before it."""
    if mark is None or not parts or parts[-1].mark:
        return parts
    return (*parts[:-1], replace(parts[-1], mark=mark))


def _join_lines(lines: Sequence[str | None], mark: CacheMark | None) -> list[Text | Media]:
    text = "\n".join(line for line in lines if line)
    return [Text(text, mark)] if text else []


def _read_media(source: Any, media: Any, path: str, name: str | None, mark: CacheMark | None) -> Media:
    if isinstance(source, wire.AnthropicUrlSource):
        return Media(media, (source.url,), path=f"{path}.source.url", name=name, mark=mark)
    is_uri = datauri.is_data(source.data)  # a mistake of clients
    url = source.data if is_uri else f"data:{source.media_type};base64,{source.data}"
    return Media(media, (url,), path=f"{path}.source.data", name=name, mark=mark)


def _read_server_result(block: wire.AnthropicServerResultBlock) -> Iterator[Text]:
    """Read the result of a tool that the provider ran: texts as they are, anything else as JSON."""
    told = read_hosted_result(block.type, block.content, block.encrypted_content)
    if told is not None:
        if told:
            yield Text(told)
        return
    content = _strip_encrypted(block.content)
    if isinstance(content, str):
        texts = [content]
    elif isinstance(content, list) and all(_is_text(item) for item in content):
        texts = [item["text"] for item in content]
    else:
        texts = [_encode_json(content)]
    found = [Text(text) for text in texts if text]
    yield from found
    if block.is_error and not found:
        yield Text(ERROR_TEXT)


def _is_text(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "text" and isinstance(item.get("text"), str)


def _strip_encrypted(value: Any) -> Any:
    """Remove what only the provider can read."""
    if isinstance(value, list):
        return [_strip_encrypted(item) for item in value]
    if isinstance(value, dict):
        return {key: _strip_encrypted(item) for key, item in value.items() if key != "encrypted_content"}
    return value
