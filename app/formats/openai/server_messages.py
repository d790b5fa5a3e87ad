"""The turns and results of a reply whose tools the gateway runs, in the gateway's extension of OpenAI's format.

OpenAI has no fields for them. Clients run the calls in `tool_calls`, so these are only the client's own. The others are
in fields of the gateway: each one in `server_message`, beside `choices`, when it happens, and all of them in
`server_messages` of the message when it ends. Each entry has an index, without which openai-python cannot put deltas
together.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from app.chat.accumulator import ReplyMessage
from app.chat.events import FinishReason
from app.chat.messages import Text
from app.openai_messages.messages import write_call

FINISH_REASONS: Mapping[FinishReason, str] = {"tool_limit": "length", "tool_approval": "stop"}
"""OpenAI's words for those that it does not have. `server_tools` says which it was."""


class ServerMessages:
    """Collects the entries."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self._taken = 0
        """How many messages of the reply the entries are made of."""

    def add_turn(self, messages: Sequence[ReplyMessage]) -> dict[str, Any] | None:
        """Add the turn that ends the messages of a reply. None: it has no call that the gateway runs."""
        turn = [message for message in messages[self._taken :] if message.result is None]
        self._taken = len(messages)
        if not any(message.server is not None for message in turn):
            return None
        entry: dict[str, Any] = {"role": "assistant", "content": _join(turn, "content")}
        reasoning = _join(turn, "reasoning_content")
        if reasoning:
            entry["reasoning_content"] = reasoning
        details = [message.extra["reasoning_details"] for message in turn if "reasoning_details" in message.extra]
        if details:
            entry["reasoning_details"] = [item for items in details if isinstance(items, list) for item in items]
        entry["tool_calls"] = [_write_call(message) for message in turn if message.kind == "function_call"]
        return self._add(entry)

    def add_result(self, message: ReplyMessage) -> dict[str, Any]:
        result = message.result
        assert result is not None
        text = result.plain_text
        content: Any = text
        if text is None:
            content = [
                {"type": "text", "text": part.text}
                if isinstance(part, Text)
                else {"type": "image_url", "image_url": {"url": part.urls[0]}}
                if part.media == "image"
                else {"type": part.media, part.media: {"url": part.urls[0]}}
                for part in result.content
            ]
        entry = {"role": "tool", "tool_call_id": result.id, "content": content}
        return self._add(entry | {"is_error": True} if result.is_error else entry)

    def _add(self, entry: dict[str, Any]) -> dict[str, Any]:
        entry = {"index": len(self.entries), **entry}
        self.entries.append(entry)
        return entry


def list_entries(messages: Sequence[ReplyMessage], turn_ends: Sequence[int]) -> list[dict[str, Any]]:
    """Return the entries of a reply; each turn ends before the message with the number in `turn_ends`."""
    collected = ServerMessages()
    ends = set(turn_ends)
    for number in range(len(messages) + 1):
        if number in ends:
            collected.add_turn(messages[:number])
        if number < len(messages) and messages[number].result is not None:
            collected.add_result(messages[number])
    return collected.entries


def _join(messages: Sequence[ReplyMessage], kind: str) -> str:
    return "".join(message.text for message in messages if message.kind == kind and not message.refusal)


def _write_call(message: ReplyMessage) -> dict[str, Any]:
    opaque = {"extra_content": message.extra["extra_content"]} if "extra_content" in message.extra else {}
    call = write_call(message.id, message.name, message.text, opaque)
    waits = message.server is not None and message.server.approval
    return call | {"approval": "required"} if waits else call
