"""Writes the events of a server of the same API as they are.

The gateway sets the model's name, which is the one that the client sent, and the id of a response that it stores. Its
warnings are in the last event.
"""

from typing import Any

import msgspec

from app.chat.events import Finish, Passed
from app.formats.base import ReplyInfo
from app.formats.responses.events import EventWriter
from app.formats.responses.response import UNFINISHED
from app.formats.sse import encode_json

Json = dict[str, Any]
_BEGINNINGS = frozenset(("response.created", "response.in_progress", "response.queued"))
_ENDS = frozenset(("response.completed", "response.incomplete", "response"))
"""Events that are held until the gateway knows its warnings; `response` is a whole reply."""
_END_FIELDS = frozenset(("type", "sequence_number", "response"))


class PassedEvents:
    def __init__(self, info: ReplyInfo, events: EventWriter) -> None:
        self._info = info
        self._events = events
        self._end: Json = {}
        """The server's Response at the end of the reply."""
        self.beside_end: Json = {}
        """What else the server's last event has (GitHub Copilot's `copilot_usage`)."""

    def write(self, event: Passed) -> bytes:
        text, name = event.data, event.name
        if name.endswith(".delta"):
            return self._events.write_passed(name, text)
        if name in _ENDS:
            value = msgspec.json.decode(text)
            self._end = value if name == "response" else value.get("response") or {}
            if name != "response":
                self.beside_end = {key: value[key] for key in value if key not in _END_FIELDS}
            self._events.continue_from(value.get("sequence_number"))
            return b""
        if name == "response.output_item.done":
            self._events.output.append(msgspec.json.decode(text).get("item"))
        if name in _BEGINNINGS:
            value = msgspec.json.decode(text)
            if isinstance(value.get("response"), dict):
                text = encode_json(value | {"response": self._name_response(value["response"])}).decode()
        return self._events.write_passed(name, text)

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
        return {**response, **named, "model": self._info.model}
