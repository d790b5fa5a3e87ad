import json
from collections.abc import Callable
from typing import Any

import pytest
from app.demo.brain import Called, Done, Said, Thought, think
from app.demo.request import read


class Reply:
    """What a request got, put together."""

    def __init__(self, **body: Any) -> None:
        self.deltas = think(read(json.dumps({"model": "parley-demo", **body}).encode()))
        self.thought = "".join(each.text for each in self.deltas if isinstance(each, Thought))
        self.content = "".join(each.text for each in self.deltas if isinstance(each, Said))
        self.done = self.deltas[-1]
        assert isinstance(self.done, Done)
        called = [each for each in self.deltas if isinstance(each, Called)]
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
    def asked(question: Any, **body: Any) -> Reply:
        return Reply(messages=[{"role": "user", "content": question}], **body)

    return asked


@pytest.fixture
def converse() -> Callable[..., Reply]:
    def conversed(messages: list[dict[str, Any]], **body: Any) -> Reply:
        return Reply(messages=messages, **body)

    return conversed


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
