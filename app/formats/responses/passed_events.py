"""Writes the events of a server of the same API as they are.

The gateway sets the model's name, which is the one that the client sent, and the id of a response that it stores. Its
warnings are in the last event.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from app.chat.accumulator import MessageAccumulator, MessageKind, ReplyMessage
from app.chat.events import Finish, Passed
from app.formats.base import ReplyInfo
from app.formats.responses.events import EventWriter
from app.formats.responses.response import UNFINISHED
from app.formats.sse import encode_json

Json = dict[str, Any]
_BEGINNINGS = frozenset(("response.created", "response.in_progress", "response.queued"))
_ENDS = frozenset(("response.completed", "response.incomplete", "response"))
"""Events that are held until the gateway knows its warnings; `response` is a whole reply."""
_PART_STARTS = frozenset(
    f"response.{name}.added" for name in ("content_part", "reasoning_part", "reasoning_summary_part")
)
_PART_ENDS = frozenset(f"{name.removesuffix('.added')}.done" for name in _PART_STARTS)
_TEXT_ENDS = frozenset(
    f"response.{name}.done"
    for name in ("output_text", "refusal", "reasoning_text", "reasoning_summary_text", "function_call_arguments")
)
_INPUT_DELTA = "response.custom_tool_call_input.delta"
_ITEM_START, _ITEM_END = "response.output_item.added", "response.output_item.done"
_FOLLOWED = _PART_STARTS | _PART_ENDS | _TEXT_ENDS | {_ITEM_START, _ITEM_END}
_OWN_FIELDS = ("status", "output", "error", "incomplete_details", "usage", "completed_at", "parley")
"""The fields of a Response at its end that its beginning does not have."""
_KINDS: Mapping[str, MessageKind] = {
    "reasoning": "reasoning_content",
    "message": "content",
    "function_call": "function_call",
    "custom_tool_call": "function_call",
}
"""The messages that the items become."""
_END_FIELDS = frozenset(("type", "sequence_number", "response"))


class OpenItem:
    """An item of a server that has begun and not ended."""

    def __init__(self, index: int, item: Json, before: ReplyMessage | None) -> None:
        self.index = index
        self.item = item
        self.kind = _KINDS.get(item.get("type", ""))
        """The kind of message that it is; None for an item that is none."""
        self.blank = ""
        """White space that is all that has come of its text: of no message yet."""
        self.parts: list[Json] = []
        """Its texts that have ended."""
        self.input = ""
        """The deltas of a custom call."""
        self.part: Json | None = None
        """The text that is open, as it began; None if there is none, or its beginning did not come."""
        self.before = before
        """The message that was open before its open text."""
        self.size_before = 0 if before is None else len(before.text)
        self.end: int | None = None
        """Where the text of a later item begins in the same message."""
        self.has_text_end = False
        """Whether the open text, or the arguments, have ended."""
        self.is_summary = False
        """Whether the last text of a reasoning item is a summary."""

    @property
    def can_go_on(self) -> bool:
        """Whether its text may become longer."""
        return not self.has_text_end and self.has_open_part

    @property
    def has_open_part(self) -> bool:
        """Whether its text is in none of the parts that have ended."""
        return self.part is not None or not self.parts

    def is_of(self, message: ReplyMessage) -> bool:
        """Whether the message may be in this item."""
        return self.kind == message.kind and (message.kind != "function_call" or self.item.get("call_id") == message.id)

    def start_part(self, part: Any, before: ReplyMessage | None) -> None:
        self.part = part if isinstance(part, dict) else {}
        self.before, self.size_before = before, 0 if before is None else len(before.text)
        self.has_text_end = False

    def get_text(self, message: ReplyMessage) -> str:
        """Return what its message has of the open text. Between texts the message has a blank line."""
        text = message.text[: self.end]
        return text[self.size_before :].removeprefix("\n\n") if message is self.before else text


def find_message(item: OpenItem, messages: Sequence[ReplyMessage]) -> ReplyMessage | None:
    """Return the message that is in an item before the last open one."""
    later = item.kind == "function_call" or item.before is None
    for message in messages:
        # A text behind that of another item is in the same message.
        later = later or message is item.before
        if later and item.is_of(message) and item.get_text(message):
            return message
    return None


def _read_delta(text: str) -> Json:
    """Return a delta. Half a surrogate pair stays one: the other half may be in the next delta."""
    try:
        value: Json = msgspec.json.decode(text)
    except msgspec.DecodeError:
        value = json.loads(text)
    return value


class PassedEvents:
    def __init__(self, info: ReplyInfo, events: EventWriter) -> None:
        self._info = info
        self._events = events
        self._beginning: Json = {}
        """The server's Response at the beginning of the reply."""
        self._end: Json = {}
        """The server's Response at the end of the reply."""
        self.beside_end: Json = {}
        """What else the server's last event has (GitHub Copilot's `copilot_usage`)."""
        self.open_items: dict[Any, OpenItem] = {}
        """The items that have begun and not ended, by their places."""

    def write(self, event: Passed, before: ReplyMessage | None = None) -> bytes:
        """Return the frame of an event. `before` is the message that is open before one whose name ends in `.added`."""
        text, name = event.data, event.name
        if name.endswith(".delta"):
            if name == _INPUT_DELTA:
                self._follow_input(_read_delta(text))
            return self._events.write_passed(name, text)
        if name in _ENDS:
            value = msgspec.json.decode(text)
            self._end = value if name == "response" else value.get("response") or {}
            if name != "response":
                self.beside_end = {key: value[key] for key in value if key not in _END_FIELDS}
            self._events.continue_from(value.get("sequence_number"))
            return b""
        if name in _BEGINNINGS:
            value = msgspec.json.decode(text)
            if isinstance(value.get("response"), dict):
                self._beginning = self._name_response(value["response"])
                text = encode_json(value | {"response": self._beginning}).decode()
        elif name in _FOLLOWED:
            self._follow(name, msgspec.json.decode(text), before)
        return self._events.write_passed(name, text)

    def _follow(self, name: str, value: Json, before: ReplyMessage | None) -> None:
        """Take note of what begins or ends."""
        index = value.get("output_index")
        item = value.get("item")
        if name == _ITEM_END:
            if isinstance(item, dict):
                self._events.output.append(item)
            self.open_items.pop(index, None)
        if type(index) is not int:
            return
        self._events.reserve(index)
        if name == _ITEM_START:
            self.open_items[index] = OpenItem(index, item if isinstance(item, dict) else {}, before)
        open_item = self.open_items.get(index)
        if open_item is None:
            return
        if name in _PART_STARTS:
            open_item.start_part(value.get("part"), before)
            open_item.is_summary = "summary" in name
        elif name in _PART_ENDS:
            open_item.parts.append(value.get("part") or {})
            open_item.part = None
        elif name in _TEXT_ENDS:
            open_item.has_text_end = True

    def _follow_input(self, value: Json) -> None:
        open_item, delta = self.open_items.get(value.get("output_index")), value.get("delta")
        if open_item is not None and isinstance(delta, str):
            open_item.input += delta

    def read_blank(self, accumulator: MessageAccumulator) -> None:
        """Take note of white space that is the text of the last open item, which other messages would replace."""
        last = next(reversed(self.open_items.values()), None)
        if last is not None and last.kind is not None:
            last.blank = accumulator.get_blank(last.kind) or last.blank

    def take_open(self) -> list[OpenItem]:
        """Return the items that are open, in their order, when no more of the server's events come."""
        found = list(self.open_items.values())
        for one, following in pairwise(found):
            if following.before is not None and one.is_of(following.before):
                one.end = following.size_before
        if found and found[-1].part is None and not found[-1].parts:
            found[-1].is_summary = "reasoning_summary" in self._events.last_passed
        self.open_items = {}
        return found

    def complete_response(self, made: Json) -> Json:
        """Return a Response that the gateway made of the end of the reply, with the other fields of its beginning."""
        return {**made, **self._beginning, **{name: made[name] for name in _OWN_FIELDS if name in made}}

    def make_response(self, finish: Finish) -> Json:
        """Return the Response with which the reply ends."""
        response = self._name_response(self._end)
        if not response.get("output") and self._events.output:  # ChatGPT's backend ends with `output: []`
            response["output"] = self._events.output
        response.setdefault("output", [])
        response.setdefault("status", "incomplete" if finish.reason in UNFINISHED else "completed")
        warnings = self._info.warnings_with(finish)
        if warnings:
            response["parley"] = {"warnings": warnings}
        return response

    def _name_response(self, response: Json) -> Json:
        stored = self._info.options.responses.fields.get("store") is True
        named = {"id": self._info.response_id, "store": True} if stored else {}
        if not stored and "id" in self._beginning:
            named = {"id": self._beginning["id"]}  # GitHub Copilot: another one in each event
        return {**response, **named, "model": self._info.model}
