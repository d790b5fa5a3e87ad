"""Parses the contents of Google's Gemini API.

Neighbouring contents of one role are one turn: the chats of google-genai send one content for each chunk of a stream.
Results of functions come first in their turn, each as a message of its own, because servers want them directly after
their calls. Ids are optional in this API: a result without one answers the first open call with its name.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from pydantic import ValidationError

from app.chat.messages import Media, Message, Part, Reasoning, Text, ToolCall, ToolResult, make_call_id
from app.errors import Violation
from app.formats.base import Options, ParsedMessages
from app.formats.gemini.media import find_google_only, read_address, read_blob, read_file
from app.formats.gemini.plain import PlainContent, PlainPart, PlainResponse
from app.formats.gemini.schema import (
    DATA_FIELDS,
    ROLES,
    GeminiContent,
    GeminiFunctionResponse,
    GeminiMessage,
    GeminiPart,
    Role,
)
from app.formats.gemini.signatures import Signature
from app.formats.gemini.spelling import canonicalize, spell_all
from app.formats.request_memory import keep, resume
from app.formats.seal import Seal
from app.validation.violations import find_unknown_keys, to_violations

_encode_json = json.JSONEncoder(ensure_ascii=False).encode
_encode_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_IGNORED = ("videoMetadata", "mediaResolution")
"""Fields of a part that ask for what no other server can do."""
_LEFT_OUT = ("toolCall", "toolResponse")
"""Parts of tools that Google's servers have run."""
_RESULT_KEYS = ("result", "output")
"""A `response` with only one of these is the text under it: the SDKs wrap the text of a function so."""
_Content: TypeAlias = GeminiContent | PlainContent
_Part: TypeAlias = GeminiPart | PlainPart
_Response: TypeAlias = GeminiFunctionResponse | PlainResponse
_Place: TypeAlias = tuple[str, _Part]
"""A part and its path."""


class ParsedContents(Struct, frozen=True):
    messages: tuple[Message, ...]
    violations: Sequence[Violation] = ()
    warnings: Sequence[str] = ()
    foreign: Sequence[Violation] = ()
    """Those of `violations` that are about files which only Google's servers read."""


def parse_messages(messages: list[Any], options: Options) -> ParsedMessages:
    """Parse a conversation of `/v1/chat`. Its system prompt is a content of the role `system`."""
    found = parse_contents(messages, canonicalize(messages), "messages", GeminiMessage)
    violations = spell_all(found.violations, {"messages": messages})
    return ParsedMessages(found.messages, violations, found.warnings)


def parse_contents(
    given: Sequence[Any], contents: Sequence[Any], path: str, schema: type[GeminiContent] = GeminiContent
) -> ParsedContents:
    """Parse contents in the spelling of the documentation; `given` are the same as the caller has sent them. All
    violations are found, also those behind a content that does not have its form."""
    what = (parse_contents, path, schema)
    known, before, places = resume(given, what)
    reader = _Reader() if before is None else before.copy()
    placed: list[tuple[str, _Content]] = []
    for number, content in enumerate(contents[known:], known):
        place = f"{path}[{number}]"
        try:
            placed.append((place, _read_plain(content) or schema.model_validate(content)))
        except ValidationError as error:
            reader.violations += to_violations(error, content, place, schema)
    for number, (place, content) in enumerate(placed, known + 1):
        reader.add(place, content)
        if number in places and not reader.violations:
            keep(given, number, what, reader.copy())
    return reader.finish(path)


def _read_plain(content: Any) -> PlainContent | None:
    """Return a content of the usual form; None for another one, and for one that is not valid."""
    try:
        return msgspec.convert(content, PlainContent)
    except (msgspec.ValidationError, UnicodeEncodeError):  # half of a surrogate pair is no role
        return None


class _Reader:
    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.foreign: list[Violation] = []
        self._warnings: list[str] = []
        self._messages: list[Message] = []
        self._calls: list[tuple[ToolCall, bool]] = []
        """The calls of the model's last turn that have no result yet, and whether the caller has sent their ids."""
        self._turn: list[tuple[str, _Content]] = []
        """The contents of the last turn, with which the next one may go on, and their places."""
        self._role: Role = "user"
        """That of the last turn."""

    def copy(self) -> "_Reader":
        """Return another reader that goes on from here. There are no violations."""
        copied = _Reader()
        copied._warnings, copied._messages = self._warnings.copy(), self._messages.copy()
        copied._calls, copied._turn, copied._role = self._calls.copy(), self._turn.copy(), self._role
        return copied

    def add(self, place: str, content: _Content) -> None:
        role = ROLES[(content.role or "user").lower()]
        if role != self._role:
            self._end_turn()
            self._role = role
        self._turn.append((place, content))

    def _end_turn(self) -> None:
        contents, self._turn = self._turn, []
        if not contents:
            return
        path, role = contents[0][0], self._role
        parts: list[_Place] = []
        for place, content in contents:
            given: Sequence[_Part] = content.parts or ()
            placed = [(f"{place}.parts[{at}]", part) for at, part in enumerate(given)]
            if not isinstance(content, PlainContent):  # which has no other keys
                self._warn_of_unknown(content, place)
            elif all([_has_one(part) for part in content.parts or ()]):
                parts += placed
                continue
            parts += [one for one in placed if self._is_read(one[1], one[0])]
        if role == "model":
            self._add_model(path, parts)
        elif role == "system":
            self._add_message(Message("system", tuple(self._read_texts(parts)), path=path))
        else:
            self._add_user(path, parts)

    def finish(self, path: str) -> ParsedContents:
        self._end_turn()
        if not self._messages and not self.violations:
            self.violations.append(Violation(path, "no content has anything for the model"))
        return ParsedContents(tuple(self._messages), self.violations, self._warnings, self.foreign)

    def _warn_of_unknown(self, content: GeminiContent, path: str) -> None:
        found = find_unknown_keys(content, path)
        self._warnings += (f"{place} is not a field of Gemini's contents and was ignored" for place in found)

    def _is_read(self, part: _Part, path: str) -> bool:
        """Whether a part is read. Warns of what is left out."""
        given = [name for name in DATA_FIELDS if getattr(part, name, None) is not None]
        if len(given) > 1:
            self.violations.append(Violation(path, f"must have one of {', '.join(given)}, not both"))
            return False
        left_out = [f"{path}.{name}" for name in given if name in _LEFT_OUT]
        self._warnings += (f"{place} was left out: a tool of Google's servers" for place in left_out)
        ignored = [name for name in _IGNORED if getattr(part, name, None) is not None]
        self._warnings += (f"{path}.{name} was ignored: only Google's servers know it" for name in ignored)
        return not left_out

    def _add_message(self, message: Message) -> None:
        """Add a message unless it is empty."""
        if message.parts or message.extra:
            self._messages.append(message)

    def _refuse(self, path: str, name: str, role: str) -> None:
        self.violations.append(
            Violation(f"{path}.{name}", f"a content of the role {role} cannot have a part of this kind")
        )

    def _read_texts(self, parts: Sequence[_Place]) -> Iterator[Text]:
        for path, part in parts:
            other = next((name for name in DATA_FIELDS[1:] if getattr(part, name, None) is not None), None)
            if other is not None:
                self._refuse(path, other, "system")
            elif part.text:
                yield Text(part.text)

    def _add_user(self, path: str, parts: Sequence[_Place]) -> None:
        spoken: list[Part] = []
        for place, part in parts:
            if part.functionResponse is not None:
                call = self._take_call(part.functionResponse)
                if call is None:  # a text of the user is made of it, at its place
                    self._add_message(Message("user", tuple(spoken), path=path))
                    spoken = []
                self._add_result(part.functionResponse, call, f"{place}.functionResponse")
            elif part.functionCall is not None:
                self._refuse(place, "functionCall", "user")
            else:
                spoken += self._read_part(part, place)
        self._add_message(Message("user", tuple(spoken), path=path))

    def _read_part(self, part: _Part, path: str) -> list[Text | Media]:
        """Read a text or a medium."""
        media = self._read_media(part, path)
        if media is not None:
            return [media]
        text = part.text or _write_code(part)
        return [Text(text)] if text else []

    def _read_media(self, part: Any, path: str) -> Media | None:
        found: Media | Violation | None = None
        if part.inlineData is not None:
            found = read_blob(part.inlineData, f"{path}.inlineData")
        elif part.fileData is not None:
            problem = find_google_only(part.fileData.fileUri)
            if problem is not None:
                self.foreign.append(Violation(f"{path}.fileData.fileUri", problem))
                self.violations.append(self.foreign[-1])
            found = (read_file if problem is None else read_address)(part.fileData, f"{path}.fileData")
        if isinstance(found, Violation):
            self.violations.append(found)
            return Media("file", ("",))  # nothing is sent of a request with violations
        return found

    def _add_result(self, response: _Response, call: ToolCall | None, path: str) -> None:
        text = _write_response(response.response)
        content: list[Text | Media] = [Text(text)] if text else []
        for at, inner in enumerate(response.parts or ()):
            media = self._read_media(inner, f"{path}.parts[{at}]")
            content += [media] if media is not None else []
        name = response.name or (None if call is None else call.name)
        id_ = response.id if call is None else call.id
        self._messages.append(Message("tool", (ToolResult(tuple(content), name, id_),), path=path))

    def _take_call(self, response: _Response) -> ToolCall | None:
        """Return the call of the last turn that a result answers; None if there is none."""
        by_id, by_name = [], []
        for place, (call, has_id) in enumerate(self._calls):
            if response.id and has_id:
                by_id += [place] if call.id == response.id else []
            elif call.name == response.name:
                by_name.append(place)
        found = (by_id or by_name)[:1]
        return self._calls.pop(found[0])[0] if found else None

    def _add_model(self, path: str, parts: Sequence[_Place]) -> None:
        turn = _ModelTurn()
        for place, part in parts:
            media = None if isinstance(part, PlainPart) else self._read_media(part, place)
            if part.functionResponse is not None:
                self._refuse(place, "functionResponse", "model")
            elif media is not None:
                turn.add_media(media, part.thoughtSignature)
            elif part.functionCall is not None:
                turn.add_call(place, part)
            elif part.thought:
                turn.add_thought(part.text or "", part.thoughtSignature)
            else:
                turn.add_text(part.text or "", part.thoughtSignature, block=_write_code(part))
        for message in turn.finish(path):
            self._add_message(message)
        self._calls = turn.calls


def _has_one(part: PlainPart) -> bool:
    """Whether a part is not several things at once."""
    return (part.text is None) + (part.functionCall is None) + (part.functionResponse is None) >= 2


class _Item:
    """A part of a model's turn, while the turn is read."""

    __slots__ = ("call", "ends_block", "fields", "has_id", "kind", "media", "text")

    def __init__(self, kind: str, text: str = "", fields: Any = None) -> None:
        self.kind = kind
        self.text = text
        self.fields = fields
        """`extra_content` for the model server."""
        self.media: Media | None = None
        self.call: ToolCall | None = None
        self.has_id = False
        """The caller has sent the id of the call."""
        self.ends_block = False
        """The text ends with a block of code."""


class _ModelTurn:
    def __init__(self) -> None:
        self._items: list[_Item] = []
        self._seals: list[Seal] = []
        self._next_fields: Any = None
        """The fields of the signature of reasoning, which belong to what follows."""
        self.calls: list[tuple[ToolCall, bool]] = []
        """The calls, and whether the caller has sent their ids."""

    def _read_signature(self, text: str | None) -> Any:
        """Return the fields of a signature for its part. A seal is for the whole turn."""
        if not text:
            return None
        signature = Signature(text)
        if signature.seal is not None:
            self._seals.append(signature.seal)
        return signature.fields

    def _take_fields(self, signature: str | None) -> Any:
        fields, self._next_fields = self._read_signature(signature) or self._next_fields, None
        return fields

    def add_thought(self, text: str, signature: str | None) -> None:
        self._next_fields = self._read_signature(signature) or self._next_fields
        last = self._items[-1] if self._items else None
        if last is not None and last.kind == "reasoning":
            last.text += text
        elif text:
            self._items.append(_Item("reasoning", text))

    def add_media(self, media: Media, signature: str | None) -> None:
        item = _Item("media", fields=self._take_fields(signature))
        item.media = media
        self._items.append(item)

    def add_text(self, text: str, signature: str | None, *, block: str) -> None:
        """Add a text, or a block of code. An empty text with a signature has that of the text before it."""
        fields, text = self._take_fields(signature) if text or block or signature else None, text or block
        last = self._items[-1] if self._items else None
        if last is not None and last.kind == "text" and last.fields is None:
            breaks = text and (block or last.ends_block) and not last.text.endswith("\n")
            last.text += f"\n{text}" if breaks else text
            last.fields, last.ends_block = fields, bool(block) or (last.ends_block and not text)
        elif text or fields is not None:
            item = _Item("text", text, fields)
            item.ends_block = bool(block)
            self._items.append(item)

    def add_call(self, path: str, part: _Part) -> None:
        given = part.functionCall
        assert given is not None
        arguments = _encode_json(given.args or {})
        item = _Item("call", fields=self._take_fields(part.thoughtSignature))
        id_ = given.id or make_call_id(path, given.name)
        item.call = ToolCall(given.name, arguments, id_, path=f"{path}.functionCall")
        item.has_id = bool(given.id)
        self._items.append(item)

    def finish(self, path: str) -> list[Message]:
        """Return the messages of the turn, which are several if two of its texts have fields of their own."""
        items = self._open_seals() if self._seals else self._items
        messages: list[Message] = []
        parts: list[Part] = []
        details = [detail for seal in self._seals for detail in seal.details]
        extra: dict[str, Any] = {"reasoning_details": details} if details else {}
        for item in items:
            is_signed = item.kind == "text" and item.fields is not None
            if item.kind == "text" and (is_signed or "extra_content" in extra):
                if any(type(part) is Text for part in parts):
                    messages.append(Message("assistant", tuple(parts), path=path, extra=extra))
                    parts, extra = [], {}
                if is_signed:
                    extra = {**extra, "extra_content": item.fields}
            parts += self._make_part(item)
        messages.append(Message("assistant", tuple(parts), path=path, extra=extra))
        thinks_twice = [item.kind for item in items].count("reasoning") > 1
        turn = path if len(messages) > 1 or thinks_twice else None
        return [_with_turn(message, turn) for message in messages]

    def _make_part(self, item: _Item) -> list[Part]:
        if item.call is not None:
            call = item.call
            if item.fields is not None:
                call = ToolCall(call.name, call.arguments, call.id, {"extra_content": item.fields}, call.path)
            self.calls.append((call, item.has_id))
            return [call]
        if item.media is not None:
            return [item.media]
        if not item.text:
            return []
        return [Reasoning(item.text) if item.kind == "reasoning" else Text(item.text)]

    def _open_seals(self) -> list[_Item]:
        """Return the parts of the turn with what the seals hold: their reasoning replaces that of the parts."""
        reasoning = "".join(seal.text or "" for seal in self._seals)
        items = [item for item in self._items if not (reasoning and item.kind == "reasoning")]
        texts = iter([fields for seal in self._seals for fields in seal.texts])
        calls = {id_: fields for seal in self._seals for id_, fields in seal.calls.items()}
        for item in items:
            if item.kind == "text" and item.text:
                item.fields = next(texts, None) or item.fields
            elif item.call is not None and item.has_id and item.call.id in calls:
                item.fields = calls.pop(item.call.id)
        others = iter(calls.values())
        for item in items:
            if item.call is not None and not item.has_id and item.fields is None:
                item.fields = next(others, None)
        return [_Item("reasoning", reasoning), *items] if reasoning else items


def _with_turn(message: Message, turn: str | None) -> Message:
    return (
        message
        if turn is None
        else Message("assistant", message.parts, turn=turn, path=message.path, extra=message.extra)
    )


def _write_response(value: Any) -> str:
    """Return the text of a result for other servers."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, dict) and len(value) == 1:
        [(key, inner)] = value.items()
        if key in _RESULT_KEYS and isinstance(inner, str):
            return inner
    return _encode_compact(value)


def _write_code(part: _Part) -> str:
    """Return code that ran at Google's servers, or its output, as a block of text; "" for other parts."""
    if part.executableCode is not None:
        language = part.executableCode.language
        word = language.lower() if isinstance(language, str) and language != "LANGUAGE_UNSPECIFIED" else ""
        return f"```{word}\n{part.executableCode.code}\n```"
    if part.codeExecutionResult is not None:
        return f"```\n{part.codeExecutionResult.output or ''}\n```"
    return ""
