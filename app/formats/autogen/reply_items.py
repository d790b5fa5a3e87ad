"""Writes the items of a reply as AutoGen does: ids, times, metadata, chunks, the last frame and errors."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from app.chat.events import Finish
from app.chat.messages import Message, ToolCall
from app.formats.autogen.item_writer import models_usage
from app.formats.autogen.replay import validate_item
from app.formats.autogen.sidecar import add_sidecar, find_default_role, read_item
from app.formats.autogen.value_types import dump_json
from app.formats.base import ReplyInfo
from app.formats.sse import MAX_TEXT_CHARS, encode_json, escape_line_separators, split_text

_TOTALS = frozenset({"prompt_tokens", "completion_tokens", "total_tokens"})
_CALL_FIELDS = frozenset({"extra_content"})
"""Fields that the client must send back with the call."""


def error_item(error: Mapping[str, Any]) -> dict[str, Any]:
    """Make an error as AutoGen's servers send it, with the gateway's other fields of the error added to it."""
    rest = {key: value for key, value in error.items() if key != "message"}
    return {"type": "error", "content": error["message"], "source": "system", **rest}


class PartialItem:
    """A message of the reply while its chunks are sent. `wrapper` is the common JSON before and after each text."""

    def __init__(self, id_: str, wrapper: tuple[bytes, bytes]) -> None:
        self.id = id_
        self.wrapper = wrapper
        self.extra: dict[str, Any] = {}
        self.texts: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self.texts)


class ItemFactory:
    """Writes the items of one reply. Their ids are numbered from 1."""

    def __init__(self, info: ReplyInfo) -> None:
        self._info = info
        self._created = datetime.fromtimestamp(info.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._id_head = b'"id":%b' % escape_line_separators(encode_json(info.response_id))[:-1]
        self._count = 0
        self.messages: list[dict[str, Any]] = []
        """Every complete message so far."""

    def new_id(self) -> str:
        self._count += 1
        return f"{self._info.response_id}-{self._count}"

    def begin(self, kind: str | None = None) -> PartialItem:
        """Start a message that is sent in chunks."""
        id_ = self.new_id()
        common = {
            "source": self._info.options.agent_name,
            "models_usage": None,
            "metadata": {"kind": kind} if kind else {},
            "created_at": self._created,
        }
        after = {"full_message_id": id_, "type": "ModelClientStreamingChunkEvent"}
        return PartialItem(
            id_, (escape_line_separators(encode_json(common))[1:-1], escape_line_separators(encode_json(after))[1:])
        )

    def write_chunk(self, item: PartialItem, text: str) -> bytes:
        if len(text) > MAX_TEXT_CHARS:
            return b"".join([self.write_chunk(item, piece) for piece in split_text(text)])
        self._count += 1
        before, after = item.wrapper
        content = encode_json(text)
        if not content.isascii():
            content = escape_line_separators(content)
        return b'data: {%b-%d",%b,"content":%b,%b\n\n' % (self._id_head, self._count, before, content, after)

    def add_message(
        self, type_: str, id_: str, content: Any, metadata: Mapping[str, str], *extras: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Add a complete message; `extras` are the opaque fields of each reply message in it."""
        raw = {
            "id": id_,
            "source": self._info.options.agent_name,
            "models_usage": None,
            "metadata": dict(metadata),
            "created_at": self._created,
            "content": content,
            "type": type_,
        }
        raw = _add_opaque_fields(raw, [opaque(extra) for extra in extras])
        self.messages.append(raw)
        return raw

    def add_usage(self, usage: Mapping[str, Any] | None) -> None:
        """Add the usage of the reply to its last message."""
        last = self.messages[-1]
        last["models_usage"] = models_usage(usage)
        if usage and any(value is not None for key, value in usage.items() if key not in _TOTALS):
            last["metadata"]["usage"] = dump_json(usage)

    def result(self, finish: Finish) -> dict[str, Any]:
        extensions = self._info.write_extensions(finish)
        body: dict[str, Any] = {"messages": self.messages, "stop_reason": finish.reason, **extensions}
        if warnings := self._info.warnings_with(finish):
            body["warnings"] = warnings
        return body


def opaque(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the extra without `arguments_valid`, because AutoGen parses arguments itself."""
    return {key: value for key, value in extra.items() if key != "arguments_valid"}


def _add_opaque_fields(raw: dict[str, Any], extras: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add a sidecar with opaque fields that AutoGen does not have, so that the history has them again."""
    item = validate_item(raw) if any(extras) else None
    if item is None:
        return raw
    base = read_item(item, raw, find_default_role(item))
    return add_sidecar(item, raw, [_add_message_fields(one, extra) for one, extra in zip(base, extras, strict=True)])


def _add_message_fields(message: Message, extra: Mapping[str, Any]) -> Message:
    calls = any(isinstance(part, ToolCall) for part in message.parts)
    of_call = {key: value for key, value in extra.items() if calls and key in _CALL_FIELDS}
    rest = {key: value for key, value in extra.items() if key not in of_call}
    parts = tuple(replace(part, extra=of_call) if isinstance(part, ToolCall) else part for part in message.parts)
    return replace(message, extra={**message.extra, **rest}, parts=parts)
