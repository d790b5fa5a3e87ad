"""Replies of the demo model, assembled from its events."""

import json
from typing import Any, Protocol

from app.chat.events import Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.demo.model import think
from app.demo.request import DemoRequest, read_question


class Reply:
    """The reply to one request, assembled."""

    def __init__(self, **body: Any) -> None:
        self.deltas = think(read_question(DemoRequest.model_validate({"model": "parley-demo", **body})))
        self.thought = "".join(each.text for each in self.deltas if isinstance(each, ReasoningDelta))
        self.content = "".join(each.text for each in self.deltas if isinstance(each, TextDelta))
        finish = self.deltas[-1]
        assert isinstance(finish, Finish)
        self.finish = finish
        called = [each for each in self.deltas if isinstance(each, ToolCallDelta)]
        self.calls = [
            (first.name, "".join(each.arguments for each in called if each.index == first.index))
            for first in called
            if first.id
        ]

    @property
    def parsed_calls(self) -> list[tuple[str, Any]]:
        return [(name, json.loads(arguments)) for name, arguments in self.calls]


class Ask(Protocol):
    """Sends one question to the demo model."""

    def __call__(self, question: Any, **body: Any) -> Reply: ...


class Converse(Protocol):
    """Sends a whole conversation to the demo model."""

    def __call__(self, messages: list[dict[str, Any]], **body: Any) -> Reply: ...
