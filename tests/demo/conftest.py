import json
from collections.abc import Callable
from typing import Any

import pytest
from app.chat.events import Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.demo.model import think
from app.demo.request import read_request


class Reply:
    """The reply to one request, assembled."""

    def __init__(self, **body: Any) -> None:
        self.deltas = think(read_request(json.dumps({"model": "parley-demo", **body}).encode()))
        self.thought = "".join(each.text for each in self.deltas if isinstance(each, ReasoningDelta))
        self.content = "".join(each.text for each in self.deltas if isinstance(each, TextDelta))
        self.finish = self.deltas[-1]
        assert isinstance(self.finish, Finish)
        called = [each for each in self.deltas if isinstance(each, ToolCallDelta)]
        self.calls = [
            (first.name, "".join(each.arguments for each in called if each.index == first.index))
            for first in called
            if first.id
        ]

    @property
    def parsed_calls(self) -> list[tuple[str, Any]]:
        return [(name, json.loads(arguments)) for name, arguments in self.calls]


@pytest.fixture
def ask() -> Callable[..., Reply]:
    def ask_question(question: Any, **body: Any) -> Reply:
        return Reply(messages=[{"role": "user", "content": question}], **body)

    return ask_question


@pytest.fixture
def converse() -> Callable[..., Reply]:
    def send_messages(messages: list[dict[str, Any]], **body: Any) -> Reply:
        return Reply(messages=messages, **body)

    return send_messages


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
