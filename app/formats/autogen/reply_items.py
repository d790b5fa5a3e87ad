"""A reply's items and frames as AutoGen writes them: ids, times, metadata, the last frame, errors."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from app.chat.events import Finish
from app.chat.messages import Message, ToolCall
from app.formats.autogen.item_writer import models_usage
from app.formats.autogen.replay import validate_item
from app.formats.autogen.sidecar import add_sidecar, find_default_role, read_item
from app.formats.autogen.value_types import dump_json
from app.formats.base import ReplyInfo
from app.formats.sse import MAX_TEXT_CHARS, encode_json, escape_line_separators, split_text

_TOTALS = frozenset({"prompt_tokens", "completion_tokens", "total_tokens"})
_OF_CALLS = frozenset({"extra_content"})
"""What must go back to the model on the call itself."""


def error_item(error: Mapping[str, Any]) -> dict[str, Any]:
    """An error as AutoGen's own servers send it, and beside it what the gateway says of every error."""
    rest = {key: value for key, value in error.items() if key != "message"}
    return {"type": "error", "content": error["message"], "source": "system", **rest}


class PartialItem:
    """A message of the reply while its chunks go out; `around` is what all its chunks have in common."""

    def __init__(self, id_: str, around: tuple[bytes, bytes]) -> None:
        self.id = id_
        self.wrapper = around
        self.extra: dict[str, Any] = {}
        self.texts: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self.texts)


class ItemFactory:
    """Writes the items of one reply. Ids count from 1 in the order in which they are given."""

    def __init__(self, info: ReplyInfo) -> None:
        self._info = info
        self._created = datetime.fromtimestamp(info.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._id_head = escape_line_separators(encode_json(info.response_id))[:-1]
        self._count = 0
        self.messages: list[dict[str, Any]] = []
        """Every whole message so far."""

    def new_id(self) -> str:
        self._count += 1
        return f"{self._info.response_id}-{self._count}"

    def begin(self, kind: str | None = None) -> PartialItem:
        """A message to be told in chunks."""
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

    def write_chunk(self, growing: PartialItem, text: str) -> bytes:
        if len(text) > MAX_TEXT_CHARS:
            return b"".join([self.write_chunk(growing, piece) for piece in split_text(text)])
        self._count += 1
        before, after = growing.wrapper
        said = escape_line_separators(encode_json(text))
        return b'data: {%b-%d",%b,"content":%b,%b\n\n' % (b'"id":' + self._id_head, self._count, before, said, after)

    def add_message(
        self, type_: str, id_: str, content: Any, metadata: Mapping[str, str], *extras: Mapping[str, Any]
    ) -> dict[str, Any]:
        """A whole message; `extras` are the opaque fields of each message that it stands for."""
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
        """What the reply cost stands on its last message."""
        last = self.messages[-1]
        last["models_usage"] = models_usage(usage)
        if usage and any(value is not None for key, value in usage.items() if key not in _TOTALS):
            last["metadata"]["usage"] = dump_json(usage)

    def result(self, finish: Finish) -> dict[str, Any]:
        body: dict[str, Any] = {"messages": self.messages, "stop_reason": finish.reason}
        if warnings := self._info.warnings_with(finish):
            body["warnings"] = warnings
        return body


def opaque(extra: Mapping[str, Any]) -> dict[str, Any]:
    """`arguments_valid` is left out: AutoGen parses arguments itself."""
    return {key: value for key, value in extra.items() if key != "arguments_valid"}


def _add_opaque_fields(raw: dict[str, Any], extras: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The item with opaque fields that AutoGen has no place for, so that they come back with the history."""
    item = validate_item(raw) if any(extras) else None
    if item is None:
        return raw
    base = read_item(item, raw, find_default_role(item))
    return add_sidecar(item, raw, [_add_message_fields(one, extra) for one, extra in zip(base, extras, strict=True)])


def _add_message_fields(message: Message, extra: Mapping[str, Any]) -> Message:
    calls = any(isinstance(part, ToolCall) for part in message.parts)
    of_call = {key: value for key, value in extra.items() if calls and key in _OF_CALLS}
    rest = {key: value for key, value in extra.items() if key not in of_call}
    parts = tuple(replace(part, extra=of_call) if isinstance(part, ToolCall) else part for part in message.parts)
    return replace(message, extra={**message.extra, **rest}, parts=parts)
